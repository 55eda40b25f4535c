"""What engines decide by themselves: vLLM, by version and GPU; whose overheads an engine has.

Only the defaults of the API server are modelled.

Source: vLLM's ``vllm/engine/arg_utils.py`` (defaults by GPU) and ``vllm/config/vllm.py`` (captured sizes); pull
    requests 17073 and 17885 (budget of an A100, April and May 2025); the release notes of 0.14.0 (asynchronous
    scheduling on by default, January 2026) and pull request 32359 (with pipelines too, merged between 0.14.0 and
    0.15.0); the documentation of ``--gpu-memory-utilization`` (0.9 up to 0.19, 0.92 from 0.22).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from servetwin.errors import ScenarioError
from servetwin.scenario.draft_methods import METHODS

NEWEST = (0, 24)
"""The last version whose defaults were looked up."""

OLDEST = (0, 8)
"""The first version whose default engine is V1."""

CALIBRATIONS = {"vllm": "default", "sglang": "sglang", "trtllm": "trtllm"}
"""The calibration of each family of engines."""

OVERLAPPED = "0.15"
"""The version of vLLM whose rules, scheduling one step ahead, stand for those of other families."""

_LARGE_GPU_BYTES = 70 * 2**30
_ASYNC_SINCE = (0, 14)
_ASYNC_PIPELINES_SINCE = (0, 15)
_UTILIZATION_092_SINCE = (0, 22)
_LARGE_A100 = (0, 8, 5), (0, 9)
"""The first version in which an A100 with 80 GB counted as a large GPU, and the first in which it did not again."""


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """Defaults of one version on one GPU.

    Attributes:
        max_num_batched_tokens: token budget of a step [tokens].
        max_num_seqs: most requests running at once.
        gpu_memory_utilization: share of the GPU's memory.
        async_scheduling: whether scheduling runs one step ahead.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    gpu_memory_utilization: float
    async_scheduling: bool


def version_number(version: str) -> tuple[int, ...]:
    """The parts of a version.

    >>> version_number("0.15.1")
    (0, 15, 1)
    """
    return tuple(int(part) for part in version.split("."))


def rules_version(name: str, version: str) -> str:
    """The version of vLLM by whose rules an engine runs: its own, or ``OVERLAPPED`` for another family.

    >>> rules_version("vllm", "0.11"), rules_version("sglang", "0.5")
    ('0.11', '0.15')
    """
    return version if name == "vllm" else OVERLAPPED


def vllm_defaults(version: str, gpu_name: str, gpu_memory_bytes: float, stages: int = 1) -> EngineDefaults:
    """The defaults of vLLM.

    Args:
        version: its version.
        gpu_name: the GPU.
        gpu_memory_bytes: its memory [B].
        stages: stages of the pipeline; with several, scheduling runs ahead from 0.15 on.

    Raises:
        ScenarioError: the version is older than the V1 engine.
    """
    number = version_number(version)
    if number < OLDEST:
        raise ScenarioError(
            "this version of vLLM runs the V0 engine, which servetwin does not model",
            path="engine.version",
            found=version,
            allowed="0.8 or later",
        )
    counts = "a100" not in gpu_name.lower() or _LARGE_A100[0] <= number < _LARGE_A100[1]
    large = gpu_memory_bytes >= _LARGE_GPU_BYTES and counts
    return EngineDefaults(
        max_num_batched_tokens=8192 if large else 2048,
        max_num_seqs=1024 if large else 256,
        gpu_memory_utilization=0.92 if number >= _UTILIZATION_092_SINCE else 0.90,
        async_scheduling=number >= (_ASYNC_SINCE if stages == 1 else _ASYNC_PIPELINES_SINCE),
    )


def with_drafts(defaults: EngineDefaults, name: str, method: str) -> EngineDefaults:
    """The defaults of an engine that drafts.

    vLLM schedules synchronously for some methods. SGLang does not overlap drafting with its scheduler, and runs 48
    requests at a time.

    Source: vLLM ``config/vllm.py`` of 0.15; SGLang ``srt/server_args.py`` of 0.5 ("Max running requests is reset to 48
        for speculative decoding", "Overlap scheduler is disabled").

    Args:
        defaults: those of the engine without drafts.
        name: the family of the engine.
        method: who drafts.
    """
    if name == "sglang":
        return replace(defaults, max_num_seqs=min(48, defaults.max_num_seqs), async_scheduling=False)
    if name == "vllm" and METHODS[method].synchronous:
        return replace(defaults, async_scheduling=False)
    return defaults


def largest_graph(max_num_seqs: int, max_num_batched_tokens: int, drafts: int = 0) -> int:
    """The largest batch that vLLM captures by default [tokens], with so many drafted tokens per request."""
    return min(2 * max_num_seqs * (1 + drafts), 512, max_num_batched_tokens)


def graph_sizes(largest: int, tokens: int = 1) -> tuple[int, ...]:
    """The captured batch sizes up to ``largest`` [tokens]: 1, 2, 4, then every 8 below 256, then every 16.

    Where a request has several tokens in a step, sizes are rounded up to multiples of them.

    Source: vLLM ``config/compilation.py`` (``adjust_cudagraph_sizes_for_spec_decode``, issue #28207); SGLang and
        TensorRT-LLM capture so many requests with all their tokens, which is the same.

    Args:
        largest: the largest size [tokens].
        tokens: tokens of a request that verifies all its drafts.

    >>> graph_sizes(20)
    (1, 2, 4, 8, 16)
    >>> graph_sizes(512)[-3:]
    (480, 496, 512)
    >>> graph_sizes(33, 6)
    (6, 12, 18, 24)
    """
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)]
    rounded = dict.fromkeys(-(-size // tokens) * tokens for size in sizes)
    return tuple(size for size in rounded if size <= largest)
