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
    SchemaMissingError,
    SchemaValidationError,
    StepInDoubtError,
    StoreLost,
    StoreUnavailableError,
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
        self._prefix = f"{run_id}:{iteration}:{_part(intent)}"
        self._ordinals: Counter[str] = Counter()

    def step(self, name: str, fn: Callable[[Step], Any], *, policy: Any = "retry") -> JSON:
        """See `IntentContext.step`."""
        record = self._begin(self._key(name, policy), name)
        if record.status == "finished":
            return record.result
        step = Step(effect_key=record.effect_key, in_doubt=not record.created)
        look_up = _asked_in_doubt(record, step, policy)
        found = _found(_not_awaitable(look_up(step), name), name) if look_up else None
        result = found.result if found else _not_awaitable(fn(step), name)
        return self._finish(record, result)

    async def astep(self, name: str, fn: Callable[[Step], Any], *, policy: Any = "retry") -> JSON:
        """See `IntentContext.step`. The ledger is asked on a thread, since its drivers block."""
        # Numbered here and not on the thread: steps that run side by side keep the order of their calls.
        key = self._key(name, policy)
        record = await asyncio.to_thread(self._begin, key, name)
        if record.status == "finished":
            return record.result
        step = Step(effect_key=record.effect_key, in_doubt=not record.created)
        look_up = _asked_in_doubt(record, step, policy)
        found = _found(await _value(look_up(step)), name) if look_up else None
        result = found.result if found else await _value(fn(step))
        return await asyncio.to_thread(self._finish, record, result)

    def _key(self, name: Any, policy: Any) -> str:
        """The effect key of the next step of this name."""
        if not _is_name(name) or not (isinstance(policy, Reconcile) or policy in POLICIES):
            raise OrchestratorConfigError(
                f"step({name!r}, policy={policy!r}) is not usable: name it, and give 'retry', 'fail' "
                "or Reconcile(look_up)",
                {"authoring": True, "field": "policy", "value": repr(policy)[:200]},
            )
        ordinal = self._ordinals[name]
        self._ordinals[name] += 1
        return f"{self._prefix}:{_part(name)}" + (f":{ordinal}" if ordinal else "")

    def _begin(self, key: str, name: str) -> StepRecord:
        self._watch.check_call()
        try:
            record = self._ledger.begin_step(self._claim, self._run_id, key, name)
        except (StoreUnavailableError, SchemaMissingError) as error:
            raise StoreLost(error) from error
        # The intent may have waited for the store until after the lease ran out: look again before the effect.
        self._watch.check_call()
        return record

    def _finish(self, record: StepRecord, result: Any) -> JSON:
        try:
            value = checked_json(f"result of step {record.name!r}", result)
        except InvalidInputError as error:
            raise SchemaValidationError(str(error), error.context) from error
        try:
            self._ledger.finish_step(self._claim, self._run_id, record.effect_key, value)
        except (StoreUnavailableError, SchemaMissingError) as error:
            raise StoreLost(error) from error
        return value


def _asked_in_doubt(record: StepRecord, step: Step, policy: Any) -> Callable[[Step], Any] | None:
    """Whom to ask what became of the step; None runs it.

    Raises:
        StepInDoubtError: it is in doubt, and nobody is to guess.
    """
    if step.in_doubt and policy == "fail":
        raise StepInDoubtError(
            f"step {record.name!r} was cut between its intent and its result, and nobody knows whether it took "
            f"effect: look for effect key {record.effect_key!r}, or give the step policy 'retry' or Reconcile",
            {"effect_key": record.effect_key, "step": record.name},
        )
    return policy.look_up if step.in_doubt and isinstance(policy, Reconcile) else None


def _found(answer: Any, name: str) -> Found | None:
    if answer is None or isinstance(answer, Found):
        return answer
    raise OrchestratorConfigError(
        f"look_up of step {name!r} returned a {type(answer).__name__}: return Found(result), or None for never"
    )


def _is_name(name: Any) -> bool:
    try:
        return isinstance(name, str) and name != "" and checked_json("name", name) == name
    except InvalidInputError:
        return False


def _part(text: str) -> str:
    """One part of an effect key, so written that no other parts make the same key."""
    return text.replace("%", "%25").replace(":", "%3A")


def _not_awaitable(value: Any, name: str) -> Any:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # the error below says it better than "was never awaited"
        raise OrchestratorConfigError(
            f"step {name!r} was given an async function: use `await ctx.astep(...)`"
        )
    return value


async def _value(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
