"""What cases about separate prefill and decode become: scenarios worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.validation.small_cases import case, write, write_gz

from servetwin.catalog import Catalog
from servetwin.errors import ScenarioError
from servetwin.studies.validation import NotYet, RunOptions, Trial, read_case_file, trials_of
from servetwin.studies.validation.kinds.llm_d import NOT_ISOLATED
from servetwin.studies.validation.one_run import run_trial
from servetwin.studies.validation.step_cost import StepCostTrial

CATALOG = Catalog()
LOAD = {
    "arrival": "gamma, rate 1.8 rps, burstiness 25.0", "stages": [{"rate_rps": 1.8, "n_requests": 200}],
    "prompt_tokens": 8000, "output_tokens": 200,
}  # fmt: skip
POINT = {"ttft_ms": {"mean": 250.0}, "itl_ms": {"p99": 100.0}}
SERIES = {"path": "collected/data/openshift/exp-7/H100/x"}
QWEN, A10 = "Qwen/Qwen3-8B", "2 servers of A10"


def trials(folder: Path, fields: dict[str, Any]) -> list[Trial]:
    return trials_of(read_case_file(write(folder, [fields])).cases[0], CATALOG)


def compared(**fields: Any) -> dict[str, Any]:
    """A case of llm-d's comparison."""
    given = {"workload": LOAD, "measured": {"run_1": POINT, "run_2": POINT}, "engine_config": {"enforce_eager": True}}
    return case("compared", "pd", **{**given, **fields})


def test_aggregated_replicas(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, compared(aggregated_replicas=2))
    assert trial.scenario["workload"]["arrivals"] == {"process": "gamma", "rate_per_s": 1.8, "cv": 0.2}
    assert trial.scenario["router"] == {"policy": "random"}
    assert trial.scenario["cluster"]["engine"] == {"enforce_eager": True, "prefix_caching": False}
    assert [p.stage for p in trial.points] == ["run_1", "run_2"]
    assert trial.draws > 1


def test_the_replicas_of_the_series_have_graphs(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, compared(aggregated_replicas=2, source=SERIES))
    assert trial.scenario["cluster"]["engine"] == {"prefix_caching": False}
    assert any("deployment file" in flag for flag in trial.flags)


def test_workers_that_did_not_isolate_prefill_serve_requests_whole(tmp_path: Path) -> None:
    fields = compared(prefill_workers=2, decode_workers=1, source=SERIES, flags=[NOT_ISOLATED])
    (trial,) = trials(tmp_path, fields)
    assert trial.scenario["cluster"]["replicas"] == 3
    assert "pools" not in trial.scenario["cluster"]
    assert trial.scenario["cluster"]["engine"]["enforce_eager"] is True
    assert any("no prefill was isolated" in flag for flag in trial.flags)


def test_workers_that_did_are_pools(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, compared(prefill_workers=2, decode_workers=1, tp=2))
    cluster = trial.scenario["cluster"]
    engine = {"enforce_eager": True, "prefix_caching": False}
    assert cluster["pools"] == [
        {"name": "prefill", "role": "prefill", "replicas": 2, "parallel": {"tensor": 2}, "engine": engine},
        {"name": "decode", "role": "decode", "replicas": 1, "parallel": {"tensor": 2}, "engine": engine},
    ]
    assert not {"replicas", "parallel", "engine"} & set(cluster)
    found = run_trial(trial, RunOptions(), CATALOG)
    assert not found.missing
    # A replica that only decodes has no step with 8,000 tokens of prompt.
    assert found.predicted["run_1"]["itl_ms.p99"] < 40


def transfers(**fields: Any) -> dict[str, Any]:
    """Transfers between two servers."""
    given = {
        "model": QWEN, "hardware": "2 nodes x 8 H800, 8x CX-7 RoCE (200 GB/s nominal)", "tp": 8, "prefill_workers": 1,
        "decode_workers": 1, "engine": "vLLM 0.11.2", "engine_config": {"prefix_caching": False},
        "workload": {"arrival": "closed loop concurrency 1, 3 prompts", "output_tokens": 8},
        "measured": {"prompt_1024": {"ttft_ms": {"mean": 67.0}, "kv_mb": 146, "transfer_ms": 1.5}},
    }  # fmt: skip
    return case("transfers", "pd", **{**given, **fields})


