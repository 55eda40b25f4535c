"""What a pipeline waits for: Llama-3.1-70B on four H100s, one behind the other, by load."""

from __future__ import annotations

from pathlib import Path

from splitting_runs import Layout, Run, explained, run, table

SCENARIO = "bench-70b-pp4"
REQUESTS = 1000
VLLM = Layout("PP4, as vLLM", 1, 4)
BALANCED = Layout("PP4, balanced", 1, 4, more=("cluster.engine.pipeline_batches=balanced",))
WIDE = Layout("TP4", 4)
LAYOUTS = (VLLM, BALANCED, WIDE)
LOADS = (0.25, 1.0, 2.0, 4.0, 6.0, 8.0)
CURVE = (0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0)
PICTURE = "splitting-bubbles.png"


def at(layout: Layout, rate_per_s: float) -> Run:
    """The run of a layout under a load."""
    return run(SCENARIO, layout, rate_per_s, REQUESTS)


def lone_ms(layout: Layout) -> float:
    """The gap between two tokens of a lone request at 500 tokens of context [ms]."""
    found = explained(SCENARIO, layout, 1, 500)
    assert found is not None
    return float(found["step"]["total_us"]) / 1000


def waits(found: Run) -> float:
    """Share of the time in which anything was in flight that the GPUs stood still for want of a batch."""
    return found.share["bubble"] / (1 - found.share["idle"])


def loads_table() -> str:
    """A row per load and layout, in Markdown."""
    head = (
        "layout", "requests / s", "bubble", "ITL p50, ms", "ITL p99, ms", "TPOT, ms", "TTFT, ms", "output tokens / s",
        "busy GPU-s per 1,000 tokens", "of them exchange", "bubble GPU-s per 1,000 tokens",
    )  # fmt: skip
    rows = []
    for rate in LOADS:
        for layout in LAYOUTS:
            found = at(layout, rate)
            summary, thousands = found.summary, found.summary["output_tokens"] / 1000
            busy = sum(spent for bucket, spent in found.gpu_s.items() if bucket not in ("bubble", "idle"))
            rows.append(
                [
                    layout.name, f"{rate:g}", f"{100 * waits(found):.1f} %",
                    f"{summary['itl_ms.p50']:.1f}", f"{summary['itl_ms.p99']:,.1f}",
                    *(
                        ("overloaded", "")
                        if found.overloaded
                        else (f"{summary['tpot_ms.mean']:.1f}", f"{summary['ttft_ms.mean']:,.0f}")
                    ),
                    f"{summary['output_throughput_tokens_per_s']:,.0f}", f"{busy / thousands:.1f}",
                    f"{found.gpu_s['exposed_communication'] / thousands:.2f}",
                    f"{found.gpu_s['bubble'] / thousands:.1f}",
                ]
            )  # fmt: skip
    return table(head, rows)


def draw(path: Path) -> None:
    """Bubble, time per token and throughput by load."""
    from servetwin.report.style import BLUE, GREEN, ORANGE, canvas

    subtitle = "four H100 · bubble: share of the GPU time in which nothing was to do while a batch was under way"
    panels = (
        ("Bubble [%]", lambda found: 100 * waits(found)),
        ("Mean time per output token [ms]", lambda found: found.summary["tpot_ms.mean"]),
        ("Output tokens per second", lambda found: found.summary["output_throughput_tokens_per_s"]),
    )
    with canvas(11, 4.2, "llama-3.1-70b: a pipeline of four stages, by load", subtitle, path) as figure:
        for axes, (title, value) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            axes.set_title(title)
            for layout, colour in zip(LAYOUTS, (ORANGE, BLUE, GREEN), strict=True):
                found = [at(layout, rate) for rate in CURVE]
                axes.plot(CURVE, [value(one) for one in found], "o-", color=colour, label=layout.name, markersize=4)
            axes.set_xlabel("requests per second")
            axes.set_xlim(0, CURVE[-1] + 0.3)
            axes.set_ylim(bottom=0)
        figure.axes[0].set_ylim(0, 100)
        figure.axes[1].set_ylim(0, 200)
        figure.axes[0].text(CURVE[-1], 78, "three of four stages wait", ha="right", va="bottom", fontsize=8)
        figure.axes[0].legend(loc="center right", bbox_to_anchor=(1, 0.52))
