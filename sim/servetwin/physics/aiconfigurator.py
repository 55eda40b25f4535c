"""Measured operators from the optional package ``aiconfigurator-core``: a thin adapter.

The package (NVIDIA, Apache-2.0) has kernel measurements by system, engine and version, and interpolates in them. Only
rows of the engine itself are used (``shared_layer=False``), never those of its relatives, and only measurements
(its mode ``SILICON``), never its own formulas. The package is imported when a scenario asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from servetwin.errors import CatalogError, ScenarioError, nearest_name
from servetwin.physics.measured import ExpertShape, Heads, NotMeasuredError
from servetwin.specs import Gpu

PACKAGE, VERSION = "aiconfigurator-core", "0.12.0"
"""The package, and the version that the adapter is written for."""

SYSTEMS = {
    "a100-sxm-80gb": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "gb200-nvl72": "gb200",
    "gb300-nvl72": "gb300",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
"""The systems of the package that have measurements, by the names of our profiles."""

BACKENDS = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"}
"""The engines of the package, by the names of ours."""

_GEMM = {
    "bf16": ("bfloat16",), "fp16": ("bfloat16",), "fp8": ("fp8",), "fp8_block": ("fp8_block",), "int8": ("sq",),
    "int4": ("int4_wo",), "nvfp4": ("nvfp4",),
}  # fmt: skip
_EXPERTS = {**_GEMM, "fp8": ("fp8_block", "fp8"), "mxfp4": ("w4a16_mxfp4",), "mxfp4_mxfp8": ("w4a8_mxfp4_mxfp8",)}
"""The package's formats, by the names of ours, the first that was measured. 8-bit experts are those with a scale per
block: the rows with a scale per tensor were measured without tuned kernels and are up to four times as slow as bf16."""
_KV = {"bf16": ("bfloat16",), "fp16": ("bfloat16",), "fp8": ("fp8",)}

#: Degrees of the measured all-reduces; beyond them the package scales.
_GPUS = (2, 4, 8)

#: How evenly the tokens of the measured mixtures are spread over the experts. With these rows the measured TPOT of
#: Mixtral-8x7B under vLLM comes out within 3 %; those of a power law, the other choice, are 30 % slower.
_ROUTING = "balanced"


def open_database(gpu: Gpu, engine: str) -> AiConfigurator:
    """The measured operators of ``gpu`` under ``engine``.

    Raises:
        ScenarioError: the package is not installed, or in another version, or has no data for the engine.
        CatalogError: the package has no data for the GPU.
    """
    check_available(gpu)
    with _quiet():
        from aiconfigurator_core.sdk import perf_database

        database = perf_database.get_database_view(SYSTEMS[gpu.name], BACKENDS[engine], "current", shared_layer=False)
    if database is None:
        raise ScenarioError(
            f"{PACKAGE} {VERSION} has no measured operators of {engine} on {gpu.name}",
            path="physics.backend",
            found="tables",
            allowed="roofline",
        )
    return AiConfigurator(database, engine, gpu.name)


def check_available(gpu: Gpu) -> None:
    """Refuse what ``open_database`` could not open, without opening it.

    Raises:
        ScenarioError: the package is not installed, or in another version.
        CatalogError: it has no data for the GPU.
    """
    hint = f'pip install "servetwin[tables]", which brings {PACKAGE}=={VERSION}; or physics.backend: roofline'
    try:
        found = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise ScenarioError(
            f"the measured operator tables are in a package that is not installed: {PACKAGE}",
            path="physics.backend", found="tables", allowed="roofline, as long as it is not installed", hint=hint,
        ) from None  # fmt: skip
    if found != VERSION:
        raise ScenarioError(
            f"another version of {PACKAGE} is installed than the one whose tables this version of servetwin reads",
            path="physics.backend", found=f"{PACKAGE} {found}", allowed=VERSION, hint=hint,
        )  # fmt: skip
    if gpu.name not in SYSTEMS:
        raise CatalogError(
            f"{PACKAGE} {VERSION} has no measured operators for this GPU",
            path="physics.backend",
            found=gpu.name,
            allowed=sorted(SYSTEMS),
            nearest=nearest_name(gpu.name, sorted(SYSTEMS)),
            hint="physics.backend: roofline prices any GPU",
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the package's own notices about what it loads."""
    logger = logging.getLogger("aiconfigurator_core")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class AiConfigurator:
    """``OperatorDatabase`` over the package; see ``open_database``.

    Args:
        database: a ``PerfDatabase`` of the package.
        engine: the engine whose kernels were measured.
        gpu: name of the GPU.
    """

    def __init__(self, database: Any, engine: str, gpu: str) -> None:
        from aiconfigurator_core.sdk import common, errors, operations
        from aiconfigurator_core.sdk.engine import _evaluate_single_op

        self.name = f"{PACKAGE} {VERSION} ({engine} {database.version} on {gpu})"
        self._database = database
        self._common, self._operations, self._evaluate = common, operations, _evaluate_single_op
        self._missing: tuple[type[Exception], ...] = (
            errors.PerfDataNotAvailableError, errors.InterpolationDataNotAvailableError,
            errors.MissingSystemFlopsError, errors.EmpiricalNotImplementedError,
        )  # fmt: skip
        self._made: dict[tuple[object, ...], Any] = {}

    def gemm(self, rows: int, outer: int, inner: int, dtype: str) -> float:
        """See ``OperatorDatabase``."""
        for mode in self._modes(self._common.GEMMQuantMode, _GEMM, dtype):
            operator = self._operator("GEMM", outer, inner, mode)
            seconds = self._ask(operator, is_context=True, batch_size=1, s=1, x=rows)
            if seconds is not None:
                return seconds
        raise NotMeasuredError(f"no matrix products in {dtype}")

    def experts(self, rows: int, shape: ExpertShape) -> float:
        """See ``OperatorDatabase``."""
        for mode in self._modes(self._common.MoEQuantMode, _EXPERTS, shape.dtype):
            operator = self._operator(
                "MoE", shape.hidden, shape.intermediate, shape.top_k, shape.experts, shape.tensor, 1, mode, _ROUTING, 1
            )
            seconds = self._ask(operator, is_context=True, batch_size=1, s=1, x=rows)
            if seconds is not None:
                return seconds
        raise NotMeasuredError(
            f"no {shape.experts} experts of {shape.hidden} x {shape.intermediate}, top {shape.top_k}, shared out over "
            f"{shape.tensor} GPUs, in {shape.dtype}"
        )

    def decode(self, requests: int, context: int, heads: Heads) -> float:
        """See ``OperatorDatabase``."""
        for mode in self._modes(self._common.KVCacheQuantMode, _KV, heads.kv_cache):
            operator = self._operator(
                "GenerationAttention", heads.queries, heads.keys, mode,
                head_size=heads.dim, window_size=heads.window or 0,
            )  # fmt: skip
            seconds = self._ask(operator, is_context=False, batch_size=requests, s=context)
            if seconds is not None:
                return seconds
        raise _no_attention(heads)

    def prefill(self, new: int, before: int, heads: Heads) -> float:
        """See ``OperatorDatabase``."""
        for mode in self._modes(self._common.KVCacheQuantMode, _KV, heads.kv_cache):
            operator = self._operator(
                "ContextAttention", heads.queries, heads.keys, mode, self._common.FMHAQuantMode.bfloat16,
                head_size=heads.dim, window_size=heads.window or 0,
            )  # fmt: skip
            seconds = self._ask(operator, is_context=True, batch_size=1, s=new, prefix=before)
            if seconds is not None:
                return seconds
        raise _no_attention(heads)

    def all_reduce(self, values: int, gpus: int) -> float:
        """See ``OperatorDatabase``."""
        if gpus not in _GPUS:
            raise NotMeasuredError(f"it has all-reduces over {_GPUS[0]} to {_GPUS[-1]} GPUs, not {gpus}")
        operator = self._operator("CustomAllReduce", values, gpus)
        seconds = self._ask(operator, is_context=True, batch_size=1, s=1, x=1)
        if seconds is None:
            raise NotMeasuredError("no all-reduces")
        return seconds

    def on_grid(self, operator: str, *arguments: Any) -> bool:
        """See ``OperatorDatabase``; it reads the whole table, which takes a second. Attention is never on the grid."""
        half = self._common.CommQuantMode.half
        if operator == "gemm":
            rows, outer, inner, dtype = arguments
            places = [(mode, rows, outer, inner) for mode in self._modes(self._common.GEMMQuantMode, _GEMM, dtype)]
            return self._holds("GEMM", "_gemm_data", places)
        if operator == "experts":
            rows, shape = arguments
            path = (_ROUTING, shape.top_k, shape.experts, shape.hidden, shape.intermediate, shape.tensor, 1, rows)
            modes = self._modes(self._common.MoEQuantMode, _EXPERTS, shape.dtype)
            return self._holds("MoE", "_moe_data", [(mode, *path) for mode in modes])
        if operator == "all_reduce":
            values, gpus = arguments
            return self._holds("CustomAllReduce", "_custom_allreduce_data", [(half, gpus, "AUTO", values)])
        return False

    def _holds(self, kind: str, attribute: str, places: Sequence[tuple[object, ...]]) -> bool:
        """Whether a table of the package has a row at one of these places."""
        with _quiet():
            getattr(self._operations, kind).load_data(self._database)
        for place in places:
            node = getattr(self._database, attribute)
            for key in place:
                node = node.get(key, {})
            if node:
                return True
        return False

    # -- asking ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _modes(kind: Any, names: Mapping[str, tuple[str, ...]], dtype: str) -> list[Any]:
        return [kind[name] for name in names.get(dtype, ())]

    def _operator(self, kind: str, *arguments: object, **named: object) -> Any:
        key = (kind, *arguments, *named.items())
        found = self._made.get(key)
        if found is None:
            make: Callable[..., Any] = getattr(self._operations, kind)
            found = self._made[key] = make(kind, 1, *arguments, **named)
        return found

    def _ask(self, operator: Any, **shape: Any) -> float | None:
        """What the package answers [s]; None where it has nothing to answer with."""
        try:
            with _quiet():
                milliseconds = float(self._evaluate(self._database, operator, **shape))
        except self._missing:
            return None
        return milliseconds * 1e-3 if milliseconds > 0.0 else None


def _no_attention(heads: Heads) -> NotMeasuredError:
    window = f" and a window of {heads.window}" if heads.window else ""
    return NotMeasuredError(
        f"no attention of {heads.queries} over {heads.keys} heads of {heads.dim} with a cache in {heads.kv_cache}"
        f"{window}"
    )
