"""Random scenarios with prefill and decode on different replicas, small and short of blocks."""

from __future__ import annotations

import random
from typing import Any

WORKLOADS: tuple[dict[str, Any], ...] = (
    {
        "arrivals": {"rate_per_s": 60},
        "prompts": {"distribution": "uniform", "min": 20, "max": 700},
        "outputs": {"distribution": "uniform", "min": 1, "max": 120},
        "prefixes": {"groups": 2, "tokens": 100},
    },
    {
        "arrivals": {"rate_per_s": 300},
        "prompts": {"distribution": "uniform", "min": 20, "max": 700},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
    },
    {
        "arrivals": {"process": "closed-loop", "concurrency": 14},
        "prompts": {"distribution": "uniform", "min": 20, "max": 700},
        "outputs": {"distribution": "uniform", "min": 1, "max": 120},
    },
    {
        "arrivals": {"process": "bursts", "size": 14, "interval_s": 0.1},
        "prompts": {"distribution": "uniform", "min": 20, "max": 300},
        "outputs": {"distribution": "uniform", "min": 1, "max": 90},
        "sessions": {"turns": 3, "think_time_s": 0.1},
    },
    # Whole blocks, and many at the same instant.
    {"arrivals": {"process": "bursts", "size": 6, "interval_s": 0.05}, "prompts": 96, "outputs": 40},
)

PLAIN, DRAFTING, PIPELINED, LEAVING = "plain", "drafting", "pipelined", "leaving"
KINDS = (PLAIN, DRAFTING, PIPELINED, LEAVING)


def scenario(kind: str, number: int, *, tensor: bool = False) -> dict[str, Any]:
    """A scenario, always the same for the same arguments.

    Args:
        kind: one of ``KINDS``.
        number: its number.
        tensor: whether replicas may have several GPUs that share layers; they share their links with the transfers.
    """
    rng = random.Random(f"{kind} {number}")
    pools = [_pool("prefill", rng.choice((1, 2)), rng), _pool("decode", rng.choice((1, 2, 3)), rng)]
    if tensor:
        degrees = rng.choice(((1, 1), (2, 1), (1, 2), (2, 2)))
        for pool, degree in zip(pools, degrees, strict=True):
            pool["parallel"] = {"tensor": degree}
    if kind == PIPELINED:
        for pool in pools:
            pool["parallel"] = {"pipeline": rng.choice((1, 2, 3))}
    if kind == DRAFTING:
        pools[1]["speculation"] = _speculation(rng)
        if rng.random() < 0.2:
            pools[0]["speculation"] = pools[1]["speculation"]
    if rng.random() < 0.2:
        pools.reverse()
    cluster: dict[str, Any] = {"hardware": "h100-sxm", "pools": pools, "transfer": _transfer(rng, kind)}
    if kind == LEAVING:
        replicas = range(sum(pool["replicas"] for pool in pools))
        cluster["departures"] = [
            {"replica": replica, "at_s": rng.choice((0.04, 0.1, 0.25, 0.6)), "drain": rng.random() < 0.2}
            for replica in rng.sample(replicas, rng.choice((1, 1, 2)))
        ]
    router = {"policy": rng.choice(("least-requests", "round-robin", "least-tokens"))}
    policy = {
        "policy": rng.choice(("always", "always", "always", "always", "never")),
        "order": rng.choice(("prefill-first", "decode-first")),
    }
    # What has no effect is refused.
    if policy["policy"] == "never":
        del cluster["transfer"]
    if policy["policy"] == "never" or cluster["transfer"]["mode"] != "pull":
        del policy["order"]
    return {
        "name": f"{kind}-{number}", "model": "llama-3.1-8b", "cluster": cluster, "router": router,
        "disaggregation": policy,
        "workload": rng.choice(WORKLOADS),
        "run": {"requests": rng.choice((40, 80)), "seed": rng.randrange(100)},
    }  # fmt: skip


def _pool(role: str, replicas: int, rng: random.Random) -> dict[str, Any]:
    seats = rng.choice((4, 64, 256))
    engine = {
        "max_model_len": 2000, "num_gpu_blocks_override": rng.choice((150, 150, 400, 3000)),
        "max_num_batched_tokens": max(seats, rng.choice((256, 512, 2048))), "max_num_seqs": seats,
        "async_scheduling": rng.random() < 0.6,
    }  # fmt: skip
    return {"name": role, "role": role, "replicas": replicas, "engine": engine}


def _speculation(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = rng.choice((
        {"method": "eagle3", "k": 3, "acceptance": "sharegpt"},
        {"method": "eagle3", "k": 7, "acceptance": 0.5, "controller": "ema-tiers"},
        {"method": "eagle3", "k": 3, "acceptance": 0.6, "controller": "goodput"},
        {"method": "eagle3", "k": 2, "acceptance": 0.7,
         "controller": {"policy": "by-batch-size", "ranges": [[1, 4, 2], [5, 8, 1], [9, 64, 0]]}},
        {"method": "ngram", "k": 4, "acceptance": 0.6},
    ))  # fmt: skip
    return found


def _transfer(rng: random.Random, kind: str) -> dict[str, Any]:
    transfer: dict[str, Any] = {
        "mode": rng.choice(("pull", "stream", "push")), "first_token": rng.choice(("prefill", "decode")),
        "lease_s": rng.choice((480, 480, 0.05, 0.5)),
    }  # fmt: skip
    links = ("ethernet-25", "ethernet-100", "instant")
    # The hand-offs of a pipeline count as flows on the links of the servers, of which the naive engine knows nothing.
    if kind == PIPELINED or rng.random() < 0.4:
        transfer["link"] = rng.choice(links)
    if rng.random() < 0.3:
        transfer["setup_ms"] = rng.choice((0, 5))
    if rng.random() < 0.2:
        transfer["block_us"] = 7
    if rng.random() < 0.3:
        transfer |= {"failure_rate": 0.3, "on_failure": rng.choice(("recompute", "fail"))}
        if rng.random() < 0.5:
            transfer |= {"retries": 1, "retry_after_ms": rng.choice((0, 3))}
    return transfer
