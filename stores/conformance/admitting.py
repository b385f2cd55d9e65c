"""Which queued turns may run. [DESIGN 5, Admit]."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from turnchain.orchestrator_core.contracts import Owner, ProcessRecord, Stage, TurnStatus, Wake
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import ANSWERED, FAILED, NOW, Exam, Given, id_of


class AdmittingSuite(Exam):
    """`Ledger.admit` and `admit_turn`."""

    def test_an_admitted_turn_runs_and_is_ready_at_load(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit]."""
        given.accepted("t1")

        wakes = ledger.admit()

        turn = given.turn("t1")
        assert wakes == [Wake(turn_id=id_of("t1"), stage=Stage.LOAD, fence=turn.fence)]
        assert (turn.status, turn.stage) == (TurnStatus.RUNNING, Stage.LOAD)
        assert turn.lease_owner is None
        assert turn.ready_at is not None
        assert turn.admitted_at is not None

    def test_admitting_again_admits_nothing(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1] Every verb is safe to repeat."""
        given.accepted("t1")
        ledger.admit(9)

        assert ledger.admit(9) == []

    # -- capacity

    def test_without_any_process_one_turn_runs(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit] At least 1, so that the first worker finds a message."""
        for n in range(3):
            given.accepted(f"t{n}", session=f"s{n}")

        assert len(ledger.admit()) == 1
        assert ledger.admit() == []

    def test_the_slots_of_live_processes_are_the_capacity(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5, Admit] Neither those that drain nor those that are gone count."""
        ledger.beat(ProcessRecord(process_id="host:1", slots=2, signatures={"bot": "sig"}))
        ledger.beat(ProcessRecord(process_id="host:2", slots=1))
        ledger.beat(ProcessRecord(process_id="host:3", slots=4, draining=True))
        ledger.beat(ProcessRecord(process_id="host:4", slots=4))
        ledger.forget("host:4")
        for n in range(9):
            given.accepted(f"t{n}", session=f"s{n}")

        assert len(ledger.admit()) == 3

    def test_a_process_that_beats_again_counts_once(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Housekeeping]."""
        for slots in (4, 2):
            ledger.beat(ProcessRecord(process_id="host:1", slots=slots, signatures={"bot": "sig"}))
        for n in range(5):
            given.accepted(f"t{n}", session=f"s{n}")

        assert len(ledger.admit()) == 2

    def test_owned_and_ready_turns_take_the_capacity(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit]."""
        given.claimed("owned", session="s1")
        given.admitted("ready", session="s2")
        given.accepted("queued", session="s3")

        assert ledger.admit(2) == []
        assert [wake.turn_id for wake in ledger.admit(3)] == [id_of("queued")]

    def test_a_parked_turn_takes_none(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Where a turn stands] Waiting holds no worker."""
        claim = given.claimed("parked", session="s1")
        ledger.park(claim, reason="no-worker", wait=None, stage=Stage.LOAD, work=claim.work)
        given.accepted("queued", session="s2")

        assert [wake.turn_id for wake in ledger.admit(1)] == [id_of("queued")]

    def test_capacity_zero_admits_nothing(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit] An operator who stops the intake."""
        given.accepted("t1")

        assert ledger.admit(0) == []

    # -- order

    def test_lower_priority_numbers_run_first(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit]."""
        given.accepted("late", session="s1", priority=5)
        given.accepted("soon", session="s2", priority=-5)
        given.accepted("usual", session="s3")

        assert _ids(ledger.admit(2)) == [id_of("soon"), id_of("usual")]

    def test_the_tenant_with_fewest_in_flight_comes_first(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5, Admit] One tenant's thousand turns do not make another's one wait."""
        for n in range(4):
            given.accepted(f"big{n}", session=f"b{n}", owner=Owner(tenant="big"))
        given.accepted("small0", session="s0", owner=Owner(tenant="small"))
        given.accepted("small1", session="s1", owner=Owner(tenant="small"))

        admitted = [_ids(ledger.admit(n)) for n in range(1, 5)]

        assert admitted == [[id_of(name)] for name in ("big0", "small0", "big1", "small1")]

    def test_fairness_holds_within_one_admit(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit] What one statement admits counts for the rest of it."""
        for n in range(3):
            given.accepted(f"big{n}", session=f"b{n}", owner=Owner(tenant="big"))
        given.accepted("small0", session="s0", owner=Owner(tenant="small"))

        assert set(_ids(ledger.admit(2))) == {id_of("big0"), id_of("small0")}

    def test_among_equals_the_order_of_acceptance_holds(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Admit]."""
        for name in ("z", "a", "m"):
            given.accepted(name, session=f"s-{name}")

        assert _ids(ledger.admit(2)) == [id_of("z"), id_of("a")]

    # -- one turn at a time per session

    def test_a_session_has_one_running_turn(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.4]."""
        given.accepted("t1")
        given.accepted("t2")

        assert _ids(ledger.admit(9)) == [id_of("t1")]
        assert ledger.admit(9) == []

    def test_a_parked_turn_still_holds_its_session(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.4]."""
        claim = given.claimed("t1")
        ledger.park(claim, reason="compaction", wait=None, stage=Stage.LOAD, work=claim.work)
        given.accepted("t2")

        assert ledger.admit(9) == []

    def test_priority_does_not_change_the_order_within_a_session(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 1.4] In the order accepted."""
        given.accepted("first", priority=9)
        given.accepted("second", priority=-9)

        assert _ids(ledger.admit(9)) == [id_of("first")]

    def test_the_next_turn_runs_once_the_outcome_is_out(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5] It does not wait for compact."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        given.accepted("t2")

        given.persisted(claim, ANSWERED)

        assert _ids(ledger.admit(9)) == [id_of("t2")]

    def test_the_next_turn_runs_after_a_failure_too(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5]."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        given.accepted("t2")

        given.persisted(claim, FAILED)

        assert _ids(ledger.admit(9)) == [id_of("t2")]

    def test_admits_at_once_respect_sessions_and_capacity(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5, Admit] A wrong admit is impossible, whoever races."""
        for n in range(8):
            given.accepted(f"t{n}", session=f"s{n % 4}")

        with ThreadPoolExecutor(4) as pool:
            wakes = [wake for wakes in pool.map(ledger.admit, [9] * 8) for wake in wakes]

        assert sorted(_ids(wakes)) == sorted(id_of(f"t{n}") for n in range(4))

    # -- the engine's turns

    def test_an_engines_turn_is_admitted_by_its_engine_only(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 3]."""
        given.accepted("t1", runner="engine")

        assert ledger.admit(9) == []
        wake = ledger.admit_turn(id_of("t1"))
        assert wake == Wake(turn_id=id_of("t1"), stage=Stage.LOAD, fence=given.turn("t1").fence)
        assert given.turn("t1").status is TurnStatus.RUNNING

    def test_an_engines_turn_waits_for_its_place_in_the_session(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 1.4]."""
        given.accepted("t1")
        given.accepted("t2", runner="engine")

        assert ledger.admit_turn(id_of("t2")) is None
        ledger.admit(9)
        assert ledger.admit_turn(id_of("t2")) is None
        assert given.turn("t2").status is TurnStatus.QUEUED

    def test_a_turn_is_admitted_once(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1] A wake that was lost is the sweep's to repeat."""
        given.admitted("t1")

        assert ledger.admit_turn(id_of("t1")) is None
        assert ledger.admit_turn(id_of("nobody")) is None
        assert ledger.rewake(NOW, NOW) != []


def _ids(wakes: list[Wake]) -> list[str]:
    return [wake.turn_id for wake in wakes]
