"""Who a conversation is, and whose."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts.base import Record


class SessionKey(Record):
    """A conversation: the orchestrator that holds it and the id the caller gave it."""

    orchestrator_name: str
    session_id: str


class Owner(Record):
    """Whose a session is. A part that is set must match wherever the session is touched; None matches only None.

    Absence is a value here: a caller who names no tenant must not reach a tenant's session.
    """

    tenant: str | None = None
    user_id: str | None = None
