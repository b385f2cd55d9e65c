"""How turns get in: once, whole, and only their owner's. [DESIGN 5, Accept]."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from turnchain.orchestrator_core.contracts import (
    Message,
    Owner,
    ProcessRecord,
    Provider,
    SessionKey,
    Stage,
    TurnRequest,
    TurnStatus,
)
from turnchain.orchestrator_core.errors import (
    SessionOwnerError,
    TurnConflictError,
    UnknownOrchestratorError,
)
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import (
    FAILED,
    TENANT_A,
    TENANT_B,
    Exam,
    Given,
    id_of,
    request_of,
)


class AcceptingSuite(Exam):
    """`Ledger.accept`."""

    def test_an_accepted_turn_is_queued_at_load(self, given: Given) -> None:
        """[DESIGN 5, Accept] It has no owner, and nobody has been told yet."""
        acceptance = given.accepted("t1", priority=3)

        assert acceptance.created
        turn = acceptance.turn
        assert turn == given.turn("t1")
        assert (turn.status, turn.stage) == (TurnStatus.QUEUED, Stage.LOAD)
        assert (turn.attempts, turn.takeovers, turn.priority) == (0, 0, 3)
        assert (turn.lease_owner, turn.lease_expires_at, turn.ready_at) == (None, None, None)
        assert turn.turn_index is None
        assert turn.accepted_at.tzinfo is not None
        assert given.ledger.settled([id_of("t1")]) == []

    def test_seq_is_the_order_of_acceptance_over_all_sessions(self, given: Given) -> None:
        """[DESIGN 5, Accept]."""
        turns = [given.accepted(f"t{n}", session=f"s{n % 2}").turn for n in range(4)]

        assert [turn.seq for turn in turns] == sorted({turn.seq for turn in turns})

    def test_a_run_is_named_like_its_turn_unless_it_goes_on_with_another(
        self, given: Given
    ) -> None:
        """[O 4.1]."""
        fresh = given.accepted("t1").turn
        resumed = given.accepted("t2", run_id="run-1").turn

        assert (fresh.run_id, resumed.run_id) == (id_of("t1"), "run-1")

    def test_what_was_asked_comes_back_whole(self, given: Given) -> None:
        """[O 15.2 G24] Further keys of messages, nested JSON, and instants included."""
        asked = request_of(
            "t1",
            owner=TENANT_A,
            input={"text": "grüß dich", "parts": [1, 2.5, None, True, {"a": []}]},
            state={"slots": {"when": "today"}},
            history=(
                Message.model_validate({"role": "user", "content": "hi", "id": "m1"}),
                Message(role="assistant"),
            ),
            context={"locale": "de"},
            force=True,
            priority=-1,
            deadline=datetime(2099, 1, 1, tzinfo=UTC),
            idempotency_key="k",
        )

        given.ledger.accept(asked, request_hash="h")
        wake = given.ledger.admit_turn(asked.turn_id)

        assert wake is not None
        assert given.granted(wake).request == asked

    def test_providers_come_back_as_providers(self, given: Given) -> None:
        """[DESIGN 8]."""
        provider = Provider(name="crm", arguments={"id": 7})

        claim = given.claimed("t1", history=provider, context=provider)

        assert (claim.request.history, claim.request.context) == (provider, provider)

    def test_a_literal_context_that_looks_like_a_provider_stays_literal(self, given: Given) -> None:
        """[DESIGN 8] A caller's keys are the caller's."""
        context = {"name": "crm", "arguments": {"id": 7}}

        assert given.claimed("t1", context=context).request.context == context

    def test_a_changed_request_changes_nothing_stored(self, given: Given) -> None:
        """[O 15.2 G24]."""
        state = {"slots": ["a"]}
        asked = request_of("t1", state=state)
        given.ledger.accept(asked, request_hash="h")

        asked.state["slots"].append("b")
        wake = given.ledger.admit_turn(asked.turn_id)

        assert wake is not None
        assert given.granted(wake).request.state == {"slots": ["a"]}

    # -- twice

    def test_accepting_again_writes_nothing(self, given: Given) -> None:
        """[DESIGN 6] The caller repeats what it got no answer for."""
        first = given.accepted("t1")

        again = given.accepted("t1")

        assert (again.created, again.turn) == (False, first.turn)

    def test_accepting_again_after_the_turn_is_done_finds_it(self, given: Given) -> None:
        """[DESIGN 6]."""
        given.settled("t1")

        again = given.accepted("t1")

        assert (again.created, again.turn.status) == (False, TurnStatus.AWAITING_INPUT)

    def test_a_turn_id_is_not_used_for_two_requests(self, given: Given) -> None:
        """[DESIGN 5, Accept]."""
        given.accepted("t1")

        with pytest.raises(TurnConflictError):
            given.ledger.accept(request_of("t1"), request_hash="another")

    def test_the_same_key_and_request_is_the_same_turn(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Accept] A caller that restarted mints another turn id."""
        first = ledger.accept(request_of("t1", idempotency_key="k"), request_hash="h")

        again = ledger.accept(request_of("t2", idempotency_key="k"), request_hash="h")

        assert (again.created, again.turn.turn_id) == (False, first.turn.turn_id)
        assert ledger.get(id_of("t2")) is None

    def test_a_key_is_not_used_for_two_requests(self, ledger: Ledger) -> None:
        """[DESIGN 5, Accept]."""
        ledger.accept(request_of("t1", idempotency_key="k"), request_hash="h")

        with pytest.raises(TurnConflictError):
            ledger.accept(request_of("t2", idempotency_key="k"), request_hash="another")
        assert ledger.get(id_of("t2")) is None

    def test_a_key_belongs_to_its_session(self, given: Given) -> None:
        """[DESIGN 5, Accept]."""
        given.accepted("t1", session="s1", idempotency_key="k")

        other = given.accepted("t2", session="s2", idempotency_key="k")

        assert other.created

    def test_of_many_accepts_at_once_one_creates_the_turn(self, ledger: Ledger) -> None:
        """[DESIGN 1.2]."""
        with ThreadPoolExecutor(4) as pool:
            accepts = [
                pool.submit(ledger.accept, request_of("t1"), request_hash="h") for _ in range(8)
            ]

        assert sum(accept.result().created for accept in accepts) == 1

    # -- refused, and nothing written

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (TENANT_A, TENANT_B),
            (TENANT_A, Owner()),
            (Owner(), TENANT_A),
            (TENANT_A, Owner(tenant="a")),
        ],
    )
    def test_a_foreign_session_is_refused(self, given: Given, first: Owner, second: Owner) -> None:
        """[DESIGN 2] A set owner stands in every predicate, and absence matches only absence."""
        given.accepted("t1", owner=first)

        with pytest.raises(SessionOwnerError):
            given.accepted("t2", owner=second)
        assert given.ledger.get(id_of("t2")) is None

    def test_a_foreign_session_is_refused_after_its_turns_are_done(self, given: Given) -> None:
        """[DESIGN 2]."""
        given.settled("t1", owner=TENANT_A)

        with pytest.raises(SessionOwnerError):
            given.accepted("t2", owner=TENANT_B)

    def test_a_foreign_turn_is_not_found_by_its_key(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 2] Neither the turn nor its existence is told."""
        asked = request_of("t1", owner=TENANT_A, idempotency_key="k")
        ledger.accept(asked, request_hash="h")

        with pytest.raises(SessionOwnerError):
            ledger.accept(request_of("t2", owner=TENANT_B, idempotency_key="k"), request_hash="h")

    def test_an_unknown_orchestrator_is_refused_with_the_known_ones(self, ledger: Ledger) -> None:
        """[DESIGN 5, Accept]."""
        with pytest.raises(UnknownOrchestratorError, match="shop") as refused:
            ledger.accept(request_of("t1"), request_hash="h", known=["shop", "help"])

        assert "help" in str(refused.value)
        assert ledger.get(id_of("t1")) is None

    def test_everything_is_known_while_no_process_announced_anything(self, given: Given) -> None:
        """[DESIGN 5, Accept] A producer may start before the first worker."""
        assert given.accepted("t1").created

    def test_what_processes_announced_is_known_and_stays_known(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5, Accept] Turns wait for a worker that is being deployed."""
        ledger.beat(ProcessRecord(process_id="host:1", slots=1, signatures={"bot": "sig"}))
        ledger.forget("host:1")

        assert given.accepted("t1").created
        with pytest.raises(UnknownOrchestratorError, match="bot"):
            ledger.accept(_of_another_orchestrator("t2"), request_hash="h")

    # -- the index that the caller expects

    def test_the_expected_index_is_the_next_one(self, given: Given) -> None:
        """[O 15.4 G44]."""
        given.settled("t1", expected_turn_index=0)

        with pytest.raises(TurnConflictError):
            given.accepted("t2", expected_turn_index=0)
        with pytest.raises(TurnConflictError):
            given.accepted("t2", expected_turn_index=2)
        assert given.accepted("t2", expected_turn_index=1).created

    def test_a_turn_that_waits_ahead_takes_the_index(self, given: Given) -> None:
        """[O 15.4 G44] The caller did not see the answer that it will stand behind."""
        given.accepted("t1")

        with pytest.raises(TurnConflictError):
            given.accepted("t2", expected_turn_index=0)
        assert given.ledger.get(id_of("t2")) is None

    def test_a_failed_turn_leaves_its_index_free(self, given: Given) -> None:
        """[O 2.6.2]."""
        given.settled("t1", outcome=FAILED)

        assert given.accepted("t2", expected_turn_index=0).created


def _of_another_orchestrator(turn: str) -> TurnRequest:
    session = SessionKey(orchestrator_name="other", session_id="s2")
    return request_of(turn).model_copy(update={"session": session})
