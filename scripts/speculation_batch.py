"""Drafts against plain decoding by batch: four ways to draft, two kinds of text, and other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from speculation_runs import BATCHES, Variant, at, crossing, dearer, drafting, speed_up, tokens_a_step
from splitting_runs import CATALOG, table

from servetwin.scenario.load import load_scenario
from servetwin.studies.explain import Step, explain

DRAFT_RATE = 0.93
"""Share of the tokens of Qwen3-0.6B that Qwen3-8B accepts on GSM8K: what makes its speed-up at a batch of one, in the
version of vLLM that it was measured in, the measured 1.70."""

TREE_RATE = 0.793
"""With it the longest branch of three tokens yields 2.92 tokens a step, as measured of a tree of 21."""

NGRAM = drafting("n-gram, K = 3", method="ngram", k=3, acceptance="gsm8k")
EAGLE = drafting("EAGLE-3, K = 3", method="eagle3", k=3, acceptance="gsm8k")
DRAFT = drafting("draft model, K = 3", method="draft-model", k=3, model="llama-3.2-1b", acceptance=DRAFT_RATE)
TREE = drafting(
    "EAGLE-3, tree of 21", method="eagle3", k=3, tree={"nodes": 21, "branching": 4}, acceptance=TREE_RATE
)  # fmt: skip
SCHOOL = (NGRAM, EAGLE, DRAFT, TREE)
"""School mathematics: little repeats itself."""

_EDITS: Any = {"dataset": "instructcoder"}
NGRAM_EDITS = drafting(
    "n-gram, K = 3", **_EDITS, method="ngram", k=3, acceptance="instructcoder"
)  # fmt: skip
NGRAM_5_EDITS = drafting(
    "n-gram, K = 5", **_EDITS, method="ngram", k=5, acceptance="instructcoder"
)  # fmt: skip
EAGLE_EDITS = drafting("EAGLE-3, K = 3", **_EDITS, method="eagle3", k=3, acceptance="instructcoder")
EDITS = (NGRAM_EDITS, NGRAM_5_EDITS, EAGLE_EDITS)
"""Edits of code: much of the answer stands in the prompt."""

MACHINES = {
    "llama-3.1-8b, H100": (),
    "llama-3.1-8b in fp8, H100": ("cluster.precision.weights=fp8",),
    "llama-3.1-70b, 4 × H100": ("model=llama-3.1-70b", "cluster.parallel.tensor=4"),
    "qwen3-30b-a3b (MoE), H100": ("model=qwen3-30b-a3b",),
}
"""Name of a machine → what makes it of the scenario."""

ELSEWHERE = tuple(
    drafting(name, more=more, method="eagle3", k=3, acceptance="gsm8k") for name, more in MACHINES.items()
)
"""The same acceptance on other machines."""

SHOWN = (1, 4, 16, 64, 128, 256, 512)
BILL = {"compute": "compute", "hbm": "HBM", "host": "host", "draft": "drafting", "wasted_verify": "wasted verification"}
"""Bucket of the ledger → what table and picture call it."""

PICTURES = ("speculation-batch.png", "speculation-bill.png")


def _where(variant: Variant) -> str:
    batch = crossing(variant)
    return f"{batch:.0f}" if batch is not None else f"> {BATCHES[-1]}"


def speedups_table() -> str:
    """A row per variant: tokens a step, speed-up by batch, and where drafts begin to lose, in Markdown."""
    head = ("text", "drafts", "tokens a step", *(f"batch {batch}" for batch in SHOWN), "loses from batch")
    rows = [
        [text, variant.name, f"{tokens_a_step(at(variant, SHOWN[-1])):.2f}"]
        + [f"{speed_up(variant, batch):.2f}" for batch in SHOWN]
        + [_where(variant)]
        for text, variants in (("GSM8K", SCHOOL), ("InstructCoder", EDITS))
        for variant in variants
    ]
    return table(head, rows, left=2)


def steps_table() -> str:
    """How much longer a step takes with drafts, by variant and batch, in Markdown."""
    head = ("text", "drafts", "tokens verified", *(f"batch {batch}" for batch in SHOWN))
    rows = [
        [text, variant.name, f"{verified(variant):.1f}", *(f"{dearer(variant, batch):.2f}" for batch in SHOWN)]
        for text, variants in (("GSM8K", SCHOOL), ("InstructCoder", EDITS))
        for variant in variants
    ]
    return table(head, rows, left=2)


def verified(variant: Variant) -> float:
    """Tokens that a step verifies of a request, the one that is certain included [tokens]."""
    summary = at(variant, SHOWN[-1]).summary
    # What a last step accepts beyond the end of an answer is counted too: steps are never fewer than drafts.
    steps = summary["output_tokens"] - summary["spec_decode_num_accepted_tokens"]
    steps = max(steps, summary["spec_decode_num_drafts"])
    return 1 + float(summary["spec_decode_num_draft_tokens"] / steps)


def ms_per_token(variant: Variant, batch: int, bucket: str) -> float:
    """GPU time of a bucket of the ledger for each output token [ms]."""
    found = at(variant, batch)
    return 1000 * found.gpu_s[bucket] / float(found.summary["output_tokens"])


def bill_table() -> str:
    """GPU time of the same requests, plain and with EAGLE-3, by batch, in Markdown."""
    head = (
        "batch", "tokens in a step", "plain: compute-bound", "EAGLE-3: compute-bound", "plain, GPU-µs a token",
        "EAGLE-3, GPU-µs a token", "of it useful", "drafting", "wasted verification", "net, GPU-µs a token",
    )  # fmt: skip
    rows = []
    for batch in SHOWN:
        plain, drafts = at(EAGLE.plain, batch), at(EAGLE, batch)
        before, after = (
            1000 * sum(ms_per_token(variant, batch, bucket) for bucket in BILL) for variant in (EAGLE.plain, EAGLE)
        )
        useful = 1000 * sum(ms_per_token(EAGLE, batch, bucket) for bucket in ("compute", "hbm", "host"))
        rows.append(
            [
                str(batch), f"{batch:,} → {4 * batch:,}",
                *(f"{100 * found.summary['compute_bound_share']:.0f} %" for found in (plain, drafts)),
                f"{before:,.0f}", f"{after:,.0f}", f"{useful:,.0f}",
                *(f"{1000 * ms_per_token(EAGLE, batch, bucket):,.0f}" for bucket in ("draft", "wasted_verify")),
                f"{before - after:+,.0f}",
            ]
        )  # fmt: skip
    return table(head, rows, left=0)


def machines_table() -> str:
    """The same acceptance on other machines, in Markdown."""
    head = ("machine", *(f"batch {batch}" for batch in BATCHES), "loses from batch")
    rows = [
        [variant.name, *(f"{speed_up(variant, batch):.2f}" for batch in BATCHES), _where(variant)]
        for variant in ELSEWHERE
    ]
    return table(head, rows)


def room(variant: Variant) -> int:
    """Tokens that the KV cache holds [tokens]."""
    changes = [*variant.more, *([f"cluster.speculation={variant.speculation}"] if variant.speculation else ())]
    found = explain(load_scenario("bench-8b", changes, CATALOG), Step.of(1, 100, None), CATALOG)
    return int(found["memory"]["kv_capacity_tokens"])


def room_table() -> str:
    """What drafters leave of the KV cache, in Markdown."""
    head = ("machine", "drafts", "KV room, tokens", "of a request, with 512 in flight", "in use here, at most")
    plain = {"llama-3.1-8b, H100": NGRAM.plain, "qwen3-30b-a3b (MoE), H100": ELSEWHERE[3].plain}
    rows = []
    for name, first in plain.items():
        others = (EAGLE, DRAFT) if first == NGRAM.plain else (ELSEWHERE[3],)
        for variant in (first, *others):
            tokens = room(variant)
            called = {"plain": "none"}.get(variant.name, "EAGLE-3" if variant is not DRAFT else "llama-3.2-1b")
            used = at(variant, BATCHES[-1]).summary["kv_use_max"]
            rows.append([name, called, f"{tokens:,}", f"{tokens // BATCHES[-1]:,}", f"{100 * used:.0f} %"])
    return table(head, rows, left=2)


def draw_batch(path: Path) -> None:
    """Speed-up by batch, for ways to draft, kinds of text and machines; loss is shaded."""
    from servetwin.report.style import BLUE, GREEN, ORANGE, PURPLE, canvas

    subtitle = (
        "tokens per second with drafts over without, same requests, constant batch · shaded: a loss · circles: where "
        "it begins"
    )
    panels = (
        ("School mathematics (GSM8K)", SCHOOL),
        ("Edits of code (InstructCoder)", EDITS),
        ("EAGLE-3, K = 3, on GSM8K", ELSEWHERE),
    )
    colours = {
        NGRAM.name: ORANGE, NGRAM_5_EDITS.name: PURPLE, EAGLE.name: BLUE, DRAFT.name: GREEN, TREE.name: PURPLE,
        **dict(zip(MACHINES, (BLUE, ORANGE, GREEN, PURPLE), strict=True)),
    }  # fmt: skip
    with canvas(10, 4.0, "Speed-up by speculation, by batch", subtitle, path) as figure:
        for axes, (title, variants) in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
            _panel(axes, title, variants, colours)
        figure.axes[0].set_ylabel("speed-up")


def _panel(axes: Any, title: str, variants: tuple[Variant, ...], colours: dict[str, str]) -> None:
    from servetwin.report.style import RED

    axes.set_title(title)
    axes.axhspan(0, 1, color=RED, alpha=0.07, linewidth=0)
    axes.axhline(1, color=RED, linewidth=1)
    for variant in variants:
        colour = colours[variant.name]
        gains = [speed_up(variant, batch) for batch in BATCHES]
        axes.plot(BATCHES, gains, "o-", color=colour, label=variant.name, markersize=3.5)
        batch = crossing(variant)
        if batch is not None:
            axes.plot(
                [batch], [1], "o", markersize=9, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.6
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.minorticks_off()
    axes.set_ylim(0, 3.2)
    axes.set_xlabel("requests in flight")
    axes.legend(loc="upper right")


def draw_bill(path: Path) -> None:
    """GPU time of a token, plain and with EAGLE-3, in shares of the plain one, by what it went to."""
    from servetwin.report.style import BLUE, GREEN, GREY, ORANGE, RED, canvas

    subtitle = (
        "left bar of a pair: plain decoding, 100 % · right: EAGLE-3 with K = 3, the same requests · above: tokens that "
        "a step verifies"
    )
    colours = dict(zip(BILL, (ORANGE, BLUE, GREY, GREEN, RED), strict=True))
    with canvas(11, 4.4, "llama-3.1-8b on H100: GPU time of an output token, by batch", subtitle, path) as figure:
        axes = figure.subplots()
        for place, batch in enumerate(BATCHES):
            whole = sum(ms_per_token(EAGLE.plain, batch, bucket) for bucket in BILL)
            for side, variant in ((-0.2, EAGLE.plain), (0.2, EAGLE)):
                bottom = 0.0
                for bucket, colour in colours.items():
                    height = 100 * ms_per_token(variant, batch, bucket) / whole
                    said = BILL[bucket] if (place, side) == (0, 0.2) else None
                    axes.bar(place + side, height, bottom=bottom, width=0.36, color=colour, label=said)
                    bottom += height
                text = f"{batch if side < 0 else 4 * batch:,}"
                axes.text(place + side, bottom + 1.5, text, ha="center", fontsize=7.5)
        axes.set_xticks(range(len(BATCHES)), [str(batch) for batch in BATCHES])
        axes.set_xlabel("requests in flight")
        axes.set_ylabel("% of plain decoding")
        axes.set_ylim(0, 138)
        axes.grid(axis="x", visible=False)
        axes.legend(loc="upper left", ncols=len(BILL))
