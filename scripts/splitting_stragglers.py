"""What one slow GPU costs its group: Llama-3.1-70B on eight H100s, one of which brings less than its data sheet."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from splitting_runs import Layout, Run, explained, run, table
from splitting_tensor import STEPS

SCENARIO = "tp-70b"
REQUESTS = 2000
RATE_PER_S = 8.0
FAULTS = {"arithmetic": "flops", "memory bandwidth": "hbm", "NVLink": "link"}
"""What is less than the data sheet says → its field."""

SHARE = 0.7
"""What is left of it."""

SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
ROUTERS = ("round-robin", "least-requests")
PICTURE = "splitting-stragglers.png"
_SEATS_PER_GPU = 128


def layout(tensor: int, field: str | None = None, share: float = SHARE, router: str | None = None) -> Layout:
    """Eight GPUs in replicas of ``tensor``, the first of them with ``share`` of what ``field`` names."""
    more = [f"cluster.engine.max_num_seqs={_SEATS_PER_GPU * tensor}"]
    if field is not None:
        more.append(f"cluster.stragglers=[{{replica: 0, gpu: 0, {field}: {share}}}]")
    if router is not None:
        more.append(f"router={{policy: {router}}}")
    return Layout(f"TP{tensor}", tensor, 1, 8 // tensor, more=tuple(more))


@cache
def longer(tensor: int, name: str, field: str, share: float = SHARE) -> float:
    """How much longer one of ``STEPS`` takes for the whole group, as a share of what it takes otherwise."""
    if share == 1:
        return 0.0
    found = explained(SCENARIO, layout(tensor, field, share), *STEPS[name])
    assert found is not None
    (slow,) = found["stragglers"]
    return float(slow["longer"])


def steps_table() -> str:
    """A row per fault and degree, in Markdown."""
    head = ("a GPU with 70 % of its", "tensor", *(f"{name}, longer by" for name in STEPS))
    rows = [
        [fault, str(tensor), *(f"{100 * longer(tensor, name, field):.1f} %" for name in STEPS)]
        for fault, field in FAULTS.items()
        for tensor in (4, 8)
    ]
    return table(head, rows)


def at(tensor: int, field: str | None, router: str) -> Run:
    """The run of two replicas of four GPUs, or of one of eight, with a fault or without."""
    return run(SCENARIO, layout(tensor, field, SHARE, router), RATE_PER_S, REQUESTS)


def runs_table() -> str:
    """A row per fault, layout and router, in Markdown."""
    head = ("a GPU with 70 % of its", "layout", "router", "TTFT p99, ms", "TPOT, ms", "TPOT p99, ms", "E2E, ms")
    rows = []
    for fault, field in {"– (all healthy)": None, **FAULTS}.items():
        for tensor, routers in ((4, ROUTERS), (8, ROUTERS[:1])):
            for router in routers:
                summary: dict[str, Any] = at(tensor, field, router).summary
                rows.append(
                    [
                        fault, f"{8 // tensor} × TP{tensor}", router if tensor == 4 else "–",
                        f"{summary['ttft_ms.p99']:,.0f}",
                        f"{summary['tpot_ms.mean']:.1f}", f"{summary['tpot_ms.p99']:.1f}",
                        f"{summary['e2e_ms.mean']:,.0f}",
                    ]
                )  # fmt: skip
    return table(head, rows, left=3)


def draw(path: Path) -> None:
    """By what is left of one GPU, how much longer all eight take for a step."""
    from servetwin.report.style import BLUE, ORANGE, RED, canvas

    subtitle = "one of eight GPUs brings less than its data sheet says; the others wait for it in every all-reduce"
    with canvas(11, 4.2, "llama-3.1-70b, TP8: a step takes longer by [%]", subtitle, path) as figure:
        for axes, name in zip(figure.subplots(1, len(STEPS), sharey=True), STEPS, strict=True):
            axes.set_title(name)
            for (fault, field), colour in zip(FAULTS.items(), (ORANGE, BLUE, RED), strict=True):
                values = [100 * longer(8, name, field, share) for share in SHARES]
                axes.plot([100 * share for share in SHARES], values, "o-", color=colour, label=fault, markersize=4)
            axes.set_xlim(102, 48)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("left of one GPU [%]")
        figure.axes[0].legend(loc="upper left")
