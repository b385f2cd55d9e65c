"""A Celery app on a broker in memory, the tasks' environment over memory stores, and the messages in between."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from celery import Celery
from kombu.message import Message

from turnchain import END, IntentContext, Orchestrator
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage, TurnId, TurnRecord, Wake
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.requests import build_request, request_hash
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.tasks.base import StageTask
from turnchain.tasks.chain import routes
from turnchain.tasks.environment import TaskEnvironment
from turnchain.workers.installing import TASK_MODULES

SECRET = "what a person wrote \N{UMBRELLA}"


def answer(ctx: IntentContext) -> dict[str, Any]:
    return {"answer": ctx.input}


bot = Orchestrator(
    name="bot",
    intents={"answer": answer},
    route=lambda ctx: "answer" if ctx.iteration == 0 else END,
    iterate=True,
)


def new_app(broker: str = "memory://") -> Celery:
    """An app with our tasks; its broker is its own."""
    app = Celery(f"desk-{uuid4().hex}", broker=broker, set_as_current=False, include=TASK_MODULES)
    app.conf.task_routes = routes({})
    app.conf.broker_transport_options = {"polling_interval": 0.01}
    app.loader.import_default_modules()
    app.finalize()
    return app


@dataclass(slots=True)
class Desk:
    """What a test of a task works with."""

    app: Celery
    core: Environment
    received: list[Message] = field(default_factory=list[Message])

    @property
    def env(self) -> TaskEnvironment:
        return TaskEnvironment(core=self.core, sweep=SweepPolicy())

    def task(self, stage: Stage, *, chain: list[Any] | None = None) -> StageTask:
        """The stage's task inside a request, as a worker calls it."""
        task = cast("StageTask", self.app.tasks[wire.task_name(stage)])
        task.push_request(id=f"task-{stage}", chain=chain)
        return task

    def accepted(self, say: object = SECRET, session: str = "s") -> TurnId:
        """A queued turn."""
        request = build_request(
            "bot", say, turn_id=self.core.new_id(), session_id=session, history=[]
        )
        self.core.ledger.accept(request, request_hash=request_hash(request), known=["bot"])
        return request.turn_id

    def ready(self, say: object = SECRET, session: str = "s") -> Wake:
        """A turn ready at load."""
        turn_id = self.accepted(say, session)
        wake = self.core.ledger.admit_turn(turn_id)
        assert wake is not None
        return wake

    def turn(self, wake: Wake) -> TurnRecord:
        record = self.core.ledger.get(wake.turn_id)
        assert record is not None
        return record

    def messages(self, queue: str = wire.TURNS_QUEUE) -> list[Message]:
        """Take what stands in a queue."""
        found: list[Message] = []
        with self.app.connection_for_read() as connection:
            channel = connection.default_channel
            bound = self.app.amqp.queues[queue].bind(channel)
            bound.declare()
            while (message := bound.get(no_ack=True)) is not None:
                found.append(message)
        self.received += found
        return found

    def wakes(self, queue: str = wire.TURNS_QUEUE) -> list[Wake]:
        """What the messages in a queue wake."""
        return [wake_in(message) for message in self.messages(queue)]

    def run_published(self) -> None:
        """Run message after message as a worker would, until none is left."""
        while messages := self.messages():
            for message in messages:
                args, _, embed = body_of(message)
                name = header(message, "task")
                task = cast("StageTask", self.app.tasks[name])
                task.push_request(
                    id=header(message, "id"), chain=embed["chain"], args=args, kwargs={}
                )
                try:
                    task.run(*args)
                    chain = cast("list[Any] | None", task.request.chain)
                    if chain:
                        self.app.signature(chain.pop()).apply_async(chain=chain)
                finally:
                    task.pop_request()


def body_of(message: Message) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Arguments, keywords and what is embedded, as Celery's protocol 2 has them."""
    return json.loads(message.body or "")


def header(message: Message, name: str) -> Any:
    return cast("dict[str, Any]", message.headers)[name]


def wake_in(message: Message) -> Wake:
    stage = str(header(message, "task")).removeprefix(wire.TASK_PREFIX)
    wake = wire.read_wake(stage, body_of(message)[0])
    assert wake is not None
    return wake
