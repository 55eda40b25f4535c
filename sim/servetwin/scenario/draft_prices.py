"""Who prices the drafts of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from servetwin.physics.communication import Communication
from servetwin.physics.drafting import Drafting, HeadDrafting, LookupDrafting, ModelDrafting, products
from servetwin.physics.overheads import Machine
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.prices import price_steps
from servetwin.scenario.schema import Scenario
from servetwin.scenario.slowdown import slow_down
from servetwin.scenario.speculation import Speculation
from servetwin.specs.drafter import HEADS, PARALLEL
from servetwin.specs.health import HEALTHY, Health
from servetwin.specs.span import Span


def price_drafts(
    scenario: Scenario, parts: PoolParts, speculation: Speculation, graph_sizes: Sequence[int], links: Communication,
    span: Span | None = None, health: Health = HEALTHY,
) -> Drafting:  # fmt: skip
    """What drafting takes at the end of a step, by the same physics as the steps of the model.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of, its drafter included.
        speculation: how it drafts.
        graph_sizes: captured CUDA-graph sizes.
        links: what prices the collectives of the model.
        span: how the GPUs of a replica lie; in one link domain if not given.
        health: of the slowest GPU, for which the others wait.
    """
    drafter = parts.drafter
    assert drafter is not None
    gpu, calibration = slow_down(parts.gpu, parts.calibration, scenario.cluster.slowdown)
    machine = Machine.of(health.of(gpu), calibration)
    spec, share = drafter.spec, drafter.tensor
    if spec.works == HEADS:
        found = products(spec.each, parts.tensor, machine) + products(spec.whole, 1, machine)
        return HeadDrafting(found, links)
    if spec.model is None:
        return LookupDrafting(calibration)
    own = replace(parts, tensor=share, weights=drafter.weights, drafter=None)
    # Whatever the model samples, a drafter takes its likeliest tokens (vLLM ``v1/spec_decode/eagle.py``).
    prices = price_steps(scenario, own, spec.model, span if share == parts.tensor else None, health, sampling="greedy")
    return ModelDrafting(
        prices,
        once=products(spec.once, 1, machine),
        each=products(spec.each, share, machine) + products(spec.whole, 1, machine),
        parallel=spec.works == PARALLEL,
        on_states=spec.on_states,
        branching=speculation.tree.branching if speculation.tree is not None else 1,
        graph_sizes=graph_sizes,
        synchronous=parts.synchronous,
        calibration=calibration,
    )
