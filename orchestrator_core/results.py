"""From a settled turn to what its caller gets."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import SettledTurn, TurnReport, TurnResult


def result_of(settled: SettledTurn) -> TurnResult:
    """The result of a settled turn; the ledger's instants complete the report."""
    turn, outcome = settled.turn, settled.outcome
    report = None
    if outcome.report:
        instants = {"started_at": turn.admitted_at, "ended_at": turn.settled_at}
        report = TurnReport.model_validate(outcome.report).model_copy(update=instants)
    return TurnResult(
        turn_id=turn.turn_id,
        session_id=turn.session.session_id,
        turn_index=turn.turn_index,
        status=outcome.status,
        data=outcome.data,
        error_record=outcome.error,
        usage=report.usage if report else TurnResult.model_fields["usage"].default,
        report=report,
    )
