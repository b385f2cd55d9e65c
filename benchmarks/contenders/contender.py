"""What a contender is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from benchmarks.fleet import Worker
from benchmarks.stand import Place, Stand
from benchmarks.work import Shape

ANSWER_SECONDS = 60.0
"""How long a caller waits for an answer before the benchmark is given up."""


def nothing() -> None:
    """What there is to wait for behind an answer that ends its turn."""


@dataclass(frozen=True, slots=True)
class Running:
    """A contender whose worker is ready."""

    play: Callable[[str, Shape], None]
    """Sends one turn of a session and returns with its answer. Called from many threads."""
    worker: Worker
    settle: Callable[[], None] = nothing
    """Returns when nothing is left to do behind the answers."""


class Contender(Protocol):
    """One way to run turns."""

    @property
    def name(self) -> str:
        """As in options and results."""
        ...

    @property
    def shapes(self) -> Sequence[Shape]:
        """The turns that it can run."""
        ...

    @property
    def growing(self) -> Sequence[Shape]:
        """The turns whose long session is measured; none where nothing is kept."""
        ...

    @property
    def absence(self) -> str | None:
        """Why it cannot run in this checkout; None if it can."""
        ...

    def running(self, stand: Stand, place: Place) -> AbstractContextManager[Running]:
        """Its worker and a caller, for the length of the block. The place may have been used before."""
        ...

    def worker(self, stand: Stand, place: Place, name: str) -> AbstractContextManager[Worker]:
        """One worker more at the same place."""
        ...
