"""One stage of one turn: claimed, run, handed over, and everything that keeps it from that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest

from tests.orchestrator_core.builders import (
    NOBODY,
    SECOND,
    Crash,
    FakeLeases,
    PatientLedger,
    World,
    a_provider,
    counter,
    refusal_of,
    walker,
)
from turnchain.orchestrator_core.callbacks import IntentContext, ProviderContext
from turnchain.orchestrator_core.contracts import (
    JSON,
    STAGES,
    Claim,
    Owner,
    Refusal,
    Stage,
    TurnStatus,
    Wake,
)
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    LeaseLost,
    StoreUnavailableError,
)
from turnchain.orchestrator_core.ports import Watch
from turnchain.stores.memory.tables import SessionRow

STOPPABLE = [Stage.LOAD, Stage.DRIFT, Stage.LOCK, Stage.WINDOW, Stage.DISPATCH]


# -- from stage to stage


def test_a_turn_passes_the_seven_stages_in_order() -> None:
    world = World(counter())
    wake = world.admitted()

    assert world.play(wake) == list(STAGES)
    turn = world.turn(wake)
    assert (turn.status, turn.stage, turn.fence) == (TurnStatus.AWAITING_INPUT, Stage.DONE, 0)
    assert (turn.lease_owner, turn.ready_at) == (None, None)


def test_what_happened_is_told_in_order() -> None:
    """[O 16.1 14, 17]."""
    world = World(counter())
    wake = world.admitted()
    world.play(wake)

    assert world.event_names(wake) == [
        "turn.starting",
        "session.loaded",
        "drift.checked",
        "history.windowed",
        "turn.routed",
        "supervisor.iteration.completed",
        "checkpoint.persisted",
        "turn.awaiting-input",
    ]
    assert [event.seq for event in world.events(wake)] == list(range(1, 9))


def test_each_hand_over_leaves_the_next_stage_ready_and_without_an_owner() -> None:
    world = World(counter())
    wake: Wake | None = world.admitted()

    while wake := world.run(wake).following:
        turn = world.turn(wake)
        assert (turn.stage, turn.fence, turn.lease_owner) == (wake.stage, wake.fence, None)
        assert turn.ready_at == world.clock.instant


def test_a_lease_is_kept_while_the_stage_runs_and_no_longer() -> None:
    kept: list[list[str]] = []

    def intent(ctx: IntentContext) -> None:
        kept.append(list(world.leases.kept))

    world = World(counter(intents={"bump": intent}))
    world.play(world.admitted())

    assert [len(owners) for owners in kept] == [1]
    assert world.leases.kept == []


def test_a_lease_is_given_up_when_the_process_goes_down_with_the_stage() -> None:
    def intent(ctx: IntentContext) -> None:
        raise Crash

    world = World(counter(intents={"bump": intent}))
    wake = world.ready(Stage.DISPATCH)

    with pytest.raises(Crash):
        world.run(wake)

    assert world.leases.kept == []
    assert world.turn(wake).lease_owner is not None


def test_the_lease_is_counted_from_before_the_claim() -> None:
    """The claim's answer may take its time; the lease runs since it was written."""
    granted_at: list[timedelta] = []

    class Noting(FakeLeases):
        def begin(self, claim: Claim, granted: timedelta) -> Watch:
            granted_at.append(granted)
            return super().begin(claim, granted)

    class Slow(PatientLedger):
        def claim(self, wake: Wake, lease_owner: str, lease: timedelta) -> Claim | Refusal:
            world.clock.moves(SECOND)
            return super().claim(wake, lease_owner, lease)

    world = World(counter())
    world.using(leases=Noting(world.watch))
    world.keeping(Slow)

    world.run(world.admitted())

    assert granted_at == [timedelta(0)]


# -- refused


