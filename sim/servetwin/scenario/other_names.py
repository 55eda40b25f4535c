"""What a misspelt field or value was meant to be: a name near it, what other programs call it, where else it stands."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from servetwin.errors import close_name, nearest_name
from servetwin.scenario.schema import Scenario
from servetwin.workload.traces.columns import ColumnMap

_OTHER_NAMES = {
    # Options of vLLM, SGLang and load generators, and common words.
    "rate": "rate_per_s", "rps": "rate_per_s", "qps": "rate_per_s", "request_rate": "rate_per_s", "burstiness": "cv",
    "isl": "prompts", "input": "prompts", "inputs": "prompts", "input_len": "prompts", "input_tokens": "prompts",
    "prompt_tokens": "prompts", "osl": "outputs", "output_len": "outputs", "concurrency": "max_concurrency",
    "num_prompts": "requests", "n_requests": "requests", "time": "duration_s",
    "tp": "tensor", "tp_size": "tensor", "tensor_parallel_size": "tensor", "pcp": "context",
    "prefill_context_parallel_size": "context", "gpu": "hardware", "gpus": "replicas",
    "instances": "replicas", "max_batch_size": "max_num_seqs", "batch_size": "max_num_seqs",
    "max_running_requests": "max_num_seqs", "chunked_prefill_size": "max_num_batched_tokens",
    "max_total_tokens": "num_gpu_blocks_override", "mem_fraction_static": "gpu_memory_utilization",
    "context_length": "max_model_len", "page_size": "block_size", "num_gpu_blocks": "num_gpu_blocks_override",
    "kv_cache_dtype": "kv_cache", "dtype": "weights", "quantization": "weights", "noise": "jitter",
    "speculative_config": "speculation", "num_speculative_tokens": "k", "speculative_num_steps": "k",
    "max_draft_len": "k", "speculative_algorithm": "method", "draft_tensor_parallel_size": "tensor",
    "speculative_draft_model_path": "model", "speculative_num_draft_tokens": "nodes",
    "speculative_eagle_topk": "branching",
    "avg": "mean", "average": "mean", "median": "p50", "stddev": "std", "sigma": "std", "title": "name",
    "zipf": "zipf_exponent", "scheduler": "scheduling",
    # Values.
    "gaussian": "normal", "fixed": "constant", "fifo": "fcfs", "shortest-job-first": "sjf",
    "earliest-deadline-first": "edf", "rr": "round-robin", "jsq": "least-requests", "p2c": "power-of-two",
    "float8": "fp8", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "none": "always",
}  # fmt: skip
"""What other programs and people call our fields and values."""

_NOT_TELLING = ("name", "policy", "value", "values", "min", "max", "mean", "std", "tokens", "path", "file", "rate")
"""Fields that say nothing without the part that they stand in."""


def meant_value(name: str, known: Sequence[str]) -> str | None:
    """The known value that ``name`` was meant to be.

    >>> meant_value("fifo", ["edf", "fcfs"])
    'fcfs'
    """
    other = _OTHER_NAMES.get(name.casefold())
    return other if other in known else nearest_name(name, known)


def meant_field(name: str, known: Sequence[str], inside: str = "") -> str | None:
    """The known field that ``name`` was meant to be, or the dotted path of a field elsewhere in the scenario.

    Args:
        name: what was written.
        known: the fields of the part.
        inside: the dotted path of the part, whose other forms may have fields that it cannot have.

    >>> meant_field("tensor_parallel", ["tensor"])
    'tensor'
    >>> meant_field("rps", ["process", "rate_per_s"])
    'rate_per_s'
    >>> meant_field("seed", ["name", "run"])
    'run.seed'
    """
    other = _OTHER_NAMES.get(name.casefold())
    if other in known:
        return other
    places = _places()
    if places.get(name, "").rpartition(".")[0] == inside and inside:
        # A field of another form of this part: of another process, another distribution.
        return None
    if other is not None and places.get(other, "").rpartition(".")[0] == inside and inside:
        return None
    return places.get(name) or close_name(name, known) or places.get(other or "") or nearest_name(name, known)


@cache
def _places() -> dict[str, str]:
    """By name of a field the shortest dotted path to it."""
    places: dict[str, str] = {}
    level: list[tuple[str, type[BaseModel]]] = [("", Scenario)]
    seen: set[type[BaseModel]] = set()
    while level:
        deeper = []
        for path, model in level:
            for name, field in model.model_fields.items():
                if name not in _NOT_TELLING:
                    places.setdefault(name, path + name)
                for inner in _models(field.annotation):
                    if inner not in seen and inner is not ColumnMap:
                        seen.add(inner)
                        deeper.append((f"{path}{name}.", inner))
        level = deeper
    return places


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The mappings of fields that a value may be; entries of lists have no path of their own."""
    if get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _models(member)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
