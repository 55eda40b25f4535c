"""The stages of a pipeline in the terminal tables of ``servetwin explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from servetwin.report.layout import QUIET, plain
from servetwin.report.units import gib, number, percent


def stages_view(pipeline: Mapping[str, Any]) -> Group:
    """The stages, and what micro-batches like the step lose to the bubble.

    Args:
        pipeline: what ``servetwin.studies.explain_pipeline`` found.
    """
    return Group(_stages(pipeline), Text(), _loads(pipeline))


def _stages(pipeline: Mapping[str, Any]) -> Table:
    table = plain()
    table.add_column("stage", no_wrap=True)
    for name in ("layers", "µs", "bound by", "hand-off µs", "weights", "KV blocks"):
        table.add_column(name, justify="left" if name == "bound by" else "right", no_wrap=True)
    for place, stage in enumerate(pipeline["stages"]):
        table.add_row(
            f"{place + 1}, {stage['holds']}" if stage["holds"] else f"{place + 1}",
            f"{stage['layers']:,}",
            number(stage["total_us"]),
            stage["bound"],
            number(stage["hand_off_us"]) if stage["hand_off_us"] else "",
            gib(stage["weights_bytes"]),
            f"{stage['kv_blocks']:,}" if stage["kv_blocks"] is not None else "",
        )
    return table


def _loads(pipeline: Mapping[str, Any]) -> Text:
    text = Text("micro-batches like this  ", style=QUIET)
    for place, load in enumerate(pipeline["loads"]):
        text.append(" · " if place else "", style=QUIET)
        text.append(f"{load['micro_batches']}: ", style="bold")
        text.append(f"ITL {number(load['itl_us'] / 1000)} ms, bubble at least {percent(load['bubble_share'])}")
    return text
