"""Which pictures a sweep gets: those that its file names, else those that its shape suggests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from servetwin.errors import ScenarioError, nearest_name
from servetwin.results import slo
from servetwin.studies.sweep.columns import METRICS
from servetwin.studies.sweep.file import Plot, SweepFile
from servetwin.studies.sweep.points import SEED, Plan
from servetwin.studies.sweep.table import OK, STATUS, column_of

_USUAL = ("ttft_ms.p99", "tpot_ms.mean", "output_tokens_per_s_per_gpu")
_MOST_METRICS = 4
_MOST_LINES = 6
_FEWEST_ON_MAP = 3


def check_plots(sweep: SweepFile, fields: Sequence[str], file: str) -> None:
    """Refuse pictures of what there is not.

    Raises:
        ScenarioError: a metric or a field is unknown.
    """
    for index, plot in enumerate(sweep.plots or ()):
        named = [
            ("metric", plot.metric, METRICS),
            ("x", plot.x, fields),
            ("by", plot.by, fields),
            ("y", plot.y, fields),
        ]
        for key, name, known in named:
            if name is not None and name not in known:
                what = "a run has no such metric" if key == "metric" else "the field is not swept"
                raise ScenarioError(what, file=file, path=f"plots.{index}.{key}", found=name, allowed=known,
                                    nearest=nearest_name(name, known))  # fmt: skip


def metrics_of(plan: Plan) -> list[str]:
    """The metrics that a reader wants first: those with a limit, and the throughput."""
    limited = list(slo.limits(plan.scenario.slo.model_dump(exclude_none=True)))
    return [*(limited[: _MOST_METRICS - 1] or _USUAL[:-1]), _USUAL[-1]]


def varied(plan: Plan) -> list[tuple[str, list[Any]]]:
    """The fields that have several values, with these in the order in which they come; seeds are repetitions."""
    found = []
    for place, path in enumerate(plan.fields):
        values = {json.dumps(point.values[place], sort_keys=True): point.values[place] for point in plan.points}
        if len(values) > 1 and path != SEED:
            found.append((path, list(values.values())))
    return found


def chosen_plots(sweep: SweepFile, plan: Plan) -> list[Plot]:
    """The pictures: those of the file; else lines over one field or two, and a map of two fields."""
    if sweep.plots is not None:
        return sweep.plots
    fields = varied(plan)
    shapes = list(_shapes(fields, drawn=sweep.design in ("random", "lhs")))
    return [Plot(metric=metric, **shape) for shape in shapes for metric in metrics_of(plan)]


def _shapes(fields: Sequence[tuple[str, list[Any]]], *, drawn: bool) -> Iterator[dict[str, str]]:
    """The axes of the pictures; none of more than two fields, for a picture would have to average over the others."""
    if len(fields) == 1:
        yield {"x": fields[0][0]}
    if len(fields) != 2:
        return
    # Along the picture goes what has numbers, and of these what has more of them.
    (x, along), (other, across) = sorted(fields, key=lambda one: (not _is_numeric(one[1]), -len(one[1])))
    if not drawn and len(across) <= _MOST_LINES:
        yield {"x": x, "by": other}
    if drawn or min(len(along), len(across)) >= _FEWEST_ON_MAP:
        yield {"x": x, "y": other}


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def draw_plots(plots: Sequence[Plot], plan: Plan, table: Path, title: str) -> list[Path]:
    """Draw pictures beside the table that they are made from.

    Args:
        plots: what to draw.
        plan: the runs.
        table: the table.
        title: what the sweep is.

    Returns:
        The files.
    """
    from pyarrow import parquet

    from servetwin.report.sweep_figures import Axis, Picture, draw_sweep

    files = []
    for number, plot in enumerate(plots, 1):
        metric = column_of(plot.metric, plan.fields)
        other = plot.by or plot.y
        limits = column_of("slo", plan.fields)
        names = dict.fromkeys([plot.x, *([other] if other else []), metric, limits, STATUS])
        columns = parquet.read_table(table, columns=list(names), filters=[(STATUS, "=", OK)]).to_pydict()
        picture = Picture(
            title=title,
            metric=plot.metric,
            values=columns[metric],
            x=Axis(plot.x, columns[plot.x]),
            other=Axis(other, columns[other]) if other else None,
            is_map=plot.y is not None,
            averaged=[path for path, _ in varied(plan) if path not in (plot.x, other)],
            limit=_limit(columns[limits], plot.metric),
        )
        files.append(table.parent / f"sweep-{number}-{plot.metric}.png")
        draw_sweep(picture, files[-1])
    return files


def _limit(verdicts: Sequence[str | None], metric: str) -> float | None:
    """The limit of the SLO on a metric, where all runs have the same."""
    found = {(json.loads(text or "{}").get(metric) or {}).get("limit") for text in set(verdicts)}
    return found.pop() if len(found) == 1 else None
