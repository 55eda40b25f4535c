"""A step takes as long as its slowest GPU between two collectives, added up: worked out rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_floor import CATALOG

from servetwin.engine.device import operations
from servetwin.physics.protocols import Phase, StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.prices import price_steps
from servetwin.specs.health import HEALTHY, Health

_GRAPHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@cache
def _scenario(model: str, gpu: str, tensor: int) -> tuple[Any, Any]:
    scenario = validate_mapping(
        {
            "name": "test", "model": model,
            "cluster": {"hardware": gpu, "parallel": {"tensor": tensor}, "engine": {"num_gpu_blocks_override": 9000}},
            "workload": {"arrivals": {"rate_per_s": 1}, "prompts": 10, "outputs": 10},
        },
        CATALOG,
    )  # fmt: skip
    return scenario, pool_parts(scenario, scenario.cluster.pools[0], "cluster.pools.0", CATALOG)


@cache
def _prices(model: str, gpu: str, tensor: int, health: Health) -> RooflineStepTime:
    return price_steps(*_scenario(model, gpu, tensor), health=health)


def _intervals(phases: Sequence[Phase]) -> tuple[list[int], int]:
    """What a GPU computes between its collectives [ps], and what these take together [ps]."""
    computed, sent = [0], 0
    for _, resource, ps in operations(list(phases)):
        if resource == "link":
            sent += ps
            computed.append(0)
        else:
            computed[-1] += ps
    return computed, sent


SHARES = st.sampled_from((1.0, 0.95, 0.7, 0.4))
HEALTH = st.builds(Health, flops=SHARES, hbm=SHARES, link=SHARES)


@st.composite
def shapes(draw: st.DrawFn) -> StepShape:
    """Steps in a captured graph, or with so many tokens that launching hides: what is launched late is no interval."""
    decodes = draw(st.integers(1, 256))
    chunks = draw(st.sampled_from(((), ((512, 0),), ((2000, 1000),))))
    tokens = decodes + sum(new for new, _ in chunks)
    padded = next((size for size in _GRAPHS if size >= tokens), tokens)
    context = decodes * draw(st.integers(1, 4000))
    return StepShape(
        tokens, padded, True, decodes + len(chunks), decodes, (context,), (decodes,), tuple(chunks)
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    model=st.sampled_from(("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b")),
    gpu=st.sampled_from(("h100-sxm", "a100-sxm-80gb", "b200-sxm")),
    tensor=st.sampled_from((2, 4, 8)),
    ranks=st.lists(HEALTH, min_size=1, max_size=3),
    shape=shapes(),
)
def test_the_slowest_between_two_collectives(
    model: str, gpu: str, tensor: int, ranks: list[Health], shape: StepShape
) -> None:
    each = [_prices(model, gpu, tensor, health) for health in [HEALTHY, *ranks][:tensor]]
    worst = HEALTHY
    for health in ranks[: tensor - 1]:
        worst = worst.worst(health)
    replica = _prices(model, gpu, tensor, worst)
    rows = [_intervals(prices.phases(shape)) for prices in each]
    _, sent = _intervals(replica.phases(shape))
    assert len({len(computed) for computed, _ in rows}) == 1
    slowest = sum(max(pieces) for pieces in zip(*(computed for computed, _ in rows), strict=True))
    # Pieces are cut to whole picoseconds, rank by rank.
    rounding = 4 * len(rows[0][0])
    price = replica.price(shape).total_ps
    assert price >= slowest + sent - rounding
    if worst in [HEALTHY, *ranks[: tensor - 1]]:
        assert price <= slowest + sent + rounding
    assert sent == max(sent, *(mine for _, mine in rows))


@settings(max_examples=150, deadline=None)
@given(
    model=st.sampled_from(("llama-3.1-8b", "mixtral-8x7b")), better=HEALTH, worse=HEALTH, shape=shapes(),
    tensor=st.sampled_from((2, 8)),
)  # fmt: skip
def test_a_worse_gpu_never_makes_a_step_shorter(
    model: str, better: Health, worse: Health, shape: StepShape, tensor: int
) -> None:
    both = better.worst(worse)
    first, second = (_prices(model, "h100-sxm", tensor, health).price(shape).total_ps for health in (better, both))
    assert second >= first - 2
