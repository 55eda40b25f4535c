"""Whether the policy that splits requests, and each of its fields, can have an effect in a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from servetwin.errors import ScenarioError
from servetwin.policies.disaggregation import LengthAndQueue, Never, SplitBySlo, SplitPolicy, UncachedLength
from servetwin.scenario.consistency import Idle
from servetwin.scenario.schema import Pool, Scenario
from servetwin.scenario.transfer import TransferOptions, filled

_PLACE = "disaggregation"


def check_policy(policy: SplitPolicy, pools: Sequence[Pool]) -> None:
    """Refuse a policy that does not go with the pools.

    Raises:
        ScenarioError: it needs replicas that do both and there are none, or the other way round; or it asks for what
            nobody knows.
    """
    name = policy.policy
    both = next((index for index, pool in enumerate(pools) if pool.role == "both"), None)
    if policy.uses_mixed and both is None:
        raise ScenarioError(
            f"{name} sends requests to replicas that do both, and there are none", path=f"{_PLACE}.policy", found=name,
            allowed="a pool with role: both too",
        )  # fmt: skip
    if both is not None and not policy.uses_mixed:
        raise ScenarioError(
            f"no request gets there: {name} sends none to replicas that do both", path=f"cluster.pools.{both}.role",
            found="both", allowed=f"prefill, decode, or {_PLACE}: mixed-overflow",
        )  # fmt: skip
    if policy.reads_cache and policy.order != "decode-first":
        raise ScenarioError(
            f"{name} asks what the decoding replica has cached, so that must be known", path=f"{_PLACE}.order",
            found=policy.order, allowed="decode-first",
        )  # fmt: skip
    drafting = next((pool.name for pool in pools if pool.role == "decode" and pool.speculation is not None), None)
    if isinstance(policy, SplitBySlo) and policy.tpot_ms is not None and drafting is not None:
        raise ScenarioError(
            f"the TPOT of pool {drafting} is not predicted: nobody knows how many drafts will stand",
            path=f"{_PLACE}.tpot_ms", found=policy.tpot_ms, allowed="left out, or no speculation where requests decode",
        )  # fmt: skip


def without_idle(
    policy: SplitPolicy, options: TransferOptions | None, engine: str
) -> tuple[SplitPolicy, TransferOptions | None, list[Idle]]:
    """The policy and the options of transfers without what has no effect; and that.

    Args:
        policy: decides whether requests are split.
        options: how KV cache is handed over, as written.
        engine: the family of the engine.
    """
    idle = []
    field = policy.idle_field()
    if field is not None:
        idle.append(Idle("splits-nothing", (_PLACE, field[0]), getattr(policy, field[0]), field[1]))
        policy = Never()
    mode = filled(options, engine).mode
    if not policy.splits:
        idle += _idle_transfer(policy, options, engine)
        options = None
    if policy.order == "decode-first" and type(policy).model_fields["order"].default == "prefill-first":
        reason = None
        if not policy.splits:
            reason = "no request is split"
        elif mode != "pull" and not policy.reads_cache:
            reason = f"with cluster.transfer.mode {mode} both replicas are chosen at once anyway"
        if reason is not None:
            idle.append(Idle("order-of-one-instant", (_PLACE, "order"), policy.order, reason))
            policy = policy.model_copy(update={"order": "prefill-first"})
    return policy, options, idle


def _idle_transfer(policy: SplitPolicy, options: TransferOptions | None, engine: str) -> Iterator[Idle]:
    """What is said of transfers although there are none."""
    defaults = filled(None, engine)
    for field in TransferOptions.model_fields:
        value = None if options is None else getattr(options, field)
        if value is not None and value != getattr(defaults, field):
            reason = f"nothing is handed over, for no request is split with {_PLACE}: {policy.policy}"
            yield Idle("transfer-of-nothing", ("cluster", "transfer", field), value, reason)


def unreachable(scenario: Scenario) -> Iterator[str]:
    """Limits of the policy that no request can reach, in sentences."""
    policy = scenario.disaggregation
    if isinstance(policy, (UncachedLength, LengthAndQueue)):
        longest = [pool.engine.max_model_len for pool in scenario.cluster.pools if pool.role == "decode"]
        limit = policy.tokens + isinstance(policy, LengthAndQueue)
        if all(isinstance(most, int) and most <= limit for most in longest):
            yield f"{_PLACE}.policy {policy.policy} splits nothing: no prompt has {limit:,} tokens (max_model_len)"
    requests = scenario.run.requests
    if isinstance(policy, LengthAndQueue) and requests is not None and policy.queue >= requests:
        yield f"{_PLACE}.queue has no effect: it allows {policy.queue:,} requests, and the run has {requests:,} in all"
