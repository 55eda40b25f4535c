"""Pools that prefill and pools that decode, as a scenario writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servetwin.errors import InputError, ScenarioError
from servetwin.scenario.build import build
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import to_yaml

SPLIT: dict[str, Any] = {"cluster": {"pools": [{"name": "p", "role": "prefill"}, {"name": "d", "role": "decode"}]}}

Load = Callable[..., Any]


def split(base: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return deep_merge(deep_merge(base, SPLIT), {"cluster": cluster})


def test_what_is_left_out_is_filled_in_by_engine(base: dict[str, Any], load_it: Load) -> None:
    """vLLM's decoding side computes the first token again, SGLang's does not."""
    for engine, side in (("vllm", "decode"), ("sglang", "prefill"), ("trtllm", "prefill")):
        scenario = load_it(split(base) | {"engine": {"name": engine}}).scenario
        assert scenario.cluster.transfer.first_token == side
        assert scenario.cluster.transfer.setup_ms == 0.37
        assert scenario.disaggregation.policy == "always"


def test_it_resolves_to_itself(base: dict[str, Any], load_it: Load, write: Callable[..., Any]) -> None:
    text = to_yaml(load_it(split(base, transfer={"mode": "stream", "link": "NDR"})).scenario)
    assert "link: ib-ndr-400" in text
    assert to_yaml(load_it(text).scenario) == text


@pytest.mark.parametrize("part", [{"cluster": {"transfer": {"mode": "pull"}}}, {"disaggregation": "always"}])
def test_without_such_pools_there_is_nothing_to_hand_over(
    part: dict[str, Any], base: dict[str, Any], load_it: Load
) -> None:
    with pytest.raises(ScenarioError, match="nothing is handed over"):
        load_it(deep_merge(base, part))


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_one_role_needs_the_other(role: str, base: dict[str, Any], load_it: Load) -> None:
    with pytest.raises(ScenarioError, match=f"a pool that {role}s and none that"):
        load_it(deep_merge(base, {"cluster": {"pools": [{"name": "a", "role": role}]}}))


@pytest.mark.parametrize(
    ("second", "path", "message"),
    [
        ({"model": "qwen3-8b"}, "cluster.pools.1.model", "of no use to another"),
        ({"precision": {"kv_cache": "fp8"}}, "cluster.pools.1.precision.kv_cache", "handed over as it is"),
        ({"engine": {"block_size": 24}}, "cluster.pools.1.engine.block_size", "handed over whole"),
        ({"engine": {"block_size": 8}}, "cluster.pools.1.engine.block_size", "handed over whole"),
    ],
)
def test_pools_that_do_not_fit_together(
    second: dict[str, Any], path: str, message: str, base: dict[str, Any], load_it: Load
) -> None:
    pools = [SPLIT["cluster"]["pools"][0], SPLIT["cluster"]["pools"][1] | second]
    with pytest.raises(InputError, match=message) as caught:
        load_it(deep_merge(base, {"cluster": {"pools": pools}}))
    assert caught.value.path == path


def test_larger_blocks_on_the_decoding_side(base: dict[str, Any], load_it: Load) -> None:
    pools = [SPLIT["cluster"]["pools"][0], SPLIT["cluster"]["pools"][1] | {"engine": {"block_size": 64}}]
    load_it(deep_merge(base, {"cluster": {"pools": pools}}))


def test_pools_with_the_same_role_have_one_router(base: dict[str, Any], load_it: Load) -> None:
    pools = [*SPLIT["cluster"]["pools"], {"name": "e", "role": "decode", "router": "random"}]
    with pytest.raises(ScenarioError, match="one router"):
        load_it(deep_merge(base, {"cluster": {"pools": pools}}))


@pytest.mark.parametrize(
    ("transfer", "field"),
    [
        ({"retries": 2}, "retries"),
        ({"retry_after_ms": 5}, "retry_after_ms"),
        ({"retry_after_ms": 5, "failure_rate": 0.1}, "retry_after_ms"),
    ],
)
def test_options_without_effect(transfer: dict[str, Any], field: str, base: dict[str, Any], load_it: Load) -> None:
    with pytest.raises(ScenarioError, match="no effect") as caught:
        load_it(split(base, transfer=transfer))
    assert caught.value.path == f"cluster.transfer.{field}"


def test_a_router_that_every_pool_overrules(base: dict[str, Any], load_it: Load) -> None:
    pools = [pool | {"router": "random"} for pool in SPLIT["cluster"]["pools"]]
    with pytest.raises(ScenarioError, match="every pool has its own"):
        load_it(deep_merge(base, {"cluster": {"pools": pools}, "router": "least-requests"}))


def test_a_push_needs_a_way_to_the_cpu_memory(base: dict[str, Any], load_it: Load) -> None:
    """Refused before the clock starts; of servers with this GPU the catalogue knows nothing."""
    mapping = split(base, transfer={"mode": "push"}, hardware="rtx-4090", engine={"max_model_len": 4096})
    with pytest.raises(ScenarioError, match="how its GPUs reach the CPU memory"):
        build(load_it(mapping).scenario)


def test_traffic_of_others_may_meet_hand_overs(base: dict[str, Any], load_it: Load) -> None:
    """Neither replica sends anything but its KV cache."""
    traffic = {"from": [0, 0], "to": [0, 1], "gigabytes": 1, "every_s": 1}
    load_it(split(base, topology={"background": [traffic]}))
    with pytest.raises(ScenarioError, match="no replica sends anything over the links"):
        load_it(split(base, topology={"background": [traffic]}, transfer={"link": "ethernet-25"}))


@pytest.mark.parametrize(
    ("departures", "message"),
    [
        ([{"replica": 2, "at_s": 1}], "there is no such replica"),
        ([{"replica": 1, "at_s": 1}, {"replica": 1, "at_s": 2}], "leaves once"),
    ],
)
def test_departures(departures: list[Any], message: str, base: dict[str, Any], load_it: Load) -> None:
    with pytest.raises(ScenarioError, match=message):
        load_it(split(base, departures=departures))


def test_replicas_with_pipelines_or_drafts_only_drain(base: dict[str, Any], load_it: Load) -> None:
    for setting in ({"parallel": {"pipeline": 2}}, {"speculation": {"method": "ngram", "k": 2, "acceptance": 0.5}}):
        with pytest.raises(ScenarioError, match="cannot leave before its requests"):
            load_it(split(base, departures=[{"replica": 1, "at_s": 1}], **setting))
        load_it(split(base, departures=[{"replica": 1, "at_s": 1, "drain": True}], **setting))
