"""The terminal tables of ``servetwin compare``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.layout import QUIET, plain, warning_lines
from servetwin.report.markdown import signed
from servetwin.report.units import bucket_words, number, percent

_SHARE = "slo_attainment"
_FIGURES = (
    ("TTFT\n[ms]", "ttft_ms.mean"), ("p99\n[ms]", "ttft_ms.p99"), ("TPOT\n[ms]", "tpot_ms.mean"),
    ("E2E\n[ms]", "e2e_ms.mean"), ("output\ntok/s", "output_throughput_tokens_per_s"), ("SLO\nmet by", _SHARE),
    ("\nGPUs", "gpus"), ("GPU-s\nin use", "gpu_seconds_in_use"), ("USD/1M\ntokens", "cost_per_million_output_tokens"),
)  # fmt: skip
_CHANGES = (("TTFT [ms]", "ttft_ms.mean"), ("TPOT [ms]", "tpot_ms.mean"), ("E2E [ms]", "e2e_ms.mean"))
_DESIGNS = {"all combinations": "in all combinations", "one by one": "one by one"}
_MOST_WARNINGS = 8
_DIGITS = 3
"""Differences have so many digits behind the point: a microsecond, a millisecond of a GPU."""
_LONGEST_LINE = 24
"""Longer names break where the terminal is narrow."""


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
    _add_names(table, variants)
    # Without limits for single requests nobody meets them.
    figures = [
        (title, key) for title, key in _FIGURES
        if key != _SHARE or any(entry["metrics"][key] is not None for entry in variants.values())
    ]  # fmt: skip
    for title, _ in figures:
        table.add_column(Text(title), justify="right", no_wrap=True)
    for name, entry in variants.items():
        cells = [(percent if key == _SHARE else number)(entry["metrics"][key]) for _, key in figures]
        table.add_row(_name(name), *cells)
    return table


def _add_names(table: Table, names: Iterable[str]) -> None:
    """The column of names, which keeps its width where figures can do with less."""
    longest = max(len(line) for name in names for line in _name(name).plain.splitlines())
    table.add_column("", overflow="fold", no_wrap=longest <= _LONGEST_LINE)


def _name(name: str) -> Text:
    """A name, each of the techniques in it on a line of its own."""
    return Text(printable(name).replace("+", "\n+").replace(" x ", "\nx "), style="bold")


def _changes(title: str, rows: Mapping[str, Any]) -> list[RenderableType]:
    """Differences with their intervals, and what they come to in GPU time."""
    table = plain()
    _add_names(table, rows)
    for name, _ in _CHANGES:
        # Where the terminal is narrow, the interval goes below its figure.
        table.add_column(Text(name), justify="right")
    for name in ("GPU-s\nsaved", "\nnet"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name, entry in rows.items():
        net = entry["net"]
        table.add_row(
            _name(name),
            *(_change(entry, key) for _, key in _CHANGES),
            _signed(net["gpu_seconds"]),
            "–" if net["share"] is None else f"{signed(100 * net['share']).replace('-', '−')}%",
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
    return Text(f"{_signed(interval['estimate'])} ±{number(round(half, _DIGITS))}", style="" if sure else QUIET)


def _signed(value: float | None) -> str:
    if value is None:
        return number(value)
    shown = round(value, _DIGITS)
    return f"{'+' if shown > 0 else '−' if shown < 0 else ''}{number(abs(shown))}"


def _costs(rows: Mapping[str, Any]) -> Table | None:
    """What is saved, what handing work on costs, by kind, and what is left; None where it costs nothing."""
    kinds = [kind for kind in next(iter(rows.values()))["cost"] if any(entry["cost"][kind] for entry in rows.values())]
    if not kinds:
        return None
    table = plain()
    _add_names(table, rows)
    table.columns[0].header = Text("GPU-seconds")
    for title in ("saved", *map(bucket_words, kinds), "net"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    for name, entry in rows.items():
        figures = [
            entry["net"]["saved_gpu_seconds"],
            *(-entry["cost"][kind] for kind in kinds),
            entry["net"]["gpu_seconds"],
        ]
        table.add_row(_name(name), *map(_signed, figures))
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
