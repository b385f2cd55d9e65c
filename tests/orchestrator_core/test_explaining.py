"""The one sentence, in every standing, about turns that the real verbs brought there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from turnchain.orchestrator_core.contracts import (
    STAGES,
    NewEvent,
    Outcome,
    Owner,
    ProcessRecord,
    Stage,
    TurnStatus,
)
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.explaining import Explanation, explain
from turnchain.orchestrator_core.refusals import cancelled
from turnchain.orchestrator_core.situation import Rules
from turnchain.orchestrator_core.standing import Standing
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.stores import memory
from turnchain.stores.conformance.exam import FAILED, TENANT_A, Given, id_of
from turnchain.stores.conformance.snapshots import iteration_of, run_of

SECOND = timedelta(seconds=1)
LEASE = 20 * SECOND
QUEUES = {stage: "models" if stage is Stage.DISPATCH else "turns" for stage in STAGES}
RULES = Rules(policy=Policy(), sweep=SweepPolicy(), queues=QUEUES)
START = "2026-01-01T00:00:00Z"


class World:
    """Memory stores under a clock that the test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.stores = memory.connect(lambda: self.now)
        self.ledger = self.stores.ledger
        self.given = Given(self.stores)

    def passes(self, seconds: float) -> None:
        self.now += seconds * SECOND

    def beats(self, process_id: str = "host:1", **fields: Any) -> None:
        given: dict[str, Any] = {
            "slots": 2,
            "queues": ("turns", "models"),
            "signatures": {"bot": "sig"},
            **fields,
        }
        self.ledger.beat(ProcessRecord(process_id=process_id, **given))

    def sweeps(self) -> None:
        assert self.ledger.begin_sweep(timedelta(0), LEASE)

    def why(self, turn: str, rules: Rules = RULES) -> Explanation:
        facts = self.stores.inspection.facts(id_of(turn))
        assert facts is not None
        return explain(facts, rules)

    def parked(self, reason: str, wait: timedelta | None) -> None:
        claim = self.given.claimed("t1", stage=Stage.LOCK, lease=LEASE)
        self.ledger.park(claim, reason=reason, wait=wait, stage=Stage.LOAD, work=claim.work)


@pytest.fixture
def world() -> World:
    """With one worker that can do everything, and a sweep just now."""
    world = World()
    world.beats()
    world.sweeps()
    return world


# -- queued


def test_queued_behind_the_running_turn_of_its_session(world: World) -> None:
    world.given.claimed("t0", stage=Stage.WINDOW, lease=LEASE)
    world.given.accepted("t1")

    assert world.why("t1") == Explanation(
        Standing.QUEUED,
        stuck=False,
        sentence=f"Queued behind turn {id_of('t0')} of its session, which is owned by process host:1, "
        "which runs window with a lease until 2026-01-01T00:00:20Z (in 20 s).",
    )


def test_queued_behind_others_of_its_session_says_why_the_first_waits(world: World) -> None:
    world.beats(slots=1)
    world.given.admitted("other", session="s2")
    for turn in ("t0", "t1", "t2"):
        world.given.accepted(turn)

    assert world.why("t2").sentence == (
        f"Queued behind 2 queued turns of its session, the first of which, {id_of('t0')}, is queued "
        "with priority 0, because capacity is full: 1 turn is owned or ready on 1 slot."
    )


def test_queued_behind_one_that_goes_on_though_nobody_will_start_this_one(world: World) -> None:
    world.given.claimed("t0", stage=Stage.DISPATCH, lease=LEASE)
    world.given.accepted("t1")
    world.beats(queues=("models",))

    why = world.why("t1")

    assert why.stuck
    assert why.sentence == (
        f"Queued behind turn {id_of('t0')} of its session, which is owned by process host:1, which runs dispatch "
        "(0 iterations settled) with a lease until 2026-01-01T00:00:20Z (in 20 s); and nobody will start this one "
        "then: no live worker reads queue 'turns' for load, so start one with -Q turns."
    )


def test_queued_because_capacity_is_full(world: World) -> None:
    world.given.admitted("a", session="a")
    world.given.admitted("b", session="b")
    world.given.accepted("first", session="c")
    world.given.accepted("theirs", session="d", owner=TENANT_A)
    world.given.accepted("t1", priority=3)

    assert world.why("first").sentence == (
        "Queued with priority 0, because capacity is full: 2 turns are owned or ready on 2 slots."
    )
    assert world.why("t1").sentence == (
        "Queued with priority 3, behind 1 turn of its tenant that go first, because capacity is "
        "full: 2 turns are owned or ready on 2 slots."
    )


