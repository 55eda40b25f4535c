"""What fits into the memory of a GPU: weights, the engine's own needs, and KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.errors import CapacityError
from servetwin.specs import Calibration, Gpu, ModelSpec

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
    """

    num_blocks: int
    weight_bytes: float
    overhead_bytes: float
    kv_bytes: float
    bytes_per_block: float


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
    max_num_batched_tokens: int, block_size: int, calibration: Calibration,
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

    Returns
    -------
    the room of one rank

    Raises
    ------
    CapacityError
        where the weights do not fit, or no block does

    Notes
    -----
    ``blocks = (utilization · (memory − unavailable) − weights − overhead) / (block_size · KV bytes per
    token)``, with ``overhead = constant + 2 · max_num_batched_tokens · hidden · 2 B`` (the residual stream
    and one copy of it; wider buffers are reused between layers and are in the constant).

    References
    ----------
    KV block counts in the logs of 16 public vLLM 0.15.1 runs on H100.
    """
    check_tensor(model, tensor)
    usable = gpu_memory_utilization * (gpu.memory_bytes - calibration.unavailable_bytes)
    overhead = calibration.overhead_bytes + 4.0 * max_num_batched_tokens * model.hidden
    weight_bytes = model.weight_bytes(weights, tensor)
    room = usable - overhead - weight_bytes
    per_block = block_size * model.kv_bytes_per_token(kv_cache, tensor)
    if room < 0:
        raise CapacityError(
            f"the weights of {model.name} do not fit on {tensor} × {gpu.name}",
            path="parallel.tensor",
            found=f"{weight_bytes / _GIB:.1f} GiB per GPU, room for {(usable - overhead) / _GIB:.1f} GiB",
            hint=_smallest_degree(model, weights, usable - overhead),
        )
    blocks = int(room // per_block)
    if blocks < 2:
        raise CapacityError(
            f"no KV block fits beside the weights of {model.name} on {tensor} × {gpu.name}",
            path="gpu_memory_utilization",
            found=f"{room / _GIB:.2f} GiB left, {per_block / _GIB:.4f} GiB per block",
            hint="raise gpu_memory_utilization, or share the model out over more GPUs",
        )
    return KvRoom(blocks, weight_bytes, overhead, room, per_block)


def _smallest_degree(model: ModelSpec, weights: str, usable: float) -> str:
    for degree in _DEGREES:
        even = all(layer.attention.heads % degree == 0 for layer in model.layers)
        if even and model.weight_bytes(weights, degree) < usable:
            return f"tensor: {degree} is the smallest degree that fits"
    return "no tensor degree up to 64 fits: use a GPU with more memory or weights of lower precision"
