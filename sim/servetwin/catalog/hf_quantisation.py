"""How a checkpoint is quantised: the precision of each part of the model, from what is said about its matrices.

Configurations name what they leave out (``model.layers.0.self_attn.q_proj``, ``re:.*self_attn.*``, ``*.mlp.gate``) or
what they quantise. Here every matrix of the model gets its name, is asked for, and counts with its size: a part is
quantised where more than half of its weights are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.catalog.hf_modules import Module, modules
from servetwin.catalog.hf_patterns import Named, matcher
from servetwin.specs import Layer
from servetwin.specs.layers import QUANTISABLE

Precision = Callable[[Module], str]

#: Algorithms of NVIDIA's ModelOpt, and the formats of the weights that they leave.
_MODELOPT = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8_block", "FP8_BLOCK_SCALES": "fp8_block",
    "MXFP8": "fp8",
    "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4", "INT4_AWQ": "int4", "W4A16_AWQ": "int4",
    "W4A8_AWQ": "int4", "INT8_SQ": "int8", "W8A8_SQ_PER_CHANNEL": "int8",
}  # fmt: skip

#: Formats of compressed-tensors by type and bits.
_COMPRESSED = {("float", 8): "fp8", ("int", 8): "int8", ("int", 4): "int4", ("float", 4): "nvfp4"}

#: Formats of AMD's Quark.
_QUARK = {"fp8_e4m3": "fp8", "fp4": "mxfp4", "int8": "int8", "int4": "int4", "uint4": "int4"}

_METHODS = "fp8, fbgemm_fp8, mxfp4, mxfp8, compressed-tensors, modelopt, quark, awq, gptq, bitsandbytes"

#: From which share of a part on a second precision is worth a note.
_WORTH_A_NOTE = 0.02


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What a configuration says about precision.

    Attributes:
        weights: precision of the quantised weights; empty = none are.
        parts: the parts that have it.
        kv_cache: precision that the checkpoint asks for the KV cache.
        notes: what had to be simplified, in sentences.
    """

    weights: str
    parts: tuple[str, ...]
    kv_cache: str = "bf16"
    notes: tuple[str, ...] = ()


def read_quantisation(fields: Fields, config: object, layers: Sequence[Layer], hidden: int) -> Quantisation:
    """The precision of a checkpoint.

    Args:
        fields: the configuration, for messages.
        config: its ``quantization_config``.
        layers: the layers of the model, in order.
        hidden: width of the residual stream.

    Raises:
        CatalogError: where the method is not modelled.
    """
    quant = Fields(config, fields.file, "quantization_config")
    method = quant.text("quant_method", "modelopt" if quant.has("quant_algo") else "")
    if method == "mxfp4":
        return Quantisation("mxfp4", ("experts",))
    precision = _precision(quant, method)
    kv_cache, notes = _kv_cache(quant)
    weights, parts, more = _parts(precision, modules(layers, hidden))
    return Quantisation(weights, parts, kv_cache, (*notes, *more))


def _precision(quant: Fields, method: str) -> Precision:
    """What says the precision of a matrix."""
    left_out = _names(quant, "modules_to_not_convert", "ignore", "exclude_modules", "exclude", "ignored_layers")
    if method in ("fp8", "fbgemm_fp8", "mxfp8"):
        return _all("fp8_block" if quant.take("weight_block_size", None) else "fp8", left_out)
    if method == "compressed-tensors":
        return _compressed(quant, left_out)
    if method.startswith("modelopt"):
        return _modelopt(quant, left_out)
    if method == "quark":
        return _all(_quark(quant), left_out)
    if method in ("awq", "gptq"):
        bits = quant.take("bits", quant.take("w_bit", 4))
        if bits in (4, 8):
            return _all("int4" if bits == 4 else "int8", left_out)
        raise quant.error("this quantisation is not modelled", "bits", found=bits, allowed="4, 8")
    if method == "bitsandbytes":
        return _all("int4" if quant.flag("load_in_4bit") or quant.flag("_load_in_4bit") else "int8", left_out)
    raise quant.error("this quantisation is not modelled", "quant_method", found=method, allowed=_METHODS)


def _all(dtype: str, left_out: Named) -> Precision:
    return lambda module: "bf16" if left_out(module) else dtype


