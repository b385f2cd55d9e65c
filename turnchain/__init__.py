"""Durable multi-turn agent sessions on the Celery that a team already runs.

Importing this loads no Celery and no driver; `connect` and `install` do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnchain.orchestrator_core.callbacks import (
    END,
    Agent,
    AgentResult,
    DriftContext,
    EvaluateContext,
    Found,
    IntentContext,
    ProviderContext,
    Reconcile,
    RouteContext,
    Step,
)
from turnchain.orchestrator_core.client import SessionClient, Turn
from turnchain.orchestrator_core.contracts import (
    BranchRecord,
    Decision,
    IterationSnapshot,
    Message,
    Owner,
    Provider,
    ReportNode,
    SessionKey,
    Stage,
    TurnEvent,
    TurnRecord,
    TurnReport,
    TurnResult,
    TurnStatus,
    Usage,
    Verdict,
)
from turnchain.orchestrator_core.definition import HistoryWindow, Intent, Orchestrator
from turnchain.orchestrator_core.engine import Engine
from turnchain.orchestrator_core.errors import (
    DeadlineExceededError,
    InvalidInputError,
    MaxIterationsError,
    OrchestratorCancelledError,
    OrchestratorConfigError,
    OrchestratorDriftError,
    OrchestratorFailedError,
    SchemaMissingError,
    SchemaValidationError,
    SessionOwnerError,
    SettingsError,
    StepInDoubtError,
    StoreUnavailableError,
    SupervisorCancelledError,
    SupervisorDriftError,
    SupervisorFailedError,
    SupervisorRoutingError,
    TurnchainError,
    TurnConflictError,
    TurnDeadError,
    TurnInterruptedError,
    TurnTimeout,
    UnknownOrchestratorError,
)
from turnchain.orchestrator_core.ports import CancelReceipt

if TYPE_CHECKING:
    from turnchain.connecting import connect, in_process, install

__version__ = "0.1.0"

__all__ = [
    "END",
    "Agent",
    "AgentResult",
    "BranchRecord",
    "CancelReceipt",
    "DeadlineExceededError",
    "Decision",
    "DriftContext",
    "Engine",
    "EvaluateContext",
    "Found",
    "HistoryWindow",
    "Intent",
    "IntentContext",
    "InvalidInputError",
    "IterationSnapshot",
    "MaxIterationsError",
    "Message",
    "Orchestrator",
    "OrchestratorCancelledError",
    "OrchestratorConfigError",
    "OrchestratorDriftError",
    "OrchestratorFailedError",
    "Owner",
    "Provider",
    "ProviderContext",
    "Reconcile",
    "ReportNode",
    "RouteContext",
    "SchemaMissingError",
    "SchemaValidationError",
    "SessionClient",
    "SessionKey",
    "SessionOwnerError",
    "SettingsError",
    "Stage",
    "Step",
    "StepInDoubtError",
    "StoreUnavailableError",
    "SupervisorCancelledError",
    "SupervisorDriftError",
    "SupervisorFailedError",
    "SupervisorRoutingError",
    "Turn",
    "TurnConflictError",
    "TurnDeadError",
    "TurnEvent",
    "TurnInterruptedError",
    "TurnRecord",
    "TurnReport",
    "TurnResult",
    "TurnStatus",
    "TurnTimeout",
    "TurnchainError",
    "UnknownOrchestratorError",
    "Usage",
    "Verdict",
    "__version__",
    "connect",
    "in_process",
    "install",
]


def __getattr__(name: str) -> Any:
    """Load what needs Celery or a driver only when it is asked for."""
    if name in ("connect", "in_process", "install"):
        return getattr(import_module("turnchain.connecting"), name)
    raise AttributeError(f"module 'turnchain' has no attribute {name!r}")
