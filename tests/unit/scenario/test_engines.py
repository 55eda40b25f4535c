"""vLLM's defaults by version and GPU (serving facts, section A3)."""

from __future__ import annotations

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.engines import graph_sizes, largest_graph, vllm_defaults

GIB = 2**30


@pytest.mark.parametrize(
    ("gpu", "memory", "tokens", "seqs"),
    [
        ("h100-sxm", 80 * GIB, 8192, 1024),
        ("h200-sxm", 141 * GIB, 8192, 1024),
        ("a100-sxm-80gb", 80 * GIB, 2048, 256),
        ("l40s", 45 * GIB, 2048, 256),
        ("just-large-enough", 70 * GIB, 8192, 1024),
        ("just-too-small", 70 * GIB - 1, 2048, 256),
    ],
)
def test_budget_and_seats_by_gpu(gpu: str, memory: int, tokens: int, seqs: int) -> None:
    defaults = vllm_defaults("0.15", gpu, memory)
    assert (defaults.max_num_batched_tokens, defaults.max_num_seqs) == (tokens, seqs)


@pytest.mark.parametrize(("version", "tokens"), [("0.8", 2048), ("0.8.5", 8192), ("0.9", 2048)])
def test_an_a100_was_a_large_gpu_for_some_weeks(version: str, tokens: int) -> None:
    assert vllm_defaults(version, "a100-sxm-80gb", 80 * GIB).max_num_batched_tokens == tokens
    assert vllm_defaults(version, "a100-sxm-40gb", 40 * GIB).max_num_batched_tokens == 2048


@pytest.mark.parametrize(
    ("version", "ahead", "utilization"),
    [
        ("0.8.0", False, 0.90),
        ("0.13.9", False, 0.90),
        ("0.14.0", True, 0.90),
        ("0.15", True, 0.90),
        ("0.19.1", True, 0.90),
        ("0.22", True, 0.92),
        ("1.0", True, 0.92),
    ],
)
def test_defaults_by_version(version: str, ahead: bool, utilization: float) -> None:
    defaults = vllm_defaults(version, "h100-sxm", 80 * GIB)
    assert (defaults.async_scheduling, defaults.gpu_memory_utilization) == (ahead, utilization)


def test_the_v0_engine_is_refused() -> None:
    with pytest.raises(ScenarioError, match="V0 engine"):
        vllm_defaults("0.7.3", "h100-sxm", 80 * GIB)


def test_captured_sizes() -> None:
    sizes = graph_sizes(512)
    assert sizes[:6] == (1, 2, 4, 8, 16, 24)
    assert sizes[sizes.index(248) :][:4] == (248, 256, 272, 288)
    assert sizes[-1] == 512
    assert len(sizes) == 3 + 31 + 17
    assert graph_sizes(0) == ()
    assert graph_sizes(3) == (1, 2)


@pytest.mark.parametrize(("seqs", "tokens", "largest"), [(1024, 8192, 512), (64, 8192, 128), (1024, 300, 300)])
def test_the_largest_captured_size(seqs: int, tokens: int, largest: int) -> None:
    assert largest_graph(seqs, tokens) == largest
