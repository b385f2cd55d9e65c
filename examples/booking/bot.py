"""The orchestrator: an intent per service, a journaled step for each call, slots merged into the session's state.

The turn's input carries the annotation of its dialogue, which stands in for a language model: which services the user
speaks about, with which slots, and what is asked of them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from turnchain import END, Found, IntentContext, Orchestrator, Reconcile, RouteContext, Step
from turnchain.examples.booking import world

SERVICES = (
    "Events", "Flights", "Hotels", "Media", "Movies", "Music", "Payment", "RentalCars", "Restaurants", "RideSharing",
    "Services", "Weather",
)  # fmt: skip
ANSWER = "answer"
THINK_VARIABLE = "BOOKING_THINK_SECONDS"


def family(service: str) -> str:
    """`Restaurants_2` belongs to `Restaurants`."""
    return service.partition("_")[0]


def route(ctx: RouteContext) -> str:
    """One iteration for each frame of the message, by its service, then the answer."""
    frames = ctx.input["frames"]
    if ctx.iteration < len(frames):
        return family(frames[ctx.iteration]["service"])
    return ANSWER if ctx.iteration == len(frames) else END


def serve(ctx: IntentContext) -> dict[str, Any]:
    """Make the calls of this frame's service, and take over what the user has said so far."""
    world.note_run(ctx.run_id, ctx.iteration)
    threading.Event().wait(_think_seconds())
    frame = ctx.input["frames"][ctx.iteration]
    service = frame["service"]
    for call in ctx.input["calls"]:
        if call["service"] == service:
            _make(ctx, call)
    return {service: {**ctx.state.get(service, {}), **frame["slots"]}}


async def answer(ctx: IntentContext) -> None:
    """Say something; the state is complete by now."""
    world.note_run(ctx.run_id, ctx.iteration)
    await asyncio.sleep(_think_seconds())


def _make(ctx: IntentContext, call: dict[str, Any]) -> None:
    def act(step: Step) -> list[dict[str, Any]]:
        return world.call(step.effect_key, call["service"], call["method"], call["results"])

    def reconcile(step: Step) -> Found | None:
        results = world.look_up(step.effect_key)
        return None if results is None else Found(results)

    ctx.step(call["method"], act, policy=Reconcile(reconcile))


def _think_seconds() -> float:
    """What a model would take for its share of an iteration: nothing, unless this variable says so."""
    return float(os.environ.get(THINK_VARIABLE, "0"))


booking = Orchestrator(
    name="booking",
    intents={**dict.fromkeys(SERVICES, serve), ANSWER: answer},
    route=route,
    iterate=True,
    keep_snapshots="all",
)