def test_queued_though_there_is_room(world: World) -> None:
    """Whoever settled the turn before died before it admitted this one."""
    world.given.accepted("t1")
    world.passes(2)

    assert world.why("t1").sentence == (
        "Queued with priority 0, though 2 of 2 slots are free: the next sweep, due at "
        "2026-01-01T00:00:05Z (in 3 s), admits it at the latest."
    )


def test_capacity_is_what_the_setting_says(world: World) -> None:
    world.given.admitted("a", session="a")
    world.given.accepted("t1")
    rules = Rules(policy=Policy(max_in_flight=1), sweep=SweepPolicy(), queues=QUEUES)

    assert "1 turn is owned or ready on 1 slot" in world.why("t1", rules).sentence


def test_queued_for_an_engine_that_asks(world: World) -> None:
    world.given.accepted("t1", runner="engine")
    world.passes(59)

    assert world.why("t1").sentence == (
        f"Queued for its engine alone, which gave its last sign of life at {START} (59 s ago)."
    )


def test_queued_for_an_engine_that_is_gone(world: World) -> None:
    world.given.accepted("t1", runner="engine")
    world.passes(61)
    world.beats()

    assert world.why("t1").sentence == (
        "Queued, but its engine is gone, which gave its last sign of life at "
        f"{START} (61 s ago), and the next sweep, due now, ends it as failed (TURN_INTERRUPTED)."
    )


def test_queued_past_its_deadline(world: World) -> None:
    world.given.accepted("t1", deadline=world.now + SECOND)
    world.passes(2)

    assert world.why("t1").sentence == (
        "Queued, but its deadline passed at 2026-01-01T00:00:01Z (1 s ago), and the next sweep, due "
        "at 2026-01-01T00:00:05Z (in 3 s), ends it as failed (DEADLINE_EXCEEDED)."
    )


# -- ready


def test_ready_and_not_claimed(world: World) -> None:
    world.given.admitted("t1")
    world.passes(1)

    assert world.why("t1") == Explanation(
        Standing.READY,
        stuck=False,
        sentence=f"Ready at load since {START} (1 s ago): its message should be in queue 'turns', no worker has "
        "claimed it yet, and it is published again at 2026-01-01T00:00:05Z (in 4 s).",
    )


def test_ready_and_published_again_and_again(world: World) -> None:
    world.given.admitted("t1")
    for _ in range(2):
        world.ledger.rewake(timedelta(0), timedelta(0))
    world.passes(9)

    assert "published again (after 2 times) at 2026-01-01T00:00:20Z" in world.why("t1").sentence
    world.passes(12)
    world.beats()
    assert world.why("t1").sentence.endswith("again (after 2 times) with the next sweep.")


def test_ready_for_an_engine_that_lives_needs_no_worker() -> None:
    world = World()
    world.given.admitted("t1", runner="engine")

    why = world.why("t1")

    assert not why.stuck
    assert why.sentence.startswith(f"Ready at load since {START} (0 s ago) for its engine alone, ")


def test_ready_at_a_stage_with_a_queue_of_its_own(world: World) -> None:
    world.given.ready("t1", Stage.DISPATCH)

    assert "Ready at dispatch since" in world.why("t1").sentence
    assert "in queue 'models'" in world.why("t1").sentence


def test_ready_to_be_cancelled(world: World) -> None:
    world.given.admitted("t1")
    world.ledger.request_cancel(id_of("t1"), Owner())

    assert world.why("t1").sentence == (
        f"Ready at load since {START} (0 s ago), but somebody asked at {START} (0 s ago) to cancel "
        "it, and the next worker that claims it ends it."
    )


def test_ready_for_an_engine(world: World) -> None:
    world.given.admitted("t1", runner="engine")

    assert world.why("t1").sentence == (
        f"Ready at load since {START} (0 s ago) for its engine alone, which gave its last sign of "
        f"life at {START} (0 s ago)."
    )


# -- owned


def test_owned_by_a_live_process(world: World) -> None:
    claim = world.given.claimed("t1", stage=Stage.DISPATCH, lease=LEASE)
    with world.ledger.unit(claim, durable=True) as unit:
        unit.add_events([NewEvent(type="supervisor.iteration.completed")])
        world.stores.snapshots.save(run_of(claim.turn.run_id), iteration_of(0), unit)
    world.passes(3)

    assert world.why("t1") == Explanation(
        Standing.OWNED,
        stuck=False,
        sentence="Owned by process host:1, which runs dispatch (1 iteration settled) with a lease until "
        f"2026-01-01T00:00:20Z (in 17 s), its last event at {START} (3 s ago).",
    )


def test_owned_and_expired_is_taken_over(world: World) -> None:
    world.given.claimed("t1", lease=LEASE)
    world.passes(19)
    world.sweeps()
    world.passes(2)
    world.beats()

    assert world.why("t1").sentence == (
        "Owned by process host:1, which runs load and let its lease run out at "
        "2026-01-01T00:00:20Z (1 s ago), and the next sweep, due at 2026-01-01T00:00:24Z (in 3 s), "
        "takes it over (attempt 1 of 3)."
    )


