"""`ctx.step`: a side effect with its intent journaled before it and its result after it. [DESIGN 6, Steps]"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

from turnchain.orchestrator_core.callbacks import Found, Reconcile, Step
from turnchain.orchestrator_core.contracts import JSON, Claim, StepRecord, checked_json
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    OrchestratorConfigError,
    SchemaValidationError,
    StepInDoubtError,
)
from turnchain.orchestrator_core.ports import Ledger, Watch

POLICIES = ("retry", "fail")


class StepJournal:
    """The journal of one dispatched intent. Its keys (run, iteration, intent, name, ordinal) stay in every attempt."""

    def __init__(
        self,
        ledger: Ledger,
        claim: Claim,
        watch: Watch,
        *,
        run_id: str,
        iteration: int,
        intent: str,
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._watch = watch
        self._run_id = run_id
        self._prefix = f"{run_id}:{iteration}:{intent}"
        self._ordinals: Counter[str] = Counter()

    def step(self, name: str, fn: Callable[[Step], Any], *, policy: Any = "retry") -> JSON:
        """See `IntentContext.step`."""
        record = self._begin(name, policy)
        if record.status == "finished":
            return record.result
        step = Step(effect_key=record.effect_key, in_doubt=not record.created)
        found = self._looked_up(record, step, policy)
        result = found.result if found else _not_awaitable(fn(step), name)
        return self._finish(record, result)

    async def astep(self, name: str, fn: Callable[[Step], Any], *, policy: Any = "retry") -> JSON:
        """See `IntentContext.step`. The ledger is asked on a thread, since its drivers block."""
        record = await asyncio.to_thread(self._begin, name, policy)
        if record.status == "finished":
            return record.result
        step = Step(effect_key=record.effect_key, in_doubt=not record.created)
        found: Any = None
        if step.in_doubt and isinstance(policy, Reconcile):
            found = await _value(policy.look_up(step))
        else:
            self._looked_up(record, step, policy)
        result = found.result if isinstance(found, Found) else await _value(fn(step))
        return await asyncio.to_thread(self._finish, record, result)

    def _begin(self, name: str, policy: Any) -> StepRecord:
        if (
            not name
            or not isinstance(policy, Reconcile | str)
            or (isinstance(policy, str) and policy not in POLICIES)
        ):
            raise OrchestratorConfigError(
                f"step({name!r}, policy={policy!r}) is not usable: name it, and give 'retry', 'fail' "
                "or Reconcile(look_up)",
                {"authoring": True, "field": "policy", "value": repr(policy)[:200]},
            )
        self._watch.check_call()
        ordinal = self._ordinals[name]
        self._ordinals[name] += 1
        key = f"{self._prefix}:{name}" + (f":{ordinal}" if ordinal else "")
        record = self._ledger.begin_step(self._claim, self._run_id, key, name)
        # The intent may have waited for the store until after the lease ran out: look again before the effect.
        self._watch.check_call()
        return record

    def _looked_up(self, record: StepRecord, step: Step, policy: Any) -> Found | None:
        if not step.in_doubt:
            return None
        if policy == "fail":
            raise StepInDoubtError(
                f"step {record.name!r} was cut between its intent and its result, and nobody knows whether it took "
                f"effect: look for effect key {record.effect_key!r}, or give the step policy 'retry' or Reconcile",
                {"effect_key": record.effect_key, "step": record.name},
            )
        if isinstance(policy, Reconcile):
            return _not_awaitable(policy.look_up(step), record.name)
        return None

    def _finish(self, record: StepRecord, result: Any) -> JSON:
        try:
            value = checked_json(f"result of step {record.name!r}", result)
        except InvalidInputError as error:
            raise SchemaValidationError(str(error), error.context) from error
        self._ledger.finish_step(self._claim, self._run_id, record.effect_key, value)
        return value


def _not_awaitable(value: Any, name: str) -> Any:
    if inspect.isawaitable(value):
        raise OrchestratorConfigError(
            f"step {name!r} was given an async function: use `await ctx.astep(...)`"
        )
    return value


async def _value(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
