"""JSON Schemas of the profiles in the catalogue, for editors: completion, and a mark under what is misspelled.

The readers of this package decide what is valid; a schema is their summary. It does not know units of figures beyond
their spelling, nor what depends on two fields at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from servetwin.catalog.acceptance import MOST_ENTRIES, MOST_SPREAD
from servetwin.catalog.calibration import MOST_OF_A_LAUNCH, MOST_OF_AN_ALL_REDUCE
from servetwin.catalog.descriptions import described, described_as
from servetwin.catalog.hardware import PEAKS
from servetwin.catalog.servers import MOST_GPUS
from servetwin.specs import (
    AttentionCurve,
    Calibration,
    ExpertsCurve,
    KernelConstants,
    Layer,
    ModelSpec,
    ProductCurve,
)
from servetwin.specs.calibration import SAMPLING
from servetwin.specs.drafter import METHOD_NAMES
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES
from servetwin.specs.layers import QUANTISABLE
from servetwin.units import units_of

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER = r"[0-9][0-9_,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_FROM_ZERO: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_NAMES: Schema = {"type": "array", "items": _TEXT}
_SHARE: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
_DATE: Schema = {"type": "string", "format": "date", "description": "When it was looked up, YYYY-MM-DD."}
_SOURCE: Schema = {"type": "string", "description": "Who says so."}


def _mapping(properties: Mapping[str, Schema], required: tuple[str, ...] = (), about: str = "") -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    if about:
        schema["description"] = about
    return schema


def _quantity(dimension: str) -> Schema:
    """A figure with its unit, as text."""
    units = units_of(dimension)
    escaped = "|".join(unit.replace("/", r"\/") for unit in units)
    return {"type": "string", "pattern": rf"^\s*{_NUMBER}\s*({escaped})\s*$", "examples": [f"80 {units[-1]}"]}


def _figure(dimension: str | None, about: str) -> Schema:
    """A figure with its source."""
    value: Schema = _quantity(dimension) if dimension else {"type": "number", "exclusiveMinimum": 0}
    properties = {"value": value, "source": _SOURCE, "date": _DATE}
    return _mapping(properties, ("value", "source", "date"), about)


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}], "description": schema.get("description", "")}


_HEAD: dict[str, Schema] = {
    "name": {**_TEXT, "description": "Its name in the catalogue: that of the file, without .yaml."},
    "aliases": {**_NAMES, "description": "Other names, in any case and with spaces, - or _ between the words."},
}
_ABOUT: dict[str, Schema] = {"description": {**_TEXT, "description": "What it is, in a line."}}


def _latencies(about: str) -> Schema:
    """Latencies of a collective inside a node."""
    rows: Schema = {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}}
    properties = {
        "source": _SOURCE,
        "date": _DATE,
        "bytes": {"type": "array", "items": _COUNT, "minItems": 2, "description": "Message sizes, ascending [B]."},
        "latency_us": {"type": "object", "additionalProperties": rows, "description": "By number of GPUs [us]."},
    }
    return _optional(_mapping(properties, tuple(properties), about))


def gpu_schema() -> Schema:
    """Of ``hardware_profiles/gpus``."""
    peaks = {dtype: _figure("flops", f"Dense peak arithmetic in {dtype}.") for dtype in PEAKS}
    properties = {
        **_HEAD,
        "architecture": {**_TEXT, "description": "Whose kernel constants: hopper, ampere, ada, blackwell, …"},
        "memory": _figure("bytes", "Memory as the driver reports it."),
        "hbm": _figure("bytes/s", "Bandwidth of the memory."),
        "l2": _optional(_figure("bytes", "Size of the last cache before it; `calibrate kernels` needs it.")),
        "flops": _mapping(peaks, ("bf16",), "Dense peaks, without sparsity."),
        "link": _figure("bytes/s", "To the other GPUs of the node, one direction."),
        "link_domain": _optional(
            {"type": "integer", "minimum": 1, "maximum": MOST_GPUS, "description": "GPUs of a node; 8 by default."}
        ),
        "price_per_hour_usd": _optional(_figure(None, "Price of a GPU and hour [USD]; null: costs are null too.")),
        "tdp": _optional(_figure("watts", "Board power limit; null: energy is null too.")),
        "switch_reduces": _optional(
            {"type": "boolean", "description": "Whether the switch of a domain adds up (NVLink SHARP)."}
        ),
        "all_reduce": _latencies("Measured all-reduces inside a node; a formula stands in where there are none."),
        "all_gather": _latencies("Measured all-gathers, by the size of what every GPU holds in the end; likewise."),
    }
    return _mapping(properties, ("name", "architecture", "memory", "hbm", "flops", "link"))


def link_schema() -> Schema:
    """Of ``hardware_profiles/links``."""
    bandwidth = _figure("bytes/s", "In one direction.")
    latency = _optional(_figure("seconds", "Until the first byte arrives."))
    return _mapping({**_HEAD, **_ABOUT, "bandwidth": bandwidth, "latency": latency}, ("name", "bandwidth"))


def storage_schema() -> Schema:
    """Of ``hardware_profiles/storage``."""
    properties = {
        **_HEAD,
        **_ABOUT,
        "capacity": _figure("bytes", "How much it holds."),
        "read": _figure("bytes/s", "Bandwidth of reading."),
        "write": _figure("bytes/s", "Bandwidth of writing."),
        "latency": _optional(_figure("seconds", "Until the first byte arrives.")),
    }
    return _mapping(properties, ("name", "capacity", "read", "write"))


def node_schema() -> Schema:
    """Of ``hardware_profiles/nodes``."""
    gpus: Schema = _mapping(
        {"value": {**_COUNT, "maximum": MOST_GPUS}, "source": _SOURCE, "date": _DATE}, ("value", "source", "date")
    )
    properties = {
        **_HEAD,
        **_ABOUT,
        "gpu": {**_TEXT, "description": "Name of its GPUs."},
        "gpus": {**gpus, "description": "How many."},
        "gpus_per_domain": {**gpus, "description": "That reach each other over NVLink or its like."},
        "memory": _figure("bytes", "Memory of the host."),
        "nic": {**_TEXT, "description": "Name of the network link of each GPU."},
        "host_link": _optional({**_TEXT, "description": "Name of the link between a GPU and the host."}),
        "storage": _optional({**_TEXT, "description": "Name of the local drives."}),
    }
    return _mapping(properties, ("name", "gpu", "gpus", "gpus_per_domain", "memory", "nic"))


def _curves(curve: type, dtypes: tuple[str, ...], about: str) -> Schema:
    """Curves of one class of kernels by data type."""
    numbers: dict[str, Schema] = {}
    for field in fields(curve):
        if field.name.endswith("_s"):
            numbers[field.name.removesuffix("_s")] = _quantity("seconds")
        else:
            numbers[field.name] = {"type": "number", "minimum": 0} if field.name == "ramp_tokens" else _SHARE
    needed = tuple(name for name in numbers if name != "quantise")
    return {
        "type": "object", "propertyNames": {"enum": list(dtypes)}, "description": about,
        "additionalProperties": described_as(_mapping(numbers, needed), curve),
    }  # fmt: skip


def _kernels() -> Schema:
    """The kernels of one GPU, all or some of them."""
    return _mapping(
        {
            "products": _curves(ProductCurve, WEIGHT_DTYPES, "Matrix products, by data type of the weights."),
            "experts": _curves(ExpertsCurve, WEIGHT_DTYPES, "Mixtures of experts, likewise."),
            "attention": _curves(AttentionCurve, KV_DTYPES, "Attention, by data type of the KV cache."),
            "mixed_query_tile": {"type": "number", "minimum": 1},
            "sort": {"type": "number", "exclusiveMinimum": 0},
            "quantise_product": _quantity("seconds"),
            "quantise_experts": _quantity("seconds"),
        },
    )


def calibration_schema() -> Schema:
    """Of ``hardware_profiles/calibrations``."""
    seconds, amount = _quantity("seconds"), _quantity("bytes")
    number: Schema = {"type": "number", "minimum": 0}
    roofline = {
        "power": {"type": "number", "minimum": 1},
        **dict.fromkeys(("tile_attention", "element_wise", "link_efficiency"), _SHARE),
        "expert_overlap": number,
        "link_latency": seconds,
        **dict.fromkeys(("send_efficiency", "across_efficiency", "across_duplex"), _SHARE),
        "across_latency": seconds,
    }

    parts: dict[str, Schema] = {
        "roofline": _mapping(roofline),
        "step": _mapping(
            {
                **dict.fromkeys(
                    (
                        "host",
                        "per_request",
                        "mixed",
                        "scheduling",
                        "scheduling_per_request",
                        "eager",
                        "experts_eager",
                        "router",
                    ),
                    seconds,
                ),
                "launch": {**number, "maximum": MOST_OF_A_LAUNCH},
                "experts_launch": {**number, "maximum": MOST_OF_A_LAUNCH},
                "all_reduce": {**number, "maximum": MOST_OF_AN_ALL_REDUCE},
            }
        ),
        "draft": _mapping(dict.fromkeys(("pass", "layer", "lookup"), seconds)),
        "sampling": _mapping(dict.fromkeys(SAMPLING, seconds)),
        "front_end": _mapping({"per_request": seconds, "per_prompt_token": seconds}),
        "output": _mapping({"per_request": seconds}),
        "memory": _mapping({"unavailable": amount, "overhead": amount, "collectives": amount}),
    }
    source = {"what": _TEXT, "source": _SOURCE, "date": _DATE}
    properties: dict[str, Schema] = {
        **_HEAD,
        "engine": _TEXT,
        "base": _TEXT,
        "sources": {"type": "array", "minItems": 1, "items": _mapping(source, tuple(source))},
        **parts,
        "kernels": {"type": "object", "additionalProperties": _kernels(), "description": "By name of the GPU."},
        "architectures": {
            "type": "object", "additionalProperties": _TEXT,
            "description": "Which GPU's constants stand for others of an architecture.",
        },
    }  # fmt: skip
    # What a file leaves out is that of its base; without one it says all.
    curves = {key: {"required": ["bf16"]} for key in ("products", "experts", "attention")}
    every_kernel = {"additionalProperties": {"required": list(_kernels()["properties"]), "properties": curves}}
    whole = {
        "properties": {
            **{name: {"required": list(part["properties"])} for name, part in parts.items()},
            "kernels": every_kernel,
        },
        "required": [*parts, "kernels", "architectures"],
    }
    schema = _mapping(properties, ("name", "engine", "sources"))
    return {**schema, "anyOf": [{"required": ["base"]}, whole]}


def model_schema() -> Schema:
    """Of ``hardware_profiles/models``; a Hugging Face ``config.json`` has none."""
    grouped = _mapping(
        {
            "kind": {"const": "grouped"}, "heads": _COUNT, "kv_heads": _COUNT, "head_dim": _COUNT,
            "window": _optional(_COUNT), "chunked": _FLAG, "gated": _FLAG,
        },
        ("heads", "kv_heads", "head_dim"), "Multi-head, grouped-query or multi-query attention.",
    )  # fmt: skip
    latent = _mapping(
        {
            "kind": {"const": "latent"}, "heads": _COUNT, "q_rank": _optional(_COUNT), "kv_rank": _COUNT,
            "nope_dim": _COUNT, "rope_dim": _COUNT, "v_dim": _COUNT, "top_k": _optional(_COUNT), "index_heads": _COUNT,
            "index_dim": _COUNT,
        },
        ("kind", "heads", "kv_rank", "nope_dim", "rope_dim", "v_dim"), "Multi-head latent attention.",
    )  # fmt: skip
    state = _mapping(
        {
            "kind": {"const": "state"}, "heads": _COUNT, "inputs": _COUNT, "inner": _COUNT, "state": _COUNT,
            "value_bytes": _COUNT, "convolved": _FROM_ZERO, "kernel": _COUNT, "extra": _FROM_ZERO,
        },
        ("kind", "heads", "inputs", "inner", "state"), "A state of constant size: linear attention, state spaces.",
    )  # fmt: skip
    dense = _mapping({"kind": {"const": "dense"}, "intermediate": _FROM_ZERO, "gated": _FLAG}, ("intermediate",))
    moe = _mapping(
        {
            "kind": {"const": "moe"}, "experts": _COUNT, "top_k": _COUNT, "intermediate": _COUNT,
            "shared_intermediate": _FROM_ZERO, "gated": _FLAG,
        },
        ("kind", "experts", "top_k", "intermediate"), "A mixture of experts.",
    )  # fmt: skip
    layer = _mapping(
        {"count": _COUNT, "attention": {"anyOf": [grouped, latent, state]}, "mlp": {"anyOf": [dense, moe]}},
        ("count", "attention", "mlp"),
    )
    weights = _mapping(
        {
            "dtype": {"enum": list(WEIGHT_DTYPES)}, "kv_cache": {"enum": list(KV_DTYPES)},
            "quantised": {"type": "array", "items": {"enum": list(QUANTISABLE)}},
        },
        ("dtype",), "Precision of the published weights; the parts that are not named are bf16.",
    )  # fmt: skip
    properties: dict[str, Schema] = {
        **_HEAD, "source": _SOURCE, "date": _DATE, "hidden": _COUNT, "vocab": _COUNT, "max_position": _COUNT,
        "tied_embeddings": _FLAG, "position_rows": _FROM_ZERO, "mtp_parameters": _FROM_ZERO,
        "vision_parameters": _FROM_ZERO, "notes": _NAMES, "weights": weights,
        "layers": {"type": "array", "items": layer, "minItems": 1, "description": "Groups of equal layers."},
    }  # fmt: skip
    return _mapping(properties, ("hidden", "vocab", "max_position", "layers"))


def acceptance_schema() -> Schema:
    """Of ``workloads/acceptance``."""
    share: Schema = {"type": "number", "minimum": 0, "maximum": 1}
    survival: Schema = {
        "type": "array", "items": share, "minItems": 1, "maxItems": MOST_ENTRIES,
        "description": "Of the drafts of as many tokens as there are entries, the shares whose first 1, 2, … stand.",
    }  # fmt: skip
    persistence = {**share, "description": "How likely the same continuation goes on at the next position."}
    beyond = {
        "position": {**_COUNT, "description": "From which position of the output on."},
        "survival": {**survival, "description": "Shares as above, from there on."},
        "persistence": {**persistence, "description": "Persistence, from there on."},
    }
    method = _mapping(
        {
            "survival": survival,
            "rate": {**share, "description": "How likely every drafted token stands, instead of `survival`."},
            "persistence": persistence,
            "spread": {
                "type": "number", "minimum": 0, "maximum": MOST_SPREAD,
                "description": "Coefficient of variation between requests of the accepted tokens per draft, in steps "
                "that draft as many tokens as `survival` has entries; of a rate, one.",
            },
            "proposal": {**share, "description": "How often a draft is made where none of it would stand."},
            "beyond": _optional(
                _mapping(beyond, ("position", "survival"), "The same for the later part of long outputs.")
            ),
            "source": _SOURCE,
            "date": _DATE,
        },
        ("source", "date"),
    )  # fmt: skip
    methods: Schema = {
        "type": "object", "minProperties": 1, "propertyNames": {"enum": list(METHOD_NAMES)},
        "additionalProperties": method,
        "description": "By method of speculation: `eagle3`, `ngram`, `mtp`, …",
    }  # fmt: skip
    return _mapping({**_HEAD, **_ABOUT, "methods": methods}, ("name", "methods"))


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "hardware": gpu_schema,
    "links": link_schema,
    "storage": storage_schema,
    "nodes": node_schema,
    "models": lambda: described(model_schema(), ModelSpec, Layer),
    "acceptance": acceptance_schema,
    "calibrations": lambda: described(calibration_schema(), Calibration, KernelConstants),
}
"""By kind."""
