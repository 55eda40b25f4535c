"""What the page about splitting a model runs: layouts of a scenario, explained, simulated, pressed to their limit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.scenario.load import load_scenario
from servetwin.studies.explain import Step, explain

MET = 0.99
"""A load is within the SLO if this share of the requests meets all limits of ``slo.goodput``."""

CATALOG = Catalog()


@dataclass(frozen=True)
class Layout:
    """How the GPUs of a cluster are shared out.

    Attributes:
        name: what tables and pictures call it.
        tensor: GPUs that share out each layer.
        pipeline: stages one behind the other.
        replicas: copies.
        weights: precision of the weights.
        more: further changes of the scenario, ``PATH=VALUE``.
    """

    name: str
    tensor: int
    pipeline: int = 1
    replicas: int = 1
    weights: str = "bf16"
    more: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.tensor * self.pipeline * self.replicas

    @property
    def changes(self) -> tuple[str, ...]:
        """The scenario's fields that make it so, as ``--set`` takes them."""
        return (
            f"cluster.replicas={self.replicas}",
            f"cluster.parallel.tensor={self.tensor}",
            f"cluster.parallel.pipeline={self.pipeline}",
            f"cluster.precision.weights={self.weights}",
            *self.more,
        )


@dataclass(frozen=True)
class Run:
    """What came of a simulation.

    Attributes:
        summary: its ``summary.json``.
        share: share of all GPU-seconds by bucket of the ledger.
        gpu_s: GPU-seconds by bucket [s].
    """

    summary: dict[str, Any]
    share: dict[str, float]
    gpu_s: dict[str, float]

    @property
    def overloaded(self) -> bool:
        """Whether requests came faster than they were served."""
        return any(text.startswith("overloaded") for text in self.summary["warnings"])


@cache
def explained(scenario: str, layout: Layout, batch: int, context: int, prefill: int = 0) -> dict[str, Any] | None:
    """What ``servetwin explain`` says of a step; None where the weights, or the step, do not fit.

    Args:
        scenario: a bundled scenario.
        layout: how it is laid out.
        batch: requests that decode; 0 = none.
        context: tokens in the KV cache of each [tokens].
        prefill: prompt tokens besides [tokens].
    """
    step = Step.of(batch, context, None) if batch else Step.of(None, None, prefill)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = explain(load_scenario(scenario, layout.changes, CATALOG), step, CATALOG)
    except CapacityError:
        return None
    return found if found["memory"]["fits"] else None


@cache
def run(scenario: str, layout: Layout, rate_per_s: float, requests: int) -> Run:
    """The scenario, laid out so, under a load.

    Args:
        scenario: a bundled scenario.
        layout: how it is laid out.
        rate_per_s: arrivals [1/s].
        requests: how many.
    """
    changes = [*layout.changes, f"workload.arrivals.rate_per_s={rate_per_s}", f"run.requests={requests}"]
    with warnings.catch_warnings():
        # A layout of one replica has no use for the router of the others.
        warnings.simplefilter("ignore")
        result = servetwin.run(load_scenario(scenario, changes, CATALOG))
    spent = result.ledger()["total"]
    return Run(result.summary(), spent["share"], spent["seconds"])


def steady_per_gpu(found: Run, gpus: int) -> float:
    """Output tokens per second and GPU while requests came, without the end of the run [tokens/s]."""
    return float(found.summary["steady.output_throughput_tokens_per_s"]) / gpus


def capacity(attained: Callable[[float], float], step_per_s: float, most: int) -> float:
    """The highest load within the SLO, in multiples of ``step_per_s``; 0 where none is [1/s].

    Args:
        attained: share of the requests that meet the SLO at a load.
        step_per_s: the precision [1/s].
        most: the first multiple that is certainly too much.
    """
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        if attained(middle * step_per_s) >= MET:
            least = middle
        else:
            most = middle
    return least * step_per_s


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown, whose first ``left`` columns hold words."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * left}{'--:|' * (len(head) - left)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
