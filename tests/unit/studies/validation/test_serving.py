"""Names of models, GPUs and engines as cases have them, and what they mean in the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.studies.validation.small_cases import sweep, write

from servetwin.catalog import Catalog
from servetwin.studies.validation import read_case_file
from servetwin.studies.validation.serving import Parts, parts_of, scenario_name

CATALOG = Catalog()


def parts(folder: Path, **fields: object) -> Parts:
    (case,) = read_case_file(write(folder, [sweep(**fields)])).cases
    return parts_of(case, CATALOG, parallel={"tensor": 2, "data": 1})


@pytest.mark.parametrize(
    ("model", "precision", "found", "weights"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "bf16 (assumed)", "llama-3.1-70b", None),
        ("Llama-3.3-70B", "FP4", "llama-3.1-70b", "nvfp4"),
        ("llama2-70b", "fp16", "llama-2-70b", None),
        ("openai/gpt-oss-120b", "fp4", "gpt-oss-120b", None),
        ("GPT-OSS-120B", "FP8", "gpt-oss-120b", None),
        ("zhipuai/GLM-5", "fp8", "glm-5-fp8", None),
        ("moonshotai/Kimi-K2.5", "fp4", "kimi-k2.5-nvfp4", None),
        ("moonshotai/Kimi-K2.5", "int4", "kimi-k2.5", None),
        ("deepseek-ai/DeepSeek-R1", "fp4", "deepseek-r1-fp4", None),
        ("deepseek-ai/DeepSeek-V3", "fp8", "deepseek-v3", None),
        ("DeepSeek-R1-0528", "FP8", "deepseek-r1", None),
        ("Qwen/Qwen2.5-72B-Instruct (bf16)", "", "qwen2.5-72b", None),
        ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "fp8", "llama-4-scout-fp8", None),
        ("MiniMaxAI/MiniMax-M2.5", "fp4", "minimax-m2.5", "nvfp4"),
    ],
)
def test_models(tmp_path: Path, model: str, precision: str, found: str, weights: str | None) -> None:
    these = parts(tmp_path, model=model, precision=precision)
    assert these.model == found
    assert these.precision.get("weights") == weights


@pytest.mark.parametrize(
    ("hardware", "found"),
    [
        ("H100-SXM-80GB", "h100-sxm"),
        ("8x H200 (sbatch partition h200 for minimax; not stated for the others)", "h200-sxm"),
        ("2 nodes x 8 H800, 8x CX-7 RoCE (200 GB/s nominal)", "h800-sxm"),
        ("2 servers of A10", "a10"),
        ("H200 pod pair", "h200-sxm"),
        ("1x H100 (per companion PRs)", "h100-sxm"),
        ("RTXPRO6000", "rtx-pro-6000"),
        ("a100-80gb", "a100-sxm-80gb"),
        ("GB200 NVL72", "gb200-nvl72"),
    ],
)
def test_hardware(tmp_path: Path, hardware: str, found: str) -> None:
    assert parts(tmp_path, hardware=hardware).hardware == found


@pytest.mark.parametrize(
    ("engine", "version", "flagged"),
    [
        ("vLLM 0.15.1", "0.15.1", ""),
        ("vllm 0.18.0", "0.18.0", ""),
        ("vllm nightly-5b8c30d62b754b57", "0.19", "not recorded"),
        ("vLLM nightly Feb 2026", "0.19", "not recorded"),
        ("vLLM 2 replicas", "0.9", "not recorded"),
        ("vLLM 0.6.3", "0.8", "older"),
        ("vLLM V1 (llm-d-dev:vllm-nixl-0.0.6)", "0.8.5", "May 2025"),
        ("llm-d 0.0.4, LMCache off", "0.9", "not recorded"),
        ("vLLM (2023)", "0.8", "before vLLM V1"),
        ("vLLM baseline (distserve fork)", "0.8", "before vLLM V1"),
        ("DistServe PD: context TP2xPP1", "0.8", "not recorded"),
        ("vLLM 0.11.2.dev358 MooncakeConnector", "0.11.2", ""),
    ],
)
def test_engines(tmp_path: Path, engine: str, version: str, flagged: str) -> None:
    these = parts(tmp_path, engine=engine)
    assert these.engine == {"name": "vllm", "version": version}
    assert any(flagged in flag for flag in these.flags) if flagged else not these.flags


@pytest.mark.parametrize(
    ("engine", "found"),
    [
        ("sglang 0.5.9", {"name": "sglang", "version": "0.5.9"}),
        ("sglang nightly-dev", {"name": "sglang"}),
        ("trtllm 1.2.0rc6.post2", {"name": "trtllm", "version": "1.2.0"}),
        ("TensorRT-LLM (PyTorch backend)", {"name": "trtllm"}),
    ],
)
def test_engines_that_run_by_the_rules_of_vllm_are_said(tmp_path: Path, engine: str, found: dict[str, str]) -> None:
    these = parts(tmp_path, engine=engine)
    assert these.engine == found
    assert any(flag.startswith(f"{found['name']} runs by the rules of vLLM") for flag in these.flags)


def test_engines_of_2023_have_constants_of_their_own_and_no_graphs(tmp_path: Path) -> None:
    old, new = (parts(tmp_path, engine=engine).scenario("x", {}) for engine in ("vLLM (2023)", "vLLM 0.15.1"))
    assert old["physics"] == {"calibration": "vllm-2023"}
    assert old["cluster"]["engine"]["enforce_eager"] is True
    assert "physics" not in new and "engine" not in new["cluster"]


def test_distserve_has_constants_of_its_own(tmp_path: Path) -> None:
    old = parts(tmp_path, engine="DistServe default placement").scenario("x", {})
    assert old["physics"] == {"calibration": "distserve"}
    assert old["cluster"]["engine"]["enforce_eager"] is True


def test_degrees_of_one_are_left_out(tmp_path: Path) -> None:
    these = parts(tmp_path)
    assert these.parallel == {"tensor": 2}
    assert these.gpus == 2


def test_names_of_scenarios() -> None:
    assert scenario_name("silicon-018 MiniMax/M2.5 (x)") == "silicon-018-MiniMax-M2.5-x"
    assert scenario_name("***") == "case"
    assert len(scenario_name("a" * 200)) == 100
