"""``links.png``: how busy the links of the network are over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from servetwin.report.data import AnyResult, title
from servetwin.report.link_data import LinkLoad, busiest
from servetwin.report.style import BLUE, ORANGE, RED, canvas, quiet
from servetwin.results.exact import Floats
from servetwin.results.timeseries import round_width
from servetwin.units import PS_PER_S

_MOST_INTERVALS = 200
_KINDS = {"link": "NVLink", "nic": "NIC", "pcie": "PCIe", "spine": "spine"}


def draw_links(result: AnyResult, path: Path) -> None:
    """Draw what collectives and transfers take of the busiest links into the PNG ``path``."""
    loads = busiest(result)
    summary = result.summary()
    rows = max(-(-len(loads) // 2), 1)
    end_s = max((float(load.end_s[-1]) for load in loads), default=1.0)
    width_s = round_width(max(round(end_s * PS_PER_S), 1), _MOST_INTERVALS) / PS_PER_S
    edges = np.append(np.arange(0, end_s, width_s), end_s)
    subtitle = f"the busiest links of each kind · share of capacity, one direction · averages over {width_s:g} s"
    with canvas(11, 1.2 + 2.1 * rows, title(summary), subtitle, path) as figure:
        panels = figure.subplots(rows, 2 if len(loads) > 1 else 1, sharex=True, squeeze=False).ravel()
        if not loads:
            quiet(panels[0], "no link carried anything")
            return
        for axes, load in zip(panels, loads, strict=False):
            _panel(axes, load, edges)
        for axes in panels[len(loads) :]:
            axes.set_axis_off()
        panels[0].legend(loc="upper right", ncols=2, borderaxespad=0.2, handlelength=1.4)
        for axes in panels[max(len(loads) - 2, 0) : len(loads)]:
            axes.set_xlabel("simulated time [s]")
            axes.tick_params(labelbottom=True)


def _panel(axes: Axes, load: LinkLoad, edges: Floats) -> None:
    collectives, transfers = (load.mean(edges, rates) for rates in (load.collectives, load.transfers))
    axes.stairs(collectives, edges, fill=True, color=BLUE, alpha=0.75, label="collectives")
    axes.stairs(
        collectives + transfers, edges, baseline=collectives, fill=True, color=ORANGE, alpha=0.75, label="transfers"
    )  # fmt: skip
    most = float((collectives + transfers).max())
    if most > 0.7:
        axes.axhline(1.0, color=RED, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.set_ylim(0, max(1.08, 1.15 * most) if most > 0.7 else max(1.35 * most, 0.001))
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None if most > 0.05 else 1))
    axes.set_ylabel("of capacity")
    others = f", {len(load.alike)} more alike" if load.alike else ""
    axes.set_title(
        f"{load.name} ({_KINDS.get(load.kind, load.kind)}, {load.bytes_per_s / 1e9:,.4g} GB/s{others})", fontsize=9.5
    )  # fmt: skip
