"""The terminal table of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.layout import QUIET, facts, plain, warning_lines
from servetwin.report.units import bucket_words, number, percent, scaled

_LATENCIES = (("ttft_ms", "TTFT"), ("tpot_ms", "TPOT"), ("itl_ms", "ITL"), ("e2e_ms", "E2E"))
_PARTS = (
    ("ttft_queue_ms", "queue"), ("ttft_prefill_ms", "prefill"), ("ttft_decode_queue_ms", "decode queue"),
    ("ttft_transfer_ms", "KV transfer"), ("ttft_decode_admission_ms", "decode admission"), ("ttft_output_ms", "output"),
    ("hand_over_gap_ms", "hand-over gap"), ("gap_decode_queue_ms", "decode queue"), ("gap_transfer_ms", "KV transfer"),
    ("gap_decode_admission_ms", "decode admission"),
)  # fmt: skip
"""What TTFT is made of, and the gap after it, where requests are handed over; a part that takes no time is left out."""
_STATISTICS = ("mean", "p50", "p90", "p99", "max")
_GOOD, _BAD = "green", "bold red"
_BUCKET_COLOURS = {
    "compute": "green", "hbm": "blue", "exposed_communication": "magenta", "host": "yellow", "draft": "cyan",
    "wasted_verify": "red", "recompute": "bright_red", "transfer_wait": "bright_magenta",
    "load_wait": "bright_yellow", "bubble": "bright_cyan", "idle": "bright_black", "down": "white",
}  # fmt: skip
_LEAST_SHARE = 0.0005


def print_result(
    summary: Mapping[str, Any], ledger: Mapping[str, Any] | None = None, console: Console | None = None
) -> None:
    """Print a run's table.

    Args:
        summary: ``Result.summary()``.
        ledger: ``Result.ledger()``, for the bar of where GPU time went.
        console: where to print; standard output if not given.
    """
    (console or Console(highlight=False)).print(result_view(summary, ledger))


def result_view(summary: Mapping[str, Any], ledger: Mapping[str, Any] | None = None) -> Group:
    """A run's table, for a rich console of any width."""
    parts: list[RenderableType] = [_heading(summary), Text(), _latencies(summary), Text(), _facts(summary, ledger)]
    if summary["slo"] or summary["slo_attainment"] is not None:
        parts += [Text(), _slo(summary)]
    if ledger is not None:
        parts += [Text(), *_gpu_time(ledger)]
    if summary["warnings"]:
        parts += [Text(), *warning_lines(summary["warnings"])]
    return Group(*parts)


def _heading(summary: Mapping[str, Any]) -> Text:
    gpus, requests = summary["gpus"], summary["requests"]
    heading = Text()
    heading.append(summary["name"], style="bold")
    model = f"{printable(summary['model'])} on " if summary.get("model") else ""
    heading.append(f"  {model}{gpus:,} GPU{'s' if gpus != 1 else ''}, {summary['engine']} {summary['engine_version']}")
    counts = (
        f"\n{summary['completed']:,} of {requests:,} requests completed in {number(summary['simulated_s'])} simulated s"
    )
    heading.append(counts, style=QUIET if summary["completed"] == requests else "yellow")
    others = [
        f"{summary[name]:,} {name}" for name in ("rejected", "failed", "cancelled", "unfinished") if summary[name]
    ]
    if others:
        heading.append(": " + ", ".join(others), style="yellow")
    if summary["warmup_requests"]:
        heading.append(f" (first {summary['warmup_requests']:,} are warm-up)", style=QUIET)
    return heading


def _latencies(summary: Mapping[str, Any]) -> Table:
    table = plain()
    # As text, for rich takes brackets in a plain header as markup and drops them.
    table.add_column(Text("latency [ms]"))
    for statistic in _STATISTICS:
        table.add_column(statistic, justify="right", no_wrap=True)
    for metric, name in _LATENCIES:
        cells = []
        for statistic in _STATISTICS:
            key = f"{metric}.{statistic}"
            verdict = summary["slo"].get(key)
            style = "" if verdict is None else _verdict_style(verdict["met"])
            cells.append(Text(number(summary[key]), style=style))
        table.add_row(Text(name, style="bold"), *cells)
        if metric == "ttft_ms":
            _add_parts(table, summary)
    return table


def _add_parts(table: Table, summary: Mapping[str, Any]) -> None:
    """The parts of TTFT, and the gap after it."""
    for metric, name in _PARTS:
        if summary.get(f"{metric}.max"):
            whole = metric == "hand_over_gap_ms"
            cells = [Text(number(summary[f"{metric}.{one}"]), style="" if whole else QUIET) for one in _STATISTICS]
            table.add_row(Text(name, style="bold") if whole else Text(f"  {name}", style=QUIET), *cells)


def _facts(summary: Mapping[str, Any], ledger: Mapping[str, Any] | None) -> Table:
    table = facts()
    rate = number(summary["request_throughput_per_s"])
    table.add_row("requests / s", rate, f"{number(summary['steady.request_throughput_per_s'])} while requests arrive")
    per_gpu = number(summary["output_tokens_per_s_per_gpu"])
    table.add_row("output tokens / s", number(summary["output_throughput_tokens_per_s"]), f"{per_gpu} per GPU")
    table.add_row("all tokens / s", number(summary["total_throughput_tokens_per_s"]), "prompt and output")
    table.add_row("prefix cache hits", percent(summary["prefix_hit_rate"]), "of prompt tokens")
    table.add_row("KV cache in use", percent(summary["kv_use_mean"]), f"at most {percent(summary['kv_use_max'])}")
    if summary["preemptions"]:
        again = number(summary["recomputed_tokens"])
        table.add_row("preemptions", number(summary["preemptions"]), f"{again} tokens computed again")
    if summary.get("spec_decode_num_drafts"):
        _add_speculation(table, summary, ledger)
    if summary.get("split_requests"):
        _add_hand_overs(table, summary)
    cost = summary["cost_per_million_output_tokens"]
    if cost is not None:
        table.add_row("USD / 1M output tokens", number(cost), f"{number(summary['cost_usd'])} USD in all")
    return table


