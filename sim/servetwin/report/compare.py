"""The terminal tables of ``servetwin compare``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.layout import QUIET, plain, warning_lines
from servetwin.report.markdown import signed
from servetwin.report.units import number

_FIGURES = (
    ("TTFT", "ttft_ms.mean"), ("TTFT p99", "ttft_ms.p99"), ("TPOT", "tpot_ms.mean"), ("E2E", "e2e_ms.mean"),
    ("tokens/s", "output_throughput_tokens_per_s"), ("GPUs", "gpus"), ("GPU-s in use", "gpu_seconds_in_use"),
)  # fmt: skip
_CHANGES = (("TTFT [ms]", "ttft_ms.mean"), ("TPOT [ms]", "tpot_ms.mean"), ("E2E [ms]", "e2e_ms.mean"))
_DESIGNS = {"all combinations": "in all combinations", "one by one": "one by one"}
_MOST_WARNINGS = 8


def print_comparison(document: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the answer of ``compare``.

    Args:
        document: the answer.
        console: where to print; standard output if not given.
    """
    (console or Console(highlight=False)).print(comparison_view(document))


def comparison_view(document: Mapping[str, Any]) -> Group:
    """The tables, for a rich console of any width."""
    baseline, variants = document["baseline"], document["variants"]
    parts: list[RenderableType] = [_heading(document), Text(), _figures(variants)]
    factorial = document["factorial"]
    # What combinations come to stands in the effects of their techniques.
    rows = {name: entry for name, entry in variants.items() if name != baseline and entry["techniques"] is None}
    techniques, pairs = factorial.get("techniques", {}), factorial.get("interactions", {})
    if rows:
        parts += [Text(), *_changes(f"change against {baseline}", rows)]
    if techniques:
        several = f"each technique, tried {_DESIGNS[factorial['design']]}" if len(techniques) > 1 else "the technique"
        parts += [Text(), *_changes(f"effect of {several}", techniques)]
    if pairs:
        parts += [Text(), *_changes("interaction: half of what one adds to the effect of the other", pairs)]
    costs = _costs({**rows, **techniques})
    if costs is not None:
        parts += [Text(), costs]
    parts.append(Text())
    parts += [Text(printable(text)) for text in document["sentences"].values()]
    warnings = list(_warnings(document))
    if warnings:
        parts += [Text(), *warning_lines(warnings)]
    return Group(*parts)


def _heading(document: Mapping[str, Any]) -> Text:
    heading = Text()
    heading.append(f"{len(document['variants'])} variants", style="bold")
    seeds = document["seeds"]
    shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    heading.append(f"  {document['requests']['number']:,} requests, {shown}, differences paired {document['paired']}")
    return heading


def _figures(variants: Mapping[str, Any]) -> Table:
    table = plain()
    table.add_column("", overflow="fold")
    for title, _ in _FIGURES:
        table.add_column(Text(title), justify="right", no_wrap=True)
    for name, entry in variants.items():
        cells = [number(entry["metrics"][key]) for _, key in _FIGURES]
        table.add_row(Text(printable(name), style="bold"), *cells)
    return table


def _changes(title: str, rows: Mapping[str, Any]) -> list[RenderableType]:
    """Differences with their intervals, and what they come to in GPU time."""
    table = plain()
    table.add_column("", overflow="fold")
    for name in (*(title for title, _ in _CHANGES), "GPU-s saved", "net"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name, entry in rows.items():
        net = entry["net"]
        table.add_row(
            Text(printable(name), style="bold"),
            *(_change(entry, key) for _, key in _CHANGES),
            _signed(net["gpu_seconds"]),
            "–" if net["share"] is None else signed(100 * net["share"]) + "%",
        )
    return [Text(printable(title), style=QUIET), table]


def _change(entry: Mapping[str, Any], key: str) -> Text:
    """A difference and half of its interval; in grey where it may be chance."""
    interval = entry["ci"].get(key)
    if interval is None:
        return Text(_signed(entry["gain"].get(key)))
    if interval["low"] is None:
        return Text(_signed(interval["estimate"]))
    half = (interval["high"] - interval["low"]) / 2
    sure = interval["low"] > 0 or interval["high"] < 0
    return Text(f"{_signed(interval['estimate'])} ±{number(half)}", style="" if sure else QUIET)


def _signed(value: float | None) -> str:
    if value is None:
        return number(value)
    text = number(abs(value))
    return text if not value else f"{'+' if value > 0 else '−'}{text}"


def _costs(rows: Mapping[str, Any]) -> Table | None:
    """What is saved, what handing work on costs, by kind, and what is left; None where it costs nothing."""
    kinds = [kind for kind in next(iter(rows.values()))["cost"] if any(entry["cost"][kind] for entry in rows.values())]
    if not kinds:
        return None
    table = plain()
    table.add_column(Text("GPU-seconds"), overflow="fold")
    for title in ("saved", *(kind.replace("_", " ") for kind in kinds), "net"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    for name, entry in rows.items():
        figures = [
            entry["net"]["saved_gpu_seconds"],
            *(-entry["cost"][kind] for kind in kinds),
            entry["net"]["gpu_seconds"],
        ]
        table.add_row(Text(printable(name), style="bold"), *map(_signed, figures))
    return table


def _warnings(document: Mapping[str, Any]) -> Iterator[str]:
    """Notes on the comparison, and the warnings of the variants, each once."""
    said: dict[str, list[str]] = {}
    for name, entry in document["variants"].items():
        for text in entry["warnings"]:
            said.setdefault(text, []).append(name)
    lines = [*document["notes"]]
    for text, names in said.items():
        whom = "all" if len(names) == len(document["variants"]) else ", ".join(names)
        lines.append(f"{whom}: {text}")
    yield from lines[:_MOST_WARNINGS]
    if len(lines) > _MOST_WARNINGS:
        yield f"{len(lines) - _MOST_WARNINGS} more warnings stand in the answer of --json"
