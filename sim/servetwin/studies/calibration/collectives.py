"""The measured collectives inside a node: how well the tables of a GPU profile stand for the sizes they leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from servetwin.physics.collectives import AllGather, AllReduce
from servetwin.specs import Calibration, Gpu
from servetwin.studies.calibration.residuals import Residual, residual
from servetwin.studies.calibration.samples import is_held_out
from servetwin.studies.calibration.tables import Row, all_gather_rows, all_reduce_rows, reduce_scatter_rows

REDUCE, GATHER, SCATTER = COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter")


def collective_residuals(folder: Path, table: str, gpu: Gpu, calibration: Calibration) -> Iterator[Residual]:
    """Residuals of the all-reduces, all-gathers and reduce-scatters of a GPU, by how many GPUs take part.

    The sizes of the profile count as fitted, though they are measurements; all others as held out. Where a profile
    has no table the formula is what is compared, and nothing was fitted. A reduce-scatter is priced as an all-gather
    of as many bytes, so that all of its sizes are held out.
    """
    reduced, gathered = dict(gpu.all_reduce), dict(gpu.all_gather)
    for gpus, points in _by_gpus(all_reduce_rows(folder, table)):
        reduce, known = AllReduce(gpu, gpus, calibration), {size for size, _ in reduced.get(gpus, ())}
        pairs = [(size not in known, reduce.seconds(size) / seconds - 1.0) for size, seconds in points]
        yield residual(REDUCE, gpu.name, f"{gpus} GPUs", len(known), pairs, {})
    for gpus, points in _by_gpus(all_gather_rows(folder, table)):
        gather, known = AllGather(gpu, gpus, calibration), {size for size, _ in gathered.get(gpus, ())}
        pairs = [(size not in known, gather.seconds(size) / seconds - 1.0) for size, seconds in points]
        yield residual(GATHER, gpu.name, f"{gpus} GPUs", len(known), pairs, {})
    for gpus, points in _by_gpus(reduce_scatter_rows(folder, table)):
        gather = AllGather(gpu, gpus, calibration)
        pairs = [(True, gather.seconds(size) / seconds - 1.0) for size, seconds in points]
        yield residual(SCATTER, gpu.name, f"{gpus} GPUs", 0, pairs, {})


def _by_gpus(rows: Sequence[Row]) -> list[tuple[int, list[tuple[int, float]]]]:
    """Sizes [B] and times [s] of the rows, by number of GPUs."""
    found: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row.count("num_gpus"), []).append((row.count("bytes"), row.seconds()))
    return sorted(found.items())


def profile_table(folder: Path, table: str, gpu: Gpu) -> str:
    """The measured collectives that the profile of a GPU lacks, as it would hold them.

    Sizes that are kept to judge the table by are left out.

    Returns:
        YAML; empty where the folder has none of the GPU, or the profile has all.
    """
    parts = []
    if not gpu.all_reduce:
        parts += _table("all_reduce", all_reduce_rows(folder, table))
    if not gpu.all_gather:
        parts += _table("all_gather", all_gather_rows(folder, table))
    return "\n".join(parts)


def _table(name: str, rows: Sequence[Row]) -> list[str]:
    by_gpus = {gpus: _rising(points) for gpus, points in _by_gpus(rows)}
    if not by_gpus:
        return []
    common = sorted(set.intersection(*(set(points) for points in by_gpus.values())))
    # The ends stay: a table is not to be extended where it was measured.
    sizes = [size for size in common if size in (common[0], common[-1]) or not is_held_out((size,))]
    times = {gpus: [round(points[size] * 1e6, 2) for size in sizes] for gpus, points in by_gpus.items()}
    return [f"{name}:", f"  bytes: {sizes}", "  latency_us:", *(f"    {gpus}: {row}" for gpus, row in times.items())]


def _rising(points: Sequence[tuple[int, float]]) -> dict[int, float]:
    """The times by size; where a larger message took less, its time, for noise only ever adds."""
    least: dict[int, float] = {}
    seconds = float("inf")
    for size, measured in sorted(points, reverse=True):
        least[size] = seconds = min(seconds, measured)
    return least
