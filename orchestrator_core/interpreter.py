"""Performs the machine's actions: the author's callables are called here, and nowhere else. [O 3.7, O 3.10 to 3.12]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, assert_never, cast

from turnchain.orchestrator_core.callbacks import (
    Agent,
    AgentResult,
    CallContext,
    EvaluateContext,
    IntentContext,
    RouteContext,
)
from turnchain.orchestrator_core.contracts import (
    JSONObject,
    Message,
    SupervisorRun,
    Usage,
    Verdict,
    WindowedHistory,
    checked_json,
    to_json,
)
from turnchain.orchestrator_core.copies import Copies, json_copy
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    SchemaValidationError,
    SupervisorFailedError,
    SupervisorRoutingError,
    TurnchainError,
    text_of,
    to_record,
)
from turnchain.orchestrator_core.steps import StepJournal
from turnchain.orchestrator_core.supervisor import (
    Action,
    ActionResult,
    CallEvaluate,
    CallIntent,
    CallNext,
    CallRoute,
    Evaluated,
    Finish,
    IntentReturned,
    NextGiven,
    Raised,
    Routed,
)
from turnchain.orchestrator_core.turn_context import TurnContext

AnyContext = TypeVar("AnyContext", bound=CallContext)


class Interpreter:
    """Calls one turn's callables with copies of what they may see.

    An exception of theirs is a result, not a failure of ours; an `Interruption` passes through.
    """

    def __init__(self, turn: TurnContext, env: Environment, context: Mapping[str, Any]) -> None:
        self._turn = turn
        self._env = env
        self._definition = turn.definition
        self._context = context
        self._windows = turn.work.windows or WindowedHistory()
        self._resumed_at: int | None = None

    def perform(self, action: Action, run: SupervisorRun) -> ActionResult:
        """Do what the machine asks for."""
        if self._resumed_at is None:
            self._resumed_at = run.iteration
        match action:
            case CallRoute():
                context = self._see(
                    RouteContext, run, self._windows.router, feedback=run.carry.feedback
                )
                return self._guarded(
                    "route", lambda: Routed(self._call(self._definition.route, context))
                )
            case CallIntent(intent=key) if key not in self._definition.intents:
                return Raised(to_record(self._lost(key)))
            case CallIntent(intent=key):
                return self._dispatch(key, run)
            case CallEvaluate():
                return self._guarded("evaluate", lambda: Evaluated(self._evaluated(run)))
            case CallNext(intent=key):
                context = self._intent_context(key, run)
                return self._guarded(
                    f"next of {key!r}", lambda: NextGiven(self._following(key, context))
                )
            case Finish():
                raise SupervisorFailedError("a finished run asks for nothing")
            case _:
                assert_never(action)

    def _following(self, key: str, context: IntentContext) -> Any:
        ask = self._definition.intent(key).next
        return self._call(ask, context) if ask else None

    def _lost(self, key: str) -> SupervisorRoutingError:
        """A run goes on with what another definition decided before it was cut; `force` lets that come here."""
        known = sorted(self._definition.intents)
        return SupervisorRoutingError(
            f"the saved run goes on with intent {key!r}, which this definition has no more; it has {known}: deploy "
            "the former definition until the turn is done, or enqueue it again",
            {"returned": repr(key), "available_keys": known},
        )

    def _dispatch(self, key: str, run: SupervisorRun) -> IntentReturned:
        intent = self._definition.intent(key)
        context = self._intent_context(key, run)
        started = self._env.clock.elapsed()
        try:
            returned = (
                self._ask(intent.agent, context) if intent.agent else self._run(intent.run, context)
            )
        except TurnchainError as error:
            returned = IntentReturned(error=to_record(error))
        except Exception as error:
            failed = SupervisorFailedError(
                f"intent {key!r} raised {type(error).__name__}: {text_of(error)}", {"intent": key}
            )
            failed.__cause__ = error
            returned = IntentReturned(error=to_record(failed))
        duration = (self._env.clock.elapsed() - started).total_seconds()
        return IntentReturned(
            output=returned.output,
            merges=returned.merges,
            error=returned.error,
            usage=returned.usage,
            duration=duration,
        )

    def _run(self, fn: Any, context: IntentContext) -> IntentReturned:
        output = _as_json(f"output of intent {context.intent!r}", self._call(fn, context))
        merges = cast("JSONObject", output) if isinstance(output, dict) else None
        return IntentReturned(output=output, merges=merges)

    def _ask(self, agent: Agent, context: IntentContext) -> IntentReturned:
        text = context.input if isinstance(context.input, str) else to_json(context.input)

        def execute(text: str) -> Any:
            return agent.execute(text, history=context.history, context=context.context)

        result = self._call(execute, text)
        if not isinstance(result, AgentResult):
            raise SupervisorFailedError(
                f"agent {agent.name!r} returned {type(result).__name__}: return an AgentResult"
            )
        output = _as_json(
            f"output of agent {agent.name!r}", result.text if result.data is None else result.data
        )
        return IntentReturned(
            output=output,
            error=to_record(result.error) if result.error else None,
            usage=Usage.model_validate(result.usage),
        )

    def _evaluated(self, run: SupervisorRun) -> Verdict | None:
        evaluate, opened = self._definition.evaluate, run.open
        if evaluate is None or opened is None or opened.branch is None:
            return None
        result = {opened.branch.intent: opened.branch.model_copy(deep=True)}
        context = self._see(EvaluateContext, run, self._windows.agents, result=result)
        verdict = self._call(evaluate, context)
        if verdict is not None and not isinstance(verdict, Verdict):
            raise SupervisorFailedError(f"evaluate returned {verdict!r}: return a Verdict or None")
        if verdict is not None:
            _as_json("feedback of evaluate", verdict.feedback)  # it is saved with the iteration
        return verdict

    def _intent_context(self, key: str, run: SupervisorRun) -> IntentContext:
        claim = self._turn.claim
        iteration = run.iteration + 1
        journal = StepJournal(
            self._env.ledger,
            claim,
            self._turn.watch,
            run_id=run.run_id,
            iteration=iteration,
            intent=key,
        )
        # Takeovers in a row: of those before this claim, an iteration settled under it knows nothing.
        attempt = claim.turn.attempts if run.iteration == self._resumed_at else 0
        return self._see(
            IntentContext, run, self._windows.agents, intent=key, attempt=attempt, journal=journal
        )

    def _see(
        self, kind: type[AnyContext], run: SupervisorRun, history: tuple[Message, ...], **more: Any
    ) -> AnyContext:
        state = run.open.state if run.open and run.open.state is not None else run.state
        return kind(
            session=run.session,
            turn_index=run.turn_index,
            run_id=run.run_id,
            iteration=run.iteration + 1,
            input=json_copy(run.input),
            state=json_copy(state),
            iterations=Copies(run.iterations),
            history=Copies(history),
            context=self._context,
            **more,
        )

    def _call(self, fn: Any, *args: Any) -> Any:
        return self._env.invoker.call(fn, *args, watch=self._turn.watch)

    @staticmethod
    def _guarded(what: str, act: Any) -> ActionResult:
        try:
            return act()
        except TurnchainError as error:
            return Raised(to_record(error))
        except Exception as error:
            failed = SupervisorFailedError(
                f"{what} raised {type(error).__name__}: {text_of(error)}"
            )
            failed.__cause__ = error
            return Raised(to_record(failed))


def _as_json(what: str, value: Any) -> Any:
    try:
        return checked_json(what, value)
    except InvalidInputError as error:
        raise SchemaValidationError(str(error), error.context) from error
