"""The orchestrators that the crash walk's workers serve: every callable leaves evidence and can be held at a door.

Evidence is a row in the test's own database, written on a connection that Turnchain knows nothing of. A door is a
file: while it is there, whoever comes to it waits. So a test holds a worker wherever user code runs, and product code
needs no crash hooks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import psycopg

from turnchain import (
    END,
    HistoryWindow,
    IntentContext,
    Orchestrator,
    ProviderContext,
    RouteContext,
    Step,
)

EVIDENCE_URL = "SHOP_POSTGRES_URL"
DOORS = "SHOP_DOORS"
LOOK_SECONDS = 0.02

SCHEMA = """
CREATE TABLE shop_visits (
    id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), session text, what text,
    iteration integer, attempt integer, pid integer
);
CREATE TABLE shop_effects (
    id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), effect_key text, pid integer
);
"""


def note(session: str, what: str, iteration: int = 0, attempt: int = 0) -> int:
    """Leave evidence that a callable was run here; returns how often it has been now."""
    with psycopg.connect(os.environ[EVIDENCE_URL], autocommit=True) as connection:
        connection.execute(
            "INSERT INTO shop_visits (session, what, iteration, attempt, pid) VALUES (%s, %s, %s, %s, %s)",
            (session, what, iteration, attempt, os.getpid()),
        )
        counted = connection.execute(
            "SELECT count(*) FROM shop_visits WHERE (session, what, iteration) = (%s, %s, %s)",
            (session, what, iteration),
        ).fetchone()
        return counted[0] if counted else 0


def take_effect(step: Step) -> str:
    """What a step does to the world outside; the key tells whether it was done twice."""
    with psycopg.connect(os.environ[EVIDENCE_URL], autocommit=True) as connection:
        connection.execute(
            "INSERT INTO shop_effects (effect_key, pid) VALUES (%s, %s)",
            (step.effect_key, os.getpid()),
        )
    return step.effect_key


def door(name: str) -> Path:
    """The file that stands for a closed door."""
    return Path(os.environ[DOORS]) / name


def pass_door(name: str) -> None:
    """Go on, or wait until the door is opened."""
    closed = door(name)
    while closed.exists():
        threading.Event().wait(LOOK_SECONDS)


def route(ctx: RouteContext) -> str:
    """The input names an intent for each iteration; then comes a door, and the run's end."""
    plan = ctx.input["plan"]
    if ctx.iteration < len(plan):
        return plan[ctx.iteration]
    if door(f"end-{ctx.session_id}").exists():
        note(ctx.session_id, "end", ctx.iteration)
        pass_door(f"end-{ctx.session_id}")
    return END


def work(ctx: IntentContext) -> dict[str, Any]:
    """One effect, then the door, then a second effect."""
    note(ctx.session_id, "work", ctx.iteration, ctx.attempt)
    ctx.step("before", take_effect)
    pass_door(f"work-{ctx.session_id}-{ctx.iteration}")
    ctx.step("after", take_effect)
    return {"worked": ctx.iteration + 1, **ctx.input.get("adds", {})}


def stumble(ctx: IntentContext) -> dict[str, Any]:
    """As `work`, but the first run of each iteration never comes back from between its effects."""
    runs = note(ctx.session_id, "stumble", ctx.iteration, ctx.attempt)
    ctx.step("before", take_effect)
    while runs == 1:
        threading.Event().wait(LOOK_SECONDS)
    ctx.step("after", take_effect)
    return {"worked": ctx.iteration + 1}


async def talk(ctx: IntentContext) -> dict[str, Any]:
    """An async call that waits at its door, and says when it is cancelled there."""
    await asyncio.to_thread(note, ctx.session_id, "talk", ctx.iteration, ctx.attempt)
    closed = door(f"talk-{ctx.session_id}-{ctx.iteration}")
    try:
        while closed.exists():
            await asyncio.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        note(ctx.session_id, "talk cancelled", ctx.iteration, ctx.attempt)
        raise
    return {"talked": ctx.iteration + 1}


def think(ctx: IntentContext) -> dict[str, Any]:
    """What a model would take: it only waits."""
    note(ctx.session_id, "think", ctx.iteration, ctx.attempt)
    threading.Event().wait(ctx.input["seconds"])
    return {"thought": ctx.iteration + 1}


def die(ctx: IntentContext) -> None:
    """Kills its own process, every time."""
    note(ctx.session_id, "die", ctx.iteration, ctx.attempt)
    os.kill(os.getpid(), signal.SIGKILL)


def grumble(ctx: IntentContext) -> None:
    """Raises with everything that it was given in the exception's text."""
    seen = [
        ctx.input,
        ctx.state,
        [message.model_dump() for message in ctx.history],
        dict(ctx.context),
    ]
    raise ValueError(f"cannot serve {json.dumps(seen)}")


def echo(ctx: IntentContext) -> dict[str, Any]:
    """Returns what it was given, so that it is in state and result."""
    history = [message.model_dump(mode="json") for message in ctx.history]
    return {"echo": [ctx.input, history, dict(ctx.context)]}


def history(ctx: ProviderContext) -> list[dict[str, str]]:
    """Earlier messages, fetched on the worker."""
    note(ctx.session.session_id, "history")
    pass_door(f"history-{ctx.session.session_id}")
    if "raises" in ctx.arguments:
        raise LookupError(f"no history for {ctx.arguments['raises']}")
    return [{"role": "user", "content": str(ctx.arguments.get("says", "hello"))}]


def slice_history(messages: Any) -> Any:
    """Cuts nothing; it is here to be held. A slicer does not learn whose messages it gets."""
    note("", "window")
    pass_door("window")
    return messages


walk = Orchestrator(
    name="walk",
    intents={
        "work": work,
        "stumble": stumble,
        "talk": talk,
        "think": think,
        "die": die,
        "grumble": grumble,
        "echo": echo,
    },
    route=route,
    iterate=True,
    max_iterations=20,
    keep_snapshots=1,
    history_window=HistoryWindow(router=5, agents=slice_history),
    providers={"history": history},
)
