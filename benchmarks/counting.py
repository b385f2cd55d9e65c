"""The counting pass: so many turns of one session after the other, and what the servers counted meanwhile.

It is a pass of its own, with nobody else's worker up, because the servers count for all together, and
because a backend tells some of its counts when it ends: the worker is stopped before they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import Contender, Running
from benchmarks.counters import counters, track_statements
from benchmarks.stand import Stand
from benchmarks.work import SESSION_TURNS, Shape

_WARM_UP_TURNS = 20
_STATEMENTS_KEPT = 25
_QUERY_LENGTH = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementShare:
    """One kind of statement, a turn."""

    query: str
    calls: float
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a contender's turn costs the servers; everything but the keys is a turn's."""

    contender: str
    shape: Shape
    turns: int
    statements: float | None
    """None where the server has no pg_stat_statements. Without BEGIN and COMMIT."""
    commits: float
    """Those of single statements and of reading ones, too; a worker's start and end among them."""
    fsyncs: float
    """Of the WAL; with one session, so that no two turns share one."""
    wal_bytes: float
    table_bytes: Mapping[str, float]
    redis_commands: float
    keys_left: Sequence[str]
    """Names without the contender's prefix; bindings are what kombu knows its queues by."""
    dearest: Sequence[StatementShare]
    """The statements that took the server longest."""

    @property
    def bytes(self) -> float:
        """In all tables with their indexes, after a VACUUM."""
        return sum(self.table_bytes.values())


def count(stand: Stand, contender: Contender, shape: Shape, turns: int) -> Counted:
    """The pass, in a new database."""
    with stand.place(contender.name) as place:
        track_statements(place)
        with contender.running(stand, place) as running:
            _play(running, "warm-up", shape, _WARM_UP_TURNS)
        with counters(place) as counter:
            sizes_before = counter.table_sizes()
        # Whoever has worked here has left, so that the counters hold all that was before.
        with counters(place) as counter:
            before = counter.lagging()
            with contender.running(stand, place) as running:
                is_counting = counter.begin_statements()
                begun = counter.immediate()
                _play(running, "counted", shape, turns)
                ended = counter.immediate()
                statements = counter.statements() if is_counting else []
            after = counter.lagging()
            sizes = counter.table_sizes()
        keys = [key.removeprefix(place.key_prefix) for key in stand.keys(place.key_prefix)]
    return Counted(
        contender=contender.name,
        shape=shape,
        turns=turns,
        statements=sum(each.calls for each in statements) / turns if is_counting else None,
        commits=(after.commits - before.commits) / turns,
        fsyncs=(after.fsyncs - before.fsyncs) / turns,
        wal_bytes=(ended.wal_bytes - begun.wal_bytes) / turns,
        redis_commands=(ended.redis_commands - begun.redis_commands) / turns,
        table_bytes=_grown(sizes_before, sizes, turns),
        keys_left=keys,
        dearest=[
            StatementShare(
                query=" ".join(each.query.split())[:_QUERY_LENGTH],
                calls=each.calls / turns,
                milliseconds=each.milliseconds / turns,
            )
            for each in statements[:_STATEMENTS_KEPT]
        ],
    )


def _play(running: Running, name: str, shape: Shape, turns: int) -> None:
    for number in range(turns):
        running.play(f"{name}-{number // SESSION_TURNS}", shape)
    running.settle()


def _grown(before: Mapping[str, int], after: Mapping[str, int], turns: int) -> dict[str, float]:
    grown = {name: (size - before.get(name, 0)) / turns for name, size in after.items()}
    return {name: size for name, size in grown.items() if size}
