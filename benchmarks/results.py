"""All that a run found, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.counting import Counted
from benchmarks.figures import median, median_ratio
from benchmarks.growth import Grown
from benchmarks.recovery import Recovered
from benchmarks.rounds import Cell
from benchmarks.work import Shape

Fact = str | int | float | bool


@dataclass(slots=True, kw_only=True)
class Results:
    """A run. Parts that were not asked for are empty."""

    began_at: datetime
    machine: Mapping[str, Fact]
    versions: Mapping[str, str]
    settings: Mapping[str, Fact | Sequence[Fact]]
    cells: list[Cell] = field(default_factory=list[Cell])
    counted: list[Counted] = field(default_factory=list[Counted])
    grown: list[Grown] = field(default_factory=list[Grown])
    recovered: list[Recovered] = field(default_factory=list[Recovered])

    def cells_of(self, contender: str, shape: Shape, sessions: int) -> dict[int, Cell]:
        """By round: the calm ones, or all where fewer than two were calm."""
        found = {
            cell.round: cell
            for cell in self.cells
            if (cell.contender, cell.shape, cell.sessions) == (contender, shape, sessions)
        }
        calm = {number: cell for number, cell in found.items() if cell.is_calm}
        return calm if len(calm) > 1 else found

    def value(self, measure: str, contender: str, shape: Shape, sessions: int) -> float | None:
        """The median over the rounds of an attribute of the cells; None if there is none."""
        cells = self.cells_of(contender, shape, sessions).values()
        return median(value for cell in cells if (value := getattr(cell, measure)) is not None)

    def ratio(
        self, measure: str, contender: str, peer: str, shape: Shape, sessions: int
    ) -> float | None:
        """The median over the rounds of each round's ratio of an attribute to a peer's."""
        one, other = (
            {
                number: value
                for number, cell in self.cells_of(name, shape, sessions).items()
                if (value := getattr(cell, measure)) is not None
            }
            for name in (contender, peer)
        )
        return median_ratio(one, other)

    def counted_of(self, contender: str, shape: Shape) -> Counted | None:
        """The counting pass of a contender."""
        return next(
            (each for each in self.counted if (each.contender, each.shape) == (contender, shape)),
            None,
        )


_FORM = TypeAdapter(Results)


def write(results: Results, file: Path) -> None:
    """As JSON, every round in it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_FORM.dump_json(results, indent=1) + b"\n")


def read(file: Path) -> Results:
    """What `write` wrote.

    Raises:
        OSError, pydantic.ValidationError: there is no such file, or it holds something else.
    """
    return _FORM.validate_json(file.read_bytes())
