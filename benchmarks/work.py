"""The work of a turn, the same for every contender: each iteration adds about 2 KB to its session."""

from __future__ import annotations

import base64
import os
import random
import threading
import zlib
from enum import StrEnum
from pathlib import Path

TEXT_LENGTH = 2000
SESSION_TURNS = 20
"""How many turns a session has in the rate runs; then the next one begins."""
EVIDENCE_VARIABLE = "BENCH_EVIDENCE"
"""The file in which a worker's iterations leave evidence."""
HANGS_IN = 2
"""The iteration, counted from 0, that a worker is killed in."""

# Not prose: text that compresses well would hide what is stored more than once.
_SOURCE = base64.b64encode(random.Random(7).randbytes(96 * 1024)).decode()


class Shape(StrEnum):
    """What a turn is like."""

    SINGLE = "single"
    """One iteration."""
    FIVE = "five"
    """Five, each saved before the next."""
    KEPT = "kept"
    """One, in a session of which everything is kept."""

    @property
    def iterations(self) -> int:
        """The number."""
        return 5 if self is Shape.FIVE else 1


def step(turn: str, iteration: int) -> str:
    """One iteration's work: what it adds. Where a recovery is measured it also leaves evidence, and may hang."""
    if EVIDENCE_VARIABLE in os.environ:
        leave_evidence(Path(os.environ[EVIDENCE_VARIABLE]), iteration)
    return text_of(turn, iteration)


def leave_evidence(file: Path, iteration: int) -> None:
    """Write down who runs the iteration; whoever is the first to run the third never comes back from it."""
    is_first = all(each != iteration for each, _ in evidence(file))
    with file.open("a") as lines:
        lines.write(f"{iteration} {os.getpid()}\n")
    if is_first and iteration == HANGS_IN:
        threading.Event().wait()


def evidence(file: Path) -> list[tuple[int, int]]:
    """Iteration and process of each run, in order."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(iteration), int(pid)) for iteration, pid in (line.split() for line in lines)]


def text_of(turn: str, iteration: int) -> str:
    """What an iteration adds. Cheap, so that the turn costs what its engine costs."""
    begin = zlib.crc32(f"{turn}:{iteration}".encode()) % (len(_SOURCE) - TEXT_LENGTH)
    return _SOURCE[begin : begin + TEXT_LENGTH]
