"""What must hold at every moment, whoever is in the middle of what. [O 15.5, DESIGN 1]."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from tests.model.dialogue import log_of
from tests.model.oracle import Oracle
from turnchain.orchestrator_core.contracts import (
    CheckpointRecord,
    Outcome,
    Stage,
    TurnEvent,
    TurnId,
    TurnRequest,
    TurnStatus,
)
from turnchain.orchestrator_core.contracts.events import terminal_event
from turnchain.stores.memory.ending import COMPACTION_FAILED
from turnchain.stores.memory.turns import TurnRow


def check_all(oracle: Oracle) -> None:
    """Note every promise that is broken now."""
    tables = oracle.stores.tables
    running = Counter(
        row.session
        for row in tables.turns.values()
        if row.status in (TurnStatus.RUNNING, TurnStatus.PAUSED)
    )
    oracle.require(
        all(count == 1 for count in running.values()), "two turns of a session run at once [I2]"
    )
    for row in tables.turns.values():
        _check_turn(oracle, row)
    for session, texts in tables.checkpoints.items():
        records = [_checkpoint(texts[index]) for index in sorted(texts)]
        _check_session(oracle, records)
        head = tables.sessions[session].head
        oracle.require(
            head == len(records) - 1, f"the session's head is {head} of {len(records)} [I1]"
        )


def _check_turn(oracle: Oracle, row: TurnRow) -> None:
    events = [_event(text) for text in row.events]
    places = [event.seq for event in events]
    oracle.require(places == list(range(1, len(events) + 1)), f"events are numbered {places}")
    terminal = [event.type for event in events if event.is_terminal]
    expected = [terminal_event(row.status)] if row.status.is_final else []
    oracle.require(
        terminal == expected, f"a {row.status} turn has the terminal events {terminal} [I6, I12]"
    )
    oracle.require(
        (row.outcome is not None) == row.status.is_final, "outcome and status disagree [I6]"
    )
    if row.outcome is not None:
        status = _outcome(row.outcome).status
        oracle.require(status is row.status, f"outcome {status} of a {row.status} turn")
    checkpoints = [
        text
        for texts in oracle.stores.tables.checkpoints.values()
        for text in texts.values()
        if _checkpoint(text).turn_id == row.turn_id
    ]
    wanted = 1 if row.status is TurnStatus.AWAITING_INPUT else 0
    oracle.require(
        len(checkpoints) == wanted, f"a {row.status} turn has {len(checkpoints)} checkpoints [I5]"
    )
    if row.status is TurnStatus.CANCELLED:
        oracle.require(
            row.cancel_requested_at is not None, "a turn was cancelled that nobody cancelled"
        )
    if row.status is TurnStatus.FAILED:
        oracle.require(row.deadline is not None, f"a turn failed for no reason: {row.outcome}")
    if row.stage is Stage.DONE:
        oracle.require(row.status.is_final, "a turn is done without an outcome [I6]")
        oracle.require(row.work is None, "a done turn left its work behind [DESIGN 4]")


def _check_session(oracle: Oracle, records: list[CheckpointRecord]) -> None:
    """[I1, I3] Indices 0..head, in the order accepted, each state the fold of the turns before it."""
    rows = oracle.stores.tables.turns
    indices = [record.turn_index for record in records]
    oracle.require(indices == list(range(len(records))), f"committed indices are {indices} [I1]")
    accepted = [rows[record.turn_id].seq for record in records]  # type: ignore[index]
    oracle.require(accepted == sorted(accepted), "turns were committed out of order [DESIGN 1.4]")
    log: list[str] = []
    for record in records:
        log = [*log, *log_of(_request(rows[record.turn_id].request))]  # type: ignore[index]
        oracle.require(
            record.state == {"log": log}, f"state {record.state} is not the fold {log} [I3]"
        )


def check_done(oracle: Oracle) -> None:
    """At rest, without faults: everything accepted came to its one end. [I6, DESIGN 1.1]."""
    tables = oracle.stores.tables
    for row in tables.turns.values():
        where = f"{row.status} at {row.stage}, owner {row.lease_owner}, ready {row.ready_at}, parked {row.parked}"
        oracle.require(
            row.stage is Stage.DONE and row.status.is_final, f"a turn never ended: {where} [I6]"
        )
    oracle.require(not tables.unfinished, "the ledger still looks after a turn that ended")
    left = [run_id for run_id in tables.runs if not _may_be_left(tables.turns[TurnId(run_id)])]
    oracle.require(not left, f"runs were left behind: {left} [G25]")


def _may_be_left(row: TurnRow) -> bool:
    """Where the ledger itself ended the turn or its compaction, no stage could delete the run."""
    given_up = any(_event(text).type == COMPACTION_FAILED for text in row.events)
    return given_up or row.status in (TurnStatus.DEAD, TurnStatus.FAILED)


# The same texts are looked at after every step of every example.
_checkpoint = lru_cache(4096)(CheckpointRecord.model_validate_json)
_event = lru_cache(4096)(TurnEvent.model_validate_json)
_outcome = lru_cache(4096)(Outcome.model_validate_json)
_request = lru_cache(4096)(TurnRequest.model_validate_json)
