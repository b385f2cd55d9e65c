"""Everything that is stored, sent or returned."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts.base import (
    INPUT_LIMIT,
    JSON,
    JSONObject,
    Record,
    checked_json,
    to_json,
)
from turnchain.orchestrator_core.contracts.checkpoints import CheckpointRecord
from turnchain.orchestrator_core.contracts.events import NewEvent, TurnEvent
from turnchain.orchestrator_core.contracts.history import Message, WindowedHistory
from turnchain.orchestrator_core.contracts.inspection import (
    COUNT_LIMIT,
    Position,
    SessionFilter,
    SessionPage,
    SessionSummary,
    Surroundings,
    TurnFacts,
    TurnFilter,
    TurnPage,
)
from turnchain.orchestrator_core.contracts.processes import ProcessRecord
from turnchain.orchestrator_core.contracts.reports import ReportNode, TurnReport, TurnResult, Usage
from turnchain.orchestrator_core.contracts.sessions import Owner, SessionKey
from turnchain.orchestrator_core.contracts.snapshots import (
    BranchRecord,
    Carry,
    Decision,
    IterationSnapshot,
    OpenIteration,
    SupervisorRun,
    Verdict,
)
from turnchain.orchestrator_core.contracts.steps import StepRecord
from turnchain.orchestrator_core.contracts.turns import (
    STAGES,
    Acceptance,
    Claim,
    Outcome,
    Provider,
    Refusal,
    Renewal,
    SettledTurn,
    Stage,
    TurnId,
    TurnRecord,
    TurnRequest,
    TurnStatus,
    TurnWork,
    Wake,
)

__all__ = [
    "COUNT_LIMIT",
    "INPUT_LIMIT",
    "JSON",
    "STAGES",
    "Acceptance",
    "BranchRecord",
    "Carry",
    "CheckpointRecord",
    "Claim",
    "Decision",
    "IterationSnapshot",
    "JSONObject",
    "Message",
    "NewEvent",
    "OpenIteration",
    "Outcome",
    "Owner",
    "Position",
    "ProcessRecord",
    "Provider",
    "Record",
    "Refusal",
    "Renewal",
    "ReportNode",
    "SessionFilter",
    "SessionKey",
    "SessionPage",
    "SessionSummary",
    "SettledTurn",
    "Stage",
    "StepRecord",
    "SupervisorRun",
    "Surroundings",
    "TurnEvent",
    "TurnFacts",
    "TurnFilter",
    "TurnId",
    "TurnPage",
    "TurnRecord",
    "TurnReport",
    "TurnRequest",
    "TurnResult",
    "TurnStatus",
    "TurnWork",
    "Usage",
    "Verdict",
    "Wake",
    "WindowedHistory",
    "checked_json",
    "to_json",
]
