"""The journal of side effects."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import JSON, Claim, StepRecord, to_json
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.moving import lease_lost


class Steps(Part):
    """Intent before, result after. Journals belong to runs: a resumed run finds its steps."""

    def begin_step(self, claim: Claim, run_id: str, effect_key: str, name: str) -> StepRecord:
        """As `Ledger.begin_step`."""
        params = {
            **rows.claim_params(claim),
            "run_id": run_id,
            "effect_key": effect_key,
            "name": name,
        }
        found = self._connections.run("begin_step", params, durable=True)
        if not found:
            # Two branches with one key: the other's row came after this statement's snapshot.
            found = self._connections.run("begin_step", params, durable=True)
        if not found:
            raise lease_lost(claim)
        return StepRecord.model_validate({"run_id": run_id, "effect_key": effect_key, **found[0]})

    def finish_step(self, claim: Claim, run_id: str, effect_key: str, result: JSON) -> None:
        """As `Ledger.finish_step`. The first result stays."""
        params = {
            **rows.claim_params(claim),
            "run_id": run_id,
            "effect_key": effect_key,
            "result": to_json(result),
        }
        if not self._connections.run_safely("finish_step", params, durable=True):
            raise lease_lost(claim)
