"""A model that takes two servers, or one in half the bytes: Llama-3.1-405B on sixteen H100s."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from splitting_runs import Layout, Run, capacity, explained, run, steady_per_gpu, table

SCENARIO = "pp-405b"
REQUESTS = 1000
LAYOUTS = (
    Layout("TP8 × PP2", 8, 2),
    Layout("TP16", 16),
    Layout("TP8 × PP2", 8, 2, 1, "fp8"),
    Layout("TP16", 16, 1, 1, "fp8"),
    Layout("2 × TP8", 8, 1, 2, "fp8"),
)
STEPS = {"one decodes": (1, 1000, 0), "64 decode": (64, 1000, 0), "prompt of 8,192": (0, 0, 8192)}
"""Name of a step → requests that decode, tokens of context of each, prompt tokens."""

LOADS = (0.25, 2.0)
"""Where the runs are shown [1/s]."""

CURVE = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0)
PICTURE = "splitting-servers.png"

_SERVER_GPUS = 8


def nic_bytes_per_token(layout: Layout) -> float:
    """What a server sends through its NICs at least, for each token of a step that wants its logits [B].

    Of an all-reduce over two servers each sends its own sum once, of an all-gather what its GPUs hold; from one stage
    of a pipeline to the next goes all that is handed on. Where NCCL takes its tree, it is two times as much.
    """
    found = explained(SCENARIO, layout, *STEPS["one decodes"])
    assert found is not None
    sent = 0.0
    for operator in found["operators"]:
        if operator["name"] == "hand-off":
            sent += operator["wire_bytes"] * layout.tensor
        elif operator["collective"] is not None and layout.tensor > _SERVER_GPUS:
            one = operator["collective"]
            sent += one["calls"] * one["message_bytes"] * (1.0 if operator["name"] == "all-reduce" else 0.5)
    return sent


def nic_use(reached: Run) -> float:
    """Share of its bandwidth that the busiest NIC used over the run; 0 where nothing went over any."""
    return float(reached.summary["links"].get("nic", {"mean": 0.0})["mean"])


def all_reduce_us(found: dict[str, Any]) -> float:
    """One of the two all-reduces of a layer in an explained step [µs]."""
    reduces = next(operator for operator in found["operators"] if operator["name"] == "all-reduce")
    return float(reduces["total_us"]) / (2 * int(reduces["layers"]))


def steps_table() -> str:
    """What a step takes in each layout, and how much of it the GPUs spend on handing work on, in Markdown."""
    head = ["weights", "layout", "KV room of a replica, tokens"]
    for name in STEPS:
        head += [f"{name}, ms", "exchange", "one all-reduce, µs"]
    rows = []
    for layout in LAYOUTS:
        row: list[str] = []
        for name in STEPS:
            found = explained(SCENARIO, layout, *STEPS[name])
            assert found is not None
            row = row or [layout.weights, layout.name, f"{found['memory']['kv_capacity_tokens']:,}"]
            took = found["step"]
            row += [f"{took['total_us'] / 1000:,.1f}", f"{100 * took['communication_us'] / took['total_us']:.0f} %"]
            row.append(f"{all_reduce_us(found):,.0f}")
        rows.append(row)
    return table(head, rows, left=2)


def at(layout: Layout, rate_per_s: float) -> Run:
    """The run of a layout under a load."""
    return run(SCENARIO, layout, rate_per_s, REQUESTS)


@cache
def highest(layout: Layout) -> float:
    """The highest load within the SLO [1/s]."""
    return capacity(lambda rate: at(layout, rate).summary["slo_attainment"], 0.125, 80)


def loads_table() -> str:
    """What requests see at a low and at a moderate load, and how much load is within the SLO, in Markdown."""
    head = ["weights", "layout"]
    for rate in LOADS:
        head += [f"TTFT at {rate:g} / s, ms", "TPOT, ms", "exposed communication", "bubble"]
    head += ["requests / s within the SLO", "output tokens / s and GPU", "over the NICs, kB per token", "NICs, in use"]
    rows = []
    for layout in LAYOUTS:
        row = [layout.weights, layout.name]
        for rate in LOADS:
            found = at(layout, rate)
            row += [f"{found.summary['ttft_ms.mean']:,.0f}", f"{found.summary['tpot_ms.mean']:.1f}"]
            row += [f"{100 * found.share[key]:.0f} %" for key in ("exposed_communication", "bubble")]
        best = at(layout, highest(layout))
        row += [f"{highest(layout):g}", f"{steady_per_gpu(best, layout.gpus):.1f}"]
        row += [f"{nic_bytes_per_token(layout) / 1000:,.0f}", f"{100 * nic_use(best):.1f} %"]
        rows.append(row)
    return table(head, rows, left=2)


def draw(path: Path) -> None:
    """Time per output token by load, and where the GPU-seconds go at a moderate one."""
    from servetwin.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas

    styles = zip(LAYOUTS, (BLUE, ORANGE, BLUE, ORANGE, GREEN), ("--", "--", "-", "-", "-"), strict=True)
    subtitle = (
        "left: the same requests through each, dashed in bf16, red: the limit of the SLO · right: at 2 requests / s"
    )
    with canvas(11, 4.6, "llama-3.1-405b on two servers of eight H100", subtitle, path) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        left.set_title("Mean time per output token [ms]")
        for layout, colour, line in styles:
            runs = [(rate, at(layout, rate)) for rate in CURVE]
            fine = [(rate, found.summary["tpot_ms.mean"]) for rate, found in runs if not found.overloaded]
            rates, pace = zip(*fine, strict=True)
            left.plot(rates, pace, "o", linestyle=line, color=colour, label=_named(layout), markersize=4)
        left.axhline(100, color=RED, linewidth=1.0)
        left.set_ylim(0, 160)
        left.set_xlim(0, CURVE[-1] + 0.2)
        left.set_xlabel("requests per second")
        left.legend(loc="upper left")
        right.set_title("Share of the GPU-seconds")
        starts = [0.0] * len(LAYOUTS)
        colours = {
            "compute": ORANGE, "hbm": BLUE, "exposed_communication": RED, "bubble": PURPLE, "host": GREY,
            "idle": "#e3e8ec",
        }  # fmt: skip
        for bucket, colour in colours.items():
            widths = [at(layout, LOADS[-1]).share[bucket] for layout in LAYOUTS]
            right.barh(
                range(len(LAYOUTS)), widths, left=starts, color=colour, height=0.62, label=bucket.replace("_", " ")
            )
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
        right.set_yticks(range(len(LAYOUTS)), [_named(layout) for layout in LAYOUTS])
        right.invert_yaxis()
        right.set_xlim(0, 1)
        right.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0", "25 %", "50 %", "75 %", "100 %"))
        right.grid(axis="y", visible=False)
        right.legend(loc="upper center", bbox_to_anchor=(0.4, -0.08), ncols=6, fontsize=7.5, columnspacing=1.0)


def _named(layout: Layout) -> str:
    return f"{layout.weights} {layout.name}"
