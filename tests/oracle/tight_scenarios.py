"""Small scenarios that are short of blocks, so that requests are preempted."""

from __future__ import annotations

from typing import Any

#: Independent requests on two replicas.
TIGHT: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": {
        "hardware": "h100-sxm", "replicas": 2,
        "engine": {"max_model_len": 2_000, "num_gpu_blocks_override": 150, "max_num_batched_tokens": 512},
    },
    "router": {"policy": "least-requests"},
    "workload": {
        "arrivals": {"rate_per_s": 60},
        "prompts": {"distribution": "uniform", "min": 20, "max": 700},
        "outputs": {"distribution": "uniform", "min": 1, "max": 120},
        "prefixes": {"groups": 2, "tokens": 100},
    },
    "run": {"requests": 40, "seed": 1},
}  # fmt: skip
CLOSED = TIGHT | {
    "workload": {
        "arrivals": {"process": "closed-loop", "concurrency": 14, "ramp_s": 0.05},
        "prompts": {"distribution": "uniform", "min": 20, "max": 700},
        "outputs": {"distribution": "uniform", "min": 1, "max": 120},
    },
}
#: With enough prompts longer than the budget for several micro-batches.
PIPELINE = TIGHT | {
    "cluster": {
        "hardware": "h100-sxm",
        "replicas": 2,
        "parallel": {"pipeline": 3},
        "engine": {
            "max_model_len": 2_000,
            "num_gpu_blocks_override": 150,
            "max_num_batched_tokens": 128,
            "max_num_seqs": 128,
        },
    },
}
BALANCED = PIPELINE | {
    "cluster": PIPELINE["cluster"] | {"engine": PIPELINE["cluster"]["engine"] | {"pipeline_batches": "balanced"}},
}
SESSIONS = TIGHT | {
    "workload": {
        "arrivals": {"process": "bursts", "size": 14, "interval_s": 0.1},
        "prompts": {"distribution": "uniform", "min": 20, "max": 300},
        "outputs": {"distribution": "uniform", "min": 1, "max": 90},
        "sessions": {"turns": 3, "think_time_s": 0.1},
    },
}
