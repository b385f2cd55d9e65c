"""One append-only record a settled turn. [O 10.1]."""

from __future__ import annotations

import pytest

from turnchain.orchestrator_core.contracts import CheckpointRecord, Claim, SessionKey
from turnchain.orchestrator_core.errors import TurnConflictError
from turnchain.stores.conformance.exam import (
    BOT,
    Exam,
    Given,
    Stores,
    checkpoint_of,
    id_of,
    session_of,
)


class CheckpointsSuite(Exam):
    """`CheckpointStore`."""

    def test_an_unknown_session_has_none(self, stores: Stores) -> None:
        """[O 10.7]."""
        assert stores.checkpoints.load(session_of("s")) is None
        assert stores.checkpoints.load_range(session_of("s"), first=0, last=9) == []
        assert stores.checkpoints.list(BOT) == []

    @pytest.mark.parametrize("last_route", [None, "book", "[book]", ["book", "pay"], []])
    def test_a_record_comes_back_whole(
        self, given: Given, stores: Stores, last_route: str | list[str] | None
    ) -> None:
        """[O 10.1, O 10.3.5] An intent whose name begins with a bracket included."""
        claim = given.claimed("t1")
        state = {"slots": {"när": "idag"}, "list": [1, 2.5, None]}
        record = checkpoint_of(claim, 0, state=state, last_route=last_route, version="1.2")
        record = record.model_copy(update={"turn_snapshot": {"input": "x", "results": []}})

        _append(stores, claim, record.turn_index, record)

        loaded = stores.checkpoints.load(session_of("s"))
        assert loaded is not None
        assert loaded.saved_at is not None
        assert loaded.saved_at.tzinfo is not None
        assert loaded.model_copy(update={"saved_at": None}) == record

    def test_the_highest_index_is_the_head(self, given: Given, stores: Stores) -> None:
        """[O 15.2 G23] Not the last that was appended."""
        claim = given.claimed("t1")
        for index in (4, 3):
            _append(stores, claim, index)

        head = stores.checkpoints.load(session_of("s"))

        assert head is not None
        assert head.turn_index == 4

    def test_a_range_is_read_oldest_first(self, given: Given, stores: Stores) -> None:
        """[O 2.9]."""
        claim = given.claimed("t1")
        for index in (2, 0, 1, 3):
            _append(stores, claim, index)

        records = stores.checkpoints.load_range(session_of("s"), first=1, last=2)

        assert [record.turn_index for record in records] == [1, 2]
        assert records[0].state == {"index": 1}

    def test_the_same_turn_may_write_its_index_again(self, given: Given, stores: Stores) -> None:
        """[O 10.1.2] And changes nothing: its first answer was lost on the way."""
        claim = given.claimed("t1")
        _append(stores, claim, 0, checkpoint_of(claim, 0))
        before = stores.checkpoints.load(session_of("s"))

        _append(stores, claim, 0, checkpoint_of(claim, 0, state={"other": True}))

        assert stores.checkpoints.load(session_of("s")) == before

    def test_another_turn_may_not(self, given: Given, stores: Stores) -> None:
        """[O 10.1.2] A typed conflict when the unit ends."""
        given.settled("t1")
        claim = given.claimed("t2")

        with (
            pytest.raises(TurnConflictError),
            stores.ledger.unit(claim, durable=True) as unit,
        ):
            stores.checkpoints.append(checkpoint_of(claim, 0), unit)

        head = stores.checkpoints.load(session_of("s"))
        assert head is not None
        assert head.turn_id == id_of("t1")

    def test_a_changed_record_changes_nothing_stored(self, given: Given, stores: Stores) -> None:
        """[O 10.1.7]."""
        claim = given.claimed("t1")
        record = checkpoint_of(claim, 0, state={"slots": []})
        _append(stores, claim, 0, record)

        record.state["slots"].append("x")
        loaded = stores.checkpoints.load(session_of("s"))
        assert loaded is not None
        loaded.state["slots"].append("y")

        again = stores.checkpoints.load(session_of("s"))
        assert again is not None
        assert again.state == {"slots": []}

    def test_sessions_of_different_orchestrators_are_different(
        self, given: Given, stores: Stores
    ) -> None:
        """[O 10.1.6]."""
        given.settled("t1")

        other = SessionKey(orchestrator_name="other", session_id="s")

        assert stores.checkpoints.load(other) is None
        assert stores.checkpoints.list("other") == []

    def test_a_prefix_is_literal(self, given: Given, stores: Stores) -> None:
        r"""[O 10.1.4] `_`, `%` and `\` included; distinct, in code-point order."""
        names = ("a_1", "ab1", "a%1", "a\\1", "B", "é", "a_1x")
        for name in names:
            given.settled(f"first of {name}", session=name)
        given.settled("second", session="a_1")

        assert stores.checkpoints.list(BOT) == sorted(names)
        assert stores.checkpoints.list(BOT, "a_") == ["a_1", "a_1x"]
        assert stores.checkpoints.list(BOT, "a%") == ["a%1"]
        assert stores.checkpoints.list(BOT, "a\\") == ["a\\1"]
        assert stores.checkpoints.list(BOT, "x") == []

    def test_pruning_keeps_what_is_not_below_its_bound(self, given: Given, stores: Stores) -> None:
        """[O 10.1.5] Twice is once."""
        claim = given.claimed("t1")
        for index in range(4):
            _append(stores, claim, index)

        for _ in range(2):
            stores.checkpoints.prune(session_of("s"), keep_before=2)

        assert _indices(stores) == [2, 3]

    def test_pruning_never_takes_the_head(self, given: Given, stores: Stores) -> None:
        """[O 15.5 I9]."""
        claim = given.claimed("t1")
        for index in range(2):
            _append(stores, claim, index)

        stores.checkpoints.prune(session_of("s"), keep_before=99)
        stores.checkpoints.prune(session_of("unknown"), keep_before=99)

        assert _indices(stores) == [1]

    def test_deleting_takes_one_session_whole(self, given: Given, stores: Stores) -> None:
        """[O 10.1.3] Twice is once."""
        given.settled("t1", session="s")
        given.settled("t2", session="other")

        for _ in range(2):
            stores.checkpoints.delete(session_of("s"))

        assert stores.checkpoints.load(session_of("s")) is None
        assert stores.checkpoints.list(BOT) == ["other"]

    def test_the_schema_can_be_asked_for(self, stores: Stores) -> None:
        """[DESIGN 4] Text to apply, or empty."""
        assert isinstance(stores.checkpoints.schema(), str)


def _append(
    stores: Stores, claim: Claim, index: int, record: CheckpointRecord | None = None
) -> None:
    """Each index is another turn's, since a turn settles once."""
    of_its_own = checkpoint_of(claim, index).model_copy(update={"turn_id": id_of(f"turn {index}")})
    with stores.ledger.unit(claim, durable=True) as unit:
        stores.checkpoints.append(record or of_its_own, unit)


def _indices(stores: Stores) -> list[int]:
    records = stores.checkpoints.load_range(session_of("s"), first=0, last=99)
    return [record.turn_index for record in records]