@pytest.mark.parametrize("stage", STAGES)
def test_a_doubled_message_runs_nothing(stage: Stage) -> None:
    """[DESIGN 6] The first copy is inside the stage."""
    world = World(counter())
    wake = world.ready(stage)
    world.inside(wake)

    passage = world.run(wake)

    assert refusal_of(passage).reason == "owned"
    assert (passage.following, passage.others) == (None, ())


def test_a_late_message_shows_the_way_ahead() -> None:
    """[DESIGN 5, Claim] Whoever advanced the turn may have died before it published."""
    world = World(counter())
    first = world.admitted()
    ahead = world.run(first).following

    passage = world.run(first)

    assert refusal_of(passage).reason == "moved-on"
    assert passage.others == (ahead,)
    assert passage.following is None


def test_a_message_of_a_turn_that_is_done_is_dropped() -> None:
    world = World(counter())
    wake = world.admitted()
    world.play(wake)

    assert refusal_of(world.run(wake)).reason == "done"


def test_a_message_of_a_turn_that_nobody_knows_is_dropped() -> None:
    world = World(counter())

    assert refusal_of(world.run(Wake(turn_id=world.new_id(), stage=Stage.LOAD, fence=0))) == (
        Refusal(reason="unknown")
    )


# -- parked


def test_a_turn_that_this_process_does_not_serve_is_parked() -> None:
    """[DESIGN 5] Not run, not failed: somebody else may serve it."""
    world = World(counter())
    wake = world.ready(Stage.DISPATCH)
    stranger = world.serving(counter(name="other"))
    behind = world.accepted(session="s2")

    passage = stranger.run(wake)

    turn = world.turn(wake)
    assert (turn.parked, turn.stage, turn.fence) == ("no-worker", Stage.DISPATCH, 1)
    assert turn.ready_at == world.clock.instant + world.env.policy.no_worker_wait
    assert (turn.attempts, turn.status) == (0, TurnStatus.RUNNING)
    assert passage.following is None
    assert [other.turn_id for other in passage.others] == [behind]


def test_a_parked_turn_goes_on_where_it_is_served() -> None:
    world = World(counter())
    wake = world.ready(Stage.DISPATCH)
    world.serving(counter(name="other")).run(wake)

    (wake,) = world.drain()

    assert world.play(wake) == [Stage.DISPATCH, Stage.PERSIST, Stage.COMPACT]


@pytest.mark.parametrize("stage", [*STOPPABLE, Stage.PERSIST])
def test_a_turn_that_nobody_serves_can_be_cancelled(stage: Stage) -> None:
    """It was parked again each time that it was woken up to be ended, for ever."""
    world = World(counter())
    wake = world.ready(stage)
    stranger = world.serving(counter(name="other"))
    stranger.run(wake)
    world.ledger.request_cancel(wake.turn_id, NOBODY)
    parked = world.turn(wake)

    stranger.run(Wake(turn_id=wake.turn_id, stage=parked.stage, fence=parked.fence))

    turn = world.turn(wake)
    assert (turn.status, turn.stage) == (TurnStatus.CANCELLED, Stage.DONE)
    assert world.event_names(wake)[-1] == "turn.cancelled"
    assert world.stores.snapshots.list() == []


def test_a_turn_waits_for_a_compaction_once_and_reads_again() -> None:
    """[O 15.1 G6, O 16.1 24, O 16.5 T18]."""
    world = World(counter())
    world.execute(state={"count": 5})
    wake = world.ready(Stage.LOCK)
    world.compacts(timedelta(minutes=1))

    passage = world.run(wake)

    parked = world.turn(wake)
    assert passage.following is None
    assert (parked.parked, parked.stage, parked.fence) == ("compaction", Stage.LOAD, 1)
    assert parked.ready_at == world.clock.instant + world.env.policy.lock_max_wait
    _settles_underneath(world, {"count": 99})
    world.clock.moves(world.env.policy.lock_max_wait)
    (wake,) = world.ledger.rewake(timedelta(0), timedelta(0))
    assert world.play(wake) == list(STAGES)
    assert world.state()["count"] == 100
    assert world.turn(wake).turn_index == 2
    assert "lock.waiting" in world.event_names(wake)


