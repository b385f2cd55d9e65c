"""The contenders, by name, in the order in which the first round runs them."""

from __future__ import annotations

from benchmarks.contenders.contender import Contender, Running
from benchmarks.contenders.handwritten import Handwritten
from benchmarks.contenders.noop7 import Noop7
from benchmarks.contenders.turnchain import Turnchain

__all__ = ["CONTENDERS", "Contender", "Running"]

CONTENDERS: dict[str, Contender] = {
    each.name: each
    for each in (
        Turnchain("staged"),
        Turnchain("inline"),
        Noop7(),
        Handwritten(),
    )
}
