"""``timeline.png``: the load of the cluster over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import AnyResult, TimelineData, coarser, timeline_data, title
from servetwin.report.over_time import MOST_INTERVALS, area, legend, line, mean_line, rate
from servetwin.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    canvas,
    label_numbers,
    label_shares,
    quiet,
)


def draw_timeline(result: AnyResult, path: Path) -> None:
    """Draw arrivals and throughput, requests running and waiting, KV use and utilisation into the PNG ``path``."""
    summary = result.summary()
    data = coarser(timeline_data(result), MOST_INTERVALS)
    width = float(np.diff(data.edges_s)[0])
    replicas = len(data.columns["running"])
    subtitle = f"{summary['requests']:,} requests · averages over {width:g} s"
    if replicas > 1:
        subtitle += f" · {replicas:,} replicas together; bands: from the least to the most loaded replica"
    with canvas(11, 9.5, title(summary), subtitle, path) as figure:
        panels = figure.subplots(5, 1, sharex=True)
        if summary["requests"] == 0:
            for axes in panels:
                quiet(axes, "no requests")
            return
        for axes, draw in zip(panels, (_requests, _tokens, _occupancy, _kv, _utilisation), strict=True):
            draw(axes, data)
            axes.set_ylim(bottom=0)
            axes.margins(x=0)
        panels[-1].set_xlabel("simulated time [s]")
        label_numbers(panels[-1].xaxis)
        panels[-1].set_xlim(data.edges_s[0], data.edges_s[-1])


def _requests(axes: Axes, data: TimelineData) -> None:
    line(axes, data, rate(data, "arrivals"), GREY, "arrived")
    line(axes, data, rate(data, "completed"), BLUE, "completed")
    axes.set_ylabel("requests / s")
    legend(axes, "Arrivals and completions")


def _tokens(axes: Axes, data: TimelineData) -> None:
    line(axes, data, rate(data, "prefill_tokens"), ORANGE, "prompt (computed)")
    line(axes, data, rate(data, "output_tokens"), BLUE, "output")
    label_numbers(axes.yaxis)
    axes.set_ylabel("tokens / s")
    legend(axes, "Token throughput")


def _occupancy(axes: Axes, data: TimelineData) -> None:
    running, waiting = (data.columns[name].sum(axis=0) for name in ("running", "waiting"))
    area(axes, data, running, np.zeros_like(running), BLUE, "running")
    area(axes, data, waiting, running, RED, "waiting (on top)")
    axes.set_ylabel("requests")
    legend(axes, "Running and waiting")


def _share(axes: Axes, data: TimelineData, name: str, colour: str, label: str) -> None:
    mean_line(axes, data, data.columns[name], colour, label)
    label_shares(axes.yaxis)


def _kv(axes: Axes, data: TimelineData) -> None:
    _share(axes, data, "kv_use", PURPLE, "in use" if len(data.columns["kv_use"]) == 1 else "in use, mean")
    most = float(data.columns["kv_use"].max())
    if most > 0.7:
        axes.axhline(1.0, color=RED, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.set_ylabel("of capacity")
    legend(axes, "KV cache")


def _utilisation(axes: Axes, data: TimelineData) -> None:
    busy = data.columns["utilisation"]
    bound = np.nan_to_num(data.columns["compute_bound"])
    arithmetic = (busy * bound).mean(axis=0)
    _share(axes, data, "utilisation", INK, "running a step")
    area(axes, data, arithmetic, np.zeros_like(arithmetic), GREEN, "bound by arithmetic")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("of the time")
    legend(axes, "Utilisation")
