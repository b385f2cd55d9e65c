"""What an author and a producer write, under strict checking: it is never run, `make check` reads it.

`assert_type` says what an editor shows. A line with an ignore is one that must be an error: where it
is none any more, the ignore itself is reported.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from celery import Celery

import turnchain
from turnchain import (
    END,
    AgentResult,
    CancelReceipt,
    DriftContext,
    Engine,
    EvaluateContext,
    Found,
    HistoryWindow,
    Intent,
    IntentContext,
    Message,
    Orchestrator,
    Owner,
    Provider,
    ProviderContext,
    Reconcile,
    RouteContext,
    SessionClient,
    SessionOwnerError,
    Step,
    Turn,
    TurnchainError,
    TurnConflictError,
    TurnEvent,
    TurnRecord,
    TurnReport,
    TurnResult,
    TurnStatus,
    TurnTimeout,
    Usage,
    Verdict,
)

# ------------------------------------------------------------------------------------------- the author


def route(ctx: RouteContext) -> str:
    assert_type(ctx.iteration, int)
    assert_type(ctx.session_id, str)
    assert_type(ctx.history, Sequence[Message])
    return END if ctx.state.get("answered") else "answer"


async def route_by_model(ctx: RouteContext) -> str:
    return "answer" if ctx.feedback is None else "look_up"


def charge(step: Step) -> dict[str, int]:
    assert_type(step.effect_key, str)
    assert_type(step.in_doubt, bool)
    return {"charged": 5}


async def send(step: Step) -> str:
    return step.effect_key


def look_up(ctx: IntentContext) -> dict[str, Any]:
    receipt = ctx.step("charge", charge)
    assert_type(receipt, dict[str, int])
    again = ctx.step("charge", charge, policy="fail")
    assert_type(again, dict[str, int])
    asked = ctx.step("charge", charge, policy=Reconcile(lambda step: Found({"charged": 5})))
    assert_type(asked, dict[str, int])
    return {"receipt": receipt}


async def answer(ctx: IntentContext) -> dict[str, Any]:
    sent = await ctx.astep("send", send)
    assert_type(sent, str)
    charged = await ctx.astep("charge", charge)
    assert_type(charged, dict[str, int])
    assert_type(ctx.attempt, int)
    return {"sent": sent}


def nothing_to_merge(ctx: IntentContext) -> None:
    assert_type(ctx.iterations[-1].verdict, Verdict | None)


def evaluate(ctx: EvaluateContext) -> Verdict | None:
    return Verdict(satisfied="answer" in ctx.result)


def fetch_history(ctx: ProviderContext) -> list[dict[str, str]]:
    assert_type(ctx.tenant, str | None)
    return [{"role": "user", "content": str(ctx.arguments["thread"])}]


def migrate(ctx: DriftContext) -> dict[str, Any]:
    return {**ctx.state, "from": ctx.saved_signature}


class Model:
    """An agent is whatever has a name and executes; it inherits nothing."""

    @property
    def name(self) -> str:
        return "model"

    async def execute(
        self, input: str, *, history: Sequence[Message], context: Mapping[str, Any]
    ) -> AgentResult:
        return AgentResult(text=input, usage=Usage(input=1, output=1, total=2))


support = Orchestrator(
    name="refund-support",
    version="7",
    intents={
        "look_up": look_up,
        "answer": answer,
        "nothing": nothing_to_merge,
        "model": Model(),
        "last": Intent(run=answer, next=lambda ctx: END),
        "agent": Intent(agent=Model(), description="answers"),
    },
    route=route,
    evaluate=evaluate,
    iterate=True,
    max_iterations=5,
    initial_agent="model",
    history_window=HistoryWindow(router=5, agents=lambda messages: messages[-3:]),
    keep_snapshots="all",
    on_drift=migrate,
    state={"n": 0},
    providers={"thread": fetch_history},
)

also = Orchestrator(name="by-model", intents={"answer": answer}, route=route_by_model)

Orchestrator(name="b", intents={"a": 7}, route=route)  # pyright: ignore[reportArgumentType]
Orchestrator(name="b", intents={"a": answer}, route="answer")  # pyright: ignore[reportArgumentType]
Orchestrator(name="b", intents={"a": answer}, route=lambda ctx: 7)  # pyright: ignore[reportArgumentType]
Orchestrator(name="b", intents={"a": answer}, rout=route)  # pyright: ignore[reportCallIssue]
Orchestrator(name="b", intents={"a": answer}, route=route, on_drift="ignore")  # pyright: ignore[reportArgumentType]
Orchestrator("b", {"a": answer}, route)  # pyright: ignore[reportCallIssue]
Intent(run=answer, next="answer")  # pyright: ignore[reportArgumentType]
support.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


# ------------------------------------------------------------------------------------- in place


def in_place() -> None:
    engine = turnchain.in_process(support, also)
    assert_type(engine, Engine)
    result = engine.execute("refund-support", "hi", session_id="s", history=[])
    assert_type(result, TurnResult)
    assert_type(engine.resume("refund-support", "s", owner=Owner(tenant="a")), TurnResult | None)


# ------------------------------------------------------------------------------------- the producer


def connect(app: Celery) -> SessionClient:
    turnchain.install(app)
    by_url = turnchain.connect("postgresql://host/db", broker="redis://host/0")
    assert_type(by_url, SessionClient)
    turnchain.connect("postgresql://host/db")  # pyright: ignore[reportCallIssue]
    return turnchain.connect("postgresql://host/db", broker=app, orchestrators=["refund-support"])


def produce(client: SessionClient, connection: object) -> None:
    turn = client.enqueue(
        "refund-support",
        {"say": "hi"},
        session_id="s",
        history=[Message(role="user", content="earlier"), {"role": "user", "content": "hi"}],
        state={"n": 1},
        context=Provider(name="live", arguments={"id": 7}),
        tenant="a",
        user_id="ann",
        idempotency_key="k",
        priority=-1,
        expected_turn_index=0,
        deadline=datetime.now(UTC) + timedelta(minutes=5),
        connection=connection,
    )
    assert_type(turn, Turn)
    assert_type(turn.events(after=3), Iterator[TurnEvent])
    for event in turn.events():
        assert_type(event.seq, int)
        assert_type(event.at, datetime)
        assert_type(event.is_terminal, bool)
    assert_type(turn.cancel(), CancelReceipt)
    assert_type(turn.get(), TurnRecord | None)
    assert_type(client.get(turn.turn_id, tenant="a"), TurnRecord | None)
    read(turn.result(timeout=60))
    read(turn.result(timeout=timedelta(minutes=1)))
    read(client.turn("id").result())


def read(result: TurnResult) -> None:
    assert_type(result.status, TurnStatus)
    assert_type(result.ok, bool)
    assert_type(result.usage, Usage)
    assert_type(result.error, TurnchainError | None)
    assert_type(result.raise_for_error(), TurnResult)
    if result.report:
        assert_type(result.report, TurnReport)
        assert_type(result.report.iterations, int)
    result.ok = True  # pyright: ignore[reportAttributeAccessIssue]


def caught(client: SessionClient) -> str:
    try:
        client.enqueue("refund-support", "hi", session_id="s", history=[]).result(timeout=1)
    except TurnTimeout as error:
        return f"{error.code} {error.category} {error.message} {error.context['status']}"
    except (SessionOwnerError, TurnConflictError) as error:
        assert_type(error.context, dict[str, Any])
        return str(error)
    return ""


def mistaken(client: SessionClient, turn: Turn) -> None:
    client.enqueue("refund-support", "hi")  # pyright: ignore[reportCallIssue]
    client.enqueue("refund-support", "hi", session_id=7)  # pyright: ignore[reportArgumentType]
    client.enqueue("refund-support", "hi", session="s")  # pyright: ignore[reportCallIssue]
    client.enqueue("refund-support", "hi", session_id="s", history="hi")  # pyright: ignore[reportArgumentType]
    client.enqueue("refund-support", "hi", session_id="s", deadline=60)  # pyright: ignore[reportArgumentType]
    turn.result(timeout="60")  # pyright: ignore[reportArgumentType]


async def produce_async(client: SessionClient) -> None:
    turn = await client.aenqueue("refund-support", "hi", session_id="s", history=[])
    assert_type(turn, Turn)
    assert_type(turn.aevents(after=3), AsyncIterator[TurnEvent])
    async for event in turn.aevents():
        assert_type(event, TurnEvent)
    assert_type(await turn.aresult(timeout=60), TurnResult)
    assert_type(await turn.acancel(), CancelReceipt)
    assert_type(await turn.aget(), TurnRecord | None)
    assert_type(await client.aget("id"), TurnRecord | None)
    await client.aenqueue("refund-support", "hi")  # pyright: ignore[reportCallIssue]
    await client.aenqueue("refund-support", "hi", session="s")  # pyright: ignore[reportCallIssue]
    await client.aenqueue("refund-support", "hi", session_id="s", priority="1")  # pyright: ignore[reportArgumentType]
    await client.aenqueue("refund-support", "hi", session_id="s", connection=object())  # pyright: ignore[reportArgumentType]
