"""A number of drafts that follows the load against every fixed one, under loads that rise and fall.

Loads, candidates and the SLO were written down before any rule was run, and nothing was tuned: rules have their
defaults, or where they have none, what their source gives as an example. The rates follow from what plain decoding
can do at most.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from splitting_runs import CATALOG, table

import servetwin
from servetwin.scenario.load import load_scenario

SCENARIO = "bench-8b-spec"
LENGTHS = (
    "workload.prompts={distribution: lognormal, mean: 350, std: 300, min: 10, max: 2000}",
    "workload.outputs={distribution: lognormal, mean: 550, std: 350, min: 10, max: 1000}",
)
"""Prompts and answers, about as in ShareGPT, whose acceptance is used."""

SLO_MS = {"ttft_ms": 500.0, "tpot_ms": 20.0}

Stage = tuple[float, float, float]
"""A stretch of time: arrivals at its start and at its end [1/s], and how long it lasts [s]."""

RISE: tuple[Stage, ...] = ((3, 3, 60), (3, 25, 60), (25, 25, 60), (25, 3, 60), (3, 3, 60))
"""A rush hour in five minutes. Plain decoding gives out at about 27 per second."""

BURSTS: tuple[Stage, ...] = ((6, 6, 30), (30, 30, 15)) * 6
"""Bursts beyond what the GPU can do, too short for a queue that lasts; the shape that nobody had seen."""

LOADS = (("rise and fall", RISE, (0,)), ("rise and fall", RISE, (1, 2, 3)), ("bursts", BURSTS, (0,)))
"""Name, stages and seeds of what is reported."""


@dataclass(frozen=True)
class Candidate:
    """A rule.

    Attributes:
        name: what tables and pictures call it.
        k: drafts per request at most [tokens]; 0 = none.
        controller: ``speculation.controller`` as JSON.
    """

    name: str
    k: int
    controller: str = '"fixed"'


def _rule(name: str, k: int, **fields: Any) -> Candidate:
    return Candidate(name, k, json.dumps({"policy": name, **fields}))


FIXED = tuple(Candidate(f"fixed, K = {k}", k) for k in (0, 1, 2, 3, 5, 7))
RULES = (
    _rule("by-batch-size", 3, ranges=[[1, 64, 3], [65, 128, 1], [129, 512, 0]]),
    _rule("draft-len-schedule", 4, schedule={"4": 4, "8": 2, "32": 1}),
    _rule("disable-by-batch-size", 3, requests=32),
    _rule("ema-tiers", 7),
    _rule("goodput", 7),
    _rule("disable-when-low", 3, window=1000, threshold=1.0),
    _rule("per-request", 7),
)
CANDIDATES = (*FIXED, *RULES)

PICTURE = "speculation-load.png"
SHOWN = ("fixed, K = 0", "fixed, K = 3", "by-batch-size", "goodput")
"""Candidates of the picture."""


@dataclass(frozen=True)
class Outcome:
    """What came of a candidate under a load.

    Attributes:
        summary: its ``summary.json``.
        gpu_s: GPU-seconds by bucket of the ledger [s].
        tpot_ms: time per output token by arrival: while it is quiet, and during the peak [ms].
        course: ``timeseries.parquet``: ends of intervals [s], requests that run, K.
    """

    summary: dict[str, Any]
    gpu_s: dict[str, float]
    tpot_ms: dict[str, float]
    course: dict[str, np.ndarray[Any, Any]]


@cache
def at(candidate: Candidate, stages: tuple[Stage, ...], seed: int) -> Outcome:
    """The candidate under a load."""
    written = [{"rate_per_s": begin, "end_rate_per_s": end, "duration_s": length} for begin, end, length in stages]
    speculation = f"cluster.speculation.k={candidate.k}" if candidate.k else "cluster.speculation=none"
    changes = [
        *LENGTHS,
        f"workload.arrivals={json.dumps({'process': 'staged', 'stages': written})}",
        f"slo={json.dumps({'goodput': SLO_MS})}",
        f"run.seed={seed}",
        "run.requests=null",
        speculation,
        *([f"cluster.speculation.controller={candidate.controller}"] if candidate.k else ()),
    ]
    result = servetwin.run(load_scenario(SCENARIO, changes, CATALOG))
    frame, requests = result.timeseries(), result.requests()
    begins = np.cumsum([0.0, *(length for _, _, length in stages)])
    rates = [max(begin, end) for begin, end, _ in stages]
    place = np.searchsorted(begins, requests["arrival_s"].to_numpy(), side="right") - 1
    height = np.asarray(rates)[np.minimum(place, len(rates) - 1)]
    steady = np.asarray([begin == end for begin, end, _ in stages])[np.minimum(place, len(rates) - 1)]
    tpot = requests["tpot_ms"].to_numpy()
    paces = {
        "quiet": float(np.nanmean(tpot[steady & (height == min(rates))])),
        "peak": float(np.nanmean(tpot[steady & (height == max(rates))])),
    }
    course = {name: frame[name].to_numpy() for name in ("end_s", "running", "k")}
    return Outcome(result.summary(), result.ledger()["total"]["seconds"], paces, course)


METRICS = {
    "TPOT mean, ms": lambda found: found.summary["tpot_ms.mean"],
    "TPOT p99, ms": lambda found: found.summary["tpot_ms.p99"],
    "TTFT p99, ms": lambda found: found.summary["ttft_ms.p99"],
    "goodput, requests / s": lambda found: found.summary["goodput_per_s"],
    "within the SLO, %": lambda found: 100 * found.summary["slo_attainment"],
    "TPOT, quiet, ms": lambda found: found.tpot_ms["quiet"],
    "TPOT, peak, ms": lambda found: found.tpot_ms["peak"],
    "GPU-s wasted": lambda found: found.gpu_s["wasted_verify"],
    "GPU-s drafting": lambda found: found.gpu_s["draft"],
}
"""Column of the table → what stands there."""


def mean(candidate: Candidate, load: int, metric: str) -> float:
    """A metric, averaged over the seeds of one of ``LOADS``."""
    _, stages, seeds = LOADS[load]
    return float(np.mean([METRICS[metric](at(candidate, stages, seed)) for seed in seeds]))


def candidates_table(load: int) -> str:
    """A row per candidate under one of ``LOADS``, in Markdown."""
    rows = []
    for candidate in CANDIDATES:
        cells = []
        for metric in METRICS:
            value = mean(candidate, load, metric)
            cells.append(f"{value:,.0f}" if value >= 100 else f"{value:.1f}")
        rows.append([candidate.name, *cells])
    return table(("rule", *METRICS), rows)


def draw(path: Path) -> None:
    """Arrivals, batch and chosen K over time, under both shapes."""
    from servetwin.report.style import BLUE, GREEN, INK, ORANGE, PURPLE, canvas

    subtitle = "llama-3.1-8b on one H100 · top: arrivals · middle: requests that run · bottom: tokens drafted for each"
    colours = dict(zip(SHOWN, (BLUE, PURPLE, ORANGE, GREEN), strict=True))
    with canvas(8.4, 5, "EAGLE-3 while the load rises and falls", subtitle, path) as figure:
        panels = figure.subplots(3, 2, sharex="col", sharey="row", height_ratios=(1, 1.6, 1.6))
        for column, (title, stages) in enumerate((("Rise and fall", RISE), ("Bursts", BURSTS))):
            rates, batch, drafts = panels[:, column]
            ends = np.cumsum([length for _, _, length in stages])
            times = np.ravel(np.column_stack((ends - [length for _, _, length in stages], ends)))
            rates.plot(times, np.ravel([(begin, end) for begin, end, _ in stages]), color=INK)
            rates.set_title(title)
            for candidate in CANDIDATES:
                if candidate.name in colours:
                    _course(batch, drafts, at(candidate, stages, 0), candidate, colours[candidate.name])
            drafts.set_xlabel("simulated time [s]")
            drafts.set_xlim(0, ends[-1] + 20)
            batch.set_ylim(bottom=0)
        panels[0, 0].set_ylim(0, 33)
        for axes, label in zip(panels[:, 0], ("requests / s", "requests", "K"), strict=True):
            axes.set_ylabel(label)
        panels[1, 0].legend(loc="upper left")


def _course(batch: Any, drafts: Any, found: Outcome, candidate: Candidate, colour: str) -> None:
    """What a candidate did."""
    ends, running, k = found.course["end_s"], found.course["running"], found.course["k"]
    # Means over some seconds: a controller may choose anew in every step.
    width = max(1, len(ends) // 100)
    whole = len(ends) // width * width
    times = ends[:whole].reshape(-1, width)[:, -1]
    requests = running[:whole].reshape(-1, width).mean(axis=1)
    batch.plot(times, requests, color=colour, label=candidate.name, linewidth=1.4)
    chosen = k[:whole].astype(float).reshape(-1, width).mean(axis=1) if candidate.k else np.zeros(len(times))
    drafts.plot(times, chosen, color=colour, linewidth=1.4)
