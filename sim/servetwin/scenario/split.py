"""From a scenario with prefilling and decoding pools to what joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from servetwin.cluster.disaggregation import Disaggregation, Judge
from servetwin.cluster.rules import Rules
from servetwin.fabric.transfer import Transfers
from servetwin.policies import PolicyContext
from servetwin.policies.disaggregation import SplitPolicy
from servetwin.results.recorder import Recorder
from servetwin.scenario.links import Network
from servetwin.scenario.schema import Scenario
from servetwin.units import seconds_to_ps

if TYPE_CHECKING:
    from servetwin.kernel import Environment


def failing(context: PolicyContext, rate: float) -> Callable[[int, int], bool]:
    """Which transfers fail: told by the id of the request and the number of the attempt, whatever else happens."""

    def fails(request: int, attempt: int) -> bool:
        return float(context.streams.generator("transfer", request, attempt).random()) < rate

    return fails


def split_up(
    scenario: Scenario, env: Environment, context: PolicyContext, network: Network, log: Recorder
) -> Disaggregation:
    """What hands requests from prefilling to decoding replicas."""
    options, policy, ways = scenario.cluster.transfer, scenario.disaggregation, network.ways
    assert options is not None and isinstance(policy, SplitPolicy) and ways is not None and network.fabric is not None
    prefill = next(pool for pool in scenario.cluster.pools if pool.role == "prefill")
    assert options.setup_ms is not None
    rules = Rules(
        mode=options.mode,
        regenerates=options.first_token == "decode",
        decode_first=policy.order == "decode-first",
        setup_ps=seconds_to_ps(options.setup_ms * 1e-3),
        block_ps=seconds_to_ps(options.block_us * 1e-6),
        block_size=prefill.engine.block_size,
        lease_ps=seconds_to_ps(options.lease_s),
        on_failure=options.on_failure,
        retries=options.retries,
        retry_ps=seconds_to_ps(options.retry_after_ms * 1e-3),
        layers=ways.layers,
    )
    fails = failing(context, options.failure_rate) if options.failure_rate else None
    judge = Judge(policy.build(context), policy.policy, policy.reads_cache, policy.predicts)
    return Disaggregation(env, rules, judge, Transfers(network.fabric), ways.legs, ways.onward, fails, log.handed_over)
