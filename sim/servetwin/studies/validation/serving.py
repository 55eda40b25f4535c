"""The part of a scenario that says what serves: model, hardware, engine, precision, parallelism."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import CatalogError
from servetwin.scenario.engines import OVERLAPPED
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.trial import NotYet

_OLDEST, _UNDATED, _NIGHTLY = "0.8", "0.9", "0.19"
"""vLLM versions that stand for engines before V1, for undated runs of 2025, and for builds of early 2026."""

_FIRST_ERA, _DISTSERVE = "vllm-2023", "distserve"
"""The calibrations of engines before captured graphs."""

_LLM_D, _MAY_2025 = "llm-d-dev:vllm-nixl-0.0.6", "0.8.5"
"""An image of May 2025, and the version of vLLM that was current then."""

_HARDWARE_NOISE = (
    re.compile(r"\(.*?\)"),
    re.compile(r"^\d+\s*(x|servers? of|nodes x \d+)\s*", re.IGNORECASE),
    re.compile(r",.*$|\s+(pod pair|nodes|single node|mega.*|PD|FA3)\b.*$", re.IGNORECASE),
)
"""What surrounds the name of a GPU in a case."""

_VERSION = re.compile(r"(?:vllm|sglang|trt-?llm|tensorrt-llm)\s+v?(\d+\.\d+(?:\.\d+)?)")
"""The version of an engine: what stands behind its name, not that of an image or of a router."""

_FOUR_BITS = ("fp4", "nvfp4")
_SCALED_BY_BLOCKS = ("qwen3", "glm-")
"""Models in bf16 here whose publishers' checkpoints in fp8 have scales by blocks: weight_block_size of
huggingface.co/Qwen/Qwen3-32B-FP8 and its like."""
_NATIVE = ("fp16/bf16", "bf16 (assumed)", "bf16", "fp16", "?", "")


@dataclass(slots=True)
class Parts:
    """What serves a case, as the top level of a scenario says it.

    Attributes:
        model: name in the catalog.
        engine: the scenario's ``engine``.
        hardware: name in the catalog.
        parallel: degrees of one replica, those of 1 left out.
        precision: number formats that differ from the model's own.
        options: the engine's settings.
        replicas: independent copies.
        calibration: overheads of an engine of 2023 or early 2024, which has no captured graphs; empty for all others.
        flags: what was assumed.
    """

    model: str
    engine: dict[str, str]
    hardware: str
    parallel: dict[str, int] = field(default_factory=dict)
    precision: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    replicas: int = 1
    calibration: str = ""
    flags: list[str] = field(default_factory=list)

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        degrees = self.parallel
        return self.replicas * degrees.get("tensor", 1) * degrees.get("data", 1) * degrees.get("pipeline", 1)

    def scenario(self, name: str, workload: Mapping[str, Any], requests: int | None = None) -> dict[str, Any]:
        """The scenario with this workload."""
        cluster: dict[str, Any] = {
            "replicas": self.replicas,
            "hardware": self.hardware,
            "parallel": dict(self.parallel),
        }
        options = {**self.options, "enforce_eager": True} if self.calibration else dict(self.options)
        if options:
            cluster["engine"] = options
        if self.precision:
            cluster["precision"] = dict(self.precision)
        run = {"requests": requests} if requests is not None else {}
        physics = {"physics": {"calibration": self.calibration}} if self.calibration else {}
        return {
            "name": scenario_name(name),
            "model": self.model,
            "engine": dict(self.engine),
            "cluster": cluster,
            "workload": dict(workload),
            "run": run,
            **physics,
        }


def scenario_name(name: str) -> str:
    """The name of a scenario for a case.

    >>> scenario_name("a case/of mine")
    'a-case-of-mine'
    """
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).strip("-_.+")[:100] or "case"


def parts_of(case: Case, catalog: Catalog, *, parallel: Mapping[str, int]) -> Parts:
    """Model, hardware, engine and precision of a case.

    Args:
        case: the case.
        catalog: where models and GPUs are found.
        parallel: degrees of one replica.

    Raises:
        NotYet: the case names a model or a GPU that the catalog does not have.
    """
    flags: list[str] = []
    precision = str(case.find("precision") or "")
    model, weights = _model(case, precision, catalog)
    written = str(case.need("engine"))
    engine = _engine(written, flags)
    parts = Parts(
        model=model,
        engine=engine,
        hardware=_hardware(str(case.need("hardware")), catalog),
        parallel={name: degree for name, degree in parallel.items() if degree != 1},
        calibration=_old_calibration(written),
        flags=flags,
    )
    if weights:
        parts.precision["weights"] = weights
    return parts


def _model(case: Case, precision: str, catalog: Catalog) -> tuple[str, str | None]:
    """The model in the catalog, and the precision of its weights where it differs from the model's own."""
    name = re.sub(r"\s*\((bf16|fp16|fp8)\)$", "", case.fields["model"])
    wanted = precision.lower().split(" ")[0]
    suffixes = _FOUR_BITS if wanted in _FOUR_BITS else () if wanted in _NATIVE else (wanted,)
    # A name that says its precision itself needs none added.
    for suffix in suffixes:
        if not name.lower().endswith(suffix):
            found = _found(f"{name}-{suffix}", catalog)
            if found is not None:
                return found, None
    found = _found(name, catalog)
    if found is None:
        raise NotYet(f"the catalogue has no model {name!r}")
    own = catalog.model(found).native_weights
    if (
        not suffixes
        or catalog.model(found).running(wanted) == own
        or (wanted in _FOUR_BITS and own in ("mxfp4", "nvfp4"))
    ):
        return found, None
    if own == "mxfp4" and wanted == "fp8":
        # TensorRT-LLM's tables call the 4-bit experts of gpt-oss on Hopper FP8, after their activations.
        return found, None
    if wanted == "fp8" and found.startswith(_SCALED_BY_BLOCKS):
        return found, "fp8_block"
    return found, "nvfp4" if wanted in _FOUR_BITS else wanted


