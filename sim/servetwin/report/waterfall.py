"""From the GPU time of one variant to that of another, bucket by bucket: the picture of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from servetwin.report.style import BLUE, GREEN, GREY, INK, ORANGE, RED, canvas, label_numbers, quiet, short
from servetwin.report.units import bucket_words

_UNUSED = ("idle", "down")
_LEAST_SHARE = 0.0005
"""Changes below this share of the GPU time in use are put together."""

_MOST_PANELS = 8
_CUT_BELOW = 0.5
"""The axis starts at zero unless all changes lie within this share of the longest bar."""


@dataclass(frozen=True, slots=True)
class Step:
    """A bar of the waterfall.

    Attributes:
        label: what it is.
        begin: where it begins [GPU·s].
        end: where it ends [GPU·s].
        kind: ``whole``, ``cost`` (handing work on) or ``work``.
    """

    label: str
    begin: float
    end: float
    kind: str

    @property
    def change(self) -> float:
        """How much it adds [GPU·s]."""
        return self.end - self.begin


def steps(before: str, after: str, entry: Mapping[str, Any]) -> list[Step]:
    """The bars from the GPU time in use before to that after.

    Args:
        before: what the first bar is called.
        after: what the last bar is called.
        entry: a variant or a technique of the answer of a comparison.
    """
    level = entry["net"]["reference_gpu_seconds"]
    found = [Step(before, 0.0, level, "whole")]
    small = 0.0
    for bucket, change in entry["ledger_difference"].items():
        if bucket in _UNUSED:
            continue
        if abs(change) < _LEAST_SHARE * level:
            small += change
            continue
        kind = "cost" if bucket in entry["cost"] else "work"
        found.append(Step(bucket_words(bucket), level, level + change, kind))
        level += change
    if small:
        found.append(Step("all others", level, level + small, "work"))
        level += small
    return [*found, Step(after, 0.0, level, "whole")]


def draw_waterfall(document: Mapping[str, Any], path: Path) -> None:
    """Draw one panel for each technique, and for each variant that is none.

    Args:
        document: the answer of a comparison.
        path: the PNG file.
    """
    panels = list(_panels(document))
    shown = panels[:_MOST_PANELS]
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    heights = [max(len(bars) for _, bars in shown[row * columns : (row + 1) * columns]) for row in range(rows)]
    number = document["requests"]["number"]
    more = f" · {len(panels) - len(shown)} more are in compare.json" if len(panels) > len(shown) else ""
    costs = any(bar.kind == "cost" and bar.change > 0 for _, bars in shown for bar in bars)
    red = ", red: more for handing work on" if costs else ""
    subtitle = f"GPU-seconds in use, without idle time · green: less, orange: more{red}{more}"
    title = f"{', '.join(name for name, _ in shown[:3])}{' …' if len(shown) > 3 else ''}: the same {number:,} requests"
    height = 0.9 + sum(0.95 + 0.34 * bars for bars in heights)
    with canvas(7.5 if columns == 1 else 12, height, title, subtitle, path) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"height_ratios": [n + 1.5 for n in heights]})
        for axes, (name, bars) in zip(grid.flat, shown, strict=False):
            _draw_panel(axes, name, bars)
        for axes in grid.flat[len(shown) :]:
            axes.set_axis_off()


def _panels(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Step]]]:
    techniques = document["factorial"].get("techniques", {})
    for name, entry in techniques.items():
        # With several, it is the mean over the combinations of the others.
        yield name, steps("without", "with", entry)
    baseline = document["baseline"]
    for name, entry in document["variants"].items():
        if name != baseline and entry["techniques"] is None:
            yield name, steps(baseline, name, entry)


def _draw_panel(axes: Axes, name: str, bars: list[Step]) -> None:
    axes.set_title(name)
    ends = [end for bar in bars[1:-1] for end in (bar.begin, bar.end)] or [bars[0].end]
    highest = max(bars[0].end, bars[-1].end, *ends)
    if not highest:
        quiet(axes, "no GPU time in use")
        return
    lowest = min(bars[0].end, bars[-1].end, *ends)
    cut = highest - lowest < _CUT_BELOW * highest
    span = max(highest - lowest, 0.01 * highest) if cut else highest
    begin = max(0.0, lowest - 0.35 * span) if cut else 0.0
    for place, bar in enumerate(bars):
        left = max(min(bar.begin, bar.end), begin)
        axes.barh(place, max(bar.begin, bar.end) - left, left=left, color=_colour(bar), height=0.62)
        text = short(bar.end) if bar.kind == "whole" else f"{'+' if bar.change > 0 else '−'}{short(abs(bar.change))}"
        axes.text(max(bar.begin, bar.end) + 0.015 * span, place, text, va="center", fontsize=8.8, color=INK)
        if place + 1 < len(bars):
            axes.plot([bar.end, bar.end], [place + 0.31, place + 0.69], color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(begin, highest + 0.2 * span)
    label_numbers(axes.xaxis)
    axes.set_xlabel("GPU-seconds in use" + (f" (the axis starts at {short(begin)})" if begin else ""))


def _colour(bar: Step) -> str:
    if bar.kind == "whole":
        return BLUE
    if bar.change < 0:
        return GREEN
    return RED if bar.kind == "cost" else ORANGE
