"""Every setting there is, from the environment, checked once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from itertools import takewhile
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from turnchain.orchestrator_core.contracts import STAGES, Record, Stage
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.errors import SettingsError, scrub
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.orchestrator_core.wire import TURNS_QUEUE

PREFIX = "TURNCHAIN_"
_HEARTBEAT_COUNTS = timedelta(seconds=10)
"""How long the ledger takes a silent process for alive."""
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
BROKER_SCHEMES = ("redis://", "rediss://", "redis+socket://", "amqp://", "amqps://", "pyamqp://")


def _seconds(value: Any) -> timedelta:
    reason = "it must be a number of seconds greater than 0, such as 20 or 0.5"
    try:
        duration = value if isinstance(value, timedelta) else timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(reason) from None
    if duration <= timedelta(0):
        raise ValueError(reason)
    return duration


def _words(value: Any) -> Any:
    return (
        tuple(word.strip() for word in value.split(",") if word.strip())
        if isinstance(value, str)
        else value
    )


Seconds = Annotated[timedelta, BeforeValidator(_seconds)]
"""A positive number of seconds in the environment."""
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
"""Comma-separated."""


class Settings(Record):
    """How a process runs. Variable names are the fields' in capitals, after `TURNCHAIN_`; durations are seconds."""

    # `turnchain settings` shows the string under each field.
    model_config = ConfigDict(use_attribute_docstrings=True)

    postgres_url: str
    """The ledger: `postgresql://…`."""
    broker_url: str = "redis://127.0.0.1:6379/0"
    """Celery's broker: `redis://…`, `redis+socket://…` or `amqp://…`."""
    key_prefix: str = "turnchain:"
    """Before every key that the broker's transport writes in Redis."""
    orchestrators: Words = ()
    """Where definitions are: `package.module:attribute`, or a module for all in it."""
    chain_mode: Literal["staged", "inline"] = "staged"
    """Whether each stage is a message of its own, or called in place where this worker serves it too."""
    stage_queues: Annotated[
        dict[Stage, str], BeforeValidator(lambda value: _stage_queues(value))
    ] = Field(default_factory=dict[Stage, str])
    """Queues of single stages: `dispatch=models,compact=slow`."""
    lease: Seconds = timedelta(seconds=20)
    """How long a process may be silent before another one takes its turns over."""
    housekeeping: Seconds = timedelta(seconds=2)
    """How often leases are renewed and heartbeats written; at most a third of the lease."""
    sweep_interval: Seconds = timedelta(seconds=5)
    """How often turns that nobody looks after are looked for, over all processes together."""
    rewake: Seconds = timedelta(seconds=5)
    """When a turn that no worker has claimed is published again; twice as late each further time."""
    rewake_longest: Seconds = timedelta(minutes=5)
    """The longest wait between two publications of such a turn."""
    max_attempts: int = Field(default=3, ge=1)
    """Workers that a turn may lose in a row without progress, before it is given up as dead."""
    max_in_flight: int | None = Field(default=None, ge=1)
    """Turns admitted at once; unset, the slots of the live workers."""
    lock_max_wait: Seconds = timedelta(seconds=5)
    """How long a turn waits for the compaction of its session, before it goes on without."""
    hand_back_grace: Seconds = timedelta(seconds=3)
    """How long a call of user code may go on after SIGTERM."""
    dispatch_limit: Seconds = timedelta(minutes=15)
    """How long the lease of one dispatch is renewed."""
    stage_limit: Seconds = timedelta(seconds=60)
    """How long the lease of any other stage is renewed."""
    log_level: str = "INFO"
    """`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`."""

    @field_validator("postgres_url")
    @classmethod
    def _is_postgres(cls, value: str) -> str:
        if not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("it must begin with postgresql://")
        return value

    @field_validator("broker_url")
    @classmethod
    def _is_broker(cls, value: str) -> str:
        if not value.startswith(BROKER_SCHEMES):
            raise ValueError(f"it must begin with one of {', '.join(BROKER_SCHEMES)}")
        return value

    @field_validator("log_level")
    @classmethod
    def _is_level(cls, value: str) -> str:
        if value.upper() not in _LEVELS:
            raise ValueError(f"it must be {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}")
        return value.upper()

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings.

        Raises:
            SettingsError: names each variable, its value and what it may be.
        """
        given = {
            name: environ[PREFIX + name.upper()]
            for name in cls.model_fields
            if PREFIX + name.upper() in environ
        }
        try:
            settings = cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError(
                "; ".join(_sentence(each, given) for each in error.errors())
            ) from None
        if settings.housekeeping > settings.lease / 3:
            raise SettingsError(
                f"TURNCHAIN_HOUSEKEEPING = {settings.housekeeping.total_seconds()} is more than a third of "
                f"TURNCHAIN_LEASE = {settings.lease.total_seconds()}: a lease could run out between two renewals; "
                "raise the lease"
            )
        if settings.housekeeping > _HEARTBEAT_COUNTS / 3:
            raise SettingsError(
                f"TURNCHAIN_HOUSEKEEPING = {settings.housekeeping.total_seconds()} is more than a third of the "
                f"{_HEARTBEAT_COUNTS.total_seconds():g} s for which a heartbeat counts: the process's slots would come "
                "and go; lower it"
            )
        return settings

    def queue_of(self, stage: Stage) -> str:
        """The queue that carries the messages of a stage."""
        return self.stage_queues.get(stage, TURNS_QUEUE)

    @property
    def policy(self) -> Policy:
        """The protocol's numbers."""
        return Policy(
            lease=self.lease,
            max_attempts=self.max_attempts,
            lock_max_wait=self.lock_max_wait,
            max_in_flight=self.max_in_flight,
        )

    @property
    def sweep_policy(self) -> SweepPolicy:
        """The sweep's numbers."""
        return SweepPolicy(
            interval=self.sweep_interval,
            rewake_first=self.rewake,
            rewake_longest=self.rewake_longest,
        )

    def limit_of(self, stage: Stage, in_place: Collection[Stage] = ()) -> timedelta:
        """How long a message of this stage may run, and a claim that it made is renewed.

        Time for the stages that run in place behind it is in it.
        """
        run = takewhile(in_place.__contains__, STAGES[stage.order + 1 :])
        return sum(map(self._own_limit, run), start=self._own_limit(stage))

    def _own_limit(self, stage: Stage) -> timedelta:
        return self.dispatch_limit if stage is Stage.DISPATCH else self.stage_limit

    def in_place(self, queues: Collection[str]) -> frozenset[Stage]:
        """The stages that whoever reads these queues calls in place."""
        served = (stage for stage in STAGES if self.queue_of(stage) in queues)
        return frozenset(served if self.chain_mode == "inline" else ())


def _stage_queues(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    pairs = [word.partition("=") for word in _words(value)]
    wrong = [name for name, _, queue in pairs if name not in STAGES or not queue]
    if wrong:
        raise ValueError(
            f"{wrong[0]!r} is no stage with a queue; write stage=queue with stages {[*map(str, STAGES)]}"
        )
    return {Stage(name): queue for name, _, queue in pairs}


def _sentence(error: Any, given: Mapping[str, str]) -> str:
    name = str(error["loc"][0])
    variable = PREFIX + name.upper()
    if error["type"] == "missing":
        return f"{variable} is not set: set it, for example to postgresql://user:password@host/database"
    value = given.get(name, "")
    shown = without_secrets(value) if name.endswith("_url") else scrub(value)
    return f"{variable} = {shown!r} is not usable: {error['msg'].removeprefix('Value error, ')}"


def without_secrets(url: str) -> str:
    """A URL, however wrong it is, without what may be a password: user and query are left out."""
    scheme, found, rest = url.partition("://") if "://" in url else ("", "", url)
    address, asks, _ = rest.partition("?")
    _, has_user, place = address.rpartition("@")
    return f"{scheme}{found}{'…@' if has_user else ''}{place}{'?…' if asks else ''}"
