"""The naive engine agrees with the results of whole scenarios: real models, real prices, real workloads.

The naive engine takes settings, prices and requests from the build path, and computes everything else by itself.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.oracle.levels import resolved, simulate
from tests.oracle.naive_scenarios import compare, naive
from tests.oracle.test_scenarios_policies import WORKLOADS, case
from tests.oracle.tight_scenarios import BALANCED, CLOSED, PIPELINE, SESSIONS, TIGHT

from servetwin.catalog.find import Catalog
from servetwin.policies.registry import names

FEW_BLOCKS = "num_gpu_blocks_override=700"


@pytest.mark.parametrize("name", [name for name in Catalog().names("scenarios") if name != "bench-8b-256r"])
def test_bundled_scenario(name: str) -> None:
    """With fewer blocks than the GPU has: the naive engine has an object for each, and some are evicted."""
    pools = len(resolved(name).cluster.pools)
    changes = [f"cluster.pools.{pool}.engine.{FEW_BLOCKS}" for pool in range(pools)]
    changes += [f"cluster.pools.{pool}.engine.max_model_len=8192" for pool in range(pools)]
    scenario = resolved(name, "run.requests=100", *changes)
    _, result = simulate(scenario)
    compare(result, naive(scenario))


#: Without a ramp all clients are there from the start, and request ids do not depend on who asks for them when.
AT_ONCE = {"process": "closed-loop", "concurrency": 14}
TIGHT_CASES: dict[str, dict[str, Any]] = {
    "open": TIGHT,
    "closed loop": CLOSED | {"workload": CLOSED["workload"] | {"arrivals": AT_ONCE}},
    "sessions": SESSIONS,
    "windows": TIGHT | {"model": "gpt-oss-20b"},
    "pipeline": PIPELINE,
    "balanced pipeline": BALANCED,
    "pipeline of windows": PIPELINE | {"model": "gpt-oss-20b"},
    "latent attention": TIGHT
    | {"model": "deepseek-r1", "cluster": TIGHT["cluster"] | {"hardware": "h200-sxm", "parallel": {"tensor": 8}}},
}


@pytest.mark.parametrize(
    ("name", "router"),
    [
        *((name, router) for name in ("open", "closed loop", "sessions")
          for router in ("round-robin", "least-requests", "least-tokens")),
        ("windows", "least-requests"),
        ("pipeline", "least-tokens"),
        ("balanced pipeline", "least-requests"),
        ("pipeline of windows", "round-robin"),
        ("latent attention", "least-requests"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("asynchronous", [True, False])
def test_short_of_blocks(name: str, router: str, asynchronous: bool) -> None:
    case = TIGHT_CASES[name]
    engine = case["cluster"]["engine"] | {"async_scheduling": asynchronous}
    scenario = resolved(
        case | {"router": {"policy": router}, "cluster": case["cluster"] | {"engine": engine}, "run": {"requests": 70}}
    )
    _, result = simulate(scenario)
    assert result.summary()["preemptions"] > 0
    compare(result, naive(scenario))


@pytest.mark.parametrize("scheduling", names("scheduling"))
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "sessions of clients"])
def test_scheduling(scheduling: str, workload: str) -> None:
    """Many requests of one class arrive at the same instant, and whole prompts come back."""
    scenario = resolved(case(workload, {"scheduling": scheduling}))
    _, result = simulate(scenario)
    compare(result, naive(scenario))
