"""What a case of each kind becomes: scenarios worked out by hand, and the reasons of those that cannot be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.validation.small_cases import case, drafts, inference_perf, sweep, table, write, write_gz

from servetwin.catalog import Catalog
from servetwin.studies.validation import Case, NotYet, RunOptions, Trial, read_case_file, trials_of
from servetwin.studies.validation.one_run import resolved
from servetwin.studies.validation.trial import metrics_of

CATALOG = Catalog()


def only(folder: Path, fields: dict[str, Any]) -> Case:
    return read_case_file(write(folder, [fields])).cases[0]


def trials(folder: Path, fields: dict[str, Any]) -> list[Trial]:
    return trials_of(only(folder, fields), CATALOG)


def test_metrics_have_the_names_that_are_scored() -> None:
    assert metrics_of({"transfer_ms": 0.5}) == metrics_of({"transfer_ms": {"mean": 0.5}}) == {"transfer_ms.mean": 0.5}
    assert metrics_of({
        "ttft_ms": {"mean": 1, "p99": 2.5, "stdev": 9}, "tpot_ms": {"mean_or_median": 3}, "e2e_ms": 7,
        "output_throughput_tok_s": 8, "n_requests": 5, "tpot_published_retokenised_mean_ms": 4, "itl_ms": {"p50": 0},
    }) == {"ttft_ms.mean": 1.0, "ttft_ms.p99": 2.5, "tpot_ms.mean": 3.0, "output_throughput": 8.0}  # fmt: skip


def test_inference_perf_without_a_recording(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, inference_perf())
    work = trial.scenario["workload"]
    assert work["arrivals"] == {
        "process": "staged", "exact_counts": True,
        "stages": [{"rate_per_s": 5.0, "duration_s": 2.0}, {"rate_per_s": 10.0, "duration_s": 2.0}],
    }  # fmt: skip
    assert work["prefixes"] == {"groups": 10, "tokens": 100, "prompts_per_group": 10, "order": "cycled"}
    # 200 tokens asked for become 209.4, of which 100 are the system prompt.
    assert work["prompts"] == {"distribution": "normal", "mean": pytest.approx(109.4), "std": 7.0}
    assert work["sampling"] == "top-p"
    assert trial.scenario["cluster"]["engine"]["num_gpu_blocks_override"] == 1000
    assert "gpu_memory_utilization" not in trial.scenario["cluster"]["engine"]
    assert [(p.stage, p.first, p.last) for p in trial.points] == [
        ("summary", 0, None), ("stage_0", 0, 10), ("stage_1", 10, 30),
    ]  # fmt: skip


def test_inference_perf_with_a_recording(tmp_path: Path) -> None:
    write_gz(
        tmp_path,
        "r.csv.gz",
        "arrival_s,prompt_tokens,prompt_id_guess,ttft_ms,e2e_ms\n2.5,130,12,1,150\n2.0,120,2,1,140\n4.0,100,2,1,160\n",
    )
    work = {**inference_perf()["workload"], "per_request_trace": "r.csv.gz"}
    (trial,) = trials(tmp_path, inference_perf(workload=work))
    assert [(row.arrival_s, row.prompt_tokens, row.output_tokens) for row in trial.rows] == [
        (0.0, 120, 16), (0.5, 130, 16), (2.0, 100, 16),
    ]  # fmt: skip
    assert trial.measured_e2e_ms == (140, 150, 160)
    first, second, third = (row.blocks for row in trial.rows)
    # Prompts 2 and 12 are of one group: the 6 full blocks of its 100 tokens are the same, and nothing else.
    assert first[:6] == second[:6] and not set(first[6:]) & set(second[6:])
    # The same prompt again.
    assert third == first[: len(third)]
    assert len(second) == 9


def test_a_missing_recording_is_replaced_and_said(tmp_path: Path) -> None:
    work = {**inference_perf()["workload"], "per_request_trace": "absent.csv.gz"}
    (trial,) = trials(tmp_path, inference_perf(workload=work))
    assert not trial.rows
    assert any("recording is missing" in flag for flag in trial.flags)


def test_a_request_bench_counts_from_the_engine(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(
        "request_id,actual_arrival_s,input_tokens,output_tokens,latency_ms\nb,0.5,40,7,90\na,0.0,30,5,80\n"
    )
    fields = case(
        "bench", "serving", engine="vLLM 0.19.0", engine_config={"gpu_kv_tokens": 3200, "max_num_seqs": 8},
        workload={"per_request_csv": "b.csv"}, measured={"summary": {"e2e_ms": {"mean": 85.0}}, "other": {"e2e_ms": 3}},
    )  # fmt: skip
    (trial,) = trials(tmp_path, fields)
    assert [tuple(row)[:3] for row in trial.rows] == [(0.0, 30, 5), (0.5, 40, 7)]
    assert trial.measured_e2e_ms == (80, 90)
    assert trial.points[0].since == "engine"
    assert trial.scenario["engine"] == {"name": "vllm", "version": "0.19.0"}
    assert trial.scenario["cluster"]["engine"] == {"max_num_seqs": 8, "num_gpu_blocks_override": 200}


def test_a_request_bench_without_its_recording(tmp_path: Path) -> None:
    lengths = {"p50": 100, "p90": 200, "p99": 400}
    work = {
        "per_request_csv": "absent.csv", "n_requests": 12, "arrival": "open loop (mean 10.3 req/s)",
        "prompt_tokens": lengths, "output_tokens": lengths,
    }  # fmt: skip
    (trial,) = trials(
        tmp_path, case("bench", "serving", workload=work, measured={"summary": {"e2e_ms": {"mean": 1.0}}})
    )
    assert trial.scenario["workload"]["arrivals"] == {"rate_per_s": 10.3}
    assert trial.scenario["workload"]["prompts"]["points"][1:] == [[50, 100], [90, 200], [99, 400], [100, 400]]
    assert trial.scenario["run"] == {"requests": 12}
    assert any("recording is missing" in flag for flag in trial.flags)


def test_guidellm(tmp_path: Path) -> None:
    work = {
        "prefix_tokens": 1024, "prompt_tokens": {"mean": 2048, "stdev": 500, "min": 100, "max": 4096},
        "output_tokens": {"mean": 32, "stdev": 16, "min": 1, "max": 64},
    }  # fmt: skip
    stage = {"n_success": 39, "itl_ms": {"mean": 26.0}}
    measured = {"synchronous": stage, "throughput": stage, "constant_1.952rps": stage}
    found = trials(
        tmp_path, case("g", "serving", workload=work, measured=measured, engine_config={"max_model_len": 4096})
    )
    arrivals = [trial.scenario["workload"]["arrivals"] for trial in found]
    assert arrivals == [
        {"process": "closed-loop", "concurrency": 1}, {"process": "all-at-once"},
        {"process": "constant", "rate_per_s": 1.952},
    ]  # fmt: skip
    # What guidellm calls ITL is a request's time per token.
    assert dict(found[0].points[0].measured) == {"tpot_ms.mean": 26.0}
    # 4096 less the prefix and the longest answer.
    assert found[0].scenario["workload"]["prompts"]["max"] == 3008


def test_lmbench(tmp_path: Path) -> None:
    write_gz(
        tmp_path,
        "l.csv.gz",
        "scenario,qps,launch_s,user_id,question_id,prompt_tokens,output_tokens,ttft_ms,generation_time_ms\n"
        "sharegpt,0.5,0,,,100,10,30,400\nshort_input,0.5,7,3,1,40,20,50,600\nshort_input,0.5,9,3,2,80,20,55,610\n"
        "short_input,2,9,4,2,80,20,55,610\n",
    )
    point = {"ttft_ms": {"mean": 50.0}, "n_requests": 2, "prompt_tokens_mean": 60.0, "output_tokens_mean": 20.0}
    work = {"generator": "LMCache/LMBenchmark", "per_request_trace": "l.csv.gz"}
    fields = case(
        "lm_short_input", "serving", engine="vLLM 2 replicas", replicas=2, tp="tp unknown (likely 4 per replica)",
        workload=work, measured={"qps_0.5": point},
    )  # fmt: skip
    (trial,) = trials(tmp_path, fields)
    assert [row.arrival_s for row in trial.rows] == [0.0, 2.0]
    # The second prompt of a user begins with the first.
    assert trial.rows[1].blocks[:3] == trial.rows[0].blocks == (30_000, 30_001, 30_002)
    assert trial.measured_e2e_ms == (650, 665)
    assert trial.scenario["cluster"]["replicas"] == 2
    assert trial.scenario["cluster"]["parallel"] == {"tensor": 2}
    assert trial.scenario["cluster"]["engine"] == {"max_model_len": 20_000, "gpu_memory_utilization": 0.95}
    assert any("as in the other runs" in flag for flag in trial.flags)
    assert any("not recorded: 20,000 and 0.95" in flag for flag in trial.flags)
    fields["engine_config"] = {"note": "max_model_len 8000, gpu_mem_util 0.8"}
    (recorded,) = trials(tmp_path, fields)
    assert recorded.scenario["cluster"]["engine"] == {"max_model_len": 8_000, "gpu_memory_utilization": 0.8}
    assert not any("0.95" in flag for flag in recorded.flags)
    work["per_request_trace"] = "absent.csv.gz"
    (even,) = trials(tmp_path, fields)
    assert even.scenario["workload"]["arrivals"] == {"process": "constant", "rate_per_s": 0.5}


def test_distserve_tells_runs_of_one_rate_apart(tmp_path: Path) -> None:
    rows = ["config,rate_rps,issue_s,prompt_tokens,output_tokens,ttft_ms,tpot_ms,latency_ms"]
    rows += [f"vllm,2.0,{at},10,5,1,1,{at + 7}" for at in (0.0, 0.5)]
    rows += [f"vllm,2.0,{at},20,5,1,1,{at + 9}" for at in (0.0, 0.4, 0.8)]
    write_gz(tmp_path, "d.csv.gz", "\n".join(rows) + "\n")
    fields = case(
        "x-vllm", "serving", engine="vLLM baseline (distserve fork)", workload={"per_request_trace": "d.csv.gz"},
        measured={"rate_2_n3": {"e2e_ms": {"mean": 9.0}}, "rate_2_n2": {"e2e_ms": {"mean": 9.0}}},
    )  # fmt: skip
    three, two = trials(tmp_path, fields)
    assert [row.prompt_tokens for row in three.rows] == [20, 20, 20]
    assert [row.prompt_tokens for row in two.rows] == [10, 10]
    assert two.scenario["engine"]["version"] == "0.8"


def test_a_sweep_is_a_closed_loop(tmp_path: Path) -> None:
    one, two = trials(tmp_path, sweep())
    assert two.scenario["workload"]["arrivals"] == {"process": "closed-loop", "concurrency": 2}
    assert two.scenario["workload"]["prompts"] == {"distribution": "uniform", "min": 51, "max": 64}
    assert two.scenario["run"] == {"requests": 20}
    assert one.scenario["cluster"]["engine"]["max_num_seqs"] == 1
    assert dict(one.points[0].measured) == {"ttft_ms.mean": 15.0, "tpot_ms.mean": 6.0}


@pytest.mark.parametrize(
    ("fields", "cache"),
    [
        ({"engine": "vllm 0.15.1", "model": "openai/gpt-oss-120b", "hardware": "B200-SXM"}, "fp8"),
        ({"engine": "vllm 0.15.1", "model": "openai/gpt-oss-120b", "hardware": "H200-SXM-141GB"}, None),
        ({"engine": "trtllm 1.2.0rc2", "model": "openai/gpt-oss-120b", "hardware": "B200-SXM"}, "fp8"),
        ({"engine": "trtllm 1.2.0rc2", "model": "openai/gpt-oss-120b", "hardware": "H200-SXM-141GB"}, None),
        ({"engine": "trtllm 1.0.0rc3", "model": "Qwen/Qwen3-32B", "precision": "fp8"}, "fp8"),
        ({"engine": "vllm", "model": "meta-llama/Llama-3.1-70B", "precision": "fp8"}, "fp8"),
        ({"engine": "vllm 0.15.1", "model": "moonshotai/Kimi-K2.5", "hardware": "B200-SXM"}, None),
        ({"engine": "sglang 0.5.9", "model": "deepseek-ai/DeepSeek-R1", "hardware": "B200-SXM"}, "fp8"),
        ({"engine": "sglang 0.5.9", "model": "Qwen/Qwen3-32B", "hardware": "B200-SXM"}, None),
        ({"engine": "sglang 0.5.9", "model": "deepseek-ai/DeepSeek-R1", "hardware": "H200-SXM-141GB"}, None),
        ({"engine": "trtllm 1.0.0rc3", "model": "Qwen/Qwen3-32B", "source": {"repo": "mine/runs"}}, None),
    ],
)
def test_the_cache_of_a_sweep_is_that_of_its_launch_command(
    tmp_path: Path, fields: dict[str, Any], cache: str | None
) -> None:
    given = {"source": {"repo": "ai-dynamo/aiconfigurator"}, **fields}
    trial, *_ = trials(tmp_path, sweep(**given))
    assert trial.scenario["cluster"].get("precision", {}).get("kv_cache") == cache
    assert any("launch commands" in flag for flag in trial.flags) == (cache is not None)


@pytest.mark.parametrize(
    ("engine", "hardware", "weights"),
    [
        ("vllm 0.15.1", "B200-SXM", "mxfp4_mxfp8"),
        ("trtllm 1.2.0rc2", "B200-SXM", "mxfp4_mxfp8"),
        ("sglang 0.5.9", "B200-SXM", None),
        ("vllm 0.18.0", "H200-SXM-141GB", None),
    ],
)
def test_the_activations_of_a_sweep_are_those_of_its_launch_command(
    tmp_path: Path, engine: str, hardware: str, weights: str | None
) -> None:
    given = {"source": {"repo": "SemiAnalysisAI/InferenceX"}, "model": "openai/gpt-oss-120b", "precision": "fp4"}
    trial, *_ = trials(tmp_path, sweep(engine=engine, hardware=hardware, **given))
    assert trial.scenario["cluster"].get("precision", {}).get("weights") == weights
    mine, *_ = trials(tmp_path, sweep(engine="vllm 0.15.1", hardware=hardware, **{**given, "source": {}}))
    assert "precision" not in mine.scenario["cluster"], "of nobody else's"


def test_a_table_of_tensorrt_llm_has_its_activations(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, table(engine="TensorRT-LLM", model="GPT-OSS-120B", hardware="GB200", precision="FP4"))
    assert trial.scenario["cluster"]["precision"]["weights"] == "mxfp4_mxfp8"


def test_points_may_name_their_own_lengths(tmp_path: Path) -> None:
    measured = {"isl128_osl32_conc4": {"tpot_ms": {"p50": 6.0}, "n_requests": 12}}
    (trial,) = trials(tmp_path, sweep(measured=measured, parallel="tp2", workload={}))
    assert trial.scenario["workload"]["outputs"]["max"] == 32
    assert trial.scenario["run"] == {"requests": 12}
    assert trial.scenario["cluster"]["parallel"] == {"tensor": 2}


@pytest.mark.parametrize(
    ("parallel", "degrees"),
    [
        ({"tp_size": 4, "attention_dp_size": 1, "moe_tp_size": 4, "moe_ep_size": 1}, {"tensor": 4}),
        ({"tp_size": 4, "attention_dp_size": 4, "moe_ep_size": 16}, {"tensor": 4, "data": 4, "expert": 16}),
        ("tep8", {"tensor": 8, "expert": 8}),
        ("dep8", {"data": 8, "expert": 8}),
        ({"tp_size": 1, "pp_size": 2}, {"pipeline": 2}),
    ],
)
def test_degrees_of_a_sweep(tmp_path: Path, parallel: Any, degrees: dict[str, int]) -> None:
    trial, *_ = trials(tmp_path, sweep(parallel=parallel))
    assert trial.scenario["cluster"]["parallel"] == degrees


def test_experts_split_both_ways_cannot_be_said(tmp_path: Path) -> None:
    with pytest.raises(NotYet, match="experts split 2 ways over 4 GPUs"):
        trials(tmp_path, sweep(parallel={"tp_size": 4, "moe_tp_size": 2, "moe_ep_size": 2}))


@pytest.mark.parametrize(
    ("parallel", "degrees", "gpus"),
    [
        ("TP2", {"tensor": 2}, 2), ("DEP4", {"data": 4, "expert": 4}, 4), ("TP1PP2", {"pipeline": 2}, 2),
        ("DEP2PP2", {"data": 2, "expert": 2, "pipeline": 2}, 4),
    ],
)  # fmt: skip
def test_degrees_of_a_throughput_table(tmp_path: Path, parallel: str, degrees: dict[str, int], gpus: int) -> None:
    (trial,) = trials(tmp_path, table(parallel=parallel))
    assert trial.scenario["cluster"]["parallel"] == degrees
    assert trial.points[0].gpus == gpus
    assert trial.scenario["workload"]["arrivals"] == {"process": "all-at-once"}


def test_seats_are_what_the_cache_holds_at_full_length(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, table(measured={"isl8000_osl8000": {"output_tok_s_per_gpu": 9}}))
    scenario = resolved(trial, RunOptions(), CATALOG, tmp_path)
    engine = scenario.cluster.pools[0].engine
    # 8.03e9 weights of 2 bytes leave less than 0.95 × 85 GB − 16 GB = 65 GB; 16,000 tokens of 64 KiB are 1.05 GB.
    assert engine.max_num_seqs is not None
    assert 50 <= engine.max_num_seqs <= 62
    assert engine.max_cudagraph_capture_size == engine.max_num_seqs


def test_an_iteration_profile_is_one_batch(tmp_path: Path) -> None:
    measured = {"in512_bs8_out128": {"prefill_ms": 900, "decode_step_ms": 40, "e2e_ms": 6000}}
    (trial,) = trials(tmp_path, case("p", "iteration_profile", tp=2, measured=measured))
    assert trial.scenario["cluster"]["engine"]["max_num_batched_tokens"] == 4096
    assert trial.scenario["cluster"]["engine"]["max_num_seqs"] == 8
    assert trial.points[0].whole_batch
    assert dict(trial.points[0].measured) == {"ttft_ms.mean": 900.0, "tpot_ms.mean": 40.0, "e2e_ms.mean": 6000.0}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (case("a", "pd", aggregated_replicas=None, measured={"r": {}}), "not described in a way that is known"),
        (case("a", "pd_sweep", parallel={"prefill_tp_size": 1, "decode_tp_size": 8}), "how many workers"),
        (case("a", "kv_cache", engine="vLLM + LMCache"), "outside the GPU"),
        (case("a", "kv_cache", engine="vLLM + llm-d P2P (NIXL)"), "from another replica"),
        (
            case("a", "kv_cache", engine="llm-d 2 replicas", replicas=2, workload={"generator": "LMCache/LMBenchmark"}),
            "router",
        ),
        (drafts(parallel={"tp_size": 8}), "experts shared out"),
        (drafts(workload={"dataset": "Poems"}), "lengths of prompts and answers of poems"),
        (drafts(measured={"Lookahead": {"batch_1": {"speedup_x": 2}}}), "series of 'Lookahead'"),
        (drafts(measured={"draft-model": {"batch_1": {"speedup_x": 2}}}), "draft model of llama-3.1-8b"),
        (drafts(measured={"EAGLE": {"batch_2": {"speedup_x": 2}}}), "no batch of one"),
        (case("a", "spec_decode_cost"), "nothing was measured"),
        (case("a", "quantum"), "'quantum' are not known"),
        (sweep(model="nobody/nothing-1b"), "no model 'nobody/nothing-1b'"),
        (sweep(hardware="abacus"), "no GPU 'abacus'"),
        (case("a", "serving", workload={"shape": "odd"}), "not described"),
        (sweep(measured={"conc_1": {"n_runs": 3}}), "nothing was measured"),
    ],
)
def test_reasons_of_what_cannot_be_run(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotYet, match=reason):
        trials(tmp_path, fields)
