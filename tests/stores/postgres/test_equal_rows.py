"""Engine, staged and inline: three ways through the same seven stages, and the same rows. [DESIGN 3, DESIGN 5]"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.equality import rows_of
from tests.orchestrator_core.builders import FakeLeases, FakeWatch
from turnchain import END, Intent, IntentContext, Orchestrator, RouteContext
from turnchain.orchestrator_core.callbacks import EvaluateContext
from turnchain.orchestrator_core.contracts import Owner, Provider, Stage, TurnId, Verdict
from turnchain.orchestrator_core.engine import ENGINE_LEASE, Engine, InPlaceLeases
from turnchain.orchestrator_core.environment import Environment, Policy
from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.registry import Registry
from turnchain.orchestrator_core.requests import build_request, request_hash
from turnchain.orchestrator_core.runner import run_stage
from turnchain.stores.postgres import PostgresStores
from turnchain.workers.clock import SystemClock, new_turn_id

Script = list[dict[str, Any]]


def work(ctx: IntentContext) -> dict[str, Any]:
    done = ctx.step("charge", lambda step: ctx.iteration)
    return {"done": done, "heard": len(ctx.history)}


def fail(ctx: object) -> Any:
    raise ValueError("no")


def route(ctx: RouteContext) -> str:
    names = ctx.input["intents"]
    return names[ctx.iteration] if ctx.iteration < len(names) else END


def judge(ctx: EvaluateContext) -> Verdict | None:
    return Verdict(satisfied=True) if ctx.input.get("satisfied") else None


BOT = Orchestrator(
    name="bot",
    intents={"work": work, "fail": fail, "last": Intent(run=work, next=lambda ctx: END)},
    route=route,
    evaluate=judge,
    iterate=True,
    max_iterations=4,
    providers={"history": lambda ctx: [{"role": "user", "content": "earlier"}], "broken": fail},
)
OTHER = Orchestrator(name="bot", intents={"other": work}, route=lambda ctx: "other", iterate=False)

SCRIPTS: dict[str, Script] = {
    "one iteration": [{"intents": ["work"]}],
    "an intent that says it was the last": [{"intents": ["last"]}],
    "five iterations are one too many": [{"intents": ["work"] * 5}],
    "satisfied": [{"intents": ["work"], "satisfied": True}],
    "an intent that fails": [{"intents": ["fail", "work"]}],
    "an unknown intent": [{"intents": ["nobody"]}],
    "END at once": [{"intents": []}],
    "three turns of a session": [
        {"intents": ["work"]},
        {"intents": ["fail"]},
        {"intents": ["last"]},
    ],
    "a history provider": [{"intents": ["work"], "history": Provider(name="history")}],
    "a history provider that fails": [{"intents": ["work"], "history": Provider(name="broken")}],
    "a context provider that is not there": [{"intents": ["work"], "context": Provider(name="x")}],
    "too late": [{"intents": ["work"], "deadline": datetime(2020, 1, 1, tzinfo=UTC)}],
    "another definition": [{"intents": ["work"]}, {"definition": OTHER, "intents": []}],
    "another definition, by force": [
        {"intents": ["work"]},
        {"definition": OTHER, "intents": [], "force": True},
    ],
}


class Way:
    """One way of running turns on these stores."""

    def __init__(self, stores: PostgresStores, session: str) -> None:
        self.stores = stores
        self.session = session

    def environment(self, definition: Orchestrator, **ports: Any) -> Environment:
        given: dict[str, Any] = {
            "leases": FakeLeases(FakeWatch()),
            "policy": Policy(max_in_flight=9),
        }
        return Environment(
            ledger=self.stores.ledger,
            checkpoints=self.stores.checkpoints,
            snapshots=self.stores.snapshots,
            registry=Registry([definition]),
            clock=SystemClock(),
            invoker=Invoker(),
            new_id=new_turn_id,
            **(given | ports),
        )

    def request(self, script: dict[str, Any], **more: Any) -> dict[str, Any]:
        given = {
            key: value
            for key, value in script.items()
            if key not in ("intents", "definition", "satisfied")
        }
        message = {"intents": script["intents"], "satisfied": script.get("satisfied", False)}
        return {"input": message, "session_id": self.session, "history": [], **given, **more}

    def run(self, script: dict[str, Any]) -> str:
        raise NotImplementedError


class Staged(Way):
    """Each stage claimed and handed over by itself."""

    goes_on: Callable[[Stage], bool] = staticmethod(lambda stage: False)

    def run(self, script: dict[str, Any]) -> str:
        env = self.environment(script.get("definition", BOT))
        request = build_request("bot", turn_id=new_turn_id(), **self.request(script))
        self.stores.ledger.accept(request, request_hash=request_hash(request))
        wake = self.stores.ledger.admit_turn(request.turn_id)
        held = None
        while wake is not None:
            passage = run_stage(wake, env, held=held, goes_on=self.goes_on)
            assert passage.refusal is None
            wake, held = passage.following, passage.held
        return request.turn_id


class Inline(Staged):
    """All seven under one claim."""

    goes_on = staticmethod(lambda stage: True)


class ByHalves(Staged):
    """`persist` and `compact` on a queue that another worker serves."""

    goes_on = staticmethod(lambda stage: stage is not Stage.PERSIST)


class InProcess(Way):
    """The engine."""

    def run(self, script: dict[str, Any]) -> str:
        leases = InPlaceLeases(self.stores.ledger, SystemClock(), f"engine:{new_turn_id()}")
        policy = Policy(lease=ENGINE_LEASE, admits=False)
        env = self.environment(script.get("definition", BOT), leases=leases, policy=policy)
        return Engine(env).execute("bot", **self.request(script)).turn_id


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_way_leaves_equal_rows(
    stores: PostgresStores, database_url: str, direct: psycopg.Connection, name: str
) -> None:
    left = {
        way: _left(way(stores, "s"), SCRIPTS[name], database_url, direct)
        for way in (Staged, Inline, ByHalves, InProcess)
    }

    assert left[Staged]["turnchain_turns"]
    assert left[Staged]["turnchain_turn_work"] == []
    assert left[Inline] == left[Staged]
    assert left[ByHalves] == left[Staged]
    if name != "too late":  # an engine looks at the deadline before it begins
        assert left[InProcess] == left[Staged]


def test_a_cancellation_that_comes_while_the_outcome_is_in_hand_is_honoured(
    stores: PostgresStores, database_url: str, direct: psycopg.Connection
) -> None:
    """[DESIGN 5] Until `persist` claims; in place, until its outcome is committed."""

    def cancel(ctx: IntentContext) -> dict[str, Any]:
        stores.ledger.request_cancel(TurnId(ctx.run_id), Owner())
        return {"done": 1}

    bot = Orchestrator(
        name="bot", intents={"work": cancel}, route=lambda ctx: "work", iterate=False
    )
    script = [{"definition": bot, "intents": []}]
    left = {way: _left(way(stores, "s"), script, database_url, direct) for way in (Staged, Inline)}

    (row,) = left[Staged]["turnchain_turns"]
    assert row["status"] == "cancelled"
    assert left[Inline] == left[Staged]


def _left(way: Way, script: Script, url: str, direct: psycopg.Connection) -> dict[str, list[Any]]:
    """What the script leaves in empty tables, which are empty again afterwards."""
    left = rows_of(url, [way.run(each) for each in script])
    tables = sql.SQL(", ").join(map(sql.Identifier, left))
    direct.execute(sql.SQL("TRUNCATE {}").format(tables))
    return left