def test_a_transfer_is_what_the_line_and_the_set_up_take(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, transfers())
    assert trial.scenario["workload"]["prompts"] == 1032
    assert trial.scenario["cluster"]["topology"] == {"nic": "ib-hdr-200"}
    found = run_trial(trial, RunOptions(), CATALOG).predicted["prompt_1024"]
    # 65 blocks of 16 tokens of 147,456 bytes at 0.72 of 200 GB/s, 0.37 ms before it and some microseconds of latency.
    assert found["transfer_ms.mean"] == pytest.approx(65 * 16 * 147_456 / 144e9 * 1e3 + 0.37, abs=0.01)
    assert found["ttft_ms.mean"] > found["transfer_ms.mean"]


def test_transfers_that_are_not_understood(tmp_path: Path) -> None:
    with pytest.raises(NotYet, match="no NIC"):
        trials(tmp_path, transfers(hardware="2 nodes x 8 H800, 8x CX-7 (100 GB/s nominal)"))
    with pytest.raises(ScenarioError, match="closed loop"):
        trials(tmp_path, transfers(workload={"arrival": "all at once", "output_tokens": 8}))
    with pytest.raises(ScenarioError, match="prompt_TOKENS"):
        trials(tmp_path, transfers(measured={"short": {"transfer_ms": 1.5}}))


def test_deployments_under_the_same_load(tmp_path: Path) -> None:
    work = {"stages": [{"rate_rps": 1.0, "n_requests": 50}], "prompt_tokens": 8192, "output_tokens": 512}
    fields = case(
        "deployments", "pd", model="Qwen2.5-7B-Instruct-GPTQ-Int4", hardware=A10, tp=4, precision="int4",
        engine="SGLang 2025", workload=work, measured={"2P1D": POINT, "3_regular": POINT},
    )  # fmt: skip
    apart, regular = trials(tmp_path, fields)
    assert [pool["replicas"] for pool in apart.scenario["cluster"]["pools"]] == [2, 1]
    assert [pool["parallel"] for pool in apart.scenario["cluster"]["pools"]] == [{"tensor": 4}] * 2
    assert regular.scenario["cluster"]["replicas"] == 3
    assert apart.scenario["workload"] == regular.scenario["workload"]
    assert apart.scenario["workload"]["prompts"] == {"distribution": "uniform", "min": 4096, "max": 8192}
    assert [trial.points[0].deployment for trial in (apart, regular)] == ["2P1D", "3_regular"]


def recorded(folder: Path, name: str, config: str, engine: str, stages: dict[str, float]) -> list[Trial]:
    """The trials of a case of DistServe with two recorded requests a stage."""
    rows = ["config,rate_rps,issue_s,prompt_tokens,output_tokens,ttft_ms,tpot_ms,latency_ms"]
    rows += [f"{config},{rate},{at},100,5,1,1,200" for rate in stages.values() for at in (0.0, 0.5)]
    write_gz(folder, "d.csv.gz", "\n".join(rows) + "\n")
    fields = case(
        name, "pd", model="facebook/opt-13b", hardware="A100-SXM4-80GB", tp="see engine", engine=engine,
        workload={"per_request_trace": "d.csv.gz"}, engine_config={"block_size": 16, "prefix_caching": False},
        measured={stage: {"ttft_ms": {"mean": 90.0}, "e2e_ms": {"mean": 9.0}} for stage in stages},
    )  # fmt: skip
    return trials(folder, fields)


def test_the_stages_of_distserve(tmp_path: Path) -> None:
    engine = "DistServe PD: context TP2xPP1, decode TP1xPP1 (3 GPUs)"
    (trial,) = recorded(tmp_path, "pd-opt13b-distserve-c21d11", "distserve-c21d11", engine, {"rate_3_n2": 3.0})
    context, decoding = trial.scenario["cluster"]["pools"]
    assert (context["parallel"], decoding["parallel"]) == ({"tensor": 2}, {})
    assert context["engine"]["num_gpu_blocks_override"] == 163_008 // 16
    assert decoding["engine"]["num_gpu_blocks_override"] == int(0.95 * 66_144) // 16
    assert context["engine"]["enforce_eager"] is decoding["engine"]["enforce_eager"] is True
    assert trial.scenario["cluster"]["transfer"] == {"mode": "pull", "first_token": "prefill"}
    assert trial.scenario["physics"] == {"calibration": "distserve"}
    assert len(trial.rows) == 2 and trial.measured_e2e_ms == (200, 200)
    found = run_trial(trial, RunOptions(), CATALOG)
    assert set(found.predicted["rate_3_n2"]) == {"ttft_ms.mean", "e2e_ms.mean"}


