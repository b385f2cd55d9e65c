"""The journal of side effects."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import JSON, Claim, StepRecord
from turnchain.stores.memory.base import Part


class Steps(Part):
    """Intent before, result after. Journals belong to runs: a resumed run finds its steps."""

    def begin_step(self, claim: Claim, run_id: str, effect_key: str, name: str) -> StepRecord:
        """As `Ledger.begin_step`."""
        with self.tables.lock:
            self.held(claim)
            earlier = self.tables.steps.get((run_id, effect_key))
            if earlier is not None:
                return earlier.model_copy(deep=True)
            step = StepRecord(
                run_id=run_id, effect_key=effect_key, name=name, status="intended", created=False
            )
            self.tables.steps[run_id, effect_key] = step
            return step.model_copy(update={"created": True})

    def finish_step(self, claim: Claim, run_id: str, effect_key: str, result: JSON) -> None:
        """As `Ledger.finish_step`. The first result stays."""
        with self.tables.lock:
            row = self.held(claim)
            step = self.tables.steps.get((run_id, effect_key))
            if step is not None and step.status == "intended":
                finished = step.model_copy(update={"status": "finished", "result": result})
                copy = StepRecord.model_validate_json(finished.model_dump_json())
                self.tables.steps[run_id, effect_key] = copy
            row.attempts = 0
