"""Misspelt fields and values, and those of other programs: the message names what was meant."""

from __future__ import annotations

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.load import load
from servetwin.scenario.other_names import _OTHER_NAMES, _places

MEANT = {
    "title": "name", "modell": "model", "desc": "description", "seed": "run.seed", "requests": "run.requests",
    "replicas": "cluster.replicas", "hardware": "cluster.hardware", "routing": "router", "admision": "admission",
    "max_model_len": "cluster.engine.max_model_len", "zipf": "workload.prefixes.zipf_exponent",
    "cluster.tp": "cluster.parallel.tensor", "cluster.tensor": "cluster.parallel.tensor", "cluster.gpu": "hardware",
    "cluster.gpus": "replicas", "cluster.pool": "pools", "cluster.max_num_seqs": "cluster.engine.max_num_seqs",
    "cluster.parallel.pcp": "context", "cluster.parallel.prefill_context_parallel_size": "context",
    "cluster.parallel.tp": "tensor", "cluster.parallel.tensor_parallel_size": "tensor",
    "cluster.parallel.tensor_parallel": "tensor", "cluster.engine.max_batch_size": "max_num_seqs",
    "cluster.engine.max_num_sequences": "max_num_seqs", "cluster.engine.gpu_util": "gpu_memory_utilization",
    "cluster.engine.mem_fraction_static": "gpu_memory_utilization", "cluster.engine.async": "async_scheduling",
    "cluster.engine.enable_prefix_caching": "prefix_caching", "cluster.engine.max_len": "max_model_len",
    "cluster.engine.kv_cache_dtype": "cluster.precision.kv_cache", "cluster.engine.scheduler": "scheduling",
    "cluster.engine.dtype": "cluster.precision.weights", "cluster.precision.kv": "kv_cache",
    "cluster.precision.weight": "weights", "workload.rate": "workload.arrivals.rate_per_s",
    "workload.rate_per_s": "workload.arrivals.rate_per_s", "workload.input": "prompts", "workload.output": "outputs",
    "workload.output_tokens": "outputs", "workload.concurrency": "max_concurrency", "workload.prefix": "prefixes",
    "workload.arrivals.rate": "rate_per_s", "workload.arrivals.qps": "rate_per_s",
    "workload.arrivals.request_rate": "rate_per_s", "workload.prompts.men": "mean", "workload.prompts.stddev": "std",
    "run.num_requests": "requests", "run.duration": "duration_s", "run.warmup": "warmup_requests",
    "slo.ttft": "ttft_ms", "slo.ttft_ms.p999": "p99", "slo.ttft_ms.avg": "mean", "physics.noise": "jitter",
}  # fmt: skip

MEANT_VALUES = {
    "workload.arrivals.process=posson": "poisson", "workload.prompts.distribution=gaussian": "normal",
    "workload.prompts.distribution=log-normal": "lognormal", "cluster.engine.scheduling=fifo": "fcfs",
    "cluster.engine.scheduling=shortest-job-first": "sjf", "cluster.engine.scheduling=priorty": "priority",
    "cluster.precision.weights=float8": "fp8", "cluster.precision.weights=bfloat16": "bf16",
    "cluster.precision.kv_cache=fp8_e4m3": "fp8", "router=rr": "round-robin", "router.policy=p2c": "power-of-two",
    "router.policy=jsq": "least-requests", "router.policy=least_request": "least-requests",
    "admission.policy=queue": "max-queue", "physics.backend=table": "tables", "engine.name=vlm": "vllm",
}  # fmt: skip


@pytest.mark.parametrize("field", MEANT)
def test_fields(field: str) -> None:
    with pytest.raises(ScenarioError, match="unknown field") as caught:
        load("quickstart", [f"{field}=1"])
    assert caught.value.nearest == MEANT[field]


@pytest.mark.parametrize("change", MEANT_VALUES)
def test_values(change: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load("quickstart", [change])
    assert caught.value.nearest == MEANT_VALUES[change]


def test_zipf_inside_prefixes() -> None:
    with pytest.raises(ScenarioError) as caught:
        load("quickstart", ["workload.prefixes={groups: 2, tokens: 100, zipf: 1}"])
    assert (caught.value.path, caught.value.nearest) == ("workload.prefixes.zipf", "zipf_exponent")


def test_other_names_are_not_ours() -> None:
    """A name that a field has already needs no translation there, and what it is translated to exists."""
    fields = set(_places())
    for other, ours in _OTHER_NAMES.items():
        assert other == "concurrency" or other not in fields, other
        assert ours in fields or ours in _VALUES_AND_FIELDS, ours


_VALUES_AND_FIELDS = (
    "mean", "std", "name", "normal", "constant", "fcfs", "sjf", "edf", "round-robin", "least-requests", "power-of-two",
    "fp8", "fp16", "bf16", "always",
)  # fmt: skip


def test_a_mapping_says_which_fields_it_has() -> None:
    with pytest.raises(ScenarioError) as caught:
        load("quickstart", ["slo.ttft_ms=300"])
    assert caught.value.allowed == "a mapping of fields: mean, p50, p90, p95, p99, max"
