"""``links.png``: how busy the links of the network are over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import AnyResult, title
from servetwin.report.link_data import LinkLoad, busiest
from servetwin.report.style import BLUE, ORANGE, RED, canvas, label_numbers, label_shares, quiet
from servetwin.results.exact import Floats
from servetwin.results.timeseries import round_width
from servetwin.units import PS_PER_S

_MOST_INTERVALS = 200
_KINDS = {"link": "link domain", "nic": "NIC", "pcie": "PCIe", "spine": "spine"}


def draw_links(result: AnyResult, path: Path) -> None:
    """Draw what collectives and transfers take of the busiest links into the PNG ``path``."""
    kinds = [list(loads) for _, loads in groupby(busiest(result), key=lambda load: load.kind)]
    columns = 2 if any(len(loads) > 1 for loads in kinds) else 1
    rows = [-(-len(loads) // columns) for loads in kinds]
    end_s = max((float(load.end_s[-1]) for loads in kinds for load in loads), default=1.0)
    width_s = round_width(max(round(end_s * PS_PER_S), 1), _MOST_INTERVALS) / PS_PER_S
    subtitle = f"the busiest links of each kind · share of capacity, one direction · averages over {width_s:g} s"
    height = 1.2 + 2.1 * max(sum(rows), 1)
    with canvas(11, height, title(result.summary()), subtitle, path) as figure:
        grid = figure.subplots(max(sum(rows), 1), columns, sharex=True, squeeze=False)
        if not kinds:
            quiet(grid[0, 0], "no link carried anything")
            return
        lowest = {}
        # Each kind begins a row of its own.
        for loads, panels in zip(kinds, np.split(grid, np.cumsum(rows)[:-1]), strict=True):
            _draw_kind(panels.ravel().tolist(), loads, intervals(end_s, width_s))
            lowest.update({place % columns: axes for place, axes in enumerate(panels.ravel()[: len(loads)])})
        grid[0, 0].legend(loc="upper right", ncols=2, borderaxespad=0.2, handlelength=1.4)
        for axes in lowest.values():
            axes.set_xlabel("simulated time [s]")
            axes.tick_params(labelbottom=True)
            label_numbers(axes.xaxis)


def intervals(end_s: float, width_s: float) -> Floats:
    """The ends of intervals of one width up to an end, to take means of rates over [s].

    What is left at the end is an interval of its own only from half a width on: else a moment would tower over all.

    Args:
        end_s: the end [s].
        width_s: the width [s].
    """
    return np.append(np.arange(0, max(end_s - width_s / 2, width_s / 2), width_s), end_s)


def _draw_kind(panels: Sequence[Axes], loads: Sequence[LinkLoad], edges_s: Floats) -> None:
    """Links of one kind, all on the same scale; panels that are left over stay empty."""
    means = [(load.mean(edges_s, load.collectives), load.mean(edges_s, load.transfers)) for load in loads]
    most = max(float((collectives + transfers).max()) for collectives, transfers in means)
    for axes, load, (collectives, transfers) in zip(panels, loads, means, strict=False):
        _draw_panel(axes, load, edges_s, collectives, transfers)
        if most > 0.7:
            axes.axhline(1.0, color=RED, linewidth=1.0, linestyle=(0, (5, 3)))
        # Room for the legend above the highest; no link is so idle that it has no scale.
        axes.set_ylim(0, max(1.08, 1.15 * most) if most > 0.7 else max(1.35 * most, 1e-6))
    for axes in panels[len(loads) :]:
        axes.set_axis_off()


def _draw_panel(axes: Axes, load: LinkLoad, edges_s: Floats, collectives: Floats, transfers: Floats) -> None:
    axes.stairs(collectives, edges_s, fill=True, color=BLUE, alpha=0.75, label="collectives")
    axes.stairs(
        collectives + transfers, edges_s, baseline=collectives, fill=True, color=ORANGE, alpha=0.75, label="transfers"
    )  # fmt: skip
    axes.set_xlim(edges_s[0], edges_s[-1])
    label_shares(axes.yaxis)
    axes.set_ylabel("of capacity")
    others = f", {len(load.alike)} more alike" if load.alike else ""
    axes.set_title(
        f"{load.name} ({_KINDS.get(load.kind, load.kind)}, {load.bytes_per_s / 1e9:,.4g} GB/s{others})", fontsize=9.5
    )  # fmt: skip
