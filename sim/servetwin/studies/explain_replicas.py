"""What a step takes in the replicas of a pool that are unlike the first: they lie otherwise, or wait for a slow GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.physics.protocols import StepShape
from servetwin.scenario.network import layout_of
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.prices import price_hand_offs, price_pipeline, price_steps
from servetwin.scenario.schema import Pool, Scenario
from servetwin.scenario.stragglers import stage_health
from servetwin.specs import Span
from servetwin.specs.health import HEALTHY, Health
from servetwin.units import PS_PER_MS, PS_PER_US

_MOST_LAYOUTS = 4
"""So many ways to lie get a sentence each."""


class OtherReplicas:
    """The replicas of one pool.

    Args:
        scenario: the scenario, resolved.
        index: the pool's place in it.
        parts: what the pool is made of.
        catalog: where servers are found.
    """

    def __init__(self, scenario: Scenario, index: int, parts: PoolParts, catalog: Catalog) -> None:
        pools, topology = scenario.cluster.pools, scenario.cluster.topology
        self._scenario, self._parts = scenario, parts
        self._pool: Pool = pools[index]
        first = sum(other.replicas or 1 for other in pools[:index])
        indices = range(first, first + (self._pool.replicas or 1))
        #: By replica, how its GPUs lie; None in one link domain, as they do without a topology.
        self._spans: dict[int, Span | None] = dict.fromkeys(indices)
        if topology is not None:
            layout = layout_of(topology, pools, catalog)
            self._spans = {replica: layout.span_across(replica) for replica in indices}
        self._healthy = (HEALTHY,) * len(parts.stages)

    @property
    def first_span(self) -> Span | None:
        """How the GPUs of the first replica lie; None in one link domain."""
        return next(iter(self._spans.values()))

    def stragglers(self, shape: StepShape) -> list[dict[str, Any]]:
        """What the step takes in the replicas that wait for a slow GPU [us], and how much longer than without it."""
        found = []
        for replica, span in self._spans.items():
            health = stage_health(self._scenario.cluster.stragglers, replica, self._pool.parallel)
            if health != self._healthy:
                slow, healthy = (self._step_ps(shape, span, one) for one in (health, self._healthy))
                found.append({"replica": replica, "total_us": slow / PS_PER_US, "longer": slow / healthy - 1})
        return found

    def lying_otherwise(self, shape: StepShape) -> list[str]:
        """What the step takes in replicas whose GPUs lie otherwise than those of the first, none of them slow."""
        alike: dict[Span | None, list[int]] = {}
        for replica, span in self._spans.items():
            alike.setdefault(span, []).append(replica)
        here, *others = alike
        found = []
        for span in others[:_MOST_LAYOUTS]:
            replica, *more = alike[span]
            there_ps = self._step_ps(shape, span, self._healthy)
            change = there_ps / self._step_ps(shape, here, self._healthy) - 1
            found.append(
                f"the GPUs of replica {replica}{f' and {len(more)} more' if more else ''} lie otherwise: this step "
                f"takes {abs(change):.1%} {'longer' if change >= 0 else 'less'} there ({there_ps / PS_PER_MS:.2f} ms)"
            )
        if len(others) > _MOST_LAYOUTS:
            found.append(f"the GPUs of other replicas lie in {len(others) - _MOST_LAYOUTS} more ways")
        return found

    def _step_ps(self, shape: StepShape, span: Span | None, health: Sequence[Health]) -> int:
        """The step on all stages, the hand-offs between them included [ps]."""
        scenario, parts = self._scenario, self._parts
        whole = price_steps(scenario, parts, span=span, health=health[0])
        if len(parts.stages) == 1:
            return whole.price(shape).total_ps
        stages = [
            price_steps(scenario, parts, stage, span, one) for stage, one in zip(parts.stages, health, strict=True)
        ]
        pipeline = price_pipeline(whole, stages, price_hand_offs(scenario, parts, span, health))
        return pipeline.price(shape).total_ps + sum(pipeline.hand_offs(shape))