def _settles_underneath(world: World, state: dict[str, Any]) -> None:
    """The session moves on while the turn is parked, as after a restored backup."""
    head = world.head()
    assert head is not None
    moved = head.model_copy(update={"turn_index": head.turn_index + 1, "state": state})
    rows = world.stores.tables.checkpoints[world.session()]
    rows[moved.turn_index] = moved.model_dump_json()


def test_a_turn_never_waits_twice() -> None:
    """[O 5.4] Fail open."""
    world = World(counter())
    world.execute()
    wake = world.ready(Stage.LOCK)
    world.compacts(timedelta(days=1))
    world.run(wake)
    (wake,) = world.drain()

    assert world.play(wake) == list(STAGES)
    assert world.result(wake).ok


# -- stopped


@pytest.mark.parametrize("stage", STOPPABLE)
def test_a_process_that_goes_away_hands_the_turn_back(stage: Stage) -> None:
    """[DESIGN 6, SIGTERM] Fence + 1, ready at once, no attempt."""
    world = World(counter())
    wake = world.ready(stage)
    world.watch.stops(HandBackAsked)

    passage = world.run(wake)

    turn = world.turn(wake)
    back = Wake(turn_id=wake.turn_id, stage=stage, fence=1)
    assert (passage.others, passage.handed_back) == ((back,), True)
    assert (turn.attempts, turn.lease_owner, turn.fence) == (0, None, 1)


def test_what_was_decided_is_not_handed_back() -> None:
    """The rest is quick, and the answer is waited for."""
    world = World(counter())
    wake = world.ready(Stage.PERSIST)
    world.watch.stops(HandBackAsked)

    assert world.play(wake) == [Stage.PERSIST, Stage.COMPACT]


def test_a_hand_back_that_comes_too_late_gives_nothing_back() -> None:
    def intent(ctx: IntentContext) -> None:
        world.drain()
        raise HandBackAsked

    world = World(counter(intents={"bump": intent}))
    wake = world.ready(Stage.DISPATCH)

    passage = world.run(wake)

    assert refusal_of(passage).reason == "moved-on"
    assert (passage.others, passage.handed_back) == ((), False)
    assert world.turn(wake).fence == 1


@pytest.mark.parametrize("stage", STOPPABLE)
def test_a_lost_lease_is_left_to_who_has_it_now(stage: Stage) -> None:
    world = World(counter())
    wake = world.ready(stage)
    before = world.turn(wake), world.events(wake)
    world.watch.stops(LeaseLost)

    assert refusal_of(world.run(wake)).reason == "moved-on"

    world.drain()
    after = world.turn(wake)
    assert after.stage is before[0].stage
    assert world.events(wake) == before[1]


