"""``speculation.png``: how many tokens were drafted, in which batches, and what became of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import AnyResult, TimelineData, coarser, timeline_data, title
from servetwin.report.over_time import MOST_INTERVALS, area, legend, line, mean_line, rate
from servetwin.report.style import BLUE, GREEN, INK, PURPLE, RED, canvas, label_numbers, label_shares
from servetwin.report.units import number, percent
from servetwin.results import Result

_COLUMNS = ("k", "running", "drafted_tokens", "accepted_tokens")


def speculates(result: AnyResult) -> bool:
    """Whether a controller of speculation chose anything in a run; runs of versions without speculation did not."""
    if isinstance(result, Result):
        return result.choices.any
    frame = result.timeseries()
    return "drafted_tokens" in frame and bool(frame["k"].notna().any())


def draw_speculation(result: AnyResult, path: Path) -> None:
    """Draw drafts per request, batch, acceptance and the tokens behind it into the PNG ``path``."""
    summary = result.summary()
    data = coarser(timeline_data(result, _COLUMNS), MOST_INTERVALS)
    width = float(np.diff(data.edges_s)[0])
    replicas = len(data.columns["k"])
    subtitle = f"averages over {width:g} s"
    if summary["mean_acceptance_length"] is not None:
        length, share = number(summary["mean_acceptance_length"]), percent(summary["draft_acceptance_rate"])
        subtitle = f"{length} tokens per request and step, {share} of the drafted ones accepted · {subtitle}"
    if replicas > 1:
        subtitle += f" · {replicas:,} replicas; bands: from the least to the largest"
    with canvas(11, 7.8, title(summary), subtitle, path) as figure:
        panels = figure.subplots(4, 1, sharex=True)
        for axes, draw in zip(panels, (_drafts, _batch, _acceptance, _tokens), strict=True):
            draw(axes, data)
            axes.set_ylim(bottom=0)
            axes.margins(x=0)
        # A line at zero, speculation off, must be seen.
        panels[0].set_ylim(bottom=-0.04 * panels[0].get_ylim()[1])
        panels[-1].set_xlabel("simulated time [s]")
        label_numbers(panels[-1].xaxis)
        panels[-1].set_xlim(data.edges_s[0], data.edges_s[-1])


def _drafts(axes: Axes, data: TimelineData) -> None:
    mean_line(axes, data, data.columns["k"], INK, "chosen" if len(data.columns["k"]) == 1 else "chosen, mean")
    axes.set_ylabel("tokens / request")
    legend(axes, "Drafts (K)")


def _batch(axes: Axes, data: TimelineData) -> None:
    mean_line(axes, data, data.columns["running"], BLUE, "running, per replica")
    axes.set_ylabel("requests")
    legend(axes, "Batch")


def _acceptance(axes: Axes, data: TimelineData) -> None:
    drafted, accepted = (data.columns[name].sum(axis=0) for name in ("drafted_tokens", "accepted_tokens"))
    line(axes, data, np.where(drafted > 0, accepted / np.maximum(drafted, 1), np.nan), PURPLE, "of the drafted tokens")
    axes.set_ylim(0, 1.05)
    label_shares(axes.yaxis)
    axes.set_ylabel("accepted")
    legend(axes, "Acceptance")


def _tokens(axes: Axes, data: TimelineData) -> None:
    drafted, accepted = rate(data, "drafted_tokens"), rate(data, "accepted_tokens")
    area(axes, data, accepted, np.zeros_like(accepted), GREEN, "accepted")
    area(axes, data, drafted - accepted, accepted, RED, "rejected (on top)")
    label_numbers(axes.yaxis)
    axes.set_ylabel("tokens / s")
    legend(axes, "Drafted tokens")
