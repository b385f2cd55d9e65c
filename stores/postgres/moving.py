"""What moves a running turn from owner to owner and from stage to stage."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from turnchain.orchestrator_core.contracts import Claim, Refusal, Renewal, Stage, TurnWork, Wake
from turnchain.orchestrator_core.errors import LeaseLost
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.errors import is_passing
from turnchain.stores.postgres.unit import PostgresUnit
from turnchain.stores.retrying import repeating


class Moving(Part):
    """How the right to run changes hands."""

    def claim(self, wake: Wake, lease_owner: str, lease: timedelta) -> Claim | Refusal:
        """As `Ledger.claim`."""
        if not rows.is_wake(wake):
            return Refusal(reason="unknown")
        params = {**rows.wake_params(wake), "lease_owner": lease_owner, "lease": lease}
        for attempt in repeating(is_passing):
            with attempt:
                again = attempt.retry_state.attempt_number > 1
                found = self._connections.run("claim", {**params, "again": again})
                if found:
                    return rows.claim(found[0], lease_owner)
        return self._refusal(wake)

    def _refusal(self, wake: Wake) -> Refusal:
        found = self._connections.run_safely("stands", {"turn_id": wake.turn_id})
        if not found:
            return Refusal(reason="unknown")
        row = found[0]
        stands = rows.wake(row)
        if stands.stage is Stage.DONE:
            return Refusal(reason="done")
        if (stands.stage, stands.fence) != (wake.stage, wake.fence):
            later = stands.stage.order > wake.stage.order and row["ready"]
            return Refusal(reason="moved-on", ahead=stands if later else None)
        # Ready by now, it became so a moment ago: whoever made it ready publishes it.
        owned = row["lease_owner"] is not None or row["ready"]
        return Refusal(reason="owned" if owned else "parked")

    @contextmanager
    def unit(self, claim: Claim, *, durable: bool) -> Generator[PostgresUnit]:
        """As `Ledger.unit`."""
        unit = PostgresUnit(claim)
        yield unit
        unit.commit(self._connections, durable=durable)

    def park(
        self, claim: Claim, *, reason: str, wait: timedelta | None, stage: Stage, work: TurnWork
    ) -> None:
        """As `Ledger.park`."""
        params = {
            **rows.claim_params(claim),
            "reason": reason,
            "wait": wait,
            "next_stage": stage.value,
            "work": work.model_dump_json(),
        }
        if not self._connections.run("park", params, durable=True):
            raise lease_lost(claim)

    def hand_back(self, claim: Claim) -> Wake | None:
        """As `Ledger.hand_back`."""
        found = self._connections.run("hand_back", rows.claim_params(claim), durable=True)
        return rows.wake(found[0]) if found else None

    def renew(self, claims: Sequence[Claim], lease: timedelta) -> list[Renewal]:
        """As `Ledger.renew`. A lease that ran out is renewed while nobody took the turn over."""
        if not claims:
            return []
        params = {
            "lease": lease,
            "turn_ids": [claim.turn.turn_id for claim in claims],
            "fences": [claim.turn.fence for claim in claims],
            "lease_owners": [claim.lease_owner for claim in claims],
        }
        found = self._connections.run_safely("renew", params)
        renewed = {
            row["lease_owner"]: Renewal(
                renewed=True,
                cancel_requested=row["cancel_requested"],
                deadline_passed=row["deadline_passed"],
            )
            for row in found
        }
        return [renewed.get(claim.lease_owner, Renewal(renewed=False)) for claim in claims]


def lease_lost(claim: Claim) -> LeaseLost:
    """The right of this claim has gone to somebody else."""
    return LeaseLost(f"turn {claim.turn.turn_id!r} is no longer held by {claim.lease_owner!r}")
