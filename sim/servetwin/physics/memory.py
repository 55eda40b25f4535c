"""What fits into the memory of a GPU: weights, the engine's own needs, and KV cache."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from servetwin.errors import CapacityError
from servetwin.specs import Calibration, Gpu, GroupedAttention, LatentAttention, ModelSpec, MoeMlp, StateAttention

_MIB = 2**20
_GIB = 2**30
_USUAL_BLOCK = 16
DEGREES = (1, 2, 4, 8, 16, 32, 64)
"""Tensor degrees that are tried: most models have widths that others do not divide."""

#: What sampling with top-p holds per row of logits and token of the vocabulary [B]: the logits in fp32 (4), sorted (4)
#: with their places (8), the probabilities (4), their running sums (4), and the logits put back in order (4).
_SAMPLER_BYTES = 28.0


@dataclass(frozen=True, slots=True)
class KvRoom:
    """Room for KV cache on one rank.

    Attributes:
        num_blocks: blocks, the null block included.
        weight_bytes: weights [B], those of a vision tower included.
        overhead_bytes: what the engine takes besides weights and KV cache [B].
        kv_bytes: what is left for KV cache [B].
        bytes_per_block: bytes of one block [B].
        state_bytes: what the states of ``max_num_seqs`` requests take [B]; 0 without constant-state layers.
    """

    num_blocks: int
    weight_bytes: float
    overhead_bytes: float
    kv_bytes: float
    bytes_per_block: float
    state_bytes: float = 0.0


def check_tensor(model: ModelSpec, tensor: int, uneven_heads: bool = False) -> None:
    """Refuse a tensor degree that does not divide the query heads, unless uneven parts are asked for.

    Raises:
        CapacityError: with the degrees that do; or there are more ranks than heads.
    """
    if uneven_heads:
        if tensor > model.heads:
            raise CapacityError(
                f"a rank of {model.name} would have none of its {model.heads} query heads",
                path="parallel.tensor",
                found=tensor,
                allowed=f"at most {model.heads}",
            )
        return
    uneven = [layer.attention.heads for layer in model.layers if layer.attention.heads % tensor]
    if uneven:
        raise CapacityError(
            f"the {uneven[0]} query heads of {model.name} cannot be shared out evenly",
            path="parallel.tensor",
            found=tensor,
            allowed=[str(degree) for degree in DEGREES if uneven[0] % degree == 0],
            hint="with parallel.uneven_heads: true some ranks have a head more, and the others wait for them",
        )


def check_context(model: ModelSpec, context: int) -> None:
    """Refuse to share out prompts of a model whose layers take their tokens one after the other.

    Raises:
        CapacityError: ``context`` is above 1 and a layer keeps a state of constant size.
    """
    if context > 1 and any(isinstance(layer.attention, StateAttention) for layer in model.layers):
        raise CapacityError(
            f"{model.name} has layers with a state of constant size, which takes in the tokens of a prompt in order: "
            "they cannot be shared out",
            path="parallel.context",
            found=context,
            allowed="1",
        )


def kv_room(
    model: ModelSpec, gpu: Gpu, *, tensor: int, weights: str, kv_cache: str, gpu_memory_utilization: float,
    max_num_batched_tokens: int, block_size: int, calibration: Calibration, max_num_seqs: int = 1,
    uneven_heads: bool = False, advise: bool = True, drafter_bytes: float = 0.0, drafter_kv_bytes: float = 0.0,
    drafter: str = "",
) -> KvRoom:  # fmt: skip
    """How many KV blocks fit beside the weights.

    ``blocks = (utilization · (memory − unavailable) − weights − overhead − states) / (block_size · KV bytes per
    token)``, with ``overhead = constant + collectives + rotary table + working space`` (``engine_bytes``) and ``states
    = max_num_seqs · state bytes of a request``. vLLM takes a state from the pool of blocks when a request starts, and
    refuses to start where the pool could not hold one for each of ``max_num_seqs``; here they are set aside from the
    beginning, so that the room for tokens is underestimated while fewer requests run. Of a model that caches nothing
    per token, the states are all there is: its blocks are as many as ``max_num_seqs`` longest sequences could fill.
    A vision tower is loaded and shared out like the rest; what it computes in vLLM's profile run is left out.

    Source: KV block counts in the logs of 22 public runs of vLLM, 0.15.1 on H100 and 0.19 on an RTX 4090.

    Args:
        model, gpu: what runs, and where.
        tensor: ranks that share out the model.
        weights: precision of the weights.
        kv_cache: data type of the KV cache.
        gpu_memory_utilization: share of the memory that the engine may use, 0 to 1.
        max_num_batched_tokens: tokens of the largest step, which the engine profiles.
        block_size: tokens of a block.
        calibration: the engine's own needs.
        max_num_seqs: requests that run at a time at most; each holds the constant-size states of its layers.
        uneven_heads: whether ``tensor`` need not divide the query heads; the rank with most of them counts.
        drafter_bytes: weights of a drafter on the rank [B].
        drafter_kv_bytes: KV cache that it keeps per token [B], in the same blocks.
        drafter: what it is called, for messages.
        advise: whether an error about weights that do not fit names the smallest degree at which there is room.

    Returns:
        the room of one rank.

    Raises:
        CapacityError: where the weights do not fit, the states of ``max_num_seqs`` requests do not, or no block does.
    """
    check_tensor(model, tensor, uneven_heads)
    usable = gpu_memory_utilization * (gpu.memory_bytes - calibration.unavailable_bytes)
    weight_bytes = model.weight_bytes(weights, tensor) + 2.0 * model.vision_parameters / tensor + drafter_bytes
    state = model.state_bytes(tensor)
    loaded = f"{model.name} and of its drafter {drafter}" if drafter_bytes else model.name
    per_block = block_size * (model.kv_bytes_per_token(kv_cache, tensor) + drafter_kv_bytes)

    def overhead_of(seqs: int, tokens: int = max_num_batched_tokens) -> float:
        return engine_bytes(
            model, tensor=tensor, max_num_batched_tokens=tokens, max_num_seqs=seqs, calibration=calibration
        )

    least, overhead = overhead_of(1), overhead_of(max_num_seqs)
    if weight_bytes > usable - least:
        its_share = f", {drafter_bytes / _GIB:.1f} GiB of them the drafter's" if drafter_bytes else ""
        most = bisect_right(
            range(max_num_batched_tokens), 0.0, key=lambda tokens: weight_bytes - usable + overhead_of(1, tokens)
        ) - 1  # fmt: skip
        if most > 0:
            raise CapacityError(
                f"a step of {max_num_batched_tokens:,} tokens does not fit beside the weights of {loaded} on "
                f"{tensor} × {gpu.name}",
                path="max_num_batched_tokens",
                found=f"{(least - overhead_of(1, 1)) / _GIB:.1f} GiB of activations, room for "
                f"{(usable - weight_bytes - overhead_of(1, 1)) / _GIB:.1f} GiB",
                allowed=f"at most {most:,}, which leaves no room for a KV cache",
            )
        raise CapacityError(
            f"the weights of {loaded} do not fit on {tensor} × {gpu.name}",
            path="parallel.tensor",
            found=f"{weight_bytes / _GIB:.1f} GiB per GPU{its_share}, room for {(usable - least) / _GIB:.1f} GiB",
            hint=_smallest_degree(
                model, gpu, weights=weights, kv_cache=kv_cache, gpu_memory_utilization=gpu_memory_utilization,
                max_num_batched_tokens=max_num_batched_tokens, block_size=block_size, calibration=calibration,
                max_num_seqs=max_num_seqs, uneven_heads=uneven_heads, drafter_bytes=drafter_bytes,
                drafter_kv_bytes=drafter_kv_bytes, drafter=drafter,
            ) if advise else None,
        )  # fmt: skip
    room = usable - overhead - weight_bytes
    states = max_num_seqs * state
    if states > room:
        most = bisect_right(
            range(max_num_seqs), 0.0, key=lambda seqs: seqs * state - (usable - overhead_of(seqs) - weight_bytes)
        ) - 1  # fmt: skip
        raise CapacityError(
            f"the {'states' if state else 'logits'} of {max_num_seqs} requests do not fit beside the weights of "
            f"{loaded} on {tensor} × {gpu.name}",
            path="max_num_seqs",
            found=f"{state / _MIB + (overhead - least) / max_num_seqs / _MIB:.1f} MiB per request and GPU, "
            f"room for {(usable - least - weight_bytes) / _GIB:.1f} GiB",
            allowed=f"at most {most}, which leaves no room for a KV cache",
            hint="lower max_num_seqs, as vLLM demands too, or share the model out over more GPUs",
        )
    room -= states
    if per_block == 0.0:
        longest = -(-model.max_position // block_size)
        return KvRoom(1 + max_num_seqs * longest, weight_bytes, overhead, room, per_block, states)
    blocks = int(room // per_block)
    if blocks < 2:
        most = int(room // (2 * per_block / block_size))
        if most >= _USUAL_BLOCK:
            raise CapacityError(
                f"two KV blocks of {block_size:,} tokens do not fit beside the weights of {loaded} on "
                f"{tensor} × {gpu.name}, and one of them stays empty",
                path="block_size",
                found=block_size,
                allowed=f"at most {most:,}; engines have {_USUAL_BLOCK}",
            )
        raise CapacityError(
            f"no KV block fits beside the weights of {loaded} on {tensor} × {gpu.name}",
            path="gpu_memory_utilization",
            found=f"{room / _GIB:.2f} GiB left, {per_block / _GIB:.4f} GiB per block",
            hint="raise gpu_memory_utilization, or share the model out over more GPUs",
        )
    return KvRoom(blocks, weight_bytes, overhead, room, per_block, states)


def engine_bytes(
    model: ModelSpec, *, tensor: int, max_num_batched_tokens: int, max_num_seqs: int, calibration: Calibration
) -> float:
    """What an engine takes on one rank besides weights, states and KV cache [B].

    vLLM runs its largest step once and then the sampler, and keeps free what that took at its peak. Through the step
    goes the residual stream with one copy of it. The feed-forward block holds ``3 · intermediate / tensor`` values of
    bf16 per token, those of the experts of a token in a mixture; it is done when the sampler starts, which holds 28
    bytes per row of logits and token of the vocabulary (``_SAMPLER_BYTES``): the larger of the two counts. The rotary
    table has the cosines and sines of every position that the configuration allows, in bf16, once for all layers:
    small, but 2.7 GB for the ten million positions of Llama-4-Scout.

    Source: vLLM ``v1/sample/sampler.py``, ``v1/sample/ops/topk_topp_sampler.py``,
        ``model_executor/layers/rotary_embedding``, ``profile_run`` in ``v1/worker/gpu_model_runner.py``.

    Args:
        model: what runs.
        tensor: ranks that share out the model.
        max_num_batched_tokens: tokens of the largest step, which the engine profiles.
        max_num_seqs: rows of logits that it samples at most.
        calibration: its constants: runtime and graphs, and the buffers of the collectives where there are any.

    Returns:
        ``constant + [tensor > 1] · collectives + rotary table + 2 · tokens · hidden · 2 B +
        max(feed-forward, sampler)``.
    """
    collectives = calibration.collectives_bytes if tensor > 1 else 0.0
    residual = 4.0 * max_num_batched_tokens * model.hidden
    inner = max(
        layer.mlp.top_k * layer.mlp.intermediate if isinstance(layer.mlp, MoeMlp) else layer.mlp.intermediate
        for layer in model.layers
    )
    feed_forward = 2.0 * max_num_batched_tokens * 3 * inner / tensor
    sampler = _SAMPLER_BYTES * max_num_seqs * model.vocab if model.has_output else 0.0
    return calibration.overhead_bytes + collectives + _rotary_bytes(model) + residual + max(feed_forward, sampler)


def _rotary_bytes(model: ModelSpec) -> float:
    """The table of cosines and sines [B]; none where positions have rows of their own."""
    if model.position_rows:
        return 0.0
    widths = [0]
    for layer in model.layers:
        if isinstance(layer.attention, GroupedAttention):
            widths.append(layer.attention.head_dim)
        elif isinstance(layer.attention, LatentAttention):
            widths.append(layer.attention.rope_dim)
    return 2.0 * model.max_position * max(widths)


def _smallest_degree(model: ModelSpec, gpu: Gpu, **settings: Any) -> str:
    """The smallest tensor degree with room for a KV cache, and a smaller one that has it with a smaller step."""
    smaller = ""
    for degree in DEGREES:
        try:
            kv_room(model, gpu, tensor=degree, advise=False, **settings)
        except CapacityError as error:
            if error.path in ("max_num_seqs", "max_num_batched_tokens") and not smaller:
                smaller = f"tensor: {degree} fits with a lower {error.path}"
            continue
        return f"tensor: {degree} is the smallest degree that fits" + (f"; {smaller}" if smaller else "")
    smaller_drafter = "a smaller drafter, " if settings["drafter_bytes"] else ""
    none = f"no tensor degree up to 64 fits: use {smaller_drafter}a GPU with more memory or weights of lower precision"
    return smaller or none
