"""What only a real transaction can get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from turnchain.orchestrator_core.contracts import (
    Claim,
    NewEvent,
    Refusal,
    Renewal,
    Stage,
    TurnId,
    Wake,
)
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    LeaseLost,
    StoreUnavailableError,
    TurnConflictError,
)
from turnchain.stores import memory
from turnchain.stores.conformance.exam import ANSWERED, LEASE, Given, checkpoint_of, id_of
from turnchain.stores.postgres import PostgresStores, PostgresUnit


def test_a_refused_commit_writes_nothing(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    claim = given.claimed("t1", stage=Stage.PERSIST)
    before = _everything(direct)
    _refuse_commits(direct)

    with pytest.raises(StoreUnavailableError, match="refused at commit"):
        given.persisted(claim)

    assert _everything(direct) == before
    direct.execute("DROP TRIGGER refuse ON turnchain_checkpoints")
    given.persisted(claim)
    assert given.outcome("t1").status == "awaiting-input"


def test_a_stale_unit_writes_nothing_and_leaves_the_connection_usable(
    stores: PostgresStores, given: Given, direct: psycopg.Connection, caplog: Any
) -> None:
    claim = given.claimed("t1", stage=Stage.PERSIST)
    stores.ledger.hand_back(claim)
    before = _everything(direct)

    for _ in range(10):
        with pytest.raises(LeaseLost):
            given.persisted(claim)

    assert _everything(direct) == before
    assert caplog.records == []
    assert given.accepted("t2").created


def test_a_taken_index_takes_the_whole_unit_back(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    given.settled("t1")
    claim = given.claimed("t2", stage=Stage.PERSIST)
    before = _everything(direct)

    refused = pytest.raises(TurnConflictError)
    with refused, stores.ledger.unit(claim, durable=True) as unit:
        unit.add_events([NewEvent(type="some.event")])
        stores.checkpoints.append(checkpoint_of(claim, 0), unit)
        unit.settle(ANSWERED)
        unit.hand_over(Stage.COMPACT)

    assert _everything(direct) == before


def test_a_turn_leaves_one_checkpoint(stores: PostgresStores, given: Given) -> None:
    """[DESIGN 1, One answer]: also under a second index."""
    claim = given.claimed("t1", stage=Stage.PERSIST)

    refused = pytest.raises(TurnConflictError)
    with refused, stores.ledger.unit(claim, durable=True) as unit:
        stores.checkpoints.append(checkpoint_of(claim, 0), unit)
        stores.checkpoints.append(checkpoint_of(claim, 1), unit)


def test_text_that_postgres_does_not_take_is_refused_without_being_quoted(
    stores: PostgresStores, given: Given
) -> None:
    claim = given.claimed("t1")

    with (
        pytest.raises(InvalidInputError) as caught,
        stores.ledger.unit(claim, durable=True) as unit,
    ):
        unit.add_events([NewEvent(type="e", payload={"said": "my secret \x00"})])

    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("text", ["\x00", "\ud800"])
def test_text_that_cannot_be_sent_is_refused(given: Given, text: str) -> None:
    with pytest.raises(InvalidInputError):
        given.accepted("t1", session=f"s{text}")


@pytest.mark.parametrize(
    "wake",
    [
        Wake(turn_id=TurnId("'; DROP TABLE turnchain_turns"), stage=Stage.LOAD, fence=0),
        Wake(turn_id=TurnId("\x00"), stage=Stage.LOAD, fence=0),
        Wake(turn_id=id_of("t1"), stage=Stage.LOAD, fence=2**80),
        Wake(turn_id=id_of("t1"), stage=Stage.LOAD, fence=-1),
    ],
)
def test_a_hostile_message_is_unknown(stores: PostgresStores, given: Given, wake: Wake) -> None:
    given.admitted("t1")

    assert given.refused(wake).reason == "unknown"
    assert stores.ledger.take_over(wake, process_id="host:1", max_attempts=3) is None


def test_a_message_for_a_done_turn_is_refused(given: Given) -> None:
    given.settled("t1")

    assert given.refused(Wake(turn_id=id_of("t1"), stage=Stage.DONE, fence=0)).reason == "done"


def test_a_checkpoint_cannot_join_another_stores_unit(stores: PostgresStores) -> None:
    other = memory.connect()
    claim = Given(other).claimed("t1")

    refused = pytest.raises(TypeError, match="unit of a Postgres ledger")
    with refused, other.ledger.unit(claim, durable=True) as unit:
        stores.checkpoints.append(checkpoint_of(claim, 0), unit)


def test_a_claim_whose_answer_was_lost_is_granted_again(
    stores: PostgresStores, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = given.admitted("t1")
    _lose_answers(stores, monkeypatch, "claim")

    claim = stores.ledger.claim(wake, "host:1/1", LEASE)

    assert isinstance(claim, Claim)
    given.passed(claim)


def test_the_same_owner_does_not_claim_twice_by_itself(
    stores: PostgresStores, given: Given
) -> None:
    wake = given.admitted("t1")
    stores.ledger.claim(wake, "host:1/1", LEASE)

    assert isinstance(stores.ledger.claim(wake, "host:1/1", LEASE), Refusal)


def test_an_accept_whose_answer_was_lost_is_found_again(
    stores: PostgresStores, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose_answers(stores, monkeypatch, "accept")

    assert given.accepted("t1").turn.turn_id == id_of("t1")


def test_a_unit_whose_answer_was_lost_is_not_repeated(
    stores: PostgresStores, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = given.claimed("t1")
    run = stores.connections.run_joined

    def broken(calls: Any, *, durable: bool) -> None:
        run(calls, durable=durable)
        raise StoreUnavailableError("the connection broke", {"repeat": True})

    monkeypatch.setattr(stores.connections, "run_joined", broken)

    with pytest.raises(StoreUnavailableError), stores.ledger.unit(claim, durable=True) as unit:
        unit.add_events([NewEvent(type="e")])

    assert given.events("t1") == ["e"]


def _lose_answers(stores: PostgresStores, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """The server carries the statement out, and the connection breaks before it says so; once."""
    run = stores.connections.run
    left = [lost]

    def broken(name: str, params: Any, *, durable: bool = False) -> Any:
        rows = run(name, params, durable=durable)
        if name in left:
            left.remove(name)
            raise StoreUnavailableError("the connection broke", {"repeat": True})
        return rows

    monkeypatch.setattr(stores.connections, "run", broken)


def _refuse_commits(direct: psycopg.Connection) -> None:
    """Like a deferred constraint of the shop's: everything goes well until COMMIT."""
    direct.execute(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'refused at commit'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON turnchain_checkpoints
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()
        """
    )


def _everything(direct: psycopg.Connection) -> dict[str, list[tuple[Any, ...]]]:
    names = direct.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'turnchain%'"
    ).fetchall()
    return {
        name: sorted(direct.execute(f"SELECT * FROM {name}".encode()).fetchall(), key=str)
        for (name,) in names
    }


OTHERS: dict[str, Callable[[Claim], Claim]] = {
    "stage": lambda claim: _turn_with(claim, stage=Stage.WINDOW),
    "fence": lambda claim: _turn_with(claim, fence=claim.turn.fence + 1),
    "owner": lambda claim: claim.model_copy(update={"lease_owner": "host:1/other"}),
    "turn": lambda claim: _turn_with(claim, turn_id=id_of("other")),
}


@pytest.mark.parametrize("differs", OTHERS)
def test_every_write_is_guarded_by_turn_stage_fence_and_owner(
    stores: PostgresStores, given: Given, direct: psycopg.Connection, differs: str
) -> None:
    """Each of the four alone: an owner is used once, but a test must not rely on that."""
    claim = given.claimed("t1", stage=Stage.DISPATCH)
    given.claimed("other", "s2", stage=Stage.DISPATCH)
    stores.ledger.begin_step(claim, "run", "begun", "charge")
    stale = OTHERS[differs](claim)
    before = _everything(direct)

    def unit(durable: bool, body: Callable[[PostgresUnit], None]) -> None:
        with stores.ledger.unit(stale, durable=durable) as unit:
            body(unit)

    for write in (
        lambda: unit(True, lambda unit: unit.hand_over(Stage.PERSIST)),
        lambda: unit(True, lambda unit: stores.snapshots.delete("run", unit)),
        lambda: unit(False, lambda unit: None),
        lambda: stores.ledger.park(
            stale, reason="compaction", wait=None, stage=Stage.LOAD, work=claim.work
        ),
        lambda: stores.ledger.begin_step(stale, "run", "new", "charge"),
        lambda: stores.ledger.begin_step(stale, "run", "begun", "charge"),
        lambda: stores.ledger.finish_step(stale, "run", "begun", 1),
    ):
        with pytest.raises(LeaseLost):
            write()
    if differs != "stage":  # these two ask for the turn, not for a stage of it
        assert stores.ledger.hand_back(stale) is None
        assert stores.ledger.renew([stale], LEASE) == [Renewal(renewed=False)]
    assert _everything(direct) == before


def _turn_with(claim: Claim, **changes: Any) -> Claim:
    return claim.model_copy(update={"turn": claim.turn.model_copy(update=changes)})
