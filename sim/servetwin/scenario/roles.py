"""Pools that prefill and pools that decode: whether they fit together, and what is filled in where they exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import ScenarioError
from servetwin.policies.disaggregation import Always, SplitPolicy
from servetwin.scenario.consistency import Idle
from servetwin.scenario.deciding import check_policy, without_idle
from servetwin.scenario.schema import Pool, Scenario
from servetwin.scenario.transfer import INSTANT, TransferOptions, filled


def is_split(pools: Sequence[Pool]) -> bool:
    """Whether there are pools that only prefill or only decode."""
    return any(pool.role != "both" for pool in pools)


def resolve_hand_over(
    scenario: Scenario, pools: Sequence[Pool], catalog: Catalog
) -> tuple[TransferOptions | None, SplitPolicy | None, list[Idle]]:
    """How KV cache is handed over and who decides whether; None where no pool only prefills or decodes.

    What has no effect is left out, and comes last.

    Args:
        scenario: the scenario.
        pools: its resolved pools.
        catalog: where links are.

    Raises:
        ScenarioError: the pools do not fit together, or there is nothing to hand over.
        CatalogError: the link is unknown.
    """
    options, policy = scenario.cluster.transfer, scenario.disaggregation
    _check_routers(pools)
    if not is_split(pools):
        for path, value in (("cluster.transfer", options), ("disaggregation", policy)):
            if value is not None:
                raise ScenarioError(
                    "nothing is handed over: every pool prefills and decodes", path=path,
                    allowed="left out, or pools with role: prefill and role: decode",
                )  # fmt: skip
        return None, None, []
    _check_roles(pools)
    assert policy is None or isinstance(policy, SplitPolicy)
    policy = policy or Always()
    check_policy(policy, pools)
    policy, options, idle = without_idle(policy, options, scenario.engine.name)
    options = filled(options, scenario.engine.name)
    if options.link is not None and options.link != INSTANT:
        options = options.model_copy(update={"link": catalog.link_reference(options.link)})
    return options, policy, idle


def idle_hand_over(transfer: TransferOptions | None, pools: Sequence[Pool], raw: Mapping[str, Any]) -> list[Idle]:
    """What is written about hand-overs and routers and has no effect.

    Args:
        transfer: how KV cache is handed over, filled in; None = it is not.
        pools: the resolved pools.
        raw: the scenario as written.
    """
    found: list[Idle] = []
    written = (raw.get("cluster") or {}).get("transfer") or {}

    def idle(field: str, reason: str) -> None:
        if written.get(field):
            found.append(Idle("transfer-that-never-fails", ("cluster", "transfer", field), written[field], reason))

    if transfer is not None and not transfer.failure_rate:
        idle("retries", "no transfer fails, for failure_rate is 0")
    if transfer is not None and not (transfer.failure_rate and transfer.retries):
        idle("retry_after_ms", "no transfer is begun again, for retries or failure_rate is 0")
    if raw.get("router") is not None and all(pool.router is not None for pool in pools):
        found.append(Idle("overruled-by-every-pool", ("router",), raw["router"], "every pool has its own"))
    return found


def _check_roles(pools: Sequence[Pool]) -> None:
    """Refuse pools between which no KV cache can be handed over."""
    roles = [pool.role for pool in pools]
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if role in roles and other not in roles:
            raise ScenarioError(
                f"there is a pool that {role}s and none that {other}s", path="cluster.pools", found=f"role: {role}",
                allowed=f"a pool with role: {other} too",
            )  # fmt: skip
    prefill = next(pool for pool in pools if pool.role == "prefill")
    for index, pool in enumerate(pools):
        place = f"cluster.pools.{index}"
        if pool.engine.block_size % prefill.engine.block_size:
            raise ScenarioError(
                "blocks of KV cache are handed over whole", path=f"{place}.engine.block_size",
                found=pool.engine.block_size,
                allowed=f"a multiple of {prefill.engine.block_size}, the block_size of pool {prefill.name}",
            )  # fmt: skip
        if pool.model != prefill.model:
            raise ScenarioError(
                "KV cache of one model is of no use to another", path=f"{place}.model", found=pool.model,
                allowed=f"the model of pool {prefill.name}",
            )  # fmt: skip
        if pool.precision.kv_cache != prefill.precision.kv_cache:
            raise ScenarioError(
                "KV cache is handed over as it is", path=f"{place}.precision.kv_cache", found=pool.precision.kv_cache,
                allowed=f"{prefill.precision.kv_cache}, as in pool {prefill.name}",
            )  # fmt: skip


def _check_routers(pools: Sequence[Pool]) -> None:
    """Refuse pools whose replicas are chosen from together, by different rules."""
    for index, pool in enumerate(pools):
        place = f"cluster.pools.{index}"
        first = next(other for other in pools if other.role == pool.role)
        if pool.router != first.router:
            raise ScenarioError(
                "pools with the same role have one router", path=f"{place}.router",
                found=None if pool.router is None else pool.router.policy,
                allowed=f"that of pool {first.name}",
            )  # fmt: skip
