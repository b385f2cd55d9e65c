"""What a web app holds: enqueue a turn, follow it, get its result, cancel it. [DESIGN 11]"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from turnchain.orchestrator_core.contracts import (
    JSON,
    Message,
    Owner,
    Provider,
    SettledTurn,
    TurnEvent,
    TurnId,
    TurnRecord,
    TurnRequest,
    TurnResult,
)
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    StoreUnavailableError,
    TurnTimeout,
)
from turnchain.orchestrator_core.ports import (
    AfterCommit,
    CancelReceipt,
    Clock,
    Ledger,
    NewId,
    Publisher,
)
from turnchain.orchestrator_core.requests import MISSING, build_request, request_hash
from turnchain.orchestrator_core.results import result_of
from turnchain.orchestrator_core.waiting import Waiter
from turnchain.orchestrator_core.wire import is_turn_id

_FIRST_LOOK = timedelta(milliseconds=20)
_LONGEST_LOOK = timedelta(milliseconds=500)
_LONGEST_WAIT = timedelta(days=365)
"""Behind what the system's own timers can take."""


class SessionClient:
    """A producer's way in. Safe to share between threads; make one per process, after the fork.

    client = turnchain.connect("postgresql://…", broker=celery_app)
    result = client.enqueue("refund-support", message, session_id="sess_42", history=[]).result(timeout=60)
    """

    def __init__(
        self,
        ledger: Ledger,
        publisher: Publisher,
        clock: Clock,
        new_id: NewId,
        after_commit: AfterCommit,
        *,
        known: Sequence[str] | None = None,
        max_in_flight: int | None = None,
    ) -> None:
        self._ledger = ledger
        self._publisher = publisher
        self._clock = clock
        self._new_id = new_id
        self._after_commit = after_commit
        self._known = known
        self._max_in_flight = max_in_flight
        self._waiter = Waiter(ledger, clock)

    def enqueue(
        self,
        orchestrator_name: str,
        input: JSON = MISSING,
        *,
        session_id: str,
        history: Sequence[Message | Mapping[str, Any]] | Provider | None = None,
        state: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | Provider | None = None,
        tenant: str | None = None,
        user_id: str | None = None,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
        priority: int = 0,
        force: bool = False,
        expected_turn_index: int | None = None,
        deadline: datetime | None = None,
        connection: Any = None,
    ) -> Turn:
        """Accept one turn of a session. Once this returns, or your transaction commits, the turn is not lost.

        Repeats: with the same `turn_id` or `idempotency_key` and the same arguments it returns the same turn and writes
        nothing. After an unanswered call, call again with the same one.

        `connection` is your own open psycopg, SQLAlchemy or Django connection: the turn then commits or vanishes with
        your writes. Django and a SQLAlchemy Session wake a worker at their commit; with other connections call
        `turn.publish()` after it, or leave it to the next sweep (5 s).

        Raises:
            InvalidInputError, UnknownOrchestratorError: an argument is not usable.
            SessionOwnerError: the session is another tenant's or user's.
            TurnConflictError: turn id or idempotency key stand for another request, or the index is not the next.
            StoreUnavailableError, SchemaMissingError: the ledger did not answer.
        """
        request = build_request(
            orchestrator_name,
            input,
            turn_id=_turn_id(turn_id, self._new_id),
            session_id=session_id,
            history=history,
            state=state,
            context=context,
            tenant=tenant,
            user_id=user_id,
            force=force,
            priority=priority,
            expected_turn_index=expected_turn_index,
            idempotency_key=idempotency_key,
            deadline=deadline,
        )
        return self._accept(request, connection)

    async def aenqueue(
        self,
        orchestrator_name: str,
        input: JSON = MISSING,
        *,
        session_id: str,
        history: Sequence[Message | Mapping[str, Any]] | Provider | None = None,
        state: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | Provider | None = None,
        tenant: str | None = None,
        user_id: str | None = None,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
        priority: int = 0,
        force: bool = False,
        expected_turn_index: int | None = None,
        deadline: datetime | None = None,
        connection: None = None,
    ) -> Turn:
        """`enqueue` for async callers. No `connection` is taken: none that is asynchronous can be used."""
        if connection is not None:
            raise InvalidInputError(
                "connection is not taken by aenqueue: use enqueue with a sync connection, or enqueue after your commit",
                {"field": "connection"},
            )
        return await asyncio.to_thread(
            self.enqueue,
            orchestrator_name,
            input,
            session_id=session_id,
            history=history,
            state=state,
            context=context,
            tenant=tenant,
            user_id=user_id,
            turn_id=turn_id,
            idempotency_key=idempotency_key,
            priority=priority,
            force=force,
            expected_turn_index=expected_turn_index,
            deadline=deadline,
        )

    def turn(self, turn_id: str, *, tenant: str | None = None, user_id: str | None = None) -> Turn:
        """A handle on a turn accepted earlier, by its id and whose it is; nothing is read yet."""
        return self._handle(TurnId(turn_id), Owner(tenant=tenant, user_id=user_id))

    def get(
        self, turn_id: str, *, tenant: str | None = None, user_id: str | None = None
    ) -> TurnRecord | None:
        """Where the turn stands, or None if there is none of this owner."""
        return self._ledger.get(TurnId(turn_id), Owner(tenant=tenant, user_id=user_id))

    async def aget(
        self, turn_id: str, *, tenant: str | None = None, user_id: str | None = None
    ) -> TurnRecord | None:
        """`get` for async callers."""
        return await asyncio.to_thread(self.get, turn_id, tenant=tenant, user_id=user_id)

    def publish(self) -> None:
        """Admit what may run and wake workers for it. Safe to call at any time, any number of times."""
        self._publisher.publish(self._ledger.admit(self._max_in_flight))

    def _wake(self) -> None:
        """`publish` behind a commit, which it must not make look failed: the workers' sweep admits the turn as well."""
        with suppress(StoreUnavailableError):
            self.publish()

    def _accept(self, request: TurnRequest, connection: Any) -> Turn:
        acceptance = self._ledger.accept(
            request, request_hash=request_hash(request), known=self._known, connection=connection
        )
        self._after_commit(connection, self._wake)
        # On a connection of the caller's it may yet vanish.
        return self._handle(acceptance.turn.turn_id, request.owner, is_there=connection is None)

    def _handle(self, turn_id: TurnId, owner: Owner, *, is_there: bool = False) -> Turn:
        return Turn(self._ledger, self._waiter, self.publish, turn_id, owner, is_there=is_there)


