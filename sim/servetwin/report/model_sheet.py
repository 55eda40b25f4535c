"""The sheet of a model in words and tables: what ``servetwin show model`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servetwin.report.units import binary, count, scaled


def sheet_text(sheet: Mapping[str, Any]) -> str:
    """The sheet as people read it.

    Args:
        sheet: what ``servetwin.studies.model_sheet.model_sheet`` returns.
    """
    return "\n\n".join("\n".join(block) for block in _blocks(sheet))


def _blocks(sheet: Mapping[str, Any]) -> Iterator[list[str]]:
    total, active = count(sheet["parameters"]), count(sheet["active_parameters"])
    yield [f"{sheet['name']}: {total} parameters, {active} active per token", *_table(list(_facts(sheet)))]
    kinds = [_layer_row(kind) for kind in sheet["layer_kinds"]]
    yield ["Layers, with the weights, the KV cache and the state of one", *_table(kinds)]
    yield list(_fit_lines(sheet["fits"], sheet["engine"]))
    if sheet["notes"]:
        yield ["Approximated, or not read", *(f"  {note}" for note in sheet["notes"])]
    yield [f"source: {sheet['source']}"]


def _facts(sheet: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    shapes, precision = sheet["shapes"], sheet["precision"]
    tied = " (tied embeddings)" if shapes["tied_embeddings"] else ""
    yield "shapes", f"{shapes['layers']} layers, hidden {shapes['hidden']:,}, vocabulary {shapes['vocab']:,}{tied}"
    yield "longest sequence", f"{shapes['max_position']:,} tokens"
    parts = precision["quantised_parts"]
    quantised = f" ({', '.join(parts)}; the rest bf16)" if parts else ""
    yield "weights", f"{binary(precision['weight_bytes'])} in {precision['weights']}{quantised}"
    yield "parameters in", ", ".join(f"{name} {count(size)}" for name, size in sheet["parts"].items() if size)
    if besides := _besides(sheet):
        yield "not counted", besides
    after = [
        scaled(flops, "FLOP") + (f" after {int(context):,} tokens" if int(context) else "")
        for context, flops in sheet["flops_per_token"].items()
    ]
    yield "arithmetic per token", ", ".join(after)
    states = sheet["state_bytes_per_request"]
    held = f", and {binary(states)} of state per request" if states else ""
    each = f"{binary(sheet['kv_bytes_per_token'])} per token of a long sequence, in {precision['kv_cache']}"
    yield "KV cache", (each if sheet["kv_bytes_per_token"] else "none") + held


def _besides(sheet: Mapping[str, Any]) -> str:
    found = {"multi-token prediction": sheet["mtp_parameters"], "vision tower, about": sheet["vision_parameters"]}
    return ", ".join(f"{name} {count(size)}" for name, size in found.items() if size)


def _layer_row(kind: Mapping[str, Any]) -> tuple[str, ...]:
    cached = f"{binary(kind['kv_bytes_per_token'])} per token" if kind["kv_bytes_per_token"] else "no KV cache"
    if kind["kv_tokens_kept"]:
        cached += f", {kind['kv_tokens_kept']:,} tokens at most"
    if kind["state_bytes_per_request"]:
        cached = f"{binary(kind['state_bytes_per_request'])} per request"
    return (f"{kind['count']} ×", kind["attention"], kind["feed_forward"], count(kind["parameters"]), cached)


def _fit_lines(rows: Sequence[Mapping[str, Any]], engine: str) -> Iterator[str]:
    """A line per GPU: the KV tokens at each degree, – where the weights do not fit, blank where it is no degree."""
    degrees = sorted({row["tensor"] for row in rows})
    yield f"KV tokens of a replica by tensor-parallel degree: memory only, defaults of {engine}, – = does not fit"
    by_gpu: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        by_gpu.setdefault(row["gpu"], {})[row["tensor"]] = row
    lines = [("GPU", *(str(degree) for degree in degrees))]
    for gpu, found in by_gpu.items():
        lines.append((gpu, *(_room(found.get(degree)) for degree in degrees)))
    yield from _table(lines, right=True)
    if any(row["fits"] and row["lowered"] for row in rows):
        yield "  * with a lower max_num_seqs than the default, to leave room for the states of its requests"


def _room(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    return _short(row["kv_tokens"]) + "*" * row["lowered"] if row["fits"] else "–"


def _table(rows: Sequence[tuple[str, ...]], right: bool = False) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if right and column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _short(tokens: int) -> str:
    return f"{tokens / 1e6:.3g} M" if tokens >= 1e6 else f"{tokens / 1e3:.3g} k" if tokens >= 1e3 else str(tokens)
