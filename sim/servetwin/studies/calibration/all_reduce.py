"""The measured all-reduces: how well the table of a GPU profile stands for the sizes that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from servetwin.physics.collectives import AllReduce
from servetwin.specs import Calibration, Gpu
from servetwin.studies.calibration.residuals import Residual, residual
from servetwin.studies.calibration.samples import is_held_out
from servetwin.studies.calibration.tables import all_reduce_rows


def all_reduce_residuals(folder: Path, table: str, gpu: Gpu, calibration: Calibration) -> Iterator[Residual]:
    """Residuals of the all-reduces of a GPU, by how many GPUs take part.

    The sizes of the profile count as fitted, though they are measurements; all others as held out. Where a profile
    has no table the formula of ``AllReduce`` is what is compared, and nothing was fitted.
    """
    by_gpus: dict[int, list[tuple[int, float]]] = {}
    for row in all_reduce_rows(folder, table):
        by_gpus.setdefault(row.count("num_gpus"), []).append((row.count("bytes"), row.seconds()))
    for gpus, points in sorted(by_gpus.items()):
        known = {size for size, _ in dict(gpu.all_reduce).get(gpus, ())}
        priced = AllReduce(gpu, gpus, calibration)
        pairs = [(size not in known, priced.seconds(size) / seconds - 1.0) for size, seconds in points]
        yield residual("all-reduce", gpu.name, f"{gpus} GPUs", len(known), pairs, {})


def profile_table(folder: Path, table: str) -> str:
    """The measured all-reduces as a GPU profile holds them, without those sizes that are kept to judge it by.

    Returns:
        YAML; empty where the folder has no all-reduce of the GPU.
    """
    by_gpus: dict[int, dict[int, float]] = {}
    for row in all_reduce_rows(folder, table):
        by_gpus.setdefault(row.count("num_gpus"), {})[row.count("bytes")] = row.seconds()
    if not by_gpus:
        return ""
    common = sorted(set.intersection(*(set(points) for points in by_gpus.values())))
    # The ends stay: a table is not to be extended where it was measured.
    sizes = [size for size in common if size in (common[0], common[-1]) or not is_held_out((size,))]
    lines = ["all_reduce:", f"  bytes: {sizes}", "  latency_us:"]
    lines += [
        f"    {gpus}: {[round(points[size] * 1e6, 2) for size in sizes]}" for gpus, points in sorted(by_gpus.items())
    ]
    return "\n".join(lines)
