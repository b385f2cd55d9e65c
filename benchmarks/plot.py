"""The picture of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no display

from matplotlib import pyplot

from benchmarks.machine import PARTS
from benchmarks.results import Results
from benchmarks.tables import SHAPES
from benchmarks.work import Shape

_SHADES = {
    "staged": "#1f6f8b", "inline": "#35b6a6", "noop7": "#b0b0b0", "handwritten": "#6f6f6f",
}  # fmt: skip
_PART_SHADES = dict(zip(PARTS, ("#1f6f8b", "#c96f4a", "#d9b44a", "#b0b0b0"), strict=True))


def draw(results: Results, file: Path) -> None:
    """Throughput, processor time, the long session and its bytes, as PNG."""
    subplots: Any = pyplot.subplots  # half unknown types
    figure, axes = subplots(2, 2, figsize=(12, 8))
    _throughput(axes[0][0], results, Shape.SINGLE)
    _throughput(axes[0][1], results, Shape.FIVE)
    _processor(axes[1][0], results)
    _long_session(axes[1][1], results)
    figure.suptitle(
        f"{results.machine['cpus']} processors, PostgreSQL {results.versions['postgres_server']}, "
        f"fsync {results.settings['fsync']}, one worker of {results.settings['concurrency']} "
        f"{results.settings['pool']}, commit {results.versions['commit']}",
        fontsize=10,
    )
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def _throughput(axis: Any, results: Results, shape: Shape) -> None:
    names = _names(results, shape)
    sessions = sorted({cell.sessions for cell in results.cells if cell.shape is shape})
    width = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        heights = [results.value("turns_per_second", name, shape, each) or 0 for each in sessions]
        offsets = [index + (place - (len(names) - 1) / 2) * width for index in range(len(sessions))]
        bars = axis.bar(offsets, heights, width, label=name, color=_SHADES.get(name))
        axis.bar_label(bars, fmt="%.0f", fontsize=7)
    axis.set_xticks(range(len(sessions)), [f"{each} sessions" for each in sessions])
    axis.set_title(f"turns a second, {SHAPES[shape]}")
    _finish(axis)


def _processor(axis: Any, results: Results) -> None:
    names = _names(results, Shape.SINGLE)
    sessions = sorted({cell.sessions for cell in results.cells})
    at = 8 if 8 in sessions else sessions[-1] if sessions else 0
    bottoms = [0.0] * len(names)
    for part in PARTS:
        heights: list[float] = []
        for name in names:
            cells = results.cells_of(name, Shape.SINGLE, at).values()
            found = [cell.cpu_ms.get(part, 0.0) for cell in cells]
            heights.append(sum(found) / len(found) if found else 0.0)
        axis.bar(names, heights, 0.6, bottom=bottoms, label=part, color=_PART_SHADES[part])
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    axis.set_title(f"processor milliseconds a turn, {SHAPES[Shape.SINGLE]}, {at} sessions")
    _finish(axis)


def _long_session(axis: Any, results: Results) -> None:
    for grown in results.grown:
        style = (
            "--" if grown.shape is Shape.KEPT and grown.contender in ("staged", "inline") else "-"
        )
        label = f"{grown.contender}{', everything kept' if style == '--' else ''}"
        turns = range(2, len(grown.ms) + 1)
        axis.plot(
            turns, _smooth(grown.ms[1:]), style, label=label, color=_SHADES.get(grown.contender)
        )
    axis.set_xlabel("turn of one session")
    axis.set_title("milliseconds a turn as a session grows")
    axis.set_ylim(bottom=0)
    _finish(axis)


def _names(results: Results, shape: Shape) -> list[str]:
    return [*dict.fromkeys(cell.contender for cell in results.cells if cell.shape is shape)]


def _smooth(values: Sequence[float], window: int = 9) -> list[float]:
    """The median of each value's neighbourhood: single turns meet anything."""
    half = window // 2
    near = [sorted(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]
    return [each[len(each) // 2] for each in near]


def _finish(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=8, frameon=False)
    else:  # not measured
        axis.set_visible(False)