class Turn:
    """One accepted turn, as its producer sees it. Got from `enqueue` or `SessionClient.turn`."""

    def __init__(
        self,
        ledger: Ledger,
        waiter: Waiter,
        publish: Callable[[], None],
        turn_id: TurnId,
        owner: Owner,
        *,
        is_there: bool = False,
    ) -> None:
        self._ledger = ledger
        self._waiter = waiter
        self._publish = publish
        self._owner = owner
        self._is_there = is_there
        self.turn_id = turn_id

    def __repr__(self) -> str:
        return f"Turn({self.turn_id!r})"

    def publish(self) -> None:
        """Wake a worker. Call it after the commit of your own connection; calling it again does no harm."""
        self._publish()

    def get(self) -> TurnRecord | None:
        """Where the turn stands; None if there is none of this owner."""
        return self._ledger.get(self.turn_id, self._owner)

    async def aget(self) -> TurnRecord | None:
        """`get` for async callers."""
        return await asyncio.to_thread(self.get)

    def result(self, timeout: float | timedelta | None = None) -> TurnResult:
        """Wait for the turn to settle, whoever settles it. A bare number is seconds, as elsewhere in Celery.

        Raises:
            TurnTimeout: it has not settled in time; it goes on.
            InvalidInputError: there is no such turn.
        """
        self._require()
        settled = self._waiter.wait(self.turn_id, _duration(timeout)) or self._late(timeout)
        return result_of(settled)

    async def aresult(self, timeout: float | timedelta | None = None) -> TurnResult:
        """`result` for async callers; thousands may wait at once."""
        await asyncio.to_thread(self._require)
        settled = await self._waiter.await_(self.turn_id, _duration(timeout))
        return result_of(settled or await asyncio.to_thread(self._late, timeout))

    def events(self, after: int = 0) -> Iterator[TurnEvent]:
        """What happened to the turn, and what happens, up to its terminal event. `after` is the last `seq` seen."""
        self._require()
        look = _FIRST_LOOK
        while True:
            events = self._ledger.events(self.turn_id, after=after)
            for event in events:
                after = event.seq
                yield event
                if event.is_terminal:
                    return
            look = _next_look(look, events)
            if self._waiter.wait(self.turn_id, look) and self._is_over(events, after):
                return

    async def aevents(self, after: int = 0) -> AsyncIterator[TurnEvent]:
        """`events` for async callers; thousands may read at once."""
        await asyncio.to_thread(self._require)
        look = _FIRST_LOOK
        while True:
            # Each question takes a thread for as long as it is answered, and waiting takes none: the loop has few.
            events = await asyncio.to_thread(self._ledger.events, self.turn_id, after=after)
            for event in events:
                after = event.seq
                yield event
                if event.is_terminal:
                    return
            look = _next_look(look, events)
            settled = await self._waiter.await_(self.turn_id, look)
            if settled and await asyncio.to_thread(self._is_over, events, after):
                return

    def cancel(self) -> CancelReceipt:
        """Ask for the turn to end; see `CancelReceipt` for what may come of it. Cancelling twice is safe."""
        receipt = self._ledger.request_cancel(self.turn_id, self._owner)
        with suppress(
            StoreUnavailableError
        ):  # the receipt counts; the sweep admits what the turn held up
            self._publish()
        return receipt

    async def acancel(self) -> CancelReceipt:
        """`cancel` for async callers."""
        return await asyncio.to_thread(self.cancel)

    def _is_over(self, events: Sequence[TurnEvent], after: int) -> bool:
        """Whether a settled turn has no event behind those just read, which went up to `after`."""
        return not events and not self._ledger.events(self.turn_id, after=after, limit=1)

    def _late(self, timeout: object) -> SettledTurn:
        """The turn that has settled at the last moment.

        Raises:
            TurnTimeout: it has not; says where it stands.
        """
        try:
            if settled := self._ledger.settled([self.turn_id]):
                return settled[0]
            record = self.get()
        except StoreUnavailableError as error:
            raise TurnTimeout(
                f"turn {self.turn_id} was not known to have settled within {timeout}, and the ledger does not answer: "
                f"ask again later ({error})",
                {"turn_id": self.turn_id, "status": None},
            ) from error
        raise _timed_out(self.turn_id, timeout, record)

    def _require(self) -> None:
        if not self._is_there and self.get() is None:
            raise InvalidInputError(
                f"turn_id = {self.turn_id!r} is no turn of this owner: check the id, tenant and user_id, and whether "
                "the transaction that enqueued it has committed",
                {"field": "turn_id", "value": self.turn_id},
            )


