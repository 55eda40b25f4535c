"""How many tokens to draft: K from 1 to 8, by batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from speculation_runs import Variant, at, drafting, speed, speed_up
from splitting_runs import table

DEPTHS = tuple(range(1, 9))
BATCHES = (1, 16, 64, 256)
PICTURE = "speculation-depth.png"


def eagle(depth: int) -> Variant:
    """EAGLE-3 with so many tokens in a row, on GSM8K."""
    return drafting(f"K = {depth}", method="eagle3", k=depth, acceptance="gsm8k")


def best(batch: int) -> int:
    """The K with most tokens per second; 0 = plain decoding."""
    gains = {0: 1.0, **{depth: speed_up(eagle(depth), batch) for depth in DEPTHS}}
    return max(gains, key=lambda depth: gains[depth])


def depths_table() -> str:
    """A row per batch and K, in Markdown."""
    head = (
        "in flight", "K", "tokens a draft", "accepted", "TPOT, ms", "ITL p50, ms", "ITL p99, ms", "tokens / s",
        "speed-up", "GPU time wasted or drafting",
    )  # fmt: skip
    rows = []
    for batch in BATCHES:
        most = best(batch)
        for depth in (0, *DEPTHS):
            variant = eagle(depth) if depth else eagle(1).plain
            found = at(variant, batch)
            summary = found.summary
            name = f"**{depth}**" if depth == most else str(depth)
            drafts = (
                (f"{summary['mean_acceptance_length']:.2f}", f"{100 * summary['draft_acceptance_rate']:.0f} %")
                if depth
                else ("–", "–")
            )
            rows.append(
                [
                    str(batch), name, *drafts, f"{summary['tpot_ms.mean']:.2f}", f"{summary['itl_ms.p50']:.2f}",
                    f"{summary['itl_ms.p99']:.2f}", f"{speed(found):,.0f}",
                    f"{speed_up(variant, batch):.2f}" if depth else "–",
                    f"{100 * (found.share['draft'] + found.share['wasted_verify']):.0f} %",
                ]
            )  # fmt: skip
    return table(head, rows, left=0)


def draw(path: Path) -> None:
    """Tokens a draft, TPOT beside ITL, and speed-up, by K."""
    from servetwin.report.style import BLUE, GREEN, ORANGE, PURPLE, RED, canvas

    subtitle = (
        "llama-3.1-8b on H100, GSM8K · K = 0: plain decoding · solid: mean time per token; dashed: median gap between "
        "chunks"
    )
    colours = dict(zip(BATCHES, (BLUE, GREEN, ORANGE, PURPLE), strict=True))
    depths = (0, *DEPTHS)
    with canvas(12, 4.2, "EAGLE-3: how many tokens to draft", subtitle, path) as figure:
        drafted, paces, gains = figure.subplots(1, 3)
        drafted.set_title("Tokens of a request and step")
        lengths = [1.0, *(at(eagle(depth), BATCHES[0]).summary["mean_acceptance_length"] for depth in DEPTHS)]
        drafted.plot(depths, lengths, "o-", color=BLUE, markersize=4, label="yielded")
        drafted.plot(depths, [1 + depth for depth in depths], ":", color=RED, label="verified")
        drafted.legend(loc="upper left")
        paces.set_title("TPOT and ITL [ms]")
        gains.set_title("Speed-up")
        gains.axhline(1, color=RED, linewidth=1)
        for batch, colour in colours.items():
            _lines(paces, gains, batch, colour)
        for axes in (drafted, paces, gains):
            axes.set_xlabel("K, drafted tokens")
            axes.set_ylim(bottom=0)
            axes.set_xticks(depths)
        paces.legend(loc="upper left")


def _lines(paces: Any, gains: Any, batch: int, colour: str) -> None:
    """What a batch contributes to two panels."""
    depths = (0, *DEPTHS)
    found = [at(eagle(depth) if depth else eagle(1).plain, batch) for depth in depths]
    paces.plot(depths, [one.summary["tpot_ms.mean"] for one in found], "o-", color=colour, markersize=3.5)
    gaps = [one.summary["itl_ms.p50"] for one in found]
    paces.plot(depths, gaps, "--", color=colour, label=f"{batch} in flight", linewidth=1.2)
    values = [speed(one) / speed(found[0]) for one in found]
    gains.plot(depths, values, "o-", color=colour, markersize=3.5)
    most = best(batch)
    gains.plot([most], [values[most]], "o", markersize=10, markerfacecolor="none", markeredgecolor=colour)
    gains.text(8.15, values[-1], str(batch), color=colour, va="center", fontsize=8)
