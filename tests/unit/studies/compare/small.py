"""Comparisons that take no time, for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.compare.document import build_document
from servetwin.studies.compare.running import Finished, run_variants
from servetwin.studies.compare.same_requests import check_same_workload
from servetwin.studies.compare.variants import Question, Variant, plan_variants
from servetwin.studies.run_options import RunOptions

SCENARIO = """
model: llama-3.1-8b
cluster: {hardware: h100-sxm, replicas: 2, parallel: {tensor: 2}}
router: {policy: least-requests}
workload:
  arrivals: {rate_per_s: 30}
  prompts: {distribution: lognormal, mean: 300, std: 200, min: 10, max: 2000}
  outputs: {distribution: lognormal, mean: 40, std: 30, min: 2, max: 200}
  prefixes: {groups: 4, tokens: 800}
slo: {ttft_ms: {p99: 200}}
run: {requests: 60}
"""

SESSIONS = """
model: llama-3.1-8b
cluster: {hardware: h100-sxm}
workload: {arrivals: {rate_per_s: 10}, prompts: 200, outputs: 30, sessions: {turns: 4, think_time_s: 0.1}}
run: {requests: 60}
"""

CLIENTS = """
model: llama-3.1-8b
cluster: {hardware: h100-sxm}
workload:
  arrivals: {process: closed-loop, concurrency: 8}
  prompts: {distribution: uniform, min: 100, max: 300}
  outputs: {distribution: uniform, min: 10, max: 50}
run: {requests: 60}
"""


def write(folder: Path, text: str = SCENARIO, name: str = "small") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def plan(*scenarios: str, **more: Any) -> list[Variant]:
    variants = plan_variants(Question(scenarios, **more), Catalog())
    check_same_workload(variants)
    return variants


def run(variants: Sequence[Variant], seeds: int = 1, jobs: int = 1) -> Finished:
    return run_variants(variants, seeds, RunOptions(jobs=jobs))


def answer(*scenarios: str, seeds: int = 1, **more: Any) -> dict[str, Any]:
    variants = plan(*scenarios, **more)
    return build_document(variants, run(variants, seeds))
