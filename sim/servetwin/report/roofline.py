"""``roofline.png``: the steps of the run against the limits of the hardware."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import title
from servetwin.report.style import BLUE, GREY, INK, ORANGE, canvas, quiet, short
from servetwin.results import PoolMeta, Result
from servetwin.results.exact import Ints
from servetwin.results.steps import pairs
from servetwin.units import PS_PER_S

_PER_OCTAVE = 6
_LARGEST_AREA = 900.0
_SMALLEST_AREA = 6.0
_KINDS = ((False, BLUE, "decode only"), (True, ORANGE, "with prefill"))


class Bucket(NamedTuple):
    """Similar steps of one pool.

    Attributes:
        mixed: whether they have prompt tokens.
        intensity: arithmetic per HBM byte [FLOP/B].
        achieved: arithmetic per time, of one replica [FLOP/s].
        seconds: how long they lasted together [s].
    """

    mixed: bool
    intensity: float
    achieved: float
    seconds: float


def draw_roofline(result: Result, path: Path) -> None:
    """Draw the steps of the run on the compute and memory axes into the PNG ``path``."""
    summary = result.summary()
    subtitle = (
        "each disc: similar steps of one replica, area = time spent (the smallest enlarged) · "
        "work is the least the tokens need, over the whole step, host time included"
    )
    with canvas(10, 6.6, title(summary), subtitle, path) as figure:
        axes = figure.subplots()
        every = [(pool, buckets(result, index)) for index, pool in enumerate(result.meta.pools)]
        discs = [disc for _, found in every for disc in found]
        if not discs:
            quiet(axes, "no steps")
            return
        _frame(axes, [pool for pool, _ in every], discs)
        _roofs(axes, [pool for pool, found in every if found])
        _discs(axes, discs)


def buckets(result: Result, pool: int) -> list[Bucket]:
    """The steps of a pool, gathered where tokens, context and attention are about the same.

    Step sizes are cut at the middle of each segment, whose steps differ by a token of context per request only.
    """
    owners = np.array(result.meta.pool_of(), np.int64)
    sums: dict[tuple[int, ...], list[float]] = {}
    for chunk in result.segments.store:
        mine = owners[chunk["replica"]] == pool
        if not mine.any():
            continue
        names = ("count", "first_ps", "growth_ps", "prefill_tokens", "tokens", "decodes", "context", "attended")
        count, first, growth, prefill, tokens, decodes, context, attended = (chunk[name][mine] for name in names)
        # Rows of logits: one for each request that yields anything, and one for each of its drafts.
        rows = (chunk["emitted"] - chunk["accepted"] + chunk["drafted"])[mine]
        seconds = (first * count + growth * pairs(count)) / PS_PER_S
        middle = decodes * (count - 1) // 2
        keys = np.stack([(prefill > 0).astype(np.int64), _octave(tokens), _octave(context + middle), _octave(attended)])
        weights = np.stack(
            [seconds, count, *(part * count for part in (tokens, rows, context + middle, attended + middle))]
        )
        unique, inverse = np.unique(keys, axis=1, return_inverse=True)
        totals = np.zeros((len(weights), unique.shape[1]))
        for place, weight in enumerate(weights):
            totals[place] = np.bincount(inverse.ravel(), weight, unique.shape[1])
        for key, column in zip(map(tuple, unique.T.tolist()), totals.T.tolist(), strict=True):
            sums[key] = [old + new for old, new in zip(sums.get(key, [0.0] * len(column)), column, strict=True)]
    return [_bucket(result.meta.pools[pool], bool(key[0]), total) for key, total in sorted(sums.items())]


def _octave(values: Ints) -> Ints:
    bits: Ints = np.floor(np.log2(np.maximum(values, 1)) * _PER_OCTAVE).astype(np.int64)
    return bits


def _bucket(pool: PoolMeta, mixed: bool, total: list[float]) -> Bucket:
    seconds, steps = total[:2]
    tokens, rows, context, attended = (round(part / steps) for part in total[2:])
    flops, moved = pool.work(tokens, rows, context, attended)
    return Bucket(mixed, flops / moved, flops * steps / seconds, seconds)


def _frame(axes: Axes, pools: Sequence[PoolMeta], discs: Sequence[Bucket]) -> None:
    intensities = [disc.intensity for disc in discs] + [pool.ridge_flops_per_byte for pool in pools]
    rates = [disc.achieved for disc in discs] + [pool.peak_flops for pool in pools]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(intensities) / 2, max(intensities) * 4)
    axes.set_ylim(min(rates) / 3 / 1e12, max(rates) * 2 / 1e12)
    axes.set_xlabel("arithmetic intensity [FLOP per byte of HBM traffic]")
    axes.set_ylabel("achieved arithmetic per replica [TFLOP/s]")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _roofs(axes: Axes, pools: Sequence[PoolMeta]) -> None:
    low, high = axes.get_xlim()
    seen: dict[tuple[float, float], str] = {}
    for pool in pools:
        seen.setdefault((pool.peak_flops, pool.peak_bytes_per_s), f"{pool.gpus_per_replica} x {pool.hardware}")
    for place, ((peak, bandwidth), name) in enumerate(seen.items()):
        ridge = peak / bandwidth
        style = ("-", (0, (6, 2)), (0, (2, 2)))[place % 3]
        heights = [low * bandwidth / 1e12, peak / 1e12, peak / 1e12]
        axes.plot([low, ridge, high], heights, color=INK, linewidth=2.0, linestyle=style, zorder=2)
        axes.plot([ridge, ridge], [axes.get_ylim()[0], peak / 1e12], color=GREY, linewidth=0.9, linestyle=":", zorder=1)
        axes.annotate(f"{name}: {short(peak / 1e12)} TFLOP/s", (high, peak / 1e12), (-4, 5), ha="right",
                      textcoords="offset points", fontsize=8.8)  # fmt: skip
        axes.annotate(f"ridge {short(ridge)} FLOP/B", (ridge, axes.get_ylim()[0]), (5, 6), rotation=90,
                      textcoords="offset points", fontsize=8.2, color="#55606b")  # fmt: skip
        _slope_label(axes, low, bandwidth)


def _slope_label(axes: Axes, low: float, bandwidth: float) -> None:
    start = axes.transData.transform((low, low * bandwidth / 1e12))
    later = axes.transData.transform((low * 10, low * 10 * bandwidth / 1e12))
    angle = float(np.degrees(np.arctan2(later[1] - start[1], later[0] - start[0])))
    axes.annotate(f"HBM {short(bandwidth / 1e12)} TB/s", (low * 1.25, low * 1.25 * bandwidth / 1e12), (0, 7),
                  textcoords="offset points", rotation=angle, rotation_mode="anchor", fontsize=8.8)  # fmt: skip


def _discs(axes: Axes, discs: Sequence[Bucket]) -> None:
    whole = sum(disc.seconds for disc in discs)
    longest = max(disc.seconds for disc in discs)
    for mixed, colour, label in _KINDS:
        mine = [disc for disc in discs if disc.mixed == mixed]
        if not mine:
            continue
        share = sum(disc.seconds for disc in mine) / whole
        areas = [max(_LARGEST_AREA * disc.seconds / longest, _SMALLEST_AREA) for disc in mine]
        places = [disc.intensity for disc in mine], [disc.achieved / 1e12 for disc in mine]
        axes.scatter(*places, s=areas, color=colour, alpha=0.38, linewidths=0.5, edgecolors="white", zorder=3)
        axes.scatter([], [], s=60, color=colour, alpha=0.7, label=f"{label}: {share:.0%} of step time")
    axes.legend(loc="upper left", fontsize=9.2, borderaxespad=0.8)
