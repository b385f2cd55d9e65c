"""What the numbers should be, and by how much they are met or missed. Ratios are those of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.growth import Grown
from benchmarks.recovery import Killed
from benchmarks.results import Results
from benchmarks.work import Shape

HANDWRITTEN, NOOP7, STAGED, INLINE = "handwritten", "noop7", "staged", "inline"


@dataclass(frozen=True, slots=True)
class Target:
    """One promise."""

    says: str
    direction: Literal["at least", "at most"]
    wanted: float
    unit: str
    find: Callable[[Results], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target beside what was found; `found` is None where nothing was measured."""

    target: Target
    found: float | None

    @property
    def is_met(self) -> bool | None:
        """None where nothing was measured."""
        if self.found is None:
            return None
        is_least = self.target.direction == "at least"
        return self.found >= self.target.wanted if is_least else self.found <= self.target.wanted

    @property
    def margin(self) -> float:
        """How far on the good side, as a share of what was wanted; negative where it is missed."""
        share = (self.found or 0.0) / self.target.wanted - 1
        return share if self.target.direction == "at least" else -share

    @property
    def says(self) -> str:
        """In a word, and by how much."""
        if self.is_met is None:
            return "not measured"
        if self.found == float("inf"):
            return "MISSED, there was no answer"
        return f"{'met' if self.is_met else 'MISSED'} by {abs(self.margin):.0%}"


def judge(results: Results) -> list[Verdict]:
    """All targets."""
    return [Verdict(target=each, found=each.find(results)) for each in TARGETS]


def _ratio(
    measure: str, contender: str, peer: str, sessions: int, shape: Shape = Shape.SINGLE
) -> Callable[[Results], float | None]:
    return lambda results: results.ratio(measure, contender, peer, shape, sessions)


def _bytes(contender: str, shape: Shape) -> Callable[[Results], float | None]:
    def find(results: Results) -> float | None:
        ours = results.counted_of(contender, shape)
        theirs = results.counted_of(HANDWRITTEN, shape)
        return ours.bytes / theirs.bytes if ours and theirs and theirs.bytes else None

    return find


def _growth(contender: str, shape: Shape) -> Callable[[Results], float | None]:
    def find(results: Results) -> float | None:
        return next((each.ratio for each in results.grown if _is(each, contender, shape)), None)

    return find


def _is(grown: Grown, contender: str, shape: Shape) -> bool:
    return (grown.contender, grown.shape) == (contender, shape)


def _recovery(
    contender: str, killed: Killed, measure: Literal["seconds", "rerun"]
) -> Callable[[Results], float | None]:
    """A recovery that never came is as bad as can be."""

    def find(results: Results) -> float | None:
        for each in results.recovered:
            if (each.contender, each.killed) == (contender, killed):
                value = getattr(each, measure)
                return float("inf") if value is None else value
        return None

    return find


def _both(make: Callable[[str], Sequence[Target]]) -> list[Target]:
    return [target for name in (STAGED, INLINE) for target in make(name)]


TARGETS: Sequence[Target] = (
    *(
        Target(
            f"staged / noop7, turns/s at {sessions}", "at least", 0.7, "x",
            _ratio("turns_per_second", STAGED, NOOP7, sessions),
        )
        for sessions in (8, 64)
    ),
    Target(
        "staged / noop7, p50 at 1", "at most", 1.8, "x", _ratio("p50_ms", STAGED, NOOP7, 1)
    ),
    Target(
        "staged / noop7, CPU a turn at 8", "at most", 1.6, "x", _ratio("cpu_ms_total", STAGED, NOOP7, 8),
    ),
    *(
        Target(
            f"inline / handwritten, turns/s at {sessions}", "at least", 0.5, "x",
            _ratio("turns_per_second", INLINE, HANDWRITTEN, sessions),
        )
        for sessions in (8, 64)
    ),
    *(
        Target(
            f"inline / staged, turns/s at {sessions}", "at least", 3, "x",
            _ratio("turns_per_second", INLINE, STAGED, sessions),
        )
        for sessions in (8, 64)
    ),
    Target(
        "inline / handwritten, five iterations, turns/s at 8", "at least", 0.4, "x",
        _ratio("turns_per_second", INLINE, HANDWRITTEN, 8, Shape.FIVE),
    ),
    *_both(
        lambda name: [
            Target(
                f"{name} / handwritten, Postgres bytes a turn", "at most", 2.5, "x",
                _bytes(name, Shape.SINGLE),
            ),
            Target(
                f"{name} / handwritten, Postgres bytes of five iterations", "at most", 2.5, "x",
                _bytes(name, Shape.FIVE),
            ),
            Target(
                f"{name}, turn 200 / turn 2", "at most", 1.2, "x", _growth(name, Shape.SINGLE)
            ),
            Target(
                f"{name}, turn 200 / turn 2, everything kept", "at most", 1.2, "x",
                _growth(name, Shape.KEPT),
            ),
            Target(
                f"{name}, worker killed, answer after", "at most", 27, "s",
                _recovery(name, Killed.WORKER, "seconds"),
            ),
            Target(
                f"{name}, child killed, answer after", "at most", 2, "s",
                _recovery(name, Killed.CHILD, "seconds"),
            ),
            Target(
                f"{name}, worker killed, iterations run again", "at most", 1, "",
                _recovery(name, Killed.WORKER, "rerun"),
            ),
        ]
    ),
)  # fmt: skip
