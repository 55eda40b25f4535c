"""Whether the variants of a comparison get the same requests: by what their scenarios say, and by what has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from servetwin.errors import ScenarioError
from servetwin.studies.compare.measure import Measured
from servetwin.studies.compare.variants import Variant
from servetwin.workload.arrivals import ClosedLoop
from servetwin.workload.spec import WorkloadSpec

_RUN = ("requests", "duration_s", "warmup_requests", "seed")
"""What ``run`` says of the requests."""

_SYSTEM = {"sampling", "priority", "slo"}
"""What ``workload`` says of how requests are treated, and not of what they are."""

_COLUMNS = ("arrival_ps", "prompt_tokens", "output_tokens")


def check_same_workload(variants: Sequence[Variant]) -> None:
    """Refuse scenarios whose requests would differ.

    Raises:
        ScenarioError: with the first field that differs.
    """
    first, *others = variants
    wanted = _requests_of(first)
    for other in others:
        found = _requests_of(other)
        for path in dict.fromkeys([*wanted, *found]):
            if wanted.get(path) != found.get(path):
                raise ScenarioError(
                    f"the requests of {other.name} are not those of {first.name}: this field differs",
                    file=other.reference,
                    path=path,
                    found=f"{_shown(found.get(path))} in {other.name}, {_shown(wanted.get(path))} in {first.name}",
                    allowed="the same workload in all variants",
                    hint=f"--set {path}=… sets it for all",
                )


def depends_on_system(workload: WorkloadSpec) -> bool:
    """Whether later arrivals depend on how the system fares: sessions, closed loops, a bound on concurrency."""
    if workload.max_concurrency is not None or workload.sessions is not None:
        return True
    processes = [workload.arrivals, *(item.arrivals for item in workload.classes)]
    return any(item.sessions is not None for item in workload.classes) or any(
        isinstance(process, ClosedLoop) for process in processes
    )


def check_same_requests(baseline: Measured, other: Measured, *, reacts: bool) -> list[str]:
    """Compare what has arrived, request by request; returns what a reader must know of how they differ.

    Args:
        baseline: a run.
        other: a run with the same seed.
        reacts: whether arrivals depend on the system, so that they may differ.

    Raises:
        ScenarioError: the requests differ though nothing of the system can have changed them.
    """
    common, mine, yours = np.intersect1d(
        baseline.columns["id"], other.columns["id"], assume_unique=True, return_indices=True
    )
    missing = max(len(baseline.columns["id"]), len(other.columns["id"])) - len(common)
    if missing and not reacts:
        raise _differ(baseline, other, "the number of requests", len(baseline.columns["id"]), len(other.columns["id"]))
    notes = []
    for column in _COLUMNS:
        left, right = baseline.columns[column][mine], other.columns[column][yours]
        different = np.flatnonzero(left != right)
        if not len(different):
            continue
        if not reacts:
            at = different[0]
            raise _differ(baseline, other, f"{column} of request {common[at]}", int(left[at]), int(right[at]))
        if column != "arrival_ps":
            notes.append(
                f"{len(different):,} of {len(common):,} requests of {other.name} have other {column} than those of "
                f"{baseline.name}: in a closed loop who comes next depends on the system"
            )
    if missing:
        notes.append(
            f"{missing:,} requests came in one of {baseline.name} and {other.name} only: pairs are made of the "
            f"{len(common):,} that came in both"
        )
    return notes


def unpaired(baseline: Measured, other: Measured) -> Iterator[str]:
    """What to say of requests that only one of two runs has completed: the runs did not do the same work."""
    left, right = (set(run.columns["id"][run.counted].tolist()) for run in (baseline, other))
    if left != right:
        yield (
            f"{len(left ^ right):,} requests were completed in one of {baseline.name} and {other.name} only: latencies "
            f"are paired over the {len(left & right):,} that both completed, and GPU-seconds are of different work"
        )


def _differ(baseline: Measured, other: Measured, what: str, left: object, right: object) -> ScenarioError:
    return ScenarioError(
        f"{other.name} got other requests than {baseline.name}: {what} differs",
        found=f"{right} in {other.name}, {left} in {baseline.name}",
        allowed="the same requests in all variants",
        hint="was a file of the workload changed meanwhile?",
    )


def _requests_of(variant: Variant) -> dict[str, Any]:
    """The fields of a scenario that decide its requests, by path."""
    workload = variant.scenario.workload.model_dump(mode="json")
    run = variant.scenario.run.model_dump(mode="json")
    return {**dict(_leaves(workload, "workload")), **{f"run.{field}": run[field] for field in _RUN}}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _SYSTEM:
                yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)) and any(isinstance(inner, Mapping) for inner in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{index}")
    elif value is not None:
        yield path, value


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value) if isinstance(value, str) else str(value)