def test_a_placement_in_the_name_of_the_case(tmp_path: Path) -> None:
    (trial,) = recorded(tmp_path, "pd-opt13b-distserve-c21d12", "distserve-c21d12", "DistServe PD", {"rate_4_n2": 4.0})
    assert trial.scenario["cluster"]["pools"][1]["parallel"] == {"pipeline": 2}
    assert trial.scenario["cluster"]["pools"][1]["engine"]["pipeline_batches"] == "balanced"


def test_a_placement_that_is_not_recorded_follows_from_the_rate(tmp_path: Path) -> None:
    three, four = recorded(
        tmp_path,
        "pd-opt13b-distserve",
        "distserve",
        "DistServe default placement",
        {"rate_6_n2": 6.0, "rate_8_n2": 8.0},
    )
    assert three.scenario["cluster"]["pools"][1]["parallel"] == {}
    assert four.scenario["cluster"]["pools"][1]["parallel"] == {"pipeline": 2}
    assert any("placement not recorded" in flag for flag in three.flags)


def sweep_of(**parallel: Any) -> dict[str, Any]:
    """A sweep of separate workers."""
    given = {"prefill_num_workers": 1, "prefill_tp_size": 2, "decode_num_workers": 3, "decode_tp_size": 1}
    measured = {"conc_6": {"ttft_ms": {"mean_or_median": 15.0}, "tpot_ms": {"mean_or_median": 6.0}}}
    return case(
        "apart", "pd_sweep", tp=None, workload={"isl": 64, "osl": 16}, measured=measured, parallel={**given, **parallel}
    )


def test_a_sweep_of_separate_workers(tmp_path: Path) -> None:
    (trial,) = trials(tmp_path, sweep_of())
    prefill, decode = trial.scenario["cluster"]["pools"]
    assert (prefill["replicas"], prefill["parallel"]) == (1, {"tensor": 2})
    assert (decode["replicas"], decode["parallel"]) == (3, {})
    assert decode["engine"]["max_num_seqs"] == 6
    assert trial.scenario["run"] == {"requests": 60}
    assert not run_trial(trial, RunOptions(), CATALOG).missing


def test_degrees_that_a_scenario_may_have_one_day(tmp_path: Path) -> None:
    experts = {"prefill_tp_size": 1, "prefill_attention_dp_size": 4, "prefill_moe_ep_size": 4}
    (trial,) = trials(tmp_path, sweep_of(**experts, decode_tp_size=8, decode_moe_ep_size=8))
    assert [pool["parallel"] for pool in trial.scenario["cluster"]["pools"]] == [
        {"data": 4, "expert": 4}, {"tensor": 8, "expert": 8},
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, True, "two"])
def test_a_number_of_workers_is_a_number(tmp_path: Path, count: object) -> None:
    with pytest.raises(ScenarioError, match="number of workers"):
        trials(tmp_path, sweep_of(decode_num_workers=count))


def test_pools_of_experts_are_measured_one_by_one(tmp_path: Path) -> None:
    fields = case(
        "experts", "pd", model="deepseek-ai/DeepSeek-V3", hardware="12 nodes x 8 H100", precision="fp8", tp=None,
        engine="SGLang May 2025", parallel="prefill 4 nodes EP32, decode 9 nodes EP72",
        measured={
            "prefill_tok_s_per_node": {"1k": 57674}, "decode_tok_s_per_node": {"bs256_kv2000": 20480, "sim_mtp": 1},
        },
    )  # fmt: skip
    prefill, decode = trials(tmp_path, fields)
    assert prefill.scenario["cluster"]["parallel"] == {"data": 32, "expert": 32}
    assert dict(prefill.points[0].measured) == {"input_throughput": 57674.0}
    assert prefill.points[0].gpus == 4
    assert isinstance(decode, StepCostTrial)
    assert decode.steps == {"bs256_kv2000": (256, 2000, False)}
    # 256 requests on each of 8 GPUs, 20,480 tokens a second.
    assert dict(decode.points[0].measured) == {"tpot_ms.mean": pytest.approx(100.0)}
