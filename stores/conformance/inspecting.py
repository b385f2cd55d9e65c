"""What operators read of a turn: why it does not move, and which turns nobody moves. [DESIGN 1.7]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from turnchain.orchestrator_core.contracts import (
    STAGES,
    NewEvent,
    Owner,
    ProcessRecord,
    SessionKey,
    Stage,
    TurnFacts,
    TurnFilter,
    TurnId,
    TurnStatus,
)
from turnchain.orchestrator_core.errors import TurnDeadError
from turnchain.orchestrator_core.ports import Inspection, Ledger
from turnchain.orchestrator_core.standing import is_stuck
from turnchain.stores.conformance.exam import (
    ANSWERED,
    BOT,
    EXPIRED,
    FAILED,
    LEASE,
    NOW,
    TENANT_A,
    Exam,
    Given,
    Stores,
    id_of,
)
from turnchain.stores.conformance.snapshots import iteration_of, run_of

QUEUES: Final = {stage: "models" if stage is Stage.DISPATCH else "turns" for stage in STAGES}
EVERYTHING: Final = TurnFilter()
STUCK: Final = TurnFilter(stuck_on=QUEUES)
LEFT: Final = ("queued", "ready", "expired", "behind", "parked")
"""Whom only a process that can run them helps."""
PAST: Final = datetime(2001, 1, 1, tzinfo=UTC)
OTHER: Final = SessionKey(orchestrator_name="other", session_id="s")


def process_of(name: str = "host:2", **fields: Any) -> ProcessRecord:
    """A live process that serves everything but what `fields` say."""
    given: dict[str, Any] = {
        "slots": 2,
        "queues": ("turns", "models"),
        "signatures": {BOT: "sig"},
        **fields,
    }
    return ProcessRecord(process_id=name, **given)


class InspectingSuite(Exam):
    """`Inspection.facts`, and `turns` where they are stuck."""

    @pytest.fixture
    def inspection(self, stores: Stores) -> Inspection:
        """The read side under examination."""
        return stores.inspection

    # -- stuck turns

    @pytest.mark.parametrize(
        ("processes", "stuck"),
        [
            ([], {*LEFT, "held", "cancelled", "late"}),
            ([process_of(draining=True)], {*LEFT, "held", "cancelled", "late"}),
            ([process_of(slots=0, queues=("control",))], {*LEFT, "held", "cancelled"}),
            ([process_of(signatures={"other": "sig"})], {*LEFT, "held"}),
            (
                [process_of(queues=("models",))],
                {"queued", "ready", "parked", "behind", "cancelled"},
            ),
            ([process_of(queues=("turns",))], {"expired", "behind", "held"}),
            (
                [
                    process_of(queues=("turns",)),
                    process_of("host:3", queues=("models",), signatures={}),
                ],
                {"expired", "behind", "held"},
            ),
            ([process_of("host:1", queues=("turns",))], {"expired", "behind"}),
            ([process_of(signatures={}), process_of("host:3")], set[str]()),
        ],
        ids=[
            "no worker",
            "one that goes away",
            "one without slots",
            "one that serves others",
            "one that reads another queue",
            "one that reads half the queues",
            "two that can do half of it each",
            "the owner of one turn",
            "one that can",
        ],
    )
    def test_stuck_turns_are_those_that_nobody_will_go_on_with(
        self,
        given: Given,
        ledger: Ledger,
        inspection: Inspection,
        processes: Iterable[ProcessRecord],
        stuck: set[str],
    ) -> None:
        """[DESIGN 1.7] The list says the same as the question about each single turn."""
        _one_of_each(given, ledger)
        for process in processes:
            ledger.beat(process)

        listed = [turn.turn_id for turn in inspection.turns(STUCK, 99).turns]
        every = [turn.turn_id for turn in inspection.turns(EVERYTHING, 99).turns]

        one_by_one = [turn_id for turn_id in every if _is_stuck(inspection.facts(turn_id))]
        assert listed == one_by_one
        assert set(listed) == {id_of(name) for name in stuck}

    def test_stuck_turns_are_listed_in_pages_and_found_like_others(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 1.7]."""
        _one_of_each(given, ledger)
        every = inspection.turns(STUCK, 99).turns

        first = inspection.turns(STUCK, 3).turns
        rest = inspection.turns(replace(STUCK, before=first[-1].seq), 99).turns
        queued = inspection.turns(replace(STUCK, status=TurnStatus.QUEUED), 99).turns
        expired = inspection.turns(replace(STUCK, session_id="expired"), 99).turns
        others = inspection.turns(replace(STUCK, orchestrator_name="other"), 99).turns

        assert first + rest == every
        assert {turn.turn_id for turn in queued} == {id_of(n) for n in ("queued", "behind", "late")}
        assert {turn.turn_id for turn in expired} == {id_of(n) for n in ("expired", "behind")}
        assert others == ()

    # -- facts

    def test_nobody_knows_anything_of_a_turn_that_is_not_there(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 1.7]."""
        given.accepted("t1")

        assert inspection.facts(id_of("nobody")) is None
        assert inspection.facts(TurnId("no id at all")) is None

    def test_a_queued_turn_waits_for_the_one_of_its_session_that_runs(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 1.4]."""
        given.accepted("t0")
        running = given.claimed("t1", session="s2")
        for n in (2, 3):
            given.accepted(f"t{n}", session="s2")

        facts = _facts(inspection, "t3")

        assert facts.position.turn == given.turn("t3")
        assert facts.before is not None
        assert facts.before.turn == given.turn("t1")
        assert facts.before.turn.lease_owner == running.lease_owner
        assert facts.queued_before == 1

    def test_a_queued_turn_waits_for_the_first_queued_one_where_none_runs(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 1.4] Also behind one that has its answer, and is being compacted."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        for n in (2, 3, 4):
            given.accepted(f"t{n}")
        given.persisted(claim)

        assert _facts(inspection, "t2").before is None
        facts = _facts(inspection, "t4")
        assert facts.before is not None
        assert facts.before.turn == given.turn("t2")
        assert facts.queued_before == 2

    def test_turns_that_go_first_are_those_that_admit_would_take_first(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 5, Admit] One a session, of the same tenant, by priority and then in order."""
        given.claimed("runs", session="busy")
        given.accepted("waits", session="busy", priority=-1)
        given.accepted("earlier", session="s1", priority=1)
        given.accepted("earlier-next", session="s1")
        given.accepted("theirs", session="s2", owner=TENANT_A)
        given.accepted("asked", session="s3", priority=1)
        given.accepted("urgent", session="s4")
        given.accepted("later", session="s5", priority=1)
        ledger.admit(1)

        assert _facts(inspection, "asked").preferred == 2
        assert _facts(inspection, "urgent").preferred == 0
        assert _facts(inspection, "waits").preferred == 0

    def test_what_was_saved_of_a_turn_is_counted(
        self, given: Given, ledger: Ledger, stores: Stores, inspection: Inspection
    ) -> None:
        """[DESIGN 1.6] Counted, and never shown."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)
        run = run_of(claim.turn.run_id)
        with ledger.unit(claim, durable=True) as unit:
            stores.snapshots.save(run, None, unit)
            unit.add_events([NewEvent(type="first"), NewEvent(type="last")])
        for index in (0, 1):
            with ledger.unit(claim, durable=True) as unit:
                stores.snapshots.save(run, iteration_of(index), unit)
        ledger.begin_step(claim, claim.turn.run_id, "a", "pay")
        ledger.begin_step(claim, claim.turn.run_id, "b", "mail")
        ledger.finish_step(claim, claim.turn.run_id, "a", {"paid": True})

        position = _facts(inspection, "t1").position

        assert (position.iterations, position.open_steps) == (2, 1)
        assert position.last_event == "last"
        (_, last) = ledger.events(id_of("t1"))
        assert position.last_event_at == last.at
        assert position.error_code is None

    def test_a_turn_without_anything_saved_has_none(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 1.7]."""
        given.accepted("t1")

        position = _facts(inspection, "t1").position

        assert (position.iterations, position.open_steps, position.wakes) == (0, 0, 0)
        assert (position.last_event, position.last_event_at, position.woken_at) == (None,) * 3

    def test_a_failed_turn_says_the_code_of_its_error(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 11] The code is the contract; the message may hold anything."""
        given.settled("failed", session="s1", outcome=FAILED)
        given.settled("answered", session="s2", outcome=ANSWERED)
        given.claimed("dead", session="s3", lease=EXPIRED)
        ledger.take_over_expired(1)

        assert _facts(inspection, "failed").position.error_code == "SUPERVISOR_FAILED"
        assert _facts(inspection, "answered").position.error_code is None
        dead = _facts(inspection, "dead").position
        assert (dead.error_code, dead.turn.attempts) == (TurnDeadError.code, 1)

    def test_publications_are_counted(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 6, Sweep]."""
        given.admitted("t1")
        before = _facts(inspection, "t1").position
        ledger.rewake(NOW, NOW)
        ledger.rewake(NOW, NOW)

        position = _facts(inspection, "t1").position

        assert (before.wakes, position.wakes) == (0, 2)
        assert before.woken_at is not None
        assert position.woken_at is not None
        assert before.woken_at < position.woken_at

    def test_processes_count_while_their_heartbeat_is_fresh(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 5, Admit] Also those that are going away: they still finish what they have."""
        given.accepted("t1")
        assert _facts(inspection, "t1").around.last_heartbeat_at is None
        for process in (process_of("b"), process_of("a", draining=True), process_of("gone")):
            ledger.beat(process)
        ledger.forget("gone")

        around = _facts(inspection, "t1").around

        assert [each.process_id for each in around.processes] == ["a", "b"]
        first, second = around.processes
        assert (first.draining, second.draining) == (True, False)
        assert (second.slots, second.queues) == (2, ("turns", "models"))
        assert second.signatures == {BOT: "sig"}
        assert around.last_heartbeat_at == max(
            each.heartbeat_at for each in around.processes if each.heartbeat_at
        )

    def test_turns_that_take_a_slot_are_in_flight(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 5, Admit] Neither queued nor parked ones, nor those of an engine."""
        given.admitted("ready", session="s1")
        given.claimed("owned", session="s2")
        parked = given.claimed("parked", session="s3")
        ledger.park(parked, reason="x", wait=LEASE, stage=Stage.LOAD, work=parked.work)
        given.claimed("engine", session="s4", runner="engine")
        given.accepted("queued", session="s5")
        given.settled("done", session="s6")

        assert _facts(inspection, "ready").around.in_flight == 2

    def test_the_last_sweep_is_told(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 6, Sweep] Who takes over, and when, depends on it."""
        given.accepted("t1")
        assert _facts(inspection, "t1").around.swept_at is None

        ledger.begin_sweep(LEASE, LEASE)

        around = _facts(inspection, "t1").around
        assert around.swept_at is not None
        assert around.swept_at <= around.now


def _one_of_each(given: Given, ledger: Ledger) -> None:
    """Turns in every standing, named by it, of which some run in `models` and the others in `turns`."""
    given.settled("settled", session="settled")
    given.accepted("queued", session="queued")
    given.admitted("ready", session="ready")
    given.claimed("held", session="held", stage=Stage.DISPATCH)
    given.claimed("expired", session="expired", stage=Stage.DISPATCH, lease=EXPIRED)
    given.accepted("behind", session="expired")
    parked = given.claimed("parked", session="parked")
    ledger.park(parked, reason="no-worker", wait=LEASE, stage=Stage.LOAD, work=parked.work)
    given.admitted("cancelled", session="cancelled")
    ledger.request_cancel(id_of("cancelled"), Owner())
    given.accepted("late", session="late", deadline=PAST)
    given.accepted("engine", session="engine", runner="engine")


def _facts(inspection: Inspection, turn: str) -> TurnFacts:
    facts = inspection.facts(id_of(turn))
    assert facts is not None
    return facts


def _is_stuck(facts: TurnFacts | None) -> bool:
    assert facts is not None
    positions = [facts.position, *([facts.before] if facts.before else [])]
    return any(is_stuck(each.turn, each.woken_at, facts.around, QUEUES) for each in positions)
