"""What tensor parallelism gives and takes: Llama-3.1-70B on H100s, one to eight to a replica."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from splitting_runs import CATALOG, Layout, Run, capacity, explained, run, steady_per_gpu, table

from servetwin.studies.compare.document import build_document
from servetwin.studies.compare.running import run_variants
from servetwin.studies.compare.variants import Question, plan_variants
from servetwin.studies.run_options import RunOptions

SCENARIO = "tp-70b"
GPUS = 8
DEGREES = (1, 2, 4, 8)
PRECISIONS = ("bf16", "fp8")
REQUESTS = 2000
STEPS = {"one decodes": (1, 1000, 0), "64 decode": (64, 1000, 0), "prompt of 8,192": (0, 0, 8192)}
"""Name of a step → requests that decode, tokens of context of each, prompt tokens."""

LOADS = {"bf16": (1.0, 8.0, 14.0), "fp8": (1.0, 8.0, 18.0)}
"""By precision the loads at which the layouts are compared [1/s]."""

PARTS = {"compute": "compute", "memory": "memory", "communication": "all-reduce, gather", "overhead": "host"}
"""What a step is made of, as ``explain`` and as the picture call it."""

CURVE = (1.0, 4.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0)
PICTURES = ("splitting-steps.png", "splitting-equal.png")

_SEATS_PER_GPU = 128
_BASELINE = 4


def layout(tensor: int, weights: str = "bf16") -> Layout:
    """Eight GPUs in replicas of ``tensor``."""
    seats = f"cluster.engine.max_num_seqs={_SEATS_PER_GPU * tensor}"
    return Layout(f"{GPUS // tensor} × TP{tensor}", tensor, 1, GPUS // tensor, weights, (seats,))


def step(tensor: int, weights: str, name: str) -> dict[str, Any] | None:
    """What ``explain`` says of one of ``STEPS``; None where it does not fit."""
    return explained(SCENARIO, layout(tensor, weights), *STEPS[name])


def gpu_ms_per_token(tensor: int, found: dict[str, Any]) -> float:
    """GPU time of a step for each of its tokens [ms]."""
    return float(found["step"]["total_us"]) / 1000 * tensor / int(found["inputs"]["tokens"])


def steps_table() -> str:
    """A row per precision, step and degree, in Markdown."""
    head = (
        "weights", "step", "tensor", "ms", "the hardware allows, ms", "faster than half the GPUs", "compute",
        "memory", "all-reduce, gather", "host", "FLOP/B", "GPU-ms per token",
    )  # fmt: skip
    rows = [
        [weights, name, str(tensor), *_step(tensor, weights, name)]
        for weights in PRECISIONS
        for name in STEPS
        for tensor in DEGREES
    ]
    return table(head, rows, left=2)


def _step(tensor: int, weights: str, name: str) -> Iterator[str]:
    found = step(tensor, weights, name)
    if found is None:
        yield from ("does not fit", *[""] * 8)
        return
    took = found["step"]
    half = step(tensor // 2, weights, name) if tensor > 1 else None
    yield f"{took['total_us'] / 1000:.2f}"
    yield f"{took['floor_us'] / 1000:.2f}"
    yield f"{half['step']['total_us'] / took['total_us']:.2f} ×" if half else "–"
    for column in ("compute", "memory", "communication", "overhead"):
        yield f"{100 * took[f'{column}_us'] / took['total_us']:.1f} %"
    yield f"{found['intensity']['flops_per_byte']:,.0f}"
    yield f"{gpu_ms_per_token(tensor, found):.3f}"


@cache
def comparison(weights: str, rate_per_s: float) -> dict[str, Any]:
    """What ``servetwin compare`` says of the layouts under the same requests; two replicas of four are the baseline."""
    degrees = (_BASELINE, *(tensor for tensor in DEGREES if tensor not in (1, _BASELINE)))
    question = Question(
        [f"tp{tensor}={SCENARIO}" for tensor in degrees],
        [f"workload.arrivals.rate_per_s={rate_per_s}", f"run.requests={REQUESTS}"],
        [f"tp{tensor}:{change}" for tensor in degrees for change in layout(tensor, weights).changes],
    )
    variants = plan_variants(question, CATALOG)
    return build_document(variants, run_variants(variants, 1, RunOptions(jobs=1)))


def equal_table() -> str:
    """The same requests through eight GPUs, laid out in three ways, in Markdown."""
    head = (
        "weights", "layout", "requests / s", "TTFT, ms", "TPOT, ms", "E2E, ms", "E2E against 2 × TP4, ms",
        "GPU-s in use", "GPU-s saved", "more all-reduce, GPU-s", "net, GPU-s",
    )  # fmt: skip
    rows = []
    for weights in PRECISIONS:
        for rate in LOADS[weights]:
            found = comparison(weights, rate)["variants"]
            for tensor in DEGREES[1:]:
                cells = _compared(found[f"tp{tensor}"], tensor == _BASELINE)
                rows.append([weights, layout(tensor).name, f"{rate:g}", *cells])
    return table(head, rows, left=2)


def _compared(variant: dict[str, Any], baseline: bool) -> Iterator[str]:
    metrics = variant["metrics"]
    if any(text.startswith("overloaded") for text in variant["warnings"]):
        # Its latencies say how long the run was.
        yield from ("overloaded", "", "", "")
    else:
        for metric in ("ttft_ms.mean", "tpot_ms.mean", "e2e_ms.mean"):
            yield f"{metrics[metric]:,.{2 if metric.startswith('tpot') else 0}f}"
        ends = variant["ci"]["e2e_ms.mean"]
        half = 0 if baseline else (ends["high"] - ends["low"]) / 2
        yield "–" if baseline else f"{variant['gain']['e2e_ms.mean']:+,.0f} ±{half:,.0f}"
    yield f"{metrics['gpu_seconds_in_use']:,.0f}"
    if baseline:
        yield from ("–", "–", "–")
        return
    yield f"{variant['net']['saved_gpu_seconds']:+,.0f}"
    yield f"{variant['cost']['exposed_communication']:+,.0f}"
    yield f"{variant['net']['gpu_seconds']:+,.0f}"


def at(tensor: int, weights: str, rate_per_s: float) -> Run:
    """The run of a layout under a load."""
    return run(SCENARIO, layout(tensor, weights), rate_per_s, REQUESTS)


@cache
def highest(tensor: int, weights: str) -> float:
    """The highest load within the SLO [1/s]."""
    return capacity(lambda rate: at(tensor, weights, rate).summary["slo_attainment"], 0.5, 64)


def capacity_table() -> str:
    """A row per precision and layout: the highest load within the SLO, and what it is made of, in Markdown."""
    head = (
        "weights", "layout", "KV room of a replica, tokens", "requests / s", "output tokens / s and GPU", "TPOT, ms",
        "KV in use, at most", "compute", "HBM", "exposed communication",
    )  # fmt: skip
    rows = []
    for weights in PRECISIONS:
        for tensor in DEGREES:
            found = step(tensor, weights, "one decodes")
            if found is None:
                rows.append([weights, layout(tensor).name, "does not fit", *[""] * 7])
                continue
            rate = highest(tensor, weights)
            reached = at(tensor, weights, rate)
            rows.append(
                [
                    weights, layout(tensor).name, f"{found['memory']['kv_capacity_tokens']:,}", f"{rate:g}",
                    f"{steady_per_gpu(reached, GPUS):.0f}", f"{reached.summary['tpot_ms.mean']:.1f}",
                    f"{100 * reached.summary['kv_use_max']:.0f} %",
                    *(f"{100 * reached.share[key]:.0f} %" for key in ("compute", "hbm", "exposed_communication")),
                ]
            )  # fmt: skip
    return table(head, rows, left=2)


def draw_steps(path: Path) -> None:
    """GPU time per token by degree, for three steps: bars of one height would be doubling that pays in full."""
    from servetwin.report.style import BLUE, GREY, ORANGE, RED, canvas

    subtitle = "bars of one height: twice the GPUs halve the time · above the bar: what the step takes · – no room"
    with canvas(11, 4.4, "llama-3.1-70b on H100: GPU time per token [ms]", subtitle, path) as figure:
        for axes, name in zip(figure.subplots(1, len(STEPS)), STEPS, strict=True):
            _bars(axes, name, dict(zip(PARTS, (ORANGE, BLUE, RED, GREY), strict=True)))
        axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
        axes.legend(loc="upper right", ncols=2)


def _bars(axes: Any, name: str, colours: dict[str, str]) -> None:
    labels: list[str] = []
    places: list[float] = []
    tallest = 0.0
    for group, weights in enumerate(PRECISIONS):
        for tensor in DEGREES[1:]:
            found = step(tensor, weights, name)
            places.append(len(places) + 0.6 * group)
            labels.append(f"TP{tensor}\n{weights}")
            top = gpu_ms_per_token(tensor, found) if found else 0.0
            bottom = 0.0
            for part, colour in colours.items() if found else ():
                height = top * found["step"][f"{part}_us"] / found["step"]["total_us"]
                said = PARTS[part] if len(places) == len(DEGREES) else None
                axes.bar(places[-1], height, bottom=bottom, color=colour, width=0.74, label=said)
                bottom += height
            text = f"{found['step']['total_us'] / 1000:,.1f} ms" if found else "–"
            axes.text(places[-1], top, text, ha="center", va="bottom", fontsize=7.5)
            tallest = max(tallest, top)
    axes.set_title(name)
    axes.set_xticks(places, labels, fontsize=8)
    axes.set_xlim(places[0] - 0.7, places[-1] + 0.7)
    axes.set_ylim(0, 1.1 * tallest)
    axes.grid(axis="x", visible=False)


def draw_equal(path: Path) -> None:
    """Eight GPUs in three layouts, by load: what a token takes, in bf16 and in fp8."""
    from servetwin.report.style import BLUE, GREEN, ORANGE, RED, canvas

    subtitle = (
        "the same requests through each · dashed: the limit of the SLO, 50 ms a token · a line that ends early: "
        "overload beyond"
    )
    with canvas(11, 4.4, "llama-3.1-70b on eight H100: mean time per output token [ms]", subtitle, path) as figure:
        for axes, weights in zip(figure.subplots(1, 2, sharey=True), PRECISIONS, strict=True):
            axes.set_title(f"weights in {weights}")
            for tensor, colour in zip(DEGREES[1:], (ORANGE, BLUE, GREEN), strict=True):
                runs = [(rate, at(tensor, weights, rate)) for rate in CURVE]
                fine = [(rate, found.summary["tpot_ms.mean"]) for rate, found in runs if not found.overloaded]
                rates, pace = zip(*fine, strict=True)
                axes.plot(rates, pace, "o-", color=colour, label=layout(tensor).name)
            axes.axhline(50, color=RED, linewidth=1.0, linestyle="--")
            axes.set_ylim(0, 80)
            axes.set_xlim(0, CURVE[-1] + 1)
            axes.set_xlabel("requests per second")
            axes.legend(loc="upper left")
