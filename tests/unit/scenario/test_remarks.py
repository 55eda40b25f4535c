"""What runs but probably is not what was meant is said, once, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.remarks import REMARKS
from servetwin.scenario.resolve import resolve
from servetwin.scenario.schema import Scenario

CLASSES = [{"name": "a", "priority": 0}, {"name": "b", "priority": 1}]

CONFIG = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
    "intermediate_size": 512, "vocab_size": 1_000, "max_position_embeddings": 2_048,
}  # fmt: skip
HYBRID = {**CONFIG, "model_type": "minimax", "layer_types": ["linear_attention", "full_attention"] * 2}

AT_ONCE = {"arrivals": {"rate_per_s": "inf"}}
REGULAR = {"arrivals": {"process": "constant", "rate_per_s": 8}}
PURE_STATES = {
    "model_type": "falcon_mamba", "hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 1_000, "state_size": 16,
    "conv_kernel": 4, "expand": 2, "time_step_rank": 16, "intermediate_size": 512, "max_position_embeddings": 2_048,
}  # fmt: skip

SPLIT = {"pools": [{"name": "p", "role": "prefill"}, {"name": "d", "role": "decode"}]}
DRAFTS = {"method": "eagle", "acceptance": 0.8}

#: Remarks that cannot come alone.
COMPANY = {"states-and-prefixes": ["model-approximated"]}

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "family-by-vllm-rules": ({"engine": {"name": "trtllm", "version": "1.2"}}, "scheduled by the rules of vLLM 0.15"),
    "unknown-version": ({"engine": {"version": "0.99"}}, "engine.version 0.99"),
    "more-blocks-than-memory": (
        {"cluster": {"engine": {"num_gpu_blocks_override": 100_000}}},
        "cluster.pools.0.engine.num_gpu_blocks_override is 100,000",
    ),
    "derived-calibration": (
        {"cluster": {"hardware": "h20"}},
        "no kernel constants of h20: those of h100-sxm are used",
    ),
    "jitter-forces-steps": ({"physics": {"jitter": 0.05}}, "physics.jitter 0.05 gives every step a time of its own"),
    "model-approximated": ({"model": {**CONFIG, "frobnication_rank": 3}}, "were not read: frobnication_rank"),
    "states-and-prefixes": ({"model": HYBRID}, "has constant-state layers"),
    "router-of-one-replica": ({"router": {"policy": "least-tokens"}}, "router.policy least-tokens has no effect"),
    "priorities-not-used": ({"workload": {"classes": CLASSES}}, "engine.scheduling is fcfs"),
    "nothing-to-sort-by": (
        {"cluster": {"engine": {"scheduling": "sjf"}}, "workload": {"prompts": 100}},
        "cluster.pools.0.engine.scheduling sjf does what fcfs does: all prompts are equally long",
    ),
    "workload-option-idle": (
        {"workload": {"prefixes": {"groups": 1, "tokens": 64, "zipf_exponent": 1.0}}},
        "workload.prefixes.zipf_exponent has no effect: there is one group",
    ),
    "run-option-idle": ({"run": {"duration_s": 3.0}, "workload": AT_ONCE}, "run.duration_s has no effect"),
    "admission-never-refuses": (
        {"admission": {"policy": "max-requests", "requests": 1_000}},
        "admission.policy max-requests has no effect: it allows 1,000 requests",
    ),
    "limits-between-tokens": (
        {"workload": {"outputs": 1}, "slo": {"tpot_ms": {"p99": 30}}},
        "slo.tpot_ms has no effect: every answer has one token",
    ),
    "memory-option-idle": (
        {"cluster": {"engine": {"num_gpu_blocks_override": 90, "watermark": 0.01}}},
        "cluster.pools.0.engine.watermark has no effect: that share of 90 KV blocks",
    ),
    "stragglers-of-many-kinds": (
        {
            "cluster": {
                "parallel": {"tensor": 2},
                "stragglers": [{"replica": 0, "flops": 0.5}, {"replica": 0, "gpu": 1, "hbm": 0.9}],
            },
        },
        "2 GPUs of replica 0 are slow in different ways",
    ),
    "drafter-assumed": (
        {"cluster": {"speculation": {"method": "mtp", "k": 1, "acceptance": 0.8}}},
        "nothing is known of a module for multi-token prediction",
    ),
    "controller-decides-nothing": (
        {"cluster": {"speculation": {**DRAFTS, "k": 1, "controller": "ema-tiers"}}},
        "cluster.pools.0.speculation.controller ema-tiers has no effect: it always drafts k = 1 tokens (check",
    ),
    "decider-never-reached": (
        {"cluster": SPLIT, "disaggregation": {"policy": "uncached-length", "tokens": 200_000}},
        "uncached-length splits nothing: no prompt has 200,000 tokens",
    ),
    "parallel-gains": (
        {"cluster": {"parallel": {"context": 2}}},
        "cluster.pools.0.parallel.context 2 shares out prompts only",
    ),
}

QUIET: dict[str, dict[str, Any]] = {
    "decider-never-reached": {"cluster": SPLIT, "disaggregation": {"policy": "uncached-length", "tokens": 50}},
    "drafter-assumed": {"cluster": {"speculation": {"method": "eagle", "k": 1, "acceptance": 0.8}}},
    "family-by-vllm-rules": {"engine": {"name": "vllm"}},
    "unknown-version": {"engine": {"version": "0.24.3"}},
    "more-blocks-than-memory": {"cluster": {"engine": {"num_gpu_blocks_override": 1000, "max_model_len": 1000}}},
    "derived-calibration": {"cluster": {"hardware": "l40s"}},
    "jitter-forces-steps": {"physics": {"jitter": 0.05}, "run": {"stepping": "every-step"}},
    "model-approximated": {"model": CONFIG},
    "states-and-prefixes": {"model": HYBRID, "cluster": {"engine": {"prefix_caching": False}}},
    "router-of-one-replica": {"cluster": {"replicas": 2}, "router": {"policy": "least-tokens"}},
    "priorities-not-used": {
        "workload": {"classes": CLASSES},
        "cluster": {"engine": {"scheduling": "priority"}},
    },
    "nothing-to-sort-by": {
        "cluster": {"engine": {"scheduling": "sjf"}},
        "workload": {"prompts": {"distribution": "uniform", "min": 10, "max": 20}},
    },
    "workload-option-idle": {"workload": {"prefixes": {"groups": 2, "tokens": 64, "zipf_exponent": 1.0}}},
    "run-option-idle": {"run": {"duration_s": 3.0}},
    "admission-never-refuses": {"admission": {"policy": "max-requests", "requests": 5}},
    "limits-between-tokens": {"workload": {"outputs": 2}, "slo": {"tpot_ms": {"p99": 30}}},
    "memory-option-idle": {"cluster": {"engine": {"num_gpu_blocks_override": 1_000, "watermark": 0.01}}},
    "stragglers-of-many-kinds": {
        "cluster": {"parallel": {"tensor": 2}, "stragglers": [{"flops": 0.5}, {"gpu": 1, "flops": 0.9}]}
    },
    "controller-decides-nothing": {"cluster": {"speculation": {**DRAFTS, "k": 2, "controller": "ema-tiers"}}},
    "parallel-gains": {"cluster": {"parallel": {"tensor": 3, "uneven_heads": True}}},
}


def warnings_of(base: dict[str, Any], change: dict[str, Any]) -> list[str]:
    found: list[str] = servetwin.run(deep_merge(base, change)).summary()["warnings"]
    return [text for text in found if "(check " in text]


def test_every_remark_has_a_case() -> None:
    assert {remark.name for remark in REMARKS} == set(CASES) == set(QUIET)


@pytest.mark.parametrize("name", CASES)
def test_a_remark(name: str, base: dict[str, Any]) -> None:
    change, words = CASES[name]
    *others, text = warnings_of(base, change)
    assert [other.rpartition("(check ")[2].rstrip(")") for other in others] == COMPANY.get(name, [])
    assert words in text and text.endswith(f"(check {name})")


@pytest.mark.parametrize("name", QUIET)
def test_nothing_to_remark(name: str, base: dict[str, Any]) -> None:
    found = [text.rpartition("(check ")[2].rstrip(")") for text in warnings_of(base, QUIET[name])]
    assert found == COMPANY.get(name, [])


def test_priorities_that_nobody_looks_at_name_the_policy_in_use(base: dict[str, Any]) -> None:
    classes = [{**entry, "slo": {"ttft_ms": limit}} for entry, limit in zip(CLASSES, (500, 900), strict=True)]
    edf = {"workload": {"classes": classes}, "cluster": {"engine": {"scheduling": "edf"}}}
    (text,) = warnings_of(base, edf)
    assert "cluster.engine.scheduling is edf, which does not" in text and "fcfs" not in text
    cluster = {**base["cluster"], "replicas": None}
    hardware = cluster.pop("hardware")
    pools = [{"name": "a", "hardware": hardware, "engine": {"scheduling": "edf"}}, {"name": "b", "hardware": hardware}]
    both = {**base, "cluster": {"pools": pools}, "workload": {**base["workload"], "classes": classes}}
    (text,) = [text for text in warnings_of(both, {}) if "priorities-not-used" in text]
    assert "cluster.pools.0.engine.scheduling is edf, cluster.pools.1.engine.scheduling is fcfs" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {
                "workload": {"classes": [{"name": name, "slo": {"ttft_ms": 500}} for name in "ab"]},
                "cluster": {"engine": {"scheduling": "edf"}},
            },
            "edf does what fcfs does: all classes have the same slo.ttft_ms",
        ),
        (
            {"model": PURE_STATES, "cluster": {"precision": {"kv_cache": "fp8"}, "engine": {"prefix_caching": False}}},
            "cluster.pools.0.precision.kv_cache has no effect: inline keeps nothing per token",
        ),
        ({"admission": {"policy": "max-queue", "waiting": 20}}, "max-queue has no effect: it allows 20 requests"),
        (
            {"workload": {"outputs": 1}, "slo": {"goodput": {"tpot_ms": 9}}},
            "slo.goodput.tpot_ms has no effect",
        ),
        (
            {"workload": {"outputs": 1, "classes": [{"name": "a", "slo": {"tpot_ms": 9}}]}},
            "workload.classes.0.slo.tpot_ms has no effect",
        ),
        (
            {"workload": REGULAR, "run": {"seed": 3}},
            "run.seed has no effect: nothing in this scenario is random",
        ),
    ],
)
def test_other_options_without_effect(change: dict[str, Any], words: str, base: dict[str, Any]) -> None:
    assert any(words in text for text in warnings_of(base, change))


@pytest.mark.parametrize(
    ("controller", "words"),
    [
        (
            {"policy": "per-request", "least": 3},
            ".controller per-request has no effect: it always drafts k = 3 tokens (",
        ),
        ({"policy": "disable-when-low", "window": 9, "threshold": 0}, "disable-when-low has no effect"),
        ({"policy": "by-batch-size", "ranges": [[1, 9, 3], [10, 99, 3]]}, "it always drafts k = 3 tokens ("),
        (
            {"policy": "disable-by-batch-size", "requests": 65},
            ".controller disable-by-batch-size has no effect: it always drafts k = 3 tokens in steps of at most "
            "max_num_seqs = 64 requests (",
        ),
        ({"policy": "draft-len-schedule", "schedule": {64: 3}}, "k = 3 tokens in steps of at most max_num_seqs = 64"),
        (
            {"policy": "by-batch-size", "ranges": [[1, 64, 0], [65, 99, 3]]},
            "cluster.pools.0.speculation has no effect: by-batch-size never drafts in steps of at most max_num_seqs",
        ),
        ({"policy": "per-request"}, ""),
        ({"policy": "goodput"}, ""),
        ({"policy": "disable-by-batch-size", "requests": 64}, ""),
        ({"policy": "by-batch-size", "ranges": [[1, 9, 2]]}, ""),
        ("fixed", ""),
    ],
)
def test_controllers_without_effect(controller: Any, words: str, base: dict[str, Any]) -> None:
    cluster = {"engine": {"max_num_seqs": 64}, "speculation": {**DRAFTS, "k": 3, "controller": controller}}
    found = warnings_of(base, {"cluster": cluster})
    assert len(found) == bool(words) and all(words in text for text in found)


@pytest.mark.parametrize(
    "change",
    [
        {"run": {"seed": 3}},
        {"run": {"seed": 3}, "workload": REGULAR, "physics": {"jitter": 0.1}},
        {"run": {"seed": 3}, "workload": REGULAR, "cluster": {"speculation": {"method": "eagle", "acceptance": 0.5}}},
        {"run": {"seed": 3}, "workload": REGULAR, "router": {"policy": "random"}, "cluster": {"replicas": 2}},
    ],
)
def test_a_seed_of_what_is_random_is_no_matter(change: dict[str, Any], base: dict[str, Any]) -> None:
    assert not any("run.seed" in text for text in warnings_of(base, change))


def test_a_workload_that_ends_before_the_requests_have_come(base: dict[str, Any]) -> None:
    base["workload"]["arrivals"] = {"process": "bursts", "size": 7}
    assert "run.requests is 20, and the workload has ended after 7" in servetwin.run(base).summary()["warnings"]
    base["run"]["requests"] = 7
    assert not servetwin.run(base).summary()["warnings"][1:]


def test_states_of_too_many_requests_are_refused_at_the_pool_s_path(base: dict[str, Any]) -> None:
    model = {**HYBRID, "hidden_size": 8_192, "head_dim": 1_024}
    with pytest.raises(CapacityError, match="states of") as caught:
        servetwin.run(deep_merge(base, {"model": model, "cluster": {"engine": {"max_num_seqs": 8_000}}}))
    assert caught.value.path is not None
    assert caught.value.path.endswith("engine.max_num_seqs")


def test_the_checkpoint_decides_on_the_kv_cache(base: dict[str, Any], catalog: Catalog) -> None:
    quantisation = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    changed = deep_merge(base, {"model": {**CONFIG, "quantization_config": quantisation}})
    found = {}
    for asked in ("auto", "bf16"):
        scenario = Scenario.model_validate(deep_merge(changed, {"cluster": {"precision": {"kv_cache": asked}}}))
        found[asked] = resolve(scenario, catalog)[0].cluster.pools[0].precision.kv_cache
    assert found == {"auto": "fp8", "bf16": "bf16"}


def test_a_run_without_requests(base: dict[str, Any]) -> None:
    base["run"] = {"duration_s": 1e-6}
    warnings = servetwin.run(base).summary()["warnings"]
    assert any("no request arrived" in text and "run.duration_s" in text for text in warnings)


def test_the_documentation_has_every_remark() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "results.md").read_text(encoding="utf-8")
    table = page[page.index("\n| remark |") :]
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert named[: len(REMARKS)] == [remark.name for remark in REMARKS]
