"""Random small scenarios in which some policy decides which requests are split."""

from __future__ import annotations

import random
from typing import Any

POLICIES = ("uncached-length", "length-and-queue", "bounded-length", "mixed-overflow", "slo", "always", "never")
ANY_ORDER = ("mixed-overflow", "slo", "always")


def scenario(number: int, name: str | None = None, *, leaving: bool = False) -> dict[str, Any]:
    """The scenario of a number, always the same.

    Args:
        number: its number.
        name: its policy; None = any.
        leaving: whether replicas leave on the way.
    """
    rng = random.Random(number)
    policy = _policy(rng, name or rng.choice(POLICIES))
    mode = rng.choice(["pull", "pull", "stream", "push"])
    if policy["policy"] in ANY_ORDER and mode == "pull":
        policy["order"] = rng.choice(["prefill-first", "decode-first"])
    pools = [
        {"name": "p", "role": "prefill", "replicas": rng.choice([1, 2, 3]), "engine": _engine(rng)},
        {"name": "d", "role": "decode", "replicas": rng.choice([1, 2, 3]), "engine": _engine(rng)},
    ]
    if policy["policy"] == "mixed-overflow":
        pools.insert(rng.randrange(3), {"name": "m", "replicas": rng.choice([1, 2]), "engine": _engine(rng)})
        if rng.random() < 0.5:
            pools[rng.randrange(3)]["router"] = {"policy": "round-robin"}
    cluster: dict[str, Any] = {"hardware": "h100-sxm", "pools": pools, "slowdown": rng.choice([1, 1, 4])}
    if policy["policy"] != "never":
        cluster["transfer"] = _transfer(rng, mode)
    found = {
        "name": "deciders",
        "model": "llama-3.1-8b",
        "cluster": cluster,
        "router": {"policy": rng.choice(["least-requests", "round-robin", "least-tokens"])},
        "disaggregation": policy,
        "workload": _workload(rng, clients=policy["policy"] != "slo"),
        "run": {"requests": rng.choice([40, 70]), "seed": rng.randrange(100)},
    }
    if leaving:
        replicas = range(sum(pool["replicas"] for pool in pools))
        cluster["departures"] = [
            {"replica": replica, "at_s": rng.choice([0.04, 0.1, 0.25, 0.6]), "drain": rng.random() < 0.3}
            for replica in rng.sample(replicas, min(len(replicas), rng.choice([1, 2, 3])))
        ]
    return found


def _policy(rng: random.Random, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if name == "uncached-length":
        fields["tokens"] = rng.choice([1, 64, 200, 500])
    elif name == "length-and-queue":
        fields |= {"tokens": rng.choice([0, 100, 300]), "queue": rng.choice([1, 2, 4])}
        if fields["queue"] > 1 and rng.random() < 0.6:
            fields["queue_back"] = rng.randrange(1, fields["queue"])
    elif name == "bounded-length":
        fields |= {"tokens": rng.choice([100, 400, 2048]), "share": rng.choice([0.3, 0.7, 1.0])}
    elif name == "mixed-overflow":
        fields |= {"prefill_tokens": rng.choice([300, 1000, 8192]), "decode_memory": rng.choice([0.4, 0.7, 1.0])}
    elif name == "slo":
        limits = {"ttft_ms": rng.choice([30, 60.5, 150]), "tpot_ms": rng.choice([6.5, 7, 8, 30])}
        fields |= {field: limits[field] for field in rng.choice([("ttft_ms",), ("tpot_ms",), ("ttft_ms", "tpot_ms")])}
    return {"policy": name, **fields}


def _engine(rng: random.Random) -> dict[str, Any]:
    return {
        "max_model_len": 2_000,
        "num_gpu_blocks_override": rng.choice([150, 150, 400, 3_000]),
        "max_num_batched_tokens": rng.choice([256, 512, 2_048]),
        "async_scheduling": rng.random() < 0.6,
        "max_num_seqs": rng.choice([4, 64, 256]),
        "prefix_caching": rng.random() < 0.9,
    }


def _transfer(rng: random.Random, mode: str) -> dict[str, Any]:
    options = {
        "mode": mode, "first_token": rng.choice(["prefill", "decode"]), "lease_s": rng.choice([480.0, 480.0, 0.05])
    }  # fmt: skip
    if rng.random() < 0.4:
        options["link"] = rng.choice(["instant", "ethernet-25", "ethernet-100"])
    if rng.random() < 0.3:
        options |= {"setup_ms": rng.choice([0.0, 5.0]), "block_us": rng.choice([0.0, 20.0])}
    if rng.random() < 0.2:
        options |= {"failure_rate": 0.3, "retries": rng.choice([0, 1]), "on_failure": rng.choice(["recompute", "fail"])}
    return options


def _workload(rng: random.Random, clients: bool) -> dict[str, Any]:
    """A workload; clients that are refused take the ids of those that have not arrived, which the oracle cannot do."""
    prompts = {"distribution": "uniform", "min": 20, "max": 700}
    outputs = {"distribution": "uniform", "min": 1, "max": 120}
    rate = rng.choice([20, 60, 200])
    bursts = {"process": "bursts", "size": 8, "interval_s": 0.1}
    short = {"distribution": "uniform", "min": 20, "max": 250}
    prefixes = {"groups": 3, "tokens": {"distribution": "uniform", "min": 100, "max": 600}}
    found: list[dict[str, Any]] = [
        {"arrivals": {"rate_per_s": rate}, "prompts": short, "outputs": outputs, "prefixes": prefixes},
        {"arrivals": {"rate_per_s": rate}, "prompts": prompts, "outputs": outputs},
        {
            "arrivals": bursts, "prompts": short, "outputs": outputs,
            "sessions": {"turns": 4, "think_time_s": 0.1}, "prefixes": {"groups": 2, "tokens": 130},
        },
    ]  # fmt: skip
    if clients:
        closed = {"process": "closed-loop", "concurrency": 14}
        found.append({"arrivals": closed, "prompts": short, "outputs": outputs, "prefixes": prefixes})
    return rng.choice(found)
