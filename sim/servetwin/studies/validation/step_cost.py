"""What single steps take on the GPU, without anything that an engine adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from servetwin.catalog.find import Catalog
from servetwin.scenario.engine_settings import captured
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.prices import price_steps
from servetwin.scenario.schema import Scenario
from servetwin.studies.step import Step
from servetwin.studies.validation.trial import Outcome, Trial
from servetwin.units import PS_PER_S


@dataclass(frozen=True, slots=True)
class StepCostTrial(Trial):
    """Steps to be priced.

    Attributes:
        steps: by stage, requests that decode, context of each [tokens], and whether the same without context is taken
            off.
    """

    steps: Mapping[str, tuple[int, int, bool]] = None  # type: ignore[assignment]


def price_trial(trial: StepCostTrial, scenario: Scenario, catalog: Catalog) -> Outcome:
    """Price the steps of a trial: what the GPU is busy with, and not what it waits for the CPU.

    Args:
        trial: the trial.
        scenario: its scenario, resolved.
        catalog: where models and GPUs are found.
    """
    pool = scenario.cluster.pools[0]
    prices = price_steps(scenario, pool_parts(scenario, pool, "cluster.pools.0", catalog))
    sizes = captured(pool)

    def milliseconds(requests: int, context: int) -> float:
        price = prices.price(Step(requests, max(context, 1), 0).shape(prices.windows, sizes))
        return (price.total_ps - price.host_ps) / PS_PER_S * 1e3

    outcome = Outcome()
    for stage, (requests, context, less) in trial.steps.items():
        taken = milliseconds(requests, context) - (milliseconds(requests, 0) if less else 0.0)
        outcome.predicted[stage] = {"tpot_ms.mean": taken}
    return outcome
