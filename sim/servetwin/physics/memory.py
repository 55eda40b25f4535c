"""What fits into the memory of a GPU: weights, the engine's own needs, and KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.errors import CapacityError
from servetwin.specs import Calibration, Gpu, ModelSpec

_MIB = 2**20
_GIB = 2**30
_DEGREES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class KvRoom:
    """Room for KV cache on one rank.

    Attributes:
        num_blocks: blocks, the null block included.
        weight_bytes: weights [B].
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


def check_tensor(model: ModelSpec, tensor: int) -> None:
    """Refuse a tensor degree that does not divide the query heads.

    Raises:
        CapacityError: with the degrees that do.
    """
    uneven = [layer.attention.heads for layer in model.layers if layer.attention.heads % tensor]
    if uneven:
        raise CapacityError(
            f"the {uneven[0]} query heads of {model.name} cannot be shared out evenly",
            path="parallel.tensor",
            found=tensor,
            allowed=[str(degree) for degree in _DEGREES if uneven[0] % degree == 0],
        )


def kv_room(
    model: ModelSpec, gpu: Gpu, *, tensor: int, weights: str, kv_cache: str, gpu_memory_utilization: float,
    max_num_batched_tokens: int, block_size: int, calibration: Calibration, max_num_seqs: int = 1,
) -> KvRoom:  # fmt: skip
    """How many KV blocks fit beside the weights.

    Parameters
    ----------
    model, gpu : what runs, and where
    tensor : ranks that share out the model
    weights : precision of the weights
    kv_cache : data type of the KV cache
    gpu_memory_utilization : share of the memory that the engine may use, 0 to 1
    max_num_batched_tokens : tokens of the largest step, which the engine profiles
    block_size : tokens of a block
    calibration : the engine's own needs
    max_num_seqs : requests that run at a time at most; each holds the constant-size states of its layers

    Returns
    -------
    the room of one rank

    Raises
    ------
    CapacityError
        where the weights do not fit, the states of ``max_num_seqs`` requests do not, or no block does

    Notes
    -----
    ``blocks = (utilization · (memory − unavailable) − weights − overhead − states) / (block_size · KV bytes per
    token)``, with ``overhead = constant + 2 · max_num_batched_tokens · hidden · 2 B`` (the residual stream
    and one copy of it; wider buffers are reused between layers and are in the constant) and ``states =
    max_num_seqs · state bytes of a request``. vLLM takes a state from the pool of blocks when a request starts, and
    refuses to start where the pool could not hold one for each of ``max_num_seqs``; here they are set aside from the
    beginning, so that the room for tokens is underestimated while fewer requests run. Of a model that caches nothing
    per token, the states are all there is: its blocks are as many as ``max_num_seqs`` longest sequences could fill.

    References
    ----------
    KV block counts in the logs of 16 public vLLM 0.15.1 runs on H100.
    """
    check_tensor(model, tensor)
    usable = gpu_memory_utilization * (gpu.memory_bytes - calibration.unavailable_bytes)
    overhead = calibration.overhead_bytes + 4.0 * max_num_batched_tokens * model.hidden
    weight_bytes = model.weight_bytes(weights, tensor)
    states = max_num_seqs * model.state_bytes(tensor)
    room = usable - overhead - weight_bytes
    per_block = block_size * model.kv_bytes_per_token(kv_cache, tensor)
    if room < 0:
        raise CapacityError(
            f"the weights of {model.name} do not fit on {tensor} × {gpu.name}",
            path="parallel.tensor",
            found=f"{weight_bytes / _GIB:.1f} GiB per GPU, room for {(usable - overhead) / _GIB:.1f} GiB",
            hint=_smallest_degree(model, weights, usable - overhead),
        )
    if states > room:
        raise CapacityError(
            f"the states of {max_num_seqs} requests do not fit beside the weights of {model.name} "
            f"on {tensor} × {gpu.name}",
            path="max_num_seqs",
            found=f"{states / max_num_seqs / _MIB:.1f} MiB per request and GPU, room for {room / _GIB:.1f} GiB",
            allowed=f"at most {int(room // model.state_bytes(tensor))}, which leaves no room for a KV cache",
            hint="lower max_num_seqs, as vLLM demands too, or share the model out over more GPUs",
        )
    room -= states
    if per_block == 0.0:
        longest = -(-model.max_position // block_size)
        return KvRoom(1 + max_num_seqs * longest, weight_bytes, overhead, room, per_block, states)
    blocks = int(room // per_block)
    if blocks < 2:
        raise CapacityError(
            f"no KV block fits beside the weights of {model.name} on {tensor} × {gpu.name}",
            path="gpu_memory_utilization",
            found=f"{room / _GIB:.2f} GiB left, {per_block / _GIB:.4f} GiB per block",
            hint="raise gpu_memory_utilization, or share the model out over more GPUs",
        )
    return KvRoom(blocks, weight_bytes, overhead, room, per_block, states)


def _smallest_degree(model: ModelSpec, weights: str, usable: float) -> str:
    for degree in _DEGREES:
        even = all(layer.attention.heads % degree == 0 for layer in model.layers)
        if even and model.weight_bytes(weights, degree) < usable:
            return f"tensor: {degree} is the smallest degree that fits"
    return "no tensor degree up to 64 fits: use a GPU with more memory or weights of lower precision"
