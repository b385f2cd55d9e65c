"""What puts turns back on their way, and what it must leave alone. [DESIGN 6]."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import Stage, TurnStatus
from turnchain.orchestrator_core.contracts.events import TURN_FAILED
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import (
    ANSWERED,
    EXPIRED,
    FAILED,
    LEASE,
    LONG,
    NOW,
    Exam,
    Given,
    id_of,
    session_of,
)


class SweepingSuite(Exam):
    """`Ledger.begin_sweep`, `take_over_expired` and `rewake`."""

    def test_one_caller_sweeps_per_interval(self, ledger: Ledger) -> None:
        """[DESIGN 6, Sweep] No leader, no lock: ten beats change nothing."""
        assert [ledger.begin_sweep(LONG, LEASE) for _ in range(3)] == [True, False, False]
        assert ledger.begin_sweep(NOW, LEASE)

    # -- takeover

    def test_an_expired_turn_is_ready_under_the_next_fence(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6, Sweep] At the stage where it was cut."""
        claim = given.claimed("t1", stage=Stage.DISPATCH, lease=EXPIRED)

        wakes = ledger.take_over_expired(3)

        turn = given.turn("t1")
        assert wakes == [claim.wake.model_copy(update={"fence": claim.turn.fence + 1})]
        assert (turn.stage, turn.fence) == (Stage.DISPATCH, claim.turn.fence + 1)
        assert (turn.lease_owner, turn.lease_expires_at) == (None, None)
        assert (turn.attempts, turn.takeovers, turn.status) == (1, 1, TurnStatus.RUNNING)
        given.granted(wakes[0])

    def test_a_live_lease_is_left_alone(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G2] A live run is never stolen."""
        given.claimed("t1")
        before = given.turn("t1")

        assert ledger.take_over_expired(3) == []
        assert given.turn("t1") == before

    def test_waiting_is_never_death(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Where a turn stands] Only an owned turn can expire."""
        given.accepted("queued", session="s1")
        given.admitted("admitted", session="s2")
        given.passed(given.claimed("handed-over", session="s3", lease=EXPIRED))
        given.persisted(given.claimed("settled", session="s4", stage=Stage.PERSIST, lease=EXPIRED))
        for name, wait in (("later", LONG), ("told", None), ("over", NOW)):
            claim = given.claimed(name, session=name, lease=EXPIRED)
            ledger.park(claim, reason="no-worker", wait=wait, stage=Stage.LOAD, work=claim.work)
        ledger.hand_back(given.claimed("handed-back", session="s5", lease=EXPIRED))
        given.settled("done", session="s6")

        assert ledger.take_over_expired(1) == []

    def test_a_takeover_happens_once(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G2] However many sweep."""
        given.claimed("t1", lease=EXPIRED)
        ledger.take_over_expired(3)

        assert ledger.take_over_expired(3) == []
        assert given.turn("t1").attempts == 1

    def test_a_sweep_takes_at_most_its_limit(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G2] Small batches."""
        for n in range(3):
            given.claimed(f"t{n}", session=f"s{n}", lease=EXPIRED)

        assert [len(ledger.take_over_expired(3, limit=2)) for _ in range(3)] == [2, 1, 0]

    # -- attempts

    def test_a_turn_that_always_kills_its_worker_runs_as_often_as_attempts_allow(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6, Attempts; O 15.4 G48] Then it is dead, and its session goes on."""
        wakes, runs = [given.admitted("t1")], 0
        given.accepted("t2")

        while wakes:
            given.granted(wakes[0], lease=EXPIRED)
            runs += 1
            wakes = ledger.take_over_expired(3)

        turn = given.turn("t1")
        assert runs == 3
        assert (turn.status, turn.stage) == (TurnStatus.DEAD, Stage.DONE)
        assert (given.outcome("t1").error or {})["code"] == "TURN_DEAD"
        assert given.events("t1") == [TURN_FAILED]
        assert [wake.turn_id for wake in ledger.admit()] == [id_of("t2")]

    def test_progress_in_between_starts_the_count_again(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Attempts] Killed once in each of many iterations is not death."""
        wake = given.ready("t1", Stage.DISPATCH)

        for _ in range(5):
            with ledger.unit(given.granted(wake, lease=EXPIRED), durable=True) as unit:
                unit.mark_progress()
            (wake,) = ledger.take_over_expired(2)

        assert (given.turn("t1").attempts, given.turn("t1").takeovers) == (1, 5)

    def test_hand_back_parking_and_rewake_are_no_attempts(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6, Attempts] Nor do they forget the ones that count."""
        claim = given.claimed("t1", lease=EXPIRED)
        (wake,) = ledger.take_over_expired(3)

        back = ledger.hand_back(given.granted(wake))
        assert back is not None
        claim = given.granted(back)
        ledger.park(claim, reason="x", wait=NOW, stage=Stage.LOAD, work=claim.work)
        ledger.rewake(NOW, NOW)
        ledger.rewake(NOW, NOW)

        assert given.turn("t1").attempts == 1

    def test_compaction_is_given_up_and_the_answer_stands(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6] Cut inside compact: after the attempts, done."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        wakes = [given.persisted(claim, ANSWERED)]
        runs = 0

        while wakes:
            given.granted(wakes[0], lease=EXPIRED)
            runs += 1
            wakes = ledger.take_over_expired(3)

        turn = given.turn("t1")
        assert runs == 3
        assert (turn.status, turn.stage) == (TurnStatus.AWAITING_INPUT, Stage.DONE)
        assert given.outcome("t1").data == ANSWERED.data
        assert given.events("t1")[-1] == "orchestrator.compaction.failed"
        assert ledger.rewake(NOW, NOW) == []

    # -- engines

    def test_a_dead_engines_turn_fails_as_interrupted(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 3] At its first expiry: no other process runs it."""
        given.claimed("t1", runner="engine", lease=EXPIRED)
        given.accepted("t2")

        assert ledger.take_over_expired(3) == []

        assert (given.turn("t1").status, given.turn("t1").stage) == (TurnStatus.FAILED, Stage.DONE)
        assert (given.outcome("t1").error or {})["code"] == "TURN_INTERRUPTED"
        assert given.events("t1") == [TURN_FAILED]
        assert [wake.turn_id for wake in ledger.admit()] == [id_of("t2")]

    def test_a_turn_whose_engine_went_silent_frees_its_session(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 3] Queued or between two stages, it has no lease that could expire."""
        given.accepted("queued", session="s1", runner="engine")
        given.accepted("ready", session="s2", runner="engine")
        ledger.admit_turn(id_of("ready"))
        given.accepted("theirs", session="s1")
        given.persisted(given.claimed("upkeep", session="s3", stage=Stage.PERSIST, runner="engine"))

        ledger.take_over_expired(3, silence=LONG)
        assert given.turn("queued").status is TurnStatus.QUEUED
        assert ledger.rewake(NOW, NOW) == []
        assert ledger.take_over_expired(3, silence=NOW) == []

        assert (given.turn("upkeep").status, given.turn("upkeep").stage) == (
            TurnStatus.AWAITING_INPUT,
            Stage.DONE,
        )
        for name in ("queued", "ready"):
            assert (given.outcome(name).error or {})["code"] == "TURN_INTERRUPTED"
            assert given.events(name) == [TURN_FAILED]
        assert [wake.turn_id for wake in ledger.admit()] == [id_of("theirs")]

    def test_an_interrupted_turn_can_be_asked_again(self, given: Given, ledger: Ledger) -> None:
        """[O 4.2] With all it was given, to go on with its run."""
        context = {"locale": "de"}
        asked = given.claimed(
            "t1", stage=Stage.DISPATCH, runner="engine", lease=EXPIRED, context=context
        ).request
        ledger.take_over_expired(3)

        again = ledger.interrupted(session_of("s"))

        assert again == asked.model_copy(update={"run_id": id_of("t1")})

    def test_only_the_last_settled_turn_is_asked_again(self, given: Given, ledger: Ledger) -> None:
        """[O 4.2]."""
        assert ledger.interrupted(session_of("s")) is None
        given.claimed("t1", runner="engine", lease=EXPIRED)
        ledger.take_over_expired(3)
        given.settled("t2")
        given.settled("t3", session="s3", outcome=FAILED, runner="engine")

        assert ledger.interrupted(session_of("s")) is None
        assert ledger.interrupted(session_of("s3")) is None

    # -- rewake

    def test_what_is_ready_and_unclaimed_is_published_again(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6, Sweep] A lost message, at any hop: same fence, no attempt."""
        admitted = given.admitted("t1", session="s1")
        handed_over = given.passed(given.claimed("t2", session="s2"))
        compact = given.persisted(given.claimed("t3", session="s3", stage=Stage.PERSIST))

        assert ledger.rewake(NOW, NOW) == [admitted, handed_over, compact]
        assert given.turn("t1").attempts == 0
        given.granted(admitted)

    def test_only_ready_turns_are_published_again(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Where a turn stands]."""
        given.accepted("queued", session="s1")
        given.claimed("owned", session="s2")
        for name, wait in (("later", LONG), ("told", None)):
            claim = given.claimed(name, session=name)
            ledger.park(claim, reason="x", wait=wait, stage=Stage.LOAD, work=claim.work)
        given.settled("done", session="s6")

        assert ledger.rewake(NOW, NOW) == []

    def test_a_message_has_its_time_to_arrive(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Sweep]."""
        given.admitted("t1")

        assert ledger.rewake(LONG, LONG) == []

    def test_a_message_sent_again_has_its_time_again(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Sweep] Or a stopped broker would be filled by every sweep."""
        given.admitted("t1")
        ledger.rewake(NOW, NOW)

        assert ledger.rewake(LONG, LONG) == []

    def test_a_rewake_publishes_at_most_its_limit(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Sweep]."""
        for n in range(3):
            given.admitted(f"t{n}", session=f"s{n}")

        assert len(ledger.rewake(NOW, NOW, limit=2)) == 2
