"""What the launch commands of InferenceMAX set and its results do not record."""

from __future__ import annotations

from typing import NamedTuple

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.serving import Parts, engine_family


class _Fp8Cache(NamedTuple):
    """Commands that ask for a KV cache of fp8.

    Attributes:
        engine: what they start.
        models: how the names of the models begin; empty = any.
        architectures: of the GPUs; empty = any.
        but: how the name of the model begins, and the architecture, where they do not.
    """

    engine: str
    models: str = ""
    architectures: tuple[str, ...] = ()
    but: tuple[str, str] = ("?", "?")


_BLACKWELL = ("blackwell", "blackwell-rtx")

_FP8_CACHES = (
    _Fp8Cache("vllm", "llama-3"),
    _Fp8Cache("vllm", "gpt-oss", _BLACKWELL),
    _Fp8Cache("vllm", "minimax", _BLACKWELL),
    _Fp8Cache("sglang", "", _BLACKWELL),
    _Fp8Cache("trtllm", but=("gpt-oss", "hopper")),
)
"""``--kv-cache-dtype`` and ``kv_cache_config.dtype`` of the scripts in ``benchmarks/`` of
github.com/SemiAnalysisAI/InferenceX (read 30 November 2026): 70b_*, gptoss_*, dsr1_*, glm5_*, minimaxm2.5_*, qwen3.5_*,
kimik2.5_*. Those of SGLang with weights of bf16 do not set it. NVIDIA's own sweep of Qwen3-32B with TensorRT-LLM has
no scripts; that 128 requests of 2,176 tokens ran there beside 33 GB of weights on one H100 takes a cache of fp8."""


_EIGHT_BIT_ACTIVATIONS = ("vllm", "trtllm")
"""Engines whose commands multiply 4-bit experts (MXFP4) with 8-bit activations on Blackwell: vLLM with
``VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8=1`` (gptoss_fp4_b200.sh), TensorRT-LLM as it comes (the format
w4a8_mxfp4_mxfp8 of its kernels)."""

_SOURCES = ("aiconfigurator", "InferenceX", "InferenceMAX")
"""What the repository of a case's source is called where these commands made it."""


def set_weights(case: Case, parts: Parts, catalog: Catalog) -> None:
    """Multiply the weights as the command behind a case does, where that is not what an engine does by default."""
    if catalog.model(parts.model).native_weights != "mxfp4" or "weights" in parts.precision:
        return
    engine = engine_family(str(case.need("engine")))
    recorded = engine == "trtllm" or _is_theirs(case)
    if recorded and engine in _EIGHT_BIT_ACTIVATIONS and catalog.gpu(parts.hardware).architecture in _BLACKWELL:
        parts.precision["weights"] = "mxfp4_mxfp8"
        parts.flags.append("4-bit experts times 8-bit activations: as the launch commands have it")


def cache_of(case: Case, parts: Parts, catalog: Catalog) -> str | None:
    """The data type of the KV cache where the command behind a case sets another than the model's own."""
    model = catalog.model(parts.model)
    if model.native_kv_cache == "fp8" or not _is_theirs(case):
        return None
    engine = engine_family(str(case.need("engine")))
    architecture = catalog.gpu(parts.hardware).architecture
    for command in _FP8_CACHES:
        if engine != command.engine or not parts.model.startswith(command.models):
            continue
        if command.architectures and architecture not in command.architectures:
            continue
        if parts.model.startswith(command.but[0]) and architecture == command.but[1]:
            continue
        if command.engine == "sglang" and parts.precision.get("weights", model.native_weights) == "bf16":
            continue
        return "fp8"
    return None


def _is_theirs(case: Case) -> bool:
    return str(case.find("source", "repo") or "").endswith(_SOURCES)
