"""Things of the catalogue as plain data, in the order in which to read it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from servetwin.specs import Gpu, ModelSpec


def describe_model(model: ModelSpec, path: Path) -> dict[str, Any]:
    """The layers of a model as its profile could give them; sizes and work are on its sheet."""
    return {
        "name": model.name,
        "layer_groups": [
            {
                "count": layer.count,
                "attention": {"kind": type(layer.attention).__name__, **asdict(layer.attention)},
                "mlp": {"kind": type(layer.mlp).__name__, **asdict(layer.mlp)},
            }
            for layer in model.layers
        ],
        "file": str(path),
    }


def describe_gpu(gpu: Gpu, path: Path, kernel_constants_of: str | None) -> dict[str, Any]:
    """A GPU in base units, and whose kernel constants it is priced with."""
    return {
        "name": gpu.name,
        "architecture": gpu.architecture,
        "memory_bytes": gpu.memory_bytes,
        "hbm_bytes_per_s": gpu.hbm_bytes_per_s,
        "flops": dict(gpu.flops),
        "link_bytes_per_s": gpu.link_bytes_per_s,
        "link_domain": gpu.link_domain,
        "price_per_hour_usd": gpu.price_per_hour_usd,
        "tdp_watts": gpu.tdp_watts,
        "switch_reduces": gpu.switch_reduces,
        "all_reduce_us": _microseconds(gpu.all_reduce),
        "all_gather_us": _microseconds(gpu.all_gather),
        "sources": [asdict(source) for source in gpu.sources],
        "file": str(path),
        "kernel_constants_of": kernel_constants_of,
    }


def _microseconds(tables: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]) -> dict[int, dict[int, float]]:
    """Latencies of a collective by number of GPUs and message size [us]."""
    return {gpus: {size: round(seconds * 1e6, 3) for size, seconds in table} for gpus, table in tables}
