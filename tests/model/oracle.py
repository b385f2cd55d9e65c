"""Looks at the tables before and after every statement of every process, and says what must not be.

It knows the promises of DESIGN 1 and the invariants of [O 15.5], not the driver's code: a fault in a decision of the
driver shows as a transition that no decision may make.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from turnchain.orchestrator_core.contracts import Claim, Renewal, Stage, TurnId, TurnStatus, Wake
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.memory import MemoryStores
from turnchain.stores.memory.turns import TurnRow

MAX_ATTEMPTS = 3
CAPACITY = 3

_GUARDED = {"commit", "park", "begin_step", "finish_step"}
_TAKEOVERS = {"take_over_expired", "take_over"}


@dataclass(frozen=True)
class Picture:
    """The tables at one moment."""

    turns: dict[TurnId, TurnRow]
    rest: tuple[Any, ...]


class Oracle:
    """The ledger as all processes see it, with an eye on every verb."""

    def __init__(self, stores: MemoryStores) -> None:
        self.stores = stores
        self.faults: list[str] = []
        """What went wrong. Not raised where it is seen, since an intent's `except` might swallow it."""
        self.finished: set[tuple[str, str]] = set()
        """Steps whose result was acknowledged: run id and effect key."""
        self._granted: dict[TurnId, tuple[int, int]] = {}

    def require(self, holds: object, text: str) -> None:
        """Note a broken promise."""
        if not holds:
            self.faults.append(text)

    def picture(self) -> Picture:
        """A copy of the tables."""
        tables = self.stores.tables
        turns: dict[TurnId, TurnRow] = {}
        for turn_id, row in tables.turns.items():
            turns[turn_id] = copy.copy(row)
            turns[turn_id].events = list(row.events)
        runs = {run_id: (run.head, dict(run.iterations)) for run_id, run in tables.runs.items()}
        checkpoints = {session: dict(rows) for session, rows in tables.checkpoints.items()}
        return Picture(turns, (dict(tables.steps), runs, checkpoints))

    def __getattr__(self, verb: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            facts = (*args, *kwargs.values())
            return self._seen(
                verb, facts, lambda: getattr(self.stores.ledger, verb)(*args, **kwargs)
            )

        return call

    @contextmanager
    def unit(self, claim: Claim, *, durable: bool) -> Generator[Unit]:
        """Seen where it commits, and where it does not."""
        context = self.stores.ledger.unit(claim, durable=durable)
        unit = context.__enter__()
        try:
            yield unit
        except BaseException as error:
            ended = type(error), error, error.__traceback__
            self._seen("abandon", (claim,), lambda: context.__exit__(*ended))
            raise
        self._seen("commit", (claim,), lambda: context.__exit__(None, None, None))

    def _seen(self, verb: str, args: tuple[Any, ...], act: Callable[[], Any]) -> Any:
        before = self.picture()
        try:
            result = act()
        except BaseException:
            self.require(self.picture() == before, f"{verb} raised, and wrote all the same")
            raise
        after = self.picture()
        self._judge(verb, args, result, before, after)
        return result

    def _judge(self, verb: str, args: Any, result: Any, before: Picture, after: Picture) -> None:
        if verb == "abandon":
            self.require(before == after, "a transaction that was abandoned wrote")
        if verb in _GUARDED or (verb == "hand_back" and result):
            claim: Claim = args[0]
            row = before.turns[claim.turn.turn_id]
            self.require(
                row.is_owned_by(claim) if verb == "hand_back" else row.is_held_by(claim),
                f"{verb} was accepted of an owner that had lost the turn [I4]",
            )
        if verb == "claim" and isinstance(result, Claim):
            self._judge_grant(args[0], before.turns[args[0].turn_id])
        if verb == "renew":
            for claim, answer in zip(args[0], cast("list[Renewal]", result), strict=True):
                owned = before.turns[claim.turn.turn_id].is_owned_by(claim)
                self.require(owned or not answer.renewed, "a lease was renewed that had been lost")
        if verb == "finish_step":
            self.finished.add((args[1], args[2]))
        for turn_id, row in after.turns.items():
            if turn_id in before.turns:
                self._judge_move(verb, args, before.turns[turn_id], row)
        if verb in ("admit", "admit_turn"):
            self._judge_admit(before, after)

    def _judge_grant(self, wake: Wake, row: TurnRow) -> None:
        place = (wake.fence, wake.stage.order)
        last = self._granted.get(wake.turn_id, (-1, -1))
        self.require(
            place > last, f"the right to run {place} of a turn was granted after {last} [I2]"
        )
        self.require(row.lease_owner is None, "a turn was claimed from under its owner")
        self.require(row.status is not TurnStatus.QUEUED, "a queued turn was claimed")
        self._granted[wake.turn_id] = place

    def _judge_move(self, verb: str, args: tuple[Any, ...], old: TurnRow, new: TurnRow) -> None:
        now = self.stores.tables.now()
        self.require(
            old.fence <= new.fence <= old.fence + 1,
            f"{verb} moved the fence {old.fence} -> {new.fence}",
        )
        self.require(
            new.stage.order >= old.stage.order or verb == "park",
            f"{verb} moved {old.stage} -> {new.stage}",
        )
        if old.status.is_final:
            kept = (old.status, old.outcome, old.settled_at) == (
                new.status,
                new.outcome,
                new.settled_at,
            )
            self.require(kept, f"{verb} changed a final status or outcome [I6]")
        if old.lease_owner is not None and new.lease_owner != old.lease_owner:
            by_owner = verb in _GUARDED | {"hand_back"} and old.is_owned_by(args[0])
            taken = verb in _TAKEOVERS and new.fence > old.fence
            self.require(by_owner or taken, f"{verb} took a turn from its owner")
        if verb == "take_over" and new.fence > old.fence:
            wake, process_id, _ = args
            told = wake.fence == old.fence and str(old.lease_owner).startswith(f"{process_id}/")
            self.require(told, "a takeover message took a turn that it did not mean")
        if new.attempts > old.attempts:
            lost = old.lease_owner is not None and (verb == "take_over" or old.is_expired(now))
            self.require(
                verb in _TAKEOVERS and lost, f"{verb} counted an attempt of a turn nobody lost"
            )
        if new.status is TurnStatus.DEAD and old.status is not TurnStatus.DEAD:
            self.require(
                verb in _TAKEOVERS and old.attempts + 1 >= MAX_ATTEMPTS,
                f"{verb} killed a turn too early",
            )
        if verb == "commit" and new.stage.order > old.stage.order:
            self.require(
                new.attempts == 0, "a stage was finished, and attempts still count [DESIGN 6]"
            )
        if verb in ("hand_back", "park") and new.lease_owner != old.lease_owner:
            self.require(new.fence > old.fence, f"{verb} let the next owner have the same fence")
        if verb == "rewake":
            kept = (old.status, old.stage, old.fence, old.lease_owner) == (
                new.status,
                new.stage,
                new.fence,
                new.lease_owner,
            )
            self.require(kept, "rewake did more than repeat a message")

    def _judge_admit(self, before: Picture, after: Picture) -> None:
        now = self.stores.tables.now()
        started = [
            row
            for turn_id, row in after.turns.items()
            if row.status is TurnStatus.RUNNING
            and before.turns[turn_id].status is TurnStatus.QUEUED
        ]
        flying = sum(
            row.is_in_flight(now) for row in after.turns.values() if row.stage is not Stage.DONE
        )
        self.require(
            not started or flying <= CAPACITY,
            f"admit let {flying} turns fly, capacity is {CAPACITY}",
        )
        for row in started:
            ahead = [
                other
                for other in after.turns.values()
                if other.session == row.session
                and other.seq < row.seq
                and not other.status.is_final
            ]
            self.require(
                not ahead, "a turn was admitted before an earlier one of its session [DESIGN 1.4]"
            )
