"""What the workers of these tests serve."""

from __future__ import annotations

import threading
from pathlib import Path
from time import monotonic
from typing import Any

from turnchain import END, IntentContext, Orchestrator, RouteContext

_PATIENCE_SECONDS = 30.0


def echo(ctx: IntentContext) -> dict[str, Any]:
    """Say what was heard, and count the session's turns."""
    return {"heard": ctx.input, "turns": ctx.state.get("turns", 0) + 1}


def wait(ctx: IntentContext) -> dict[str, Any]:
    """Block until the file that the input names is there."""
    gate, deadline = Path(ctx.input["until"]), monotonic() + _PATIENCE_SECONDS
    while not gate.exists() and monotonic() < deadline:
        threading.Event().wait(0.01)
    return {"waited": gate.exists()}


def fail(ctx: IntentContext) -> dict[str, Any]:
    raise LookupError("there is no such order")


def count(ctx: RouteContext) -> str:
    return "add" if ctx.iteration < ctx.input["to"] else END


def add(ctx: IntentContext) -> dict[str, Any]:
    return {"counted": ctx.iteration + 1}


echoing = Orchestrator(name="echo", intents={"echo": echo}, route=lambda ctx: "echo")
waiting = Orchestrator(name="wait", intents={"wait": wait}, route=lambda ctx: "wait", iterate=False)
failing = Orchestrator(name="fail", intents={"fail": fail}, route=lambda ctx: "fail")
counting = Orchestrator(name="count", intents={"add": add}, route=count, iterate=True)
