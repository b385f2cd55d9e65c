"""The report tree of a turn, made from its run. [O 2.9, O 12]"""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import (
    IterationSnapshot,
    JSONObject,
    Outcome,
    ReportNode,
    SupervisorRun,
    TurnReport,
)
from turnchain.orchestrator_core.contracts.turns import TurnStatus
from turnchain.orchestrator_core.turn_context import TurnContext


def report_of(turn: TurnContext, run: SupervisorRun, outcome: Outcome) -> JSONObject:
    """The turn's report in JSON form, without `started_at` and `ended_at`, which the ledger's clock knows.

    Run ids are unique down the tree: run, `run.supervisor`, `run.<iteration>.<intent>`. [O 2.9.9, O 16.5 T27]
    """
    root = run.run_id
    supervisor = ReportNode(
        run_id=f"{root}.supervisor",
        root_run_id=root,
        parent_run_id=root,
        type="supervisor",
        name=turn.definition.name,
        session_id=turn.session.session_id,
        status=_supervisor_status(outcome),
        error=outcome.error,
        duration=sum(one.duration for one in run.iterations),
        usage=run.usage,
        children=tuple(node for one in run.iterations for node in _branches(turn, run, one)),
    )
    report = TurnReport(
        run_id=root,
        root_run_id=root,
        type="orchestrator",
        name=turn.definition.name,
        version=turn.definition.version,
        session_id=turn.session.session_id,
        status=outcome.status,
        error=outcome.error,
        duration=supervisor.duration,
        usage=run.usage,
        children=(supervisor,),
        turn_index=turn.work.turn_index,
        signature=turn.signature,
        iterations=len(run.iterations),
        terminated_by=_terminated_by(run, outcome),
        attempts=turn.claim.turn.takeovers,
    )
    return report.model_dump(mode="json")


def turn_snapshot(turn: TurnContext, run: SupervisorRun | None) -> JSONObject:
    """What a checkpoint keeps of its turn: the last iteration that dispatched. [O 2.9.5]"""
    dispatched = [one for one in run.iterations if one.result] if run else []
    last = dispatched[-1].model_dump(mode="json", exclude={"state"}) if dispatched else {}
    return {"turn": turn.work.turn_index, "input": turn.claim.request.input, **last}


def _branches(turn: TurnContext, run: SupervisorRun, one: IterationSnapshot) -> list[ReportNode]:
    return [
        ReportNode(
            run_id=f"{run.run_id}.{one.iteration}.{branch.intent}",
            root_run_id=run.run_id,
            parent_run_id=f"{run.run_id}.supervisor",
            type="agent" if turn.definition.intent(branch.intent).agent else "callback",
            name=branch.intent,
            session_id=run.session.session_id,
            status="failed" if branch.error else "completed",
            error=branch.error,
            duration=branch.duration,
            usage=branch.usage,
        )
        for branch in one.result.values()
        if branch.intent in turn.definition.intents
    ]


def _supervisor_status(outcome: Outcome) -> str:
    return "completed" if outcome.status is TurnStatus.AWAITING_INPUT else outcome.status.value


def _terminated_by(run: SupervisorRun, outcome: Outcome) -> str | None:
    """A run that was stopped from outside does not know it; its outcome does. [O 3.3.4, O 3.9.4]"""
    if outcome.status is TurnStatus.CANCELLED:
        return "cancelled"
    return run.terminated_by or ("error" if outcome.error else None)