def test_a_lease_lost_in_the_middle_writes_nothing_more() -> None:
    """[O 15.1 G7, O 15.5 I4] Taken over during iteration 1: its result and all after it are refused."""
    calls: list[int] = []

    def walk(ctx: IntentContext) -> dict[str, Any]:
        calls.append(ctx.iteration)
        if ctx.iteration == 1 and len(calls) == 2:
            world.drain()
        return {"path": [*ctx.state["path"], f"{ctx.iteration} of attempt {ctx.attempt}"]}

    world = World(walker(3, intents={"walk": walk}))
    wake = world.ready(Stage.DISPATCH)

    passage = world.run(wake)

    assert refusal_of(passage).reason == "moved-on"
    assert (passage.following, passage.others) == (None, ())
    assert calls == [0, 1]
    run = world.snapshot(wake)
    assert run is not None
    assert (run.iteration, run.terminated_by) == (0, None)
    world.play(Wake(turn_id=wake.turn_id, stage=Stage.DISPATCH, fence=1))
    assert calls == [0, 1, 1, 2]
    assert world.state()["path"] == ["0 of attempt 0", "1 of attempt 1", "2 of attempt 0"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_hand_over_under_a_stale_fence_is_refused_whole(stage: Stage) -> None:
    """The stage did its work; its events, its work and its outcome belong to nobody."""

    class Overtaken(PatientLedger):
        """Takes the turn away just before the stage's last write."""

        def unit(self, claim: Claim, *, durable: bool) -> Any:
            if claim.turn.stage is not Stage.DISPATCH or world.snapshot(claim.wake):
                world.drain()
            return super().unit(claim, durable=durable)

    world = World(counter())
    wake = world.ready(stage)
    events = world.events(wake)
    world.keeping(Overtaken)

    assert refusal_of(world.run(wake)).reason == "moved-on"

    turn = world.turn(wake)
    assert (turn.stage, turn.fence) == (stage, 1)
    if stage is not Stage.DISPATCH:
        assert world.events(wake) == events


# -- cancelled or too late


@pytest.mark.parametrize("stage", [*STOPPABLE, Stage.PERSIST])
def test_a_cancel_is_honoured_until_persist_claims(stage: Stage) -> None:
    """[DESIGN 5] The next claim sees it."""
    world = World(counter())
    wake = world.ready(stage)
    assert world.ledger.request_cancel(wake.turn_id, NOBODY) == "requested"

    stages = world.play(wake)

    result = world.result(wake)
    assert stages == sorted({stage, Stage.PERSIST, Stage.COMPACT}, key=lambda one: one.order)
    assert result.status is TurnStatus.CANCELLED
    assert result.error is not None
    assert result.error.category == "cancelled"
    assert world.event_names(wake)[-1] == "turn.cancelled"
    assert world.head() is None


def test_a_cancel_after_persist_claimed_is_too_late() -> None:
    world = World(counter())
    wake = world.ready(Stage.PERSIST)
    asked: list[str] = []

    class Late(PatientLedger):
        def unit(self, claim: Claim, *, durable: bool) -> Any:
            asked.append(self.request_cancel(claim.turn.turn_id, NOBODY))
            return super().unit(claim, durable=durable)

    world.keeping(Late)
    world.run(wake)

    assert asked == ["too-late"]
    assert world.result(wake).ok


@pytest.mark.parametrize("stage", STOPPABLE)
@pytest.mark.parametrize(
    ("reason", "code"),
    [(CancelRequested, "ORCHESTRATOR_CANCELLED"), (DeadlinePassed, "DEADLINE_EXCEEDED")],
)
def test_a_watch_that_stops_a_stage_decides_the_turn(
    stage: Stage, reason: type[BaseException], code: str
) -> None:
    world = World(counter())
    wake = world.ready(stage)
    world.watch.stops(reason)

    following = world.run(wake).following

    assert following == Wake(turn_id=wake.turn_id, stage=Stage.PERSIST, fence=0)
    world.play(following)
    error = world.result(wake).error
    assert error is not None
    assert error.code == code


def test_a_stop_inside_a_provider_decides_the_turn() -> None:
    def fetch(asked: ProviderContext) -> Any:
        raise CancelRequested

    world = World(counter(providers={"provider": fetch}))
    for arguments in ({"history": a_provider()}, {"context": a_provider()}):
        wake = world.admitted(**arguments)
        world.play(wake)
        assert world.result(wake).status is TurnStatus.CANCELLED


def test_a_decided_turn_goes_straight_to_persist() -> None:
    """[O 2.6.6] Nothing in between runs."""
    world = World(counter())
    world.execute()
    drifted = world.serving(counter(iterate=True))
    wake = drifted.admitted()

    assert drifted.play(wake) == [Stage.LOAD, Stage.DRIFT, Stage.PERSIST, Stage.COMPACT]
    assert world.event_names(wake) == [
        "turn.starting",
        "session.loaded",
        "drift.checked",
        "turn.failed",
    ]


def test_a_settled_turn_is_compacted_whatever_was_asked_since() -> None:
    world = World(counter())
    wake = world.ready(Stage.COMPACT)
    world.watch.stops(HandBackAsked)

    assert world.play(wake) == [Stage.COMPACT]


# -- what a turn meets when it hands over


def test_a_session_that_became_anothers_ends_the_turn_failed() -> None:
    """[DESIGN 2] Two first turns of one session id, by two owners: the second to load is told."""
    world = World(counter())
    wake = world.admitted()
    world.stores.tables.sessions[world.session()] = SessionRow(owner=Owner(tenant="acme"))

    stages = world.play(wake)

    assert stages == [Stage.LOAD, Stage.PERSIST, Stage.COMPACT]
    error = world.result(wake).error
    assert error is not None
    assert error.code == "SESSION_OWNER"
    assert world.event_names(wake) == ["turn.failed"]
    assert world.head() is None


def test_a_store_that_does_not_answer_leaves_the_turn_to_the_sweep() -> None:
    class Down(PatientLedger):
        def unit(self, claim: Claim, *, durable: bool) -> Any:
            raise StoreUnavailableError("no route to host")

    world = World(counter())
    wake = world.admitted()
    world.keeping(Down)

    with pytest.raises(StoreUnavailableError):
        world.run(wake)

    assert world.turn(wake).status is TurnStatus.RUNNING
    assert world.leases.kept == []
    world.keeping(PatientLedger)
    (wake,) = world.drain()
    assert world.play(wake) == list(STAGES)


def test_a_store_that_does_not_answer_inside_an_intent_leaves_the_turn_to_the_sweep() -> None:
    """It is not the intent's error, which the run would go on with."""

    class Down(PatientLedger):
        def finish_step(self, claim: Claim, run_id: str, effect_key: str, result: JSON) -> None:
            raise StoreUnavailableError("connection reset")

    effects: list[str] = []

    def pay(ctx: IntentContext) -> dict[str, Any]:
        return {"paid": ctx.step("charge", lambda step: effects.append(step.effect_key))}

    world = World(walker(1, intents={"walk": pay}))
    wake = world.ready(Stage.DISPATCH)
    world.keeping(Down)

    with pytest.raises(StoreUnavailableError, match="connection reset"):
        world.run(wake)

    assert world.turn(wake).status is TurnStatus.RUNNING
    world.keeping(PatientLedger)
    (wake,) = world.drain()
    world.play(wake)
    assert world.result(wake).ok
    assert len(set(effects)) == 1, "one key for both attempts"


# -- who is next


@pytest.mark.parametrize("end", ["persist", "compact"])
def test_the_session_and_the_slot_are_free_for_others(end: Literal["persist", "compact"]) -> None:
    """[DESIGN 5, Admit] After settling the session's next; after `done` whoever waits for the slot."""
    world = World(counter())
    wake = world.ready(Stage(end))
    behind = world.accepted(session="s1" if end == "persist" else "s2")

    passage = world.run(wake)

    assert passage.others == (Wake(turn_id=behind, stage=Stage.LOAD, fence=0),)


def test_two_turns_of_a_session_build_on_each_other() -> None:
    """[O 16.5 T15] However the messages come in."""
    world = World(counter())
    first, second = world.accepted("one"), world.accepted("two")
    wakes = world.ledger.admit(10)
    assert [wake.turn_id for wake in wakes] == [first]
    assert world.ledger.admit(10) == []

    while wakes:
        passage = world.run(wakes.pop())
        wakes += [*passage.others, *([passage.following] if passage.following else [])]

    assert [world.result(turn).turn_index for turn in (first, second)] == [0, 1]
    assert world.state() == {"count": 2, "lastInput": "two"}
