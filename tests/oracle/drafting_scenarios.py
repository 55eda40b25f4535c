"""Scenarios that draft: every method, and what goes with it."""

from __future__ import annotations

from typing import Any

SURVIVAL = {"survival": [0.7, 0.5, 0.4, 0.3]}


def scenario(
    speculation: dict[str, Any], model: str = "llama-3.1-8b", hardware: str = "h100-sxm", tensor: int = 1,
    **engine: Any,
) -> dict[str, Any]:  # fmt: skip
    """A short run of a replica that drafts."""
    return {
        "model": model,
        "cluster": {
            "hardware": hardware, "parallel": {"tensor": tensor},
            "speculation": {"acceptance": SURVIVAL, **speculation},
            "engine": {"max_model_len": 4096, "num_gpu_blocks_override": 700, **engine},
        },
        "workload": {
            "arrivals": {"rate_per_s": 25},
            "prompts": {"distribution": "lognormal", "mean": 500, "std": 700, "max": 2500},
            "outputs": {"distribution": "lognormal", "mean": 60, "std": 60, "max": 300},
            "prefixes": {"groups": 3, "tokens": 90},
        },
        "run": {"requests": 40, "seed": 3},
    }  # fmt: skip


def controlled(policy: str, k: int = 3, **fields: Any) -> dict[str, Any]:
    return scenario({"method": "eagle3", "k": k, "controller": {"policy": policy, **fields}}, async_scheduling=True)


NGRAM = {
    "method": "ngram", "k": 4,
    "acceptance": {"survival": [0.6, 0.5, 0.45, 0.4], "proposal": 0.3, "persistence": 0.5},
}  # fmt: skip

DRAFTING: dict[str, dict[str, Any]] = {
    "eagle3": scenario({"method": "eagle3", "k": 4}),
    "eagle, synchronous": scenario({"method": "eagle"}, async_scheduling=False),
    "eagle with a tree": scenario({"method": "eagle", "k": 3, "tree": {"nodes": 12, "branching": 4}}),
    "n-gram": scenario(NGRAM),
    "n-gram, ahead": scenario(NGRAM, async_scheduling=True),
    "suffix": scenario(NGRAM | {"method": "suffix"}),
    "MTP of a mixture": scenario({"method": "mtp", "k": 2}, "deepseek-r1", "h200-sxm", 8),
    "draft model": scenario({"method": "draft-model", "model": "qwen3-0.6b"}, "qwen3-8b"),
    "draft model on one of two": scenario(
        {"method": "draft-model", "model": "qwen3-0.6b", "tensor": 1}, "qwen3-8b", tensor=2
    ),
    "parallel": scenario({"method": "parallel", "model": "qwen3-0.6b", "k": 4}, "qwen3-8b"),
    "Medusa": scenario({"method": "medusa"}),
    "Medusa with a tree": scenario({"method": "medusa", "k": 3, "tree": {"nodes": 20}}),
    "windows": scenario({"method": "eagle3"}, "gpt-oss-20b"),
    "tensor parallel": scenario({"method": "eagle3"}, tensor=2),
    "little budget": scenario({"method": "eagle3"}, max_num_batched_tokens=40, max_num_seqs=24),
    "few blocks": scenario({"method": "eagle3"}, num_gpu_blocks_override=230, max_model_len=3_000),
    "between requests": scenario({"method": "eagle3", "acceptance": SURVIVAL | {"spread": 0.3}}),
    "by batch size": controlled("by-batch-size", ranges=[[1, 4, 3], [5, 8, 1], [9, 64, 0]]),
    "disable by batch size": controlled("disable-by-batch-size", requests=6),
    "draft length schedule": controlled("draft-len-schedule", schedule={4: 3, 8: 1}),
    "tiers": controlled("ema-tiers", 7, warmup=2, interval=2),
    "goodput": controlled("goodput", 5, interval=3),
    "disable when low": controlled("disable-when-low", window=200, threshold=1.6),
    "per request": controlled("per-request", 4, patience=1),
}  # fmt: skip
