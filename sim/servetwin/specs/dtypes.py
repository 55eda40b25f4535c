"""The formats in which weights and KV caches are stored, and what a value of each takes.

``fp8`` has a scale per tensor or per row, ``fp8_block`` a scale per block of 128 × 128 weights and per 128 activations
(DeepSeek, Qwen3, MiniMax, GLM), which takes kernels of its own. ``mxfp4`` and ``mxfp4_mxfp8`` are the same weights,
multiplied with activations of 16 and of 8 bits.
"""

from __future__ import annotations

#: Bytes per stored weight, with the scales of the block formats: MXFP4 has an 8-bit scale per 32 values, NVFP4 an
#: 8-bit scale per 16, INT4 a 16-bit scale per 32.
_BYTES: dict[str, float] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int8": 1.0,
    "int4": 0.5625,
    "mxfp4": 0.53125,
    "mxfp4_mxfp8": 0.53125,
    "nvfp4": 0.5625,
}
WEIGHT_DTYPES = tuple(_BYTES)
KV_DTYPES = ("bf16", "fp16", "fp8")


def bytes_per_value(dtype: str) -> float:
    """Bytes [B] that one value of ``dtype`` takes, block scales included."""
    return _BYTES[dtype]
