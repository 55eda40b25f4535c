"""The pictures of a sweep: a metric over one field, in lines, or over two, as a map. Imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from servetwin.report.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, canvas, quiet, short

_LINES = (BLUE, ORANGE, GREEN, PURPLE, GREY)
_LOG_FROM = 16.0
"""Axes are logarithmic from this ratio of the largest to the least value on."""
_LONGEST_TICK = 5
"""Values with more characters, as drawn ones have them, are no ticks: round numbers between them are."""
_MOST_LABELLED = 120
"""Cells of a map that have their value written in them."""
_MOST_NAMED = 20
"""Points of a cloud that have their value beside them."""
_DARK = 0.45
"""Shades beyond this share of the scale have white letters."""
_MOST_CELLS = 2500
_PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")
_PALE = LinearSegmentedColormap.from_list("pale", ["#f4f7fb", "#a9c5e6", BLUE])


class Axis(NamedTuple):
    """A swept field.

    Attributes:
        path: its path.
        values: its value in each run.
    """

    path: str
    values: Sequence[Any]

    @property
    def numeric(self) -> bool:
        """Whether it has numbers, which have distances, or names, which have none."""
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.values)

    @property
    def levels(self) -> list[Any]:
        """Its values, each once: numbers by size, names as they come."""
        found = list(dict.fromkeys(self.values))
        return sorted(found) if self.numeric else found


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn.

    Attributes:
        title: what the sweep is.
        metric: the key of the metric.
        values: its value in each run; None = undefined.
        x: the field along the picture.
        other: the field of the lines, or up the map.
        is_map: whether it is a map.
        averaged: fields that vary besides.
        limit: the limit of the SLO on the metric.
    """

    title: str
    metric: str
    values: Sequence[float | None]
    x: Axis
    other: Axis | None
    is_map: bool
    averaged: Sequence[str]
    limit: float | None


def draw_sweep(picture: Picture, path: Path) -> None:
    """Draw a picture into the PNG ``path``."""
    cells = _cells(picture)
    repeated = max((len(values) for values in cells.values()), default=0) > 1
    notes = [f"{picture.metric} over {picture.x.path}" + (f" and {picture.other.path}" if picture.other else "")]
    if repeated:
        over = ", ".join(["seeds", *picture.averaged])
        notes.append(f"mean over {over}" + ("" if picture.is_map else "; band: least to greatest"))
    if picture.limit is not None and picture.is_map:
        notes.append(f"red: misses the SLO ≤ {picture.limit:,.10g}")
    with canvas(8.2, 5, picture.title, " · ".join(notes), path) as figure:
        axes = figure.subplots()
        if not cells:
            quiet(axes, "no run has a value")
        elif not picture.is_map:
            _lines(axes, picture, cells)
        elif picture.other is not None and _fills_a_grid(picture, cells):
            _map(figure, axes, picture, picture.other, cells)
        elif picture.other is not None:
            _cloud(figure, axes, picture, picture.other, cells)


Cells = dict[tuple[Any, Any], list[float]]
"""The values of the metric by the values of the two fields."""


def _cells(picture: Picture) -> Cells:
    cells: Cells = {}
    others = picture.other.values if picture.other else [None] * len(picture.values)
    for x, other, value in zip(picture.x.values, others, picture.values, strict=True):
        if value is not None:
            cells.setdefault((x, other), []).append(float(value))
    return cells


