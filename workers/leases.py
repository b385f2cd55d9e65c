"""The claims that this process runs, and what the ledger last said of each. [DESIGN 6, Housekeeping]"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

from turnchain.orchestrator_core.contracts import Claim, Stage
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    LeaseLost,
)
from turnchain.orchestrator_core.ports import Clock, Ledger, Watch
from turnchain.workers.draining import Draining

log = logging.getLogger("turnchain.workers")


@dataclass(slots=True)
class _Held:
    """One running claim. Its fields are written by housekeeping and read by the thread that runs the stage."""

    claim: Claim
    runs_out: timedelta
    """By this machine's steady clock; the ledger's lease ends no earlier."""
    limit: timedelta
    """When renewing ends."""
    clock: Clock
    draining: Draining
    lost: bool = False
    cancel_requested: bool = False
    deadline_passed: bool = False
    leak_logged: bool = field(default=False)

    def check(self) -> None:
        self._check(self.draining.asked)

    def check_call(self) -> None:
        self._check(self.draining.grace_is_over)

    def _check(self, hand_back: bool) -> None:
        if self.lost or self.clock.elapsed() >= self.runs_out:
            raise LeaseLost
        if self.cancel_requested:
            raise CancelRequested
        if self.deadline_passed:
            raise DeadlinePassed
        if hand_back:
            raise HandBackAsked


class HeldLeases:
    """Keeps the leases of one pool process. `renew` is called by its housekeeping, everything else by stages."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        draining: Draining,
        *,
        process_id: str,
        lease: timedelta,
        limit_of: Callable[[Stage], timedelta],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._draining = draining
        self._process_id = process_id
        self._lease = lease
        self._limit_of = limit_of
        self._serials = count(1)
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}

    @property
    def process_id(self) -> str:
        """`host:family:pid`, with which every owner begins."""
        return self._process_id

    def new_owner(self) -> str:
        """A lease owner never used before."""
        return f"{self._process_id}/{next(self._serials)}"

    def begin(self, claim: Claim, granted: timedelta) -> Watch:
        """Renew from now on."""
        limit = granted + self._limit_of(claim.turn.stage)
        held = _Held(claim, granted + self._lease, limit, self._clock, self._draining)
        with self._lock:
            self._held[claim.lease_owner] = held
        return held

    def go_on(self, claim: Claim) -> None:
        """Know the stage that the claim was kept to. The limit is the message's, and holds for all its stages."""
        with self._lock:
            if held := self._held.get(claim.lease_owner):
                held.claim = claim

    def end(self, claim: Claim) -> None:
        """Stop renewing."""
        with self._lock:
            self._held.pop(claim.lease_owner, None)

    def renew(self) -> None:
        """Renew what runs within its limit, in one statement, and note what the ledger says of each."""
        asked = self._clock.elapsed()
        held = [each for each in self._all() if not each.lost and self._within_limit(each, asked)]
        if not held:
            return
        answers = self._ledger.renew([each.claim for each in held], self._lease)
        for each, answer in zip(held, answers, strict=True):
            each.cancel_requested = answer.cancel_requested
            each.deadline_passed = answer.deadline_passed
            if answer.renewed:
                each.runs_out = asked + self._lease
            else:
                each.lost = True

    def abandon(self) -> list[Claim]:
        """Every claim still running, until its `end`; lost from now on, so that their threads write nothing more."""
        held = self._all()
        for each in held:
            each.lost = True
        return [each.claim for each in held]

    def _within_limit(self, held: _Held, now: timedelta) -> bool:
        if now < held.limit:
            return True
        if not held.leak_logged:
            held.leak_logged = True
            turn = held.claim.turn
            log.error(
                "slot leaked: a stage runs past its limit and is not renewed any more",
                extra={"turn_id": turn.turn_id, "stage": turn.stage.value, "fence": turn.fence},
            )
        return False

    def _all(self) -> list[_Held]:
        with self._lock:
            return list(self._held.values())