def test_owned_and_expired_for_the_last_time_is_given_up(world: World) -> None:
    wake = world.given.admitted("t1")
    for _ in range(2):
        world.given.granted(wake, lease=timedelta(seconds=-1))
        (wake,) = world.ledger.take_over_expired(3)
    world.given.granted(wake, lease=timedelta(seconds=-1))

    assert world.why("t1").sentence.endswith(
        "the next sweep, due at 2026-01-01T00:00:05Z (in 5 s), gives it up (attempt 3 of 3)."
    )


def test_owned_by_a_process_that_is_heard_of_no_more(world: World) -> None:
    world.given.claimed("t1", lease=LEASE)
    world.passes(11)
    world.beats("host:2")

    assert world.why("t1").sentence == (
        "Owned by process host:1, which runs load and is heard of no more, with a lease until "
        "2026-01-01T00:00:20Z (in 9 s), after which the next sweep, due now, takes it over "
        "(attempt 1 of 3)."
    )


def test_owned_and_asked_to_stop(world: World) -> None:
    world.given.claimed("t1", lease=LEASE)
    world.ledger.request_cancel(id_of("t1"), Owner())

    assert world.why("t1").sentence == (
        f"Owned by process host:1, which runs load and was asked to stop at {START} (0 s ago), "
        "which it does at its next boundary."
    )


def test_owned_past_its_deadline(world: World) -> None:
    world.given.claimed("t1", lease=LEASE, deadline=world.now + SECOND)
    world.passes(2)

    assert world.why("t1").sentence == (
        "Owned by process host:1, which runs load past its deadline of 2026-01-01T00:00:01Z "
        "(1 s ago), and stops at its next boundary."
    )


def test_owned_by_an_engine_needs_no_heartbeat(world: World) -> None:
    world.given.claimed("t1", lease=60 * LEASE, runner="engine")
    world.passes(70)

    assert not world.why("t1").stuck
    assert "with a lease until 2026-01-01T00:20:00Z (in 18 min)" in world.why("t1").sentence


# -- parked and paused


def test_parked_where_nobody_who_claimed_it_serves_it(world: World) -> None:
    world.parked("no-worker", 10 * SECOND)
    world.beats("host:2", signatures={"other": "sig"})
    world.passes(4)

    assert world.why("t1") == Explanation(
        Standing.PARKED,
        stuck=False,
        sentence="Parked at load until 2026-01-01T00:00:10Z (in 6 s), because the worker that claimed "
        "it does not serve orchestrator 'bot', while 1 live worker does.",
    )


def test_parked_behind_a_compaction(world: World) -> None:
    world.parked("compaction", 5 * SECOND)

    assert world.why("t1").sentence == (
        "Parked at load until 2026-01-01T00:00:05Z (in 5 s), at the latest, while its session is "
        "compacted."
    )


def test_parked_for_another_reason_until_told(world: World) -> None:
    world.parked("limited", None)

    assert world.why("t1").sentence == ("Parked at load until it is told to go on, for 'limited'.")


def test_a_parked_turn_whose_wait_is_over_is_ready(world: World) -> None:
    world.parked("compaction", 5 * SECOND)
    world.passes(6)

    assert world.why("t1").sentence == (
        "Ready at load since 2026-01-01T00:00:05Z (1 s ago): its message should be in queue "
        "'turns', no worker has claimed it yet, and it is published again with the next sweep."
    )


def test_paused(world: World) -> None:
    """No verb pauses a turn yet; its row can say so."""
    world.given.ready("t1", Stage.DISPATCH)
    world.given.accepted("t2")
    row = world.stores.tables.turns[id_of("t1")]
    row.status, row.ready_at = TurnStatus.PAUSED, None
    world.passes(60)
    world.beats()

    assert world.why("t1") == Explanation(
        Standing.PAUSED,
        stuck=False,
        sentence="Paused at dispatch, waiting for an answer from outside.",
    )
    assert world.why("t2").sentence.endswith(
        f"Queued behind turn {id_of('t1')} of its session, which is paused at dispatch, waiting for "
        "an answer from outside."
    )


# -- settled


def test_answered(world: World) -> None:
    world.given.settled("t1")

    assert world.why("t1") == Explanation(
        Standing.SETTLED,
        stuck=False,
        sentence=f"Settled as awaiting-input at {START} (0 s ago), with an answer.",
    )


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (FAILED, "Settled as failed at X, with the error SUPERVISOR_FAILED."),
        (cancelled(), "Settled as cancelled at X, with the error ORCHESTRATOR_CANCELLED."),
        (Outcome(status=TurnStatus.SUPERSEDED), "Settled as superseded at X."),
    ],
    ids=lambda value: value.status if isinstance(value, Outcome) else "",
)
def test_settled_otherwise(world: World, outcome: Outcome, says: str) -> None:
    world.given.settled("t1", outcome=outcome)

    assert world.why("t1").sentence == says.replace("X", f"{START} (0 s ago)")


