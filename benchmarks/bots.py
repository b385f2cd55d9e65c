"""The orchestrators that Turnchain's workers serve here: one callable intent, no model call."""

from __future__ import annotations

from benchmarks.work import Shape, step
from turnchain import END, Intent, IntentContext, Orchestrator

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
    # Said with the fifth, since a router that is asked a sixth time is saved a sixth time.
    intents={"append": Intent(run=append, next=lambda ctx: END if ctx.iteration == 4 else None)},
    route=lambda ctx: "append",
    iterate=True,
)
