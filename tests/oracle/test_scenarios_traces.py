"""Recorded traces through whole clusters: every row is accounted for, whatever the stepping level.

The traces are public and lie beside the repository, in ``../shared/traces``; they are read here in lines of their own.
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.levels import check_levels, resolved, simulate
from tests.oracle.naive_scenarios import compare, naive

import servetwin

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
AZURE = TRACES / "AzureLLMInferenceTrace_conv.csv"
MOONCAKE = TRACES / "mooncake_conversation_trace.jsonl.gz"


def needs(trace: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not trace.is_file(), reason=f"{trace} is not beside the repository")


def replayed(trace: Path, *changes: str, **options: Any) -> dict[str, Any]:
    """The scenario that ``servetwin replay`` makes."""
    scenario = resolved("azure-conversation-4xh100", *changes)
    mapping = scenario.model_dump(mode="json", exclude_none=True)
    mapping["workload"] = {"trace": {"path": str(trace), **options}}
    mapping["run"] = {"seed": 0}
    return mapping


@needs(AZURE)
def test_the_azure_conversation_trace_is_accounted_for() -> None:
    with AZURE.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 19_366
    result = servetwin.run(replayed(AZURE))
    summary = result.summary()
    assert summary["requests"] == summary["completed"] == 19_366
    prompts = [int(row["ContextTokens"]) for row in rows]
    outputs = [int(row["GeneratedTokens"]) for row in rows]
    assert result.table.column("prompt_tokens").tolist() == prompts
    assert result.table.column("output_tokens").tolist() == outputs
    totals = result.segments.totals
    assert summary["preemptions"] == 0
    assert totals.emitted == sum(outputs)
    # Nothing is shared: every prompt token is computed, every output token but the last is read again.
    assert totals.prefill_tokens == sum(prompts)
    assert totals.tokens == sum(prompts) + sum(outputs) - len(rows)
    assert result.segments.gaps().count == sum(outputs) - len(rows)
    assert summary["trace_block_hit_rate_infinite"] is None
    assert summary["gpus"] == 4
    # An hour of traffic.
    assert 3_502 < summary["simulated_s"] < 3_600


@needs(MOONCAKE)
def test_the_mooncake_conversation_trace_is_accounted_for() -> None:
    with gzip.open(MOONCAKE, "rt") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == 12_031
    seen: set[int] = set()
    blocks = hits = 0
    for row in rows:
        prefix = True
        for block in row["hash_ids"]:
            prefix = prefix and block in seen
            hits += prefix
        blocks += len(row["hash_ids"])
        seen.update(row["hash_ids"])
    result = servetwin.run(replayed(MOONCAKE))
    summary = result.summary()
    outcomes = ("completed", "rejected", "failed", "cancelled", "unfinished")
    assert sum(summary[outcome] for outcome in outcomes) == summary["requests"] == 12_031
    assert summary["trace_block_hit_rate_infinite"] == pytest.approx(0.366, abs=0.002)
    assert summary["trace_block_hit_rate_infinite"] == pytest.approx(hits / blocks, rel=1e-12)
    # A real cache, of four replicas and with evictions, finds less than an endless one.
    assert 0 < summary["prefix_hit_rate"] < summary["trace_block_hit_rate_infinite"]
    done = result.table.with_outcome("completed")
    totals = result.segments.totals
    outputs = int(result.table.column("output_tokens")[done].sum())
    assert totals.emitted == outputs
    assert result.segments.gaps().count == outputs - int(done.sum())
    computed = int(result.table.column("prompt_tokens")[done].sum() - result.table.column("hit_tokens")[done].sum())
    assert computed <= totals.prefill_tokens <= computed + summary["recomputed_tokens"]


@needs(AZURE)
def test_levels_agree_on_azure_rows(tmp_path: Path) -> None:
    scenario = resolved(replayed(AZURE, window_s="600:618", rate_scale=4.0))
    assert check_levels(scenario, tmp_path)["completed"] > 60


@needs(MOONCAKE)
def test_levels_agree_on_mooncake_rows(tmp_path: Path) -> None:
    """Prompts of up to 100,000 tokens that share blocks, on GPUs with room for a few of them."""
    changes = ("cluster.pools.0.replicas=1", "cluster.pools.0.engine.num_gpu_blocks_override=9000")
    scenario = resolved(replayed(MOONCAKE, *changes, limit=120))
    summary = check_levels(scenario, tmp_path)
    assert summary["completed"] == 120
    assert summary["prefix_hit_rate"] > 0.03


@needs(MOONCAKE)
def test_the_naive_engine_agrees_on_mooncake_rows() -> None:
    changes = ("cluster.pools.0.replicas=2", "cluster.pools.0.engine.num_gpu_blocks_override=7000")
    scenario = resolved(replayed(MOONCAKE, *changes, limit=24))
    _, result = simulate(scenario)
    compare(result, naive(scenario))