def _lines(axes: Axes, picture: Picture, cells: Cells) -> None:
    levels = picture.x.levels
    places = levels if picture.x.numeric else range(len(levels))
    lines = picture.other.levels if picture.other else [None]
    for number, line in enumerate(lines):
        found = [(place, cells[level, line]) for place, level in zip(places, levels, strict=True)
                 if (level, line) in cells]  # fmt: skip
        if not found:
            continue
        colour = _LINES[number] if len(lines) <= len(_LINES) else colormaps["viridis"](number / len(lines))
        at, several = [place for place, _ in found], [values for _, values in found]
        style = "o-" if picture.x.numeric else "o--"
        axes.plot(at, [float(np.mean(values)) for values in several], style, color=colour, markersize=4.5,
                  label=None if picture.other is None else _text(line))  # fmt: skip
        if any(len(values) > 1 for values in several):
            axes.fill_between(at, [min(v) for v in several], [max(v) for v in several], color=colour, alpha=0.15, lw=0)
    _scale(axes, "x", picture.x)
    _scale_y(axes, [value for values in cells.values() for value in values], picture.limit)
    axes.set_ylabel(picture.metric)
    if picture.limit is not None:
        axes.axhline(picture.limit, color=RED, linestyle=(0, (5, 3)), linewidth=1.5)
        axes.annotate(f"SLO ≤ {picture.limit:,.10g}", (0.01, picture.limit), (0, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", color=RED, fontsize=8.5, fontweight="bold")  # fmt: skip
    if picture.other is not None:
        axes.legend(title=picture.other.path, loc="best")


def _fills_a_grid(picture: Picture, cells: Cells) -> bool:
    """Whether most combinations of the fields' values were run, and not points anywhere between."""
    assert picture.other is not None
    number = len(picture.x.levels) * len(picture.other.levels)
    return number <= _MOST_CELLS and (2 * len(cells) >= number or not (picture.x.numeric and picture.other.numeric))


def _map(figure: Figure, axes: Axes, picture: Picture, up: Axis, cells: Cells) -> None:
    columns, rows = picture.x.levels, up.levels
    grid = np.full((len(rows), len(columns)), np.nan)
    for (x, y), values in cells.items():
        grid[rows.index(y), columns.index(x)] = np.mean(values)
    axes.grid(visible=False)
    norm = _shades(grid[~np.isnan(grid)].tolist())
    drawn = axes.pcolormesh(np.ma.masked_invalid(grid), cmap=_PALE, norm=norm, edgecolors="white", linewidth=1.0)
    _colour_bar(figure, axes, drawn, picture)
    for (row, column), value in np.ndenumerate(grid):
        missed = picture.limit is not None and value > picture.limit
        if missed:
            axes.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False, edgecolor=RED, linewidth=1.5))
        if grid.size <= _MOST_LABELLED:
            text = "–" if np.isnan(value) else short(float(value))
            colour = GREY if np.isnan(value) else "white" if norm(value) > _DARK else INK
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=colour)
    for levels, ticks in ((columns, axes.set_xticks), (rows, axes.set_yticks)):
        every = -(-len(levels) // 20)
        ticks([place + 0.5 for place in range(0, len(levels), every)], [_text(v) for v in levels[::every]])
    axes.set_xlabel(picture.x.path)
    axes.set_ylabel(up.path)


def _cloud(figure: Figure, axes: Axes, picture: Picture, up: Axis, cells: Cells) -> None:
    """Points that lie anywhere, coloured by the metric."""
    at = list(cells)
    values = [float(np.mean(cells[place])) for place in at]
    missed = [picture.limit is not None and value > picture.limit for value in values]
    edges = [RED if one else "#55606b" for one in missed]
    drawn = axes.scatter([x for x, _ in at], [y for _, y in at], c=values, cmap=_PALE, norm=_shades(values), s=60,
                         linewidths=1.5, edgecolors=edges, zorder=3)  # fmt: skip
    _colour_bar(figure, axes, drawn, picture)
    if len(at) <= _MOST_NAMED:
        for (x, y), value in zip(at, values, strict=True):
            axes.annotate(short(value), (x, y), (0, 7), textcoords="offset points", ha="center", fontsize=8, color=INK)
    axes.margins(y=0.12)
    _scale(axes, "x", picture.x)
    _scale(axes, "y", up)


def _shades(values: Sequence[float]) -> Normalize:
    """From the least to the largest value; by orders of magnitude where one value would leave all others pale."""
    kind = LogNorm if _spread(values) >= _LOG_FROM else Normalize
    return kind(min(values), max(values))


def _colour_bar(figure: Figure, axes: Axes, drawn: Any, picture: Picture) -> None:
    bar = figure.colorbar(drawn, ax=axes, label=picture.metric)
    if isinstance(drawn.norm, LogNorm):
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(_PLAIN)


def _scale(axes: Axes, which: Literal["x", "y"], axis: Axis) -> None:
    """The scale, label and ticks of a field."""
    along = axes.xaxis if which == "x" else axes.yaxis
    along.set_label_text(axis.path)
    levels = axis.levels
    if not axis.numeric:
        along.set_ticks(range(len(levels)), [_text(level) for level in levels])
        return
    logarithmic = _spread(levels) >= _LOG_FROM
    if logarithmic:
        axes.set(**{f"{which}scale": "log"})
    if len(levels) <= 12 and max(len(_text(level)) for level in levels) <= _LONGEST_TICK:
        along.set_ticks(levels, [_text(level) for level in levels])
        along.set_minor_locator(NullLocator())
        return
    if logarithmic:
        along.set_major_locator(LogLocator(subs=(1, 2, 5)))
        along.set_minor_locator(NullLocator())
    elif all(isinstance(level, int) for level in levels):
        along.set_major_locator(MaxNLocator(integer=True))
    along.set_major_formatter(_PLAIN)


def _scale_y(axes: Axes, values: Sequence[float], limit: float | None) -> None:
    shown = [*values, *([limit] if limit is not None else [])]
    if _spread(shown) >= 2 * _LOG_FROM:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.08 * max(shown) if max(shown) > 0 else 1)
    axes.yaxis.set_major_formatter(_PLAIN)


def _spread(values: Sequence[float]) -> float:
    """The ratio of the largest to the least value; 0 where a value is not positive."""
    return max(values) / min(values) if values and min(values) > 0 else 0.0


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
