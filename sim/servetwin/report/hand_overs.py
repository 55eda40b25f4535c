"""``hand_overs.png``: what becomes of requests that one replica prefills and another decodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import AnyResult, TimelineData, coarser, timeline_data, title
from servetwin.report.hand_over_data import HandOverData, hand_over_data
from servetwin.report.over_time import MOST_INTERVALS, legend, mean_line
from servetwin.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    canvas,
    label_numbers,
    label_shares,
    quiet,
    short,
)
from servetwin.report.units import number, percent
from servetwin.results.exact import Floats

_COLUMNS = ("kv_stranded", "utilisation")
_PARTS = {
    "queue": ("queue", GREY), "prefill": ("prefill", BLUE), "decode_queue": ("waiting for decode side", PURPLE),
    "transfer": ("KV transfer, exposed", ORANGE), "decode_admission": ("decode admission", GREEN),
    "output": ("output", INK),
}  # fmt: skip
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, INK, GREY)
_MOST_BARS = 60
_MOST_POINTS = 4_000
#: Largest over smallest transfer from which both axes are logarithmic.
_LOG_FROM = 20.0
#: Share of the transfers' time from which the little that is hidden is not drawn apart.
_ALL_OF_IT = 0.99
#: From where on times are given in seconds [ms].
_SECONDS_FROM = 10_000.0


def draw_hand_overs(result: AnyResult, path: Path) -> None:
    """Draw where time goes until a request decodes, transfers, stranded KV cache and pools into the PNG ``path``."""
    summary = result.summary()
    data = hand_over_data(result)
    series = coarser(timeline_data(result, _COLUMNS), MOST_INTERVALS)
    with canvas(11, 8.2, title(summary), _subtitle(summary), path) as figure:
        (parts, transfers), (stranded, busy) = figure.subplots(2, 2)
        _draw_parts(parts, data)
        _draw_transfers(transfers, data, summary["transfer_alone_bytes_per_s"])
        for axes, draw in ((stranded, _draw_stranded), (busy, _draw_utilisation)):
            draw(axes, series, summary["pools"])
            axes.margins(x=0)
            axes.set_xlabel("simulated time [s]")
            axes.set_xlim(series.edges_s[0], series.edges_s[-1])
            label_numbers(axes.xaxis)


def _subtitle(summary: Mapping[str, Any]) -> str:
    said = [f"{summary['split_requests']:,} of {summary['requests']:,} requests split"]
    said.append(f"{number(summary['transfer_bytes'] / 1e9)} GB moved")
    took = summary["transfer_exposed_s"] + summary["transfer_hidden_s"]
    if took:
        said.append(f"{percent(summary['transfer_hidden_s'] / took)} of the transfer time hidden behind prefill")
    if summary["failed_transfers"]:
        said.append(f"{summary['failed_transfers']:,} transfers failed")
    if any(pool["replicas"] > 1 for pool in summary["pools"].values()):
        said.append("bands: a pool's replicas")
    return " · ".join(said)


def _unit(most_ms: float) -> tuple[str, float]:
    """The unit for times up to ``most_ms`` [ms], and how many milliseconds it has."""
    return ("s", 1000.0) if most_ms >= _SECONDS_FROM else ("ms", 1.0)


def _draw_parts(axes: Axes, data: HandOverData) -> None:
    """The parts of the time until a request decodes, stacked, over the requests in order of that time."""
    whole = np.sum(list(data.parts_ms.values()), axis=0)
    axes.set_title("Where the time before decoding goes" if data.by_prefill else "Where TTFT goes")
    if not len(whole):
        quiet(axes, "no split request completed")
        return
    order = np.argsort(whole, kind="stable")
    bars = min(_MOST_BARS, len(order))
    edges = np.arange(bars + 1) * len(order) // bars
    unit, each = _unit(float(whole.max()))

    def means(lengths_ms: Floats) -> Floats:
        sums: Floats = np.add.reduceat(lengths_ms[order], edges[:-1])
        return sums / np.diff(edges) / each

    below = np.zeros(bars)
    for part, lengths in data.parts_ms.items():
        label, colour = _PARTS[part]
        if lengths.any():
            mean = means(lengths)
            axes.stairs(below + mean, edges / len(order), baseline=below, fill=True, color=colour, alpha=0.75,
                        label=label)  # fmt: skip
            below = below + mean
    if data.by_prefill:
        axes.stairs(means(data.ttft_ms), edges / len(order), color=INK, linewidth=1.5, label="TTFT", baseline=None)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02 * float(below.max()) or 1.0)
    label_shares(axes.xaxis)
    label_numbers(axes.yaxis)
    axes.set_xlabel("split requests, fastest first")
    axes.set_ylabel(unit)
    axes.legend(loc="upper left", borderaxespad=0.4, handlelength=1.4, reverse=True)


def _draw_transfers(axes: Axes, data: HandOverData, alone_bytes_per_s: float | None) -> None:
    """The time of each transfer over its size, and what the links would take for it alone."""
    axes.set_title("Transfers")
    if not len(data.moved_bytes):
        quiet(axes, "nothing was transferred")
        return
    some = slice(None, None, -(-len(data.moved_bytes) // _MOST_POINTS))
    unit, each = _unit(float(data.took_ms.max()))
    size, took, exposed = data.moved_bytes[some] / 1e6, data.took_ms[some] / each, data.exposed_ms[some] / each
    partly = float(exposed.sum()) < _ALL_OF_IT * float(took.sum())
    axes.plot(size, took, ".", color=BLUE if partly else ORANGE, markersize=4, alpha=0.5, markeredgewidth=0,
              label="from first to last byte" if partly else "exposed, all of it")  # fmt: skip
    if partly:
        axes.plot(size, exposed, ".", color=ORANGE, markersize=4, alpha=0.5, markeredgewidth=0,
                  label="exposed: after the prefill")  # fmt: skip
    low, high = float(size.min()), float(size.max())
    least = min(float(took.min()), float(exposed.min()))
    logarithmic = high > _LOG_FROM * low > 0 and least > 0
    if alone_bytes_per_s is not None:
        ends = np.array([low if logarithmic else 0.0, high])
        rate = short(alone_bytes_per_s / 1e9)
        axes.plot(ends, ends * 1e9 / alone_bytes_per_s / each, "--", color=INK, linewidth=1.3,
                  label=f"alone on the links, at {rate} GB/s")  # fmt: skip
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(0, 1.05 * high)
        axes.set_ylim(0, 1.25 * float(took.max()) or 1.0)
    label_numbers(axes.xaxis)
    label_numbers(axes.yaxis)
    axes.set_xlabel("MB")
    axes.set_ylabel(unit)
    handles = axes.legend(loc="upper left", borderaxespad=0.4, handlelength=1.4)
    for handle in handles.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)


def _pools(pools: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any], slice, str]]:
    """By pool: its name, its figures, the rows of its replicas, and its colour."""
    first = 0
    for place, (name, pool) in enumerate(pools.items()):
        yield name, pool, slice(first, first + pool["replicas"]), _COLOURS[place % len(_COLOURS)]
        first += pool["replicas"]


def _draw_stranded(axes: Axes, data: TimelineData, pools: Mapping[str, Mapping[str, Any]]) -> None:
    waits = {"prefill": "kept", "decode": "reserved"}
    for name, pool, mine, colour in _pools(pools):
        if pool["role"] in waits:
            label = f"{name}: {waits[pool['role']]}"
            mean_line(axes, data, data.columns["kv_stranded"][mine], colour, label)
    axes.set_ylim(bottom=0)
    label_shares(axes.yaxis)
    axes.set_ylabel("of KV room")
    legend(axes, "Stranded KV cache")


def _draw_utilisation(axes: Axes, data: TimelineData, pools: Mapping[str, Mapping[str, Any]]) -> None:
    for name, pool, mine, colour in _pools(pools):
        label = f"{pool['replicas']:,} {name}: {percent(pool['utilisation'])}"
        mean_line(axes, data, data.columns["utilisation"][mine], colour, label)
    axes.set_ylim(0, 1.05)
    label_shares(axes.yaxis)
    axes.set_ylabel("of the time")
    legend(axes, "Utilisation")
