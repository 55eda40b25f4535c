"""Lines and areas over the intervals of a run, as its pictures over time draw them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import TimelineData
from servetwin.results.exact import Floats

MOST_INTERVALS = 200
"""More are put together: nobody can see them."""


def rate(data: TimelineData, name: str) -> Floats:
    """What all replicas count, per second."""
    # The last interval may be cut short: over its own width a single request would tower over all others.
    widths = np.diff(data.edges_s)
    per_s: Floats = data.columns[name].sum(axis=0) / np.maximum(widths, widths[0])
    return per_s


def line(axes: Axes, data: TimelineData, values: Floats, colour: str, label: str) -> None:
    """A line of steps."""
    axes.stairs(values, data.edges_s, color=colour, linewidth=1.5, label=label, baseline=None)


def area(axes: Axes, data: TimelineData, values: Floats, below: Floats, colour: str, label: str) -> None:
    """An area on top of another."""
    axes.stairs(values + below, data.edges_s, baseline=below, fill=True, color=colour, alpha=0.55, label=label)


def mean_line(axes: Axes, data: TimelineData, values: Floats, colour: str, label: str) -> None:
    """The mean over replicas, and a band from the least to the largest; a replica where it is NaN does not count."""
    known = ~np.isnan(values)
    some = known.any(axis=0)
    if len(values) > 1:
        most = np.where(some, np.where(known, values, -np.inf).max(axis=0), np.nan)
        least = np.where(some, np.where(known, values, np.inf).min(axis=0), np.nan)
        axes.stairs(most, data.edges_s, baseline=least, fill=True, color=colour, alpha=0.22)
    total = np.where(known, values, 0).sum(axis=0)
    line(axes, data, np.where(some, total / np.maximum(known.sum(axis=0), 1), np.nan), colour, label)


def legend(axes: Axes, title: str) -> None:
    """The title of a panel, and what its lines are."""
    axes.set_title(title)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=4, borderaxespad=0.2, handlelength=1.4)
