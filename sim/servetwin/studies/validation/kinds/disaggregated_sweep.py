"""Concurrency sweeps of separate prefill and decode workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.kinds.sweep import (
    REQUESTS_PER_CLIENT,
    closed_loop,
    degrees_of,
    options_of,
    point_of,
    prepared,
)
from servetwin.studies.validation.kinds.workers import Workers, apart
from servetwin.studies.validation.trial import NotYet, Point, Trial, metrics_of


class DisaggregatedSweep(Kind):
    """TTFT and TPOT at fixed numbers of clients, as ``ConcurrencySweep``, with workers of two kinds.

    Their number and degrees are the fields ``prefill_num_workers``, ``prefill_tp_size``, … and ``decode_…``. Every
    worker has seats for all clients.
    """

    name: ClassVar[str] = "pd_sweep"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """A run for each point."""
        written = case.need("parallel")
        if not isinstance(written, Mapping):
            raise case.error("degrees of parallelism are expected", "parallel", found=written)
        workers = {role: (_count(case, written, role), _degrees(case, written, role)) for role in ("prefill", "decode")}
        parts = prepared(case, catalog, {})
        trials = []
        for stage, measured in case.measured.items():
            clients, prompt, output = point_of(case, stage)
            parts.options = options_of(clients, prompt, output)
            scenario = apart(
                parts, f"{case.id}-{stage}", closed_loop(clients, prompt, output), REQUESTS_PER_CLIENT * clients,
                prefill=Workers(*workers["prefill"]), decode=Workers(*workers["decode"]),
            )  # fmt: skip
            trials.append(Trial(scenario, (Point(stage, metrics_of(measured)),), flags=tuple(parts.flags)))
        return trials


def _count(case: Case, written: Mapping[str, Any], role: str) -> int:
    name = f"{role}_num_workers"
    count = written.get(name)
    if count is None:
        raise NotYet("how many workers prefill and decode was not recorded")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise case.error("a number of workers is expected", "parallel", name, found=count)
    return count


def _degrees(case: Case, written: Mapping[str, Any], role: str) -> dict[str, int]:
    """The degrees of a role's workers, whose fields are those of a sweep behind the name of the role."""
    prefix = f"{role}_"
    return degrees_of(
        case, {name.removeprefix(prefix): size for name, size in written.items() if name.startswith(prefix)}
    )
