"""The orchestrators that Turnchain's workers serve here: one callable intent, no model call."""

from __future__ import annotations

from benchmarks.work import Shape, step
from turnchain import END, IntentContext, Orchestrator

NAMES = {shape: f"bench-{shape}" for shape in Shape}


def append(ctx: IntentContext) -> dict[str, str]:
    """An iteration's 2 KB."""
    return {"reply": step(ctx.run_id, ctx.iteration)}


single = Orchestrator(
    name=NAMES[Shape.SINGLE], intents={"append": append}, route=lambda ctx: "append"
)
kept = Orchestrator(
    name=NAMES[Shape.KEPT],
    intents={"append": append},
    route=lambda ctx: "append",
    keep_snapshots="all",
)
five = Orchestrator(
    name=NAMES[Shape.FIVE],
    intents={"append": append},
    route=lambda ctx: "append" if ctx.iteration < 5 else END,
    iterate=True,
)
