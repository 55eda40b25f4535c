"""What the errors about memory advise fits, is the least that does, and lies within the servers that there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from servetwin.errors import CapacityError

Load = Callable[..., Any]


def hint(load_it: Load, base: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(CapacityError) as caught:
        load_it(base, *overrides)
    return str(caught.value.hint)


@pytest.mark.parametrize(
    ("parallel", "topology", "advice"),
    [
        ({"tensor": 8}, {"nodes": 2}, "cluster.parallel.pipeline: 2 is the smallest degree that fits"),
        ({"tensor": 8}, {}, "cluster.parallel.pipeline: 2 is the smallest degree that fits"),
        ({"tensor": 8}, {"nodes": {"h100-sxm": 2}}, "cluster.parallel.pipeline: 2 is the smallest degree that fits"),
        ({"tensor": 4}, {"node": "hgx-h100"}, "cluster.parallel.pipeline: 3 is the smallest degree that fits"),
        ({"tensor": 4, "context": 4}, {"nodes": 2}, "it would need 64 GPUs, more than the 16 of cluster.topology: "),
        ({"tensor": 4, "context": 4}, {"nodes": 8}, "cluster.parallel.tensor: 16 is the smallest degree that fits"),
        ({"tensor": 8}, {"nodes": 1}, "it would need 16 GPUs, more than the 8 of cluster.topology: "),
        ({"tensor": 8}, None, "it would need 16 GPUs, more than the 8 inside one node of h100-sxm: "),
    ],
)
def test_it_counts_the_gpus_of_all_servers(
    parallel: dict[str, int], topology: dict[str, Any] | None, advice: str, base: dict[str, Any], load_it: Load
) -> None:
    base["model"] = "llama-3.1-405b"
    base["cluster"] |= {"parallel": parallel} | ({} if topology is None else {"topology": topology})
    found = hint(load_it, base)
    assert found.startswith(advice)
    assert ("cluster.topology, which joins nodes" in found) == (topology is None)
    degree = re.match(r"(cluster\.parallel\.\w+): (\d+) is", found)
    if degree:
        load_it(base, f"{degree[1]}={degree[2]}", "cluster.engine.max_model_len=auto")
        with pytest.raises(CapacityError):
            load_it(base, f"{degree[1]}={int(degree[2]) - 1}", "cluster.engine.max_model_len=auto")


@pytest.mark.parametrize(
    ("model", "gpu", "weights", "advice"),
    [
        ("llama-4-scout", "rtx-4090", "nvfp4", 8),  # the weights and what a step takes besides: not on four
        ("qwen2.5-72b", "a100-sxm-40gb", "bf16", 8),  # the weights, not the logits of 256 requests
        ("llama-3.1-70b", "l4", "mxfp4", 4),  # the weights, not a step of 2,048 tokens
    ],
)
def test_it_leaves_room_for_more_than_weights(
    model: str, gpu: str, weights: str, advice: int, base: dict[str, Any], load_it: Load
) -> None:
    base["model"] = model
    base["cluster"] |= {"hardware": gpu, "precision": {"weights": weights}, "engine": {"max_model_len": "auto"}}
    assert hint(load_it, base).startswith(f"cluster.parallel.tensor: {advice} is the smallest degree that fits")
    load_it(base, f"cluster.parallel.tensor={advice}")
    with pytest.raises(CapacityError):
        load_it(base, f"cluster.parallel.tensor={advice // 2}")


def test_it_names_a_smaller_degree_that_needs_a_smaller_step(base: dict[str, Any], load_it: Load) -> None:
    base["model"] = "qwen2.5-72b"
    base["cluster"]["engine"] = {"max_model_len": "auto"}
    found = hint(load_it, base)
    assert found.endswith("cluster.parallel.tensor: 2 fits with a lower max_num_seqs")
    load_it(base, "cluster.parallel.tensor=2", "cluster.engine.max_num_seqs=256")


def test_degrees_beside_which_a_node_is_full_are_named(base: dict[str, Any], load_it: Load) -> None:
    base["cluster"]["parallel"] = {"tensor": 2, "context": 2, "pipeline": 4}
    with pytest.raises(CapacityError) as caught:
        load_it(base)
    assert caught.value.allowed == "at most 2 beside tensor: 2 and context: 2"