@lru_cache(maxsize=4096)
def _found(name: str, catalog: Catalog) -> str | None:
    """The name of a model in the catalog. Cached: many cases name the same ones, and each look-up reads files."""
    try:
        return catalog.model(name).name
    except CatalogError:
        return None


@lru_cache(maxsize=4096)
def _hardware(text: str, catalog: Catalog) -> str:
    """The name of a GPU in the catalog, from a text that may say more than it."""
    name = text
    for noise in (None, *_HARDWARE_NOISE):
        name = name if noise is None else noise.sub("", name).strip()
        try:
            return catalog.gpu(name).name
        except CatalogError:
            continue
    raise NotYet(f"the catalogue has no GPU {text!r}")


def engine_family(text: str) -> str:
    """The family of the engine that a case names: ``sglang``, ``trtllm`` or, whatever else it says, ``vllm``.

    >>> engine_family("TensorRT-LLM (PyTorch backend, trtllm-bench)")
    'trtllm'
    """
    lowered = text.lower()
    return "sglang" if "sglang" in lowered else "trtllm" if re.search(r"trt-?llm|tensorrt", lowered) else "vllm"


def _engine(text: str, flags: list[str]) -> dict[str, str]:
    """The engine of a case, or what stands for it."""
    lowered = text.lower()
    family = engine_family(text)
    found = _VERSION.match(lowered)
    version = found[1] if found and "nightly" not in lowered else None
    if family != "vllm":
        flags.append(f"{family} runs by the rules of vLLM {OVERLAPPED}, with overheads of its own")
        return {"name": family, **({"version": version} if version else {})}
    if _LLM_D in text:
        version = _MAY_2025
        flags.append(f"an image of vLLM of May 2025: {version} stands for it")
    elif version is None:
        old = re.search(r"20(1\d|2[0-4])", text)
        version = _OLDEST if old or "distserve" in lowered else _NIGHTLY if "nightly" in lowered else _UNDATED
        flags.append(f"engine version not recorded: {version} stands for it")
    elif tuple(int(part) for part in version.split(".")) < (0, 8):
        flags.append(f"vLLM {version} is older than the engine modelled: {_OLDEST} stands for it")
        version = _OLDEST
    calibration = _old_calibration(text)
    if calibration == _FIRST_ERA:
        flags.append(f"an engine before vLLM V1: the overheads of {calibration}, but the loop of V1")
    return {"name": "vllm", "version": version}


def _old_calibration(text: str) -> str:
    """The calibration of an engine of 2023 or early 2024; empty for all others."""
    if text.lower().startswith("distserve"):
        return _DISTSERVE
    return _FIRST_ERA if "distserve" in text.lower() or re.search(r"20(1\d|2[0-4])", text) else ""
