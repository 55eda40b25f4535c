"""The sheet of a model: shapes, weights, work, caches, and which GPUs it fits on. Memory only, no times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.physics.memory import kv_room
from servetwin.scenario.engines import vllm_defaults
from servetwin.scenario.schema import Engine, EngineOptions
from servetwin.specs import Calibration, Gpu, LatentAttention, Layer, ModelSpec, MoeMlp
from servetwin.specs.attention import StateAttention

DEGREES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (1_000, 8_000, 64_000)
_ENGINE = Engine()
_BLOCK_TOKENS = EngineOptions().block_size


def model_sheet(model: ModelSpec, catalog: Catalog, calibration: str = "default") -> dict[str, Any]:
    """Everything on the sheet of a model, as plain data.

    Args:
        model: the model, in the precision of its checkpoint.
        catalog: where the GPUs are.
        calibration: what the engine itself takes of the memory.

    Returns:
        Sizes in bytes, arithmetic in FLOP, and per GPU what fits at which tensor-parallel degree.
    """
    constants = catalog.calibration(calibration)
    gpus = [catalog.gpu(name) for name in catalog.names("hardware")]
    cache = model.native_kv_cache
    return {
        "name": model.name,
        "parameters": model.parameters(),
        "active_parameters": model.active_parameters(),
        "parts": {**model.parts(), "embeddings": model.parameters() - sum(model.parts().values())},
        "mtp_parameters": model.mtp_parameters,
        "vision_parameters": model.vision_parameters,
        "shapes": {
            "layers": model.num_layers,
            "hidden": model.hidden,
            "vocab": model.vocab,
            "max_position": model.max_position,
            "tied_embeddings": model.tied_embeddings,
        },
        "precision": {
            "weights": model.native_weights,
            "quantised_parts": list(model.quantised_parts),
            "kv_cache": cache,
            "weight_bytes": round(model.weight_bytes()),
        },
        "layer_kinds": [_layer_kind(model, layer, cache) for layer in model.layers],
        "kv_bytes_per_token": round(model.kv_bytes_per_token(cache)),
        "state_bytes_per_request": round(model.state_bytes()),
        "flops_per_token": {str(context): model.flops_per_token(context) for context in (0, *CONTEXTS)},
        "engine": f"{_ENGINE.name} {_ENGINE.version}",
        "fits": [row for gpu in gpus for row in _fits(model, gpu, constants)],
        "notes": list(model.notes),
        "source": model.source,
    }


def _layer_kind(model: ModelSpec, layer: Layer, cache: str) -> dict[str, Any]:
    """One kind of layer: what it is, and what one layer of it weighs and caches."""
    attention, mlp = layer.attention, layer.mlp
    weights = attention.parameters(model.hidden) + sum(mlp.parts(model.hidden).values()) + 2 * model.hidden
    return {
        "count": layer.count,
        "attention": _attention(layer),
        "feed_forward": _feed_forward(layer),
        "parameters": weights,
        "active_parameters": attention.parameters(model.hidden) + mlp.active_parameters(model.hidden),
        "kv_bytes_per_token": round(attention.kv_bytes(1, cache) + attention.index_bytes()),
        "kv_tokens_kept": None if attention.keeps_cache or attention.window is None else attention.window,
        "state_bytes_per_request": round(attention.state_bytes(1)),
    }


def _attention(layer: Layer) -> str:
    attention = layer.attention
    if isinstance(attention, StateAttention):
        return f"constant state of {attention.state:,} values in {attention.heads} heads"
    if isinstance(attention, LatentAttention):
        text = f"latent, {attention.heads} heads, {attention.kv_rank} + {attention.rope_dim} values"
        if attention.top_k is None:
            return text
        indexer = f"{attention.index_heads} indexer heads" if attention.index_heads else "the indexer of another layer"
        return f"{text}, the best {attention.top_k:,} tokens by {indexer}"
    text = f"{attention.heads} heads, {attention.kv_heads} KV heads of {attention.head_dim}"
    if attention.window is not None:
        text += f", {'chunk' if attention.chunked else 'window'} of {attention.window:,}"
    return text + (", gated" if attention.gated else "")


def _feed_forward(layer: Layer) -> str:
    mlp = layer.mlp
    if isinstance(mlp, MoeMlp):
        shared = f", {mlp.shared_intermediate:,} shared" if mlp.shared_intermediate else ""
        return f"{mlp.top_k} of {mlp.experts} experts of {mlp.intermediate:,}{shared}"
    if not mlp.intermediate:
        return "none"
    return f"dense {mlp.intermediate:,}" + ("" if mlp.gated else ", two matrices")


def _fits(model: ModelSpec, gpu: Gpu, calibration: Calibration) -> Iterator[dict[str, Any]]:
    """One row per degree that divides the heads and stays inside a node, with the settings that vLLM defaults to."""
    defaults = vllm_defaults(_ENGINE.version, gpu.name, gpu.memory_bytes)
    for tensor in DEGREES:
        if tensor > gpu.link_domain or any(layer.attention.heads % tensor for layer in model.layers):
            continue
        row: dict[str, Any] = {
            "gpu": gpu.name,
            "tensor": tensor,
            "fits": False,
            "kv_tokens": 0,
            "max_num_seqs": 0,
            "lowered": False,
        }
        # A hybrid model may need fewer requests at a time than the default to leave room for their states.
        for seqs in dict.fromkeys((defaults.max_num_seqs, 256, 64, 16, 1)):
            try:
                room = kv_room(
                    model, gpu, tensor=tensor, weights="auto", kv_cache=model.native_kv_cache,
                    gpu_memory_utilization=defaults.gpu_memory_utilization,
                    max_num_batched_tokens=defaults.max_num_batched_tokens, block_size=_BLOCK_TOKENS,
                    calibration=calibration, max_num_seqs=seqs,
                )  # fmt: skip
            except CapacityError:
                if not model.state_bytes():
                    break
                continue
            row |= {
                "fits": True,
                "kv_tokens": (room.num_blocks - 1) * _BLOCK_TOKENS,
                "max_num_seqs": seqs,
                "lowered": seqs < defaults.max_num_seqs,
            }
            break
        row["weight_bytes_per_gpu"] = round(model.weight_bytes("auto", tensor))
        yield row