def _compressed(quant: Fields, left_out: Named) -> Precision:
    """Groups of compressed-tensors: each has its format, and targets in names, patterns or classes of layers."""
    groups = quant.inner("config_groups")
    if not groups.names():
        raise groups.error("at least one group of weights is expected")
    rules: list[tuple[Named, str]] = []
    for name in groups.names():
        group = groups.inner(name)
        if not group.has("weights"):
            continue
        weights = group.inner("weights")
        found = (weights.text("type"), weights.integer("num_bits"))
        if found not in _COMPRESSED:
            raise quant.error("this quantisation is not modelled", f"config_groups.{name}", found=found)
        dtype = _COMPRESSED[found]
        if dtype == "fp8" and weights.text("strategy", "") == "block":
            dtype = "fp8_block"
        targets = [str(target) for target in group.entries("targets")]
        everything = not targets or "Linear" in targets
        rules.append(((lambda module: True) if everything else matcher(targets, group, "targets"), dtype))
    return lambda module: (
        "bf16" if left_out(module) else next((dtype for named, dtype in rules if named(module)), "bf16")
    )


def _modelopt(quant: Fields, left_out: Named) -> Precision:
    algorithm = quant.text("quant_algo", "").upper()
    if algorithm == "MIXED_PRECISION":
        given = quant.inner("quantized_layers")
        rules = [
            (matcher([name], quant, "quantized_layers"), _known(given.inner(name), "quant_algo"))
            for name in given.names()
        ]
        return lambda module: next((dtype for named, dtype in rules if named(module)), "bf16")
    return _all(_known(quant, "quant_algo"), left_out)


def _known(quant: Fields, key: str) -> str:
    algorithm = quant.text(key)
    if algorithm.upper() not in _MODELOPT:
        raise quant.error("this quantisation is not modelled", key, found=algorithm, allowed=list(_MODELOPT))
    return _MODELOPT[algorithm.upper()]


def _quark(quant: Fields) -> str:
    weight = quant.inner("global_quant_config").inner("weight")
    dtype = weight.text("dtype")
    if dtype not in _QUARK:
        raise weight.error("this quantisation is not modelled", "dtype", found=dtype, allowed=list(_QUARK))
    return _QUARK[dtype]


def _kv_cache(quant: Fields) -> tuple[str, list[str]]:
    """Precision of the KV cache that the checkpoint asks for, and a note where it is none that is modelled."""
    found: Any = quant.take("kv_cache_quant_algo", None)
    scheme = quant.take("kv_cache_scheme", None)
    if found is None and isinstance(scheme, dict):
        found = f"{scheme.get('type', 'float')}{scheme.get('num_bits', 8)}"
    if found is None:
        return "bf16", []
    name = str(found).lower()
    if name in ("fp8", "float8"):
        return "fp8", []
    return "fp8", [f"the checkpoint asks for a KV cache in {name}, which is not modelled: it is priced in fp8"]


def _parts(precision: Precision, found: Iterable[Module]) -> tuple[str, tuple[str, ...], list[str]]:
    """The precision of most weights, the parts that have it, and a note for each part that has it only partly."""
    sizes: dict[str, dict[str, float]] = {}
    for module in found:
        by_dtype = sizes.setdefault(module.part, {})
        dtype = precision(module)
        by_dtype[dtype] = by_dtype.get(dtype, 0.0) + module.weights
    totals: dict[str, float] = {}
    for by_dtype in sizes.values():
        for dtype, size in by_dtype.items():
            totals[dtype] = totals.get(dtype, 0.0) + size
    quantised = {dtype: size for dtype, size in totals.items() if dtype != "bf16"}
    if not quantised:
        return "", (), ["the checkpoint is said to be quantised, but none of the weights that are modelled is"]
    native = max(quantised, key=lambda dtype: quantised[dtype])
    parts, notes = [], []
    for part in QUANTISABLE:
        by_dtype = sizes.get(part, {})
        total = sum(by_dtype.values())
        share = by_dtype.get(native, 0.0) / total if total else 1.0
        if share > 0.5:
            parts.append(part)
        others = {dtype: size / total for dtype, size in by_dtype.items() if size > _WORTH_A_NOTE * total}
        if len(others) > 1 or (others and native not in others and "bf16" not in others):
            mix = ", ".join(f"{part_share:.0%} {dtype}" for dtype, part_share in sorted(others.items()))
            notes.append(
                f"the weights of part {part!r} are {mix}: all are priced as {native if share > 0.5 else 'bf16'}"
            )
    return native, tuple(parts), notes


def _names(quant: Fields, *keys: str) -> Named:
    """What a list of names and patterns under one of ``keys`` means."""
    found = [matcher([str(entry) for entry in quant.entries(key)], quant, key) for key in keys]
    return lambda module: any(named(module) for named in found)
