"""``latency.png``: how the latencies are distributed, with percentiles and limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from servetwin.report.data import AnyResult, latency_data, title
from servetwin.report.style import BLUE, GREEN, GREY, INK, RED, canvas, label_numbers, label_shares, quiet, short
from servetwin.results.exact import Floats

_PANELS = (
    ("ttft_ms", "Time to first token (TTFT)"),
    ("tpot_ms", "Time per output token (TPOT)"),
    ("itl_ms", "Inter-token latency (ITL)"),
    ("e2e_ms", "End-to-end latency (E2E)"),
)
_NOTHING = {"itl_ms": "no inter-token gaps kept", "tpot_ms": "no completed request with several tokens"}
_MARKED = ("p50", "p90", "p99")
#: p99 / p50 from which the axis is logarithmic.
_LOG_FROM = 12.0
#: Where p99 lies at most, as a share of the width, so that its label fits beside it.
_P99_AT = 0.76
_BARS = 60
#: Widths of a character of a label and of a panel, about [pt].
_CHARACTER_PT, _PANEL_PT = 4.5, 330.0


def draw_latency(result: AnyResult, path: Path) -> None:
    """Draw the distribution of each latency into the PNG ``path``."""
    summary = result.summary()
    data = latency_data(result)
    subtitle = (
        f"{summary['latency_requests']:,} completed requests"
        + (f" after {summary['warmup_requests']:,} of warm-up" if summary["warmup_requests"] else "")
        + " · line: share of requests (ITL: of gaps) up to x · bars: shape of the distribution, tallest = full height"
    )
    with canvas(11, 7, title(summary), subtitle, path) as figure:
        for axes, (metric, name) in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
            axes.set_title(name)
            if metric == "itl_ms":
                curve = data.gaps
            else:
                curve = _curve(data.samples[metric])
            if curve is None or not len(curve[0]):
                quiet(axes, _NOTHING.get(metric, "no completed requests"))
            else:
                _panel(axes, metric, *curve, summary)


def _curve(samples: Floats) -> tuple[Floats, Floats]:
    ordered = np.sort(samples)
    return ordered, np.arange(1, len(ordered) + 1) / max(len(ordered), 1)


def _panel(axes: Axes, metric: str, values: Floats, share: Floats, summary: Mapping[str, Any]) -> None:
    limits = {key: entry for key, entry in summary["slo"].items() if key.startswith(f"{metric}.")}
    low, high = _scale(axes, metric, values, summary, [entry["limit"] for entry in limits.values()])
    _bars(axes, values, share, low, high)
    axes.step(np.append(low, values), np.append(0.0, share), where="post", color=BLUE, linewidth=1.8)
    for statistic in _MARKED:
        value = summary[f"{metric}.{statistic}"]
        height = int(statistic[1:]) / 100
        axes.plot([value], [height], "o", color=INK, markersize=4.5, clip_on=False, zorder=4)
        text = f"{statistic}  {short(value)} ms"
        # Below and to the right, or above and to the left: no distribution function passes there.
        left = _crossed(axes, text, value, [entry["limit"] for entry in limits.values()])
        axes.annotate(
            text, (value, height), (-6, 2) if left else (7, -4), textcoords="offset points", fontsize=8.5,
            va="bottom" if left else "top", ha="right" if left else "left",
        )  # fmt: skip
    for place, (key, entry) in enumerate(limits.items()):
        _limit(axes, key.split(".", 1)[1], entry, place)
    axes.set_ylim(0, 1.04)
    label_shares(axes.yaxis)
    axes.set_xlabel(f"ms{_beyond(values, high)}")


def _crossed(axes: Axes, text: str, value: float, limits: list[float]) -> bool:
    """Whether a limit's line would cross a label on the right of ``value``, and none one on the left."""
    width = (len(text) * _CHARACTER_PT + 8) / _PANEL_PT
    start = _across(axes, value)
    places = [_across(axes, limit) for limit in limits if limit <= axes.get_xlim()[1]]
    right = any(start < place < start + width for place in places)
    return right and start > width and not any(start - width < place < start for place in places)


def _across(axes: Axes, value: float) -> float:
    """Where a value lies, as a share of the width of the panel."""
    return float(axes.transAxes.inverted().transform(axes.transData.transform((value, 0.5)))[0])


def _scale(
    axes: Axes, metric: str, values: Floats, summary: Mapping[str, Any], limits: list[float]
) -> tuple[float, float]:
    """Set the x axis: all of it, or to a little beyond p99 where single requests lie far out."""
    positive = values[values > 0]
    least = min([float(positive[0]) if len(positive) else 1e-3, *(limit for limit in limits if limit > 0)])
    most = float(values[-1])
    p50, p99 = summary[f"{metric}.p50"], summary[f"{metric}.p99"]
    if p50 > 0 and p99 / p50 > _LOG_FROM:
        axes.set_xscale("log")
        low, high = least / 1.1, max(most, *limits, least * 1.5) * 1.1
        high = max(high, low * (p99 / low) ** (1 / _P99_AT))
    else:
        far = most > 2.0 * p99
        high = max(1.35 * p99 if far else 1.03 * most, *(1.12 * limit for limit in limits if limit < 3 * p99), 1e-9)
        spread = high - least
        low = max(least - 0.05 * spread, 0.0) if least > 0.35 * high else 0.0
        high = max(high, low + (p99 - low) / _P99_AT)
    label_numbers(axes.xaxis)
    axes.set_xlim(low, high)
    return low, high


def _bars(axes: Axes, values: Floats, share: Floats, low: float, high: float) -> None:
    logarithmic = axes.get_xscale() == "log"
    edges = np.geomspace(low, high, _BARS + 1) if logarithmic else np.linspace(low, high, _BARS + 1)
    reached = np.append(0.0, share)[np.searchsorted(values, edges, side="right")]
    # The first bar holds what lies exactly on the left edge, too.
    reached[0] = 0.0
    mass = np.diff(reached)
    if mass.max() > 0:
        axes.bar(edges[:-1], mass / mass.max(), np.diff(edges), align="edge", color=BLUE, alpha=0.16, linewidth=0)


def _limit(axes: Axes, statistic: str, entry: Mapping[str, Any], place: int) -> None:
    met, limit = entry["met"], entry["limit"]
    colour = GREY if met is None else GREEN if met else RED
    verdict = "undefined" if met is None else "met" if met else "missed"
    text = f"SLO {statistic} ≤ {limit:,.10g} ms: {verdict}"
    if limit > axes.get_xlim()[1]:
        axes.text(0.985, 0.06 + 0.08 * place, text + " →", transform=axes.transAxes, ha="right", color=colour,
                  fontsize=8.5, fontweight="bold")  # fmt: skip
        return
    axes.axvline(limit, color=colour, linestyle=(0, (5, 3)), linewidth=1.5)
    left = _across(axes, limit) > 0.5
    axes.annotate(
        text, (limit, 0.06 + 0.08 * place), (-5 if left else 5, 0), textcoords="offset points",
        xycoords=("data", "axes fraction"), ha="right" if left else "left", color=colour, fontsize=8.5,
        fontweight="bold", bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.0},
    )  # fmt: skip


def _beyond(values: Floats, high: float) -> str:
    return f"   (axis cut; longest {short(float(values[-1]))} ms)" if values[-1] > high else ""