def _add_speculation(table: Table, summary: Mapping[str, Any], ledger: Mapping[str, Any] | None) -> None:
    length = number(summary["mean_acceptance_length"])
    table.add_row("acceptance length", length, "tokens per request and step with drafts")
    drafted = number(summary["spec_decode_num_draft_tokens"])
    table.add_row("draft acceptance", percent(summary["draft_acceptance_rate"]), f"of {drafted} drafted tokens")
    if ledger is not None:
        share = ledger["total"]["share"]
        table.add_row("wasted verification", percent(share["wasted_verify"]), "of GPU time, for rejected tokens")
        table.add_row("drafting", percent(share["draft"]), "of GPU time")


def _add_hand_overs(table: Table, summary: Mapping[str, Any]) -> None:
    split, lost = number(summary["split_requests"]), summary["lost_hand_overs"]
    vain = f", {number(lost)} in vain" if lost else ""
    table.add_row("split requests", split, f"of {number(summary['requests'])}{vain}")
    rate, failed = summary["transfer_bytes_per_s"], summary["failed_transfers"]
    remarks = [] if rate is None else [f"{scaled(rate, 'B/s')} a transfer"]
    if failed:
        remarks.append(f"{number(failed)} of {number(summary['transfers'])} failed")
    table.add_row("KV cache moved", scaled(summary["transfer_bytes"], "B"), ", ".join(remarks))
    exposed, hidden = summary["transfer_exposed_s"], summary["transfer_hidden_s"]
    if exposed + hidden:
        table.add_row("hidden transfer", percent(hidden / (exposed + hidden)), "of its time, behind the prefill")
    decode = percent(summary["kv_stranded_decode"])
    table.add_row("stranded KV cache", percent(summary["kv_stranded_prefill"]), f"of prefill, {decode} of decode")
    _add_pools(table, summary)


def _add_pools(table: Table, summary: Mapping[str, Any]) -> None:
    """How busy each side was, and how the replicas would be better shared out."""
    replicas, busy = {}, {}
    for role in ("prefill", "decode"):
        mine = [pool for pool in summary["pools"].values() if pool["role"] == role]
        replicas[role] = sum(pool["replicas"] for pool in mine)
        seconds = sum(pool["busy_replica_s"] for pool in mine)
        available = sum(pool["busy_replica_s"] / pool["utilisation"] for pool in mine if pool["utilisation"])
        busy[role] = percent(seconds / available) if available else percent(0.0)
    remark = f"busy {busy['prefill']} and {busy['decode']}"
    if summary["advised_prefill_replicas"] is not None:
        remark += f"; roughly advised {summary['advised_prefill_replicas']:,} : {summary['advised_decode_replicas']:,}"
    table.add_row("prefill : decode", f"{replicas['prefill']:,} : {replicas['decode']:,}", remark)


def _verdict_style(met: bool | None) -> str:
    return QUIET if met is None else _GOOD if met else _BAD


def _slo(summary: Mapping[str, Any]) -> Table:
    table = plain()
    table.add_column("SLO", overflow="fold")
    table.add_column("limit", justify="right", no_wrap=True)
    table.add_column("reached", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for key, verdict in summary["slo"].items():
        met = verdict["met"]
        word = "undefined" if met is None else "met" if met else "missed"
        style = _verdict_style(met)
        table.add_row(key, f"≤ {number(verdict['limit'])}", Text(number(verdict["value"]), style), Text(word, style))
    if summary["slo_attainment"] is not None:
        good = f"{number(summary['goodput_per_s'])} / s"
        table.add_row("goodput", "", good, f"{percent(summary['slo_attainment'])} of requests")
    return table


def _gpu_time(ledger: Mapping[str, Any]) -> list[RenderableType]:
    total = ledger["total"]
    shares = [(bucket, share) for bucket, share in total["share"].items() if share is not None and share > _LEAST_SHARE]
    title = Text(f"where {number(ledger['gpu_seconds'])} GPU-seconds went", style=QUIET)
    legend = Text()
    for bucket, share in shares:
        legend.append("■\u00a0", style=_BUCKET_COLOURS[bucket])
        # Non-breaking: a bucket and its share stay together when the legend wraps.
        legend.append(f"{bucket_words(bucket).replace(' ', chr(160))}\u00a0{percent(share)}  ")
    return [title, Bar(shares), legend]


class Bar:
    """A bar across the terminal, cut into coloured shares.

    Args:
        shares: ``(bucket, share)`` that add up to about one.
        widest: most characters.
    """

    def __init__(self, shares: Sequence[tuple[str, float]], widest: int = 72) -> None:
        self._shares = shares
        self._widest = widest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        for (bucket, _), cells in zip(self._shares, self.cells(min(options.max_width, self._widest)), strict=True):
            yield Segment("█" * cells, Style.parse(_BUCKET_COLOURS[bucket]))
        yield Segment.line()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """How much room it wants."""
        return Measurement(1, min(options.max_width, self._widest))

    def cells(self, width: int) -> list[int]:
        """How many characters each share gets; they add up to ``width`` where the shares add up to one."""
        reached, edges = 0.0, [0]
        for _, share in self._shares:
            reached += share
            edges.append(round(reached * width))
        return [later - earlier for earlier, later in pairwise(edges)]
