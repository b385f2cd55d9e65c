"""Processor time of whole process trees, and what else the machine was busy with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import psutil

PARTS = ("worker", "postgres", "redis", "caller")
IDLE = "idle"
"""Processes of ours that the measured contender has no part in: neither its cost nor a foreign load."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of processor time that each part has had, and the whole machine, at one instant."""

    at: float
    parts: Mapping[str, float]
    busy: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What happened between two readings."""

    seconds: float
    parts: Mapping[str, float]
    foreign_load: float
    """Processor time of everybody else, as a share of all processors; 0 to 1."""

    @property
    def total(self) -> float:
        """Seconds of all parts together."""
        return sum(self.parts.values())


def read(trees: Mapping[str, Sequence[int]]) -> Reading:
    """The present reading. `trees` are the parts' root processes; the caller is this process alone."""
    parts = {name: sum(_of_tree(pid) for pid in pids) for name, pids in trees.items()}
    own = psutil.Process().cpu_times()
    parts["caller"] = own.user + own.system
    return Reading(monotonic(), parts, _busy())


def between(before: Reading, after: Reading) -> Spent:
    """What the parts and the others have used."""
    seconds = after.at - before.at
    parts = {name: max(0.0, after.parts[name] - before.parts[name]) for name in before.parts}
    foreign = after.busy - before.busy - sum(parts.values())
    parts.pop(IDLE, None)
    return Spent(seconds, parts, max(0.0, foreign) / (seconds * (os.cpu_count() or 1)))


def pid_if_called(name: str, pid: Any, *, parent: bool = False) -> int | None:
    """The process, or its parent, if it is on this machine and called so.

    A number told by a server elsewhere may be another process here.
    """
    try:
        process = psutil.Process(int(pid))
        process = process.parent() if parent else process
        return process.pid if process and name in process.name() else None
    except psutil.Error:
        return None


def _of_tree(pid: int) -> float:
    """A process, its descendants, and those that they have waited for: nothing is lost when one ends."""
    root = psutil.Process(pid)
    seconds = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it ended just now; its parent has its time
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _busy() -> float:
    times = psutil.cpu_times()._asdict()
    idle = times["idle"] + times.get("iowait", 0.0)
    # A guest's time is in the user's already.
    guests = times.get("guest", 0.0) + times.get("guest_nice", 0.0)
    return sum(times.values()) - idle - guests
