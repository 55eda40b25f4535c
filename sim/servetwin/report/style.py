"""How the pictures look, in one place. Importing this module imports matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from servetwin.results.store import replacing

BLUE, ORANGE, GREEN, RED, PURPLE, GREY, INK = (
    "#2f6db3", "#e08214", "#2a9d6f", "#c8384c", "#7a5ba8", "#9aa3ad", "#25303b",
)  # fmt: skip
"""Distinguishable with the common colour-vision deficiencies; red is kept for limits and trouble."""

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#b8c0c8",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e6eaee",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": "#55606b",
    "ytick.color": "#55606b",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
_DPI = 130


@contextmanager
def canvas(width: float, height: float, title: str, subtitle: str, path: Path) -> Iterator[Figure]:
    """A figure to draw on, which is written to ``path`` at the end.

    Args:
        width: width [inch].
        height: height [inch].
        title: what the run is.
        subtitle: how to read the picture.
        path: the PNG file.
    """
    with rc_context(_SETTINGS):
        # Without pyplot: no global state, no window system, a faster import.
        figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        engine = figure.get_layout_engine()
        header = 0.62 / height
        if engine is not None:
            engine.set(rect=(0, 0, 1, 1 - header), w_pad=0.08, h_pad=0.06)  # type: ignore[call-arg]
        yield figure
        figure.text(0.012, 1 - 0.22 / height, title, fontsize=13, fontweight="bold", va="center")
        figure.text(0.012, 1 - 0.47 / height, subtitle, fontsize=8.8, color="#55606b", va="center")
        with replacing(path) as part:
            figure.savefig(part, format="png", metadata={"Software": None})


def quiet(axes: Axes, text: str) -> None:
    """Say on an empty panel why it is empty."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])


def label_shares(axis: Axis) -> None:
    """Label an axis of shares in per cent, with no more digits than its ticks need."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g}%"))


def label_numbers(axis: Axis) -> None:
    """Label an axis without exponents, and with commas between thousands."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def short(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3g}"