def test_dead(world: World) -> None:
    wake = world.given.admitted("t1")
    for _ in range(3):
        world.given.granted(wake, lease=timedelta(seconds=-1))
        (wake,) = world.ledger.take_over_expired(3) or [wake]

    assert world.why("t1").sentence == (
        f"Dead since {START} (0 s ago), given up after it lost 3 workers in a row without "
        "progress: look for what kills them, then enqueue it again."
    )


def test_answered_with_upkeep_left(world: World) -> None:
    world.given.granted(
        world.given.persisted(world.given.claimed("t1", stage=Stage.PERSIST)), lease=LEASE
    )

    assert world.why("t1") == Explanation(
        Standing.OWNED,
        stuck=False,
        sentence=f"Settled as awaiting-input at {START} (0 s ago), with an answer, and only its upkeep is left, owned "
        "by process host:1, which runs compact with a lease until 2026-01-01T00:00:20Z (in 20 s), "
        f"its last event at {START} (0 s ago).",
    )


# -- stuck


def _queued(world: World) -> None:
    world.given.accepted("t1")


def _ready(world: World) -> None:
    world.given.admitted("t1")


def _owned(world: World) -> None:
    world.given.claimed("t1", lease=LEASE)


def _parked(world: World) -> None:
    world.parked("no-worker", LEASE * 2)


STANDINGS = [_queued, _ready, _owned, _parked]
NOBODY = f"no worker has been alive since {START} (30 s ago), so start one"


@pytest.mark.parametrize("brings", STANDINGS)
@pytest.mark.parametrize(
    ("worker", "says"),
    [
        (None, NOBODY),
        ({"draining": True}, "all live workers are going away, so start another one"),
        (
            {"queues": ("models",)},
            "no live worker reads queue 'turns' for load, so start one with -Q turns",
        ),
        (
            {"signatures": {}},
            "no live worker that reads queue 'turns' serves orchestrator 'bot', so start one whose "
            "TURNCHAIN_ORCHESTRATORS names it",
        ),
    ],
    ids=["no worker", "draining", "another queue", "other orchestrators"],
)
def test_stuck_says_what_is_missing(
    world: World,
    brings: Callable[[World], None],
    worker: dict[str, Any] | None,
    says: str,
) -> None:
    brings(world)
    world.given.accepted("behind")
    world.passes(30)
    if worker is not None:
        world.beats("host:2", **worker)

    for turn in ("t1", "behind"):
        why = world.why(turn)
        assert why.stuck
        assert why.sentence.endswith(f"{says}.")


def test_stuck_where_no_worker_has_ever_been(world: World) -> None:
    world.ledger.forget("host:1")
    _queued(world)

    assert world.why("t1").sentence == (
        "Queued, and nobody will start it: no worker has ever been alive, so start one."
    )


def test_stuck_though_it_only_has_to_be_ended(world: World) -> None:
    world.given.accepted("t1", deadline=world.now + SECOND)
    world.given.accepted("t2", session="s2", runner="engine")
    world.given.admitted("t3", session="s3")
    world.ledger.request_cancel(id_of("t3"), Owner())
    world.passes(90)

    for turn in ("t1", "t2", "t3"):
        assert world.why(turn).stuck
        assert world.why(turn).sentence.endswith("(90 s ago), so start one.")


# -- all of them


def test_each_is_one_sentence_that_quotes_nobody(world: World) -> None:
    """[DESIGN 1.6] Neither input nor state, history, data, nor the message of an error."""
    secret = "hunter2"
    said = {
        "input": {"say": secret},
        "state": {"name": secret},
        "history": [{"role": "user", "content": secret}],
    }
    failed = Outcome(
        status=TurnStatus.FAILED, error={"code": "SUPERVISOR_FAILED", "message": secret}
    )
    answered = Outcome(status=TurnStatus.AWAITING_INPUT, data=secret, state={"name": secret})
    world.given.settled("t1", session="s1", outcome=failed, **said)
    world.given.settled("t2", session="s2", outcome=answered, **said)
    world.given.claimed("t3", session="s3", stage=Stage.DISPATCH, lease=LEASE, **said)
    world.given.accepted("t4", session="s3", **said)
    world.given.admitted("t5", session="s5", **said)
    world.given.accepted("t6", session="s6", **said)

    for _ in range(3):
        for n in range(1, 7):
            sentence = world.why(f"t{n}").sentence
            assert secret not in sentence
            assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", sentence)
            assert ". " not in sentence
        world.passes(15)
