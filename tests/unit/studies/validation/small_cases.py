"""A file of made-up cases: every kind, small enough to run in no time. No figure was measured."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

LLAMA, H100 = "meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB"
LATENCIES = {
    "ttft_ms": {"mean": 20.0, "p99": 40.0}, "tpot_ms": {"mean": 7.0}, "e2e_ms": {"mean": 130.0, "p99": 200.0},
}  # fmt: skip


def case(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    """A case with the fields that every case has."""
    common = {"id": name, "kind": kind, "model": LLAMA, "hardware": H100, "engine": "vLLM 0.15.1", "precision": "bf16"}
    return {**common, "tp": 1, "peers": {}, "flags": [], "usable_for_scoring": True, "measured": {}, **fields}


def inference_perf(name: str = "perf", **fields: Any) -> dict[str, Any]:
    """A staged run of inference-perf of 30 requests."""
    given = {
        "scored_set": "vllm-0.15.1",
        "engine_config": {
            "max_model_len": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 128, "block_size": 16,
            "prefix_caching": True, "chunked_prefill": True, "gpu_memory_utilization": 0.9, "gpu_kv_blocks": 1000,
        },
        "workload": {
            "stages": [{"rate_rps": 5, "duration_s": 2}, {"rate_rps": 10, "duration_s": 2}],
            "system_prompt_tokens": 100, "question_tokens": 100, "output_tokens_configured": 16,
            "prefix_groups_effective": 10, "prompts_per_group_effective": 10,
        },
        "measured": {"summary": LATENCIES, "stage_0": LATENCIES, "stage_1": LATENCIES},
        "peers": {"other-simulator": {"summary": {"tpot_ms.mean": 14.0}, "stage_0": {"tpot_ms.mean": 21.0}}},
    }  # fmt: skip
    return case(name, "serving", **{**given, **fields})


def sweep(name: str = "sweep", **fields: Any) -> dict[str, Any]:
    """A concurrency sweep of two points."""
    given = {
        "parallel": {"tp_size": 1, "pp_size": 1, "attention_dp_size": 1, "moe_tp_size": 1, "moe_ep_size": 1},
        "workload": {"isl": 64, "osl": 16},
        "measured": {
            "conc_1": {"ttft_ms": {"mean_or_median": 15.0}, "tpot_ms": {"mean_or_median": 6.0}, "n_runs": 1},
            "conc_2": {"ttft_ms": {"mean_or_median": 15.0}, "tpot_ms": {"mean_or_median": 6.0}, "n_runs": 1},
        },
    }
    return case(name, "concurrency_sweep", **{**given, **fields})


def table(name: str = "table", **fields: Any) -> dict[str, Any]:
    """A row of a throughput table."""
    measured = {"isl64_osl16": {"output_tok_s_per_gpu": 20_000}}
    return case(name, "throughput_table", **{"tp": None, "parallel": "TP1", "measured": measured, **fields})


def drafts(name: str = "drafts", **fields: Any) -> dict[str, Any]:
    """Speed-ups of two batch sizes."""
    measured = {"EAGLE": {"batch_1": {"speedup_x": 1.7}, "batch_4": {"speedup_x": 1.6}}}
    return case(name, "spec_decode", **{"workload": {"dataset": "GSM8K"}, "measured": measured, **fields})


def everything() -> list[dict[str, Any]]:
    """A case of every kind, and what is excluded, unknown, or not yet possible."""
    return [
        inference_perf(),
        sweep(),
        sweep("wide", parallel={"tp_size": 1, "pp_size": 1, "attention_dp_size": 4, "moe_ep_size": 4}),
        table(),
        table("spread", parallel="DEP4"),
        case("profile", "iteration_profile", measured={"in64_bs2_out8": {"prefill_ms": 20, "decode_step_ms": 7}}),
        case(
            "aggregated", "pd", aggregated_replicas=2, engine_config={"enforce_eager": True},
            workload={
                "arrival": "gamma, burstiness 4.0", "stages": [{"rate_rps": 5, "n_requests": 8}],
                "prompt_tokens": 64, "output_tokens": 8,
            },
            measured={"run_1": LATENCIES, "run_2": LATENCIES},
        ),
        case("separate", "pd", measured={"run_1": LATENCIES}, aggregated_replicas=None),
        case(
            "separate-sweep", "pd_sweep", workload={"isl": 64, "osl": 16},
            parallel={"prefill_num_workers": 1, "prefill_tp_size": 1, "decode_num_workers": 2, "decode_tp_size": 1},
            measured={"conc_2": {"ttft_ms": {"mean_or_median": 15.0}, "tpot_ms": {"mean_or_median": 6.0}}},
        ),
        case("tiers", "kv_cache", engine="vLLM + LMCache", measured={"cold": {"ttft_ms": {"mean": 5.0}}}),
        drafts(),
        case("drafts-cost", "spec_decode_cost", measured={"graphed_step_ms_ctx0": {"R1": 5.9}}),
        case("unheard-of", "quantum", measured={"all": LATENCIES}),
        inference_perf("spoilt", usable_for_scoring=False, flags=["overloaded"]),
    ]  # fmt: skip


def write(folder: Path, cases: list[dict[str, Any]]) -> Path:
    """The cases as a file."""
    file = folder / "cases.json"
    file.write_text(json.dumps({"meta": {"n_cases": len(cases)}, "cases": cases}), encoding="utf-8")
    return file


def write_gz(folder: Path, name: str, text: str) -> None:
    """A compressed recording."""
    (folder / name).write_bytes(gzip.compress(text.encode()))
