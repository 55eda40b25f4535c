"""What speculation does to one step: what drafting takes, and how many tokens the step must yield to pay for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from servetwin.acceptance.spec import Acceptance, Rate, Survival
from servetwin.physics.drafting import DraftCost, Drafting
from servetwin.physics.protocols import StepShape
from servetwin.physics.speculative_step_time import SpeculativeStepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.scenario.draft_prices import price_drafts
from servetwin.scenario.engine_settings import captured
from servetwin.scenario.pools import PoolParts, is_synchronous
from servetwin.scenario.prices import price_steps
from servetwin.scenario.resolve import without_drafts
from servetwin.scenario.schema import Pool, Scenario
from servetwin.scenario.speculation import Speculation
from servetwin.specs.span import Span
from servetwin.studies.step import Step
from servetwin.units import PS_PER_US


@dataclass(frozen=True, slots=True)
class DraftedStep:
    """A step that verifies as many drafts as the scenario allows, and makes as many.

    Attributes:
        speculation: how the pool drafts.
        drafter: the name of who drafts.
        prices: prices the steps of the model.
        drafting: prices the drafts.
        step: the step, and its shape.
        shape: with drafts.
        plain_ps: what the same step takes without speculation [ps].
    """

    speculation: Speculation
    drafter: str
    prices: RooflineStepTime
    drafting: Drafting
    step: Step
    shape: StepShape
    plain_ps: int

    @classmethod
    def of(
        cls, scenario: Scenario, pool: Pool, parts: PoolParts, prices: RooflineStepTime, step: Step, span: Span | None
    ) -> DraftedStep | None:
        """The step of a pool that drafts; None where it does not."""
        speculation = pool.speculation
        if speculation is None or parts.drafter is None:
            return None
        sizes = captured(pool)
        drafting = price_drafts(scenario, parts, speculation, sizes, prices.links, span)
        shape = step.shape(prices.windows, sizes, speculation.nodes, speculation.k)
        undrafted = without_drafts(pool, scenario.engine, parts)
        plain = price_steps(scenario, replace(parts, drafter=None, synchronous=is_synchronous(undrafted)), span=span)
        plain_ps = plain.price(step.shape(plain.windows, captured(undrafted))).total_ps
        return cls(speculation, parts.drafter.spec.name, prices, drafting, step, shape, plain_ps)

    def document(self) -> dict[str, Any]:
        """What ``servetwin explain --json`` says of it; times in microseconds."""
        passes = self.drafting.passes(self.shape)
        total_ps = SpeculativeStepTime(self.prices, self.drafting).price(self.shape).total_ps
        plain_ps = self.plain_ps
        # A prompt yields its first token either way.
        pays_from = total_ps / plain_ps if self.step.batch and not self.step.prefill else None
        tokens = tokens_per_step(self.speculation.acceptance, self.speculation.k)
        return {
            "method": self.speculation.method,
            "drafter": self.drafter,
            "drafts": self.speculation.k,
            "verified_tokens_per_request": 1 + self.speculation.nodes,
            "draft_us": sum(cost.total_ps for _, cost in passes) / PS_PER_US,
            "passes": [_pass(count, cost) for count, cost in passes],
            "total_us": total_ps / PS_PER_US,
            "plain_us": plain_ps / PS_PER_US,
            "pays_from_tokens": pays_from,
            "tokens_per_step": tokens,
            "speedup": tokens / pays_from if tokens is not None and pays_from is not None else None,
        }


def tokens_per_step(acceptance: Acceptance, drafts: int) -> float | None:
    """Mean output tokens of a request in a step that verifies so many drafts in a row; None of what was recorded.

    Of long outputs, as far as nothing lies ``beyond``.

    >>> from servetwin.acceptance.spec import Rate
    >>> tokens_per_step(Rate(rate=0.5), 2)
    1.75
    """
    if not isinstance(acceptance, Rate | Survival):
        return None
    return 1.0 + float(acceptance.levels().survival(drafts).sum())


def _pass(count: int, cost: DraftCost) -> dict[str, Any]:
    """Equal passes of the drafter, all together."""
    return {
        "count": count,
        "us": cost.total_ps / PS_PER_US,
        "compute_us": cost.compute_ps / PS_PER_US,
        "memory_us": cost.memory_ps / PS_PER_US,
        "communication_us": cost.communication_ps / PS_PER_US,
        "overhead_us": cost.waiting_ps / PS_PER_US,
    }