def _next_look(look: timedelta, events: Sequence[TurnEvent]) -> timedelta:
    """When to ask for events again: soon after news, and less and less often without."""
    return _FIRST_LOOK if events else min(look * 2, _LONGEST_LOOK)


def _duration(timeout: float | timedelta | None) -> timedelta | None:
    if timeout is None:
        return None
    try:
        given = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(
            f"timeout = {timeout!r} is not usable: give seconds or a timedelta, or None to wait without end",
            {"field": "timeout", "value": repr(timeout)},
        ) from None
    return min(max(given, timedelta(0)), _LONGEST_WAIT)


def _timed_out(turn_id: TurnId, timeout: object, record: TurnRecord | None) -> TurnTimeout:
    stands = f"{record.status} at {record.stage}" if record else "gone"
    return TurnTimeout(
        f"turn {turn_id} did not settle within {timeout}; it is {stands} and goes on: wait longer, or cancel() it",
        {"turn_id": turn_id, "status": record.status if record else None},
    )


def _turn_id(given: str | None, new_id: NewId) -> TurnId:
    """A turn id is a UUID, since that is what the ledger stores and a message holds."""
    if given is None:
        return new_id()
    if not is_turn_id(given):
        raise InvalidInputError(
            f"turn_id = {given!r} is not usable: give str(uuid.uuid4()), or leave it out",
            {"field": "turn_id"},
        )
    return TurnId(given)
