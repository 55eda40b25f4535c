"""Collectives between servers against measured ones: two clusters of Vidur, table beside the repository."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.collectives import AllReduce, Send
from servetwin.specs.span import Span

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT.parent / "shared" / "kernels" / "kernels_p2p_vidur.csv"
PAGE = ROOT / "docs" / "how-it-works" / "parallelism.md"
CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
FITTED = (2048, 64 * 2**20)
"""The sizes that the constants are read off; all others judge them."""

GPUS = {"A100 DGX": "a100-sxm-80gb", "H100 DGX": "h100-sxm"}
NIC = {"A100 DGX": 10.9e9, "H100 DGX": 50e9}
"""B/s. The H100's is its data sheet's; the A100's, which nobody names, is such that a send of 64 MiB comes out."""

LINK_LATENCY_S = 5e-6


class Group(NamedTuple):
    """Rows of equal placement."""

    system: str
    op: str
    gpus: int
    per_server: int


@cache
def measured() -> dict[Group, dict[int, float]]:
    """Seconds by size of the rows between servers."""
    if not TABLE.parents[1].exists():
        pytest.skip(f"the measured collectives are not here: {TABLE}")
    found: dict[Group, dict[int, float]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["scope"] == "inter-node":
                group = Group(row["system"], row["op"], int(row["num_gpus"]), int(row["gpus_per_node_used"]))
                found.setdefault(group, {})[int(row["bytes"])] = float(row["latency_us"]) * 1e-6
    return found


def priced(group: Group, size: int) -> float:
    """What the simulator says [s]."""
    gpu = CATALOG.gpu(GPUS[group.system])
    # Eight GPUs of an A100 server get through no faster than four: two share a NIC.
    nic = NIC[group.system] / (2 if group.per_server == 8 else 1)
    parts = (group.per_server,) * (group.gpus // group.per_server)
    span = Span(group.gpus, len(parts), parts, gpu.link_bytes_per_s, nic, LINK_LATENCY_S)
    if group.op == "send_recv":
        return Send(gpu, CALIBRATION, span).seconds(size)
    return AllReduce(gpu, group.gpus, CALIBRATION, span).seconds(size)


def errors(group: Group, held_out: bool = True) -> list[float]:
    """Relative errors, of the sizes that the constants were not read off unless all are asked for."""
    points = measured()[group].items()
    return [priced(group, size) / seconds - 1.0 for size, seconds in points if size not in FITTED or not held_out]


SENDS = [Group("H100 DGX", "send_recv", 2, 1), Group("A100 DGX", "send_recv", 2, 1)]
STEADY = [Group("A100 DGX", "all_reduce", 2, 1), Group("A100 DGX", "all_reduce", 8, 4)]
TORN = [Group("A100 DGX", "all_reduce", 4, 2), Group("A100 DGX", "all_reduce", 16, 8)]
"""All-reduces that change between two rates from size to size."""


def test_the_table_is_complete() -> None:
    assert sorted(measured()) == sorted([*SENDS, *STEADY, *TORN])
    assert all(len(points) == 8 for points in measured().values())


@pytest.mark.parametrize("group", [*SENDS, *STEADY])
def test_sizes_that_no_constant_was_read_off_are_within_ten_per_cent(group: Group) -> None:
    assert median(abs(error) for error in errors(group)) < 0.10


def test_all_of_them_are_within_ten_per_cent_in_the_median() -> None:
    found = [abs(error) for group in measured() for error in errors(group)]
    assert len(found) == 36
    assert median(found) < 0.10


@pytest.mark.parametrize("group", TORN)
def test_the_rows_that_are_far_off_contradict_each_other(group: Group) -> None:
    """A larger message that takes less, and sizes that take twice what the rest of the same group says."""
    seconds = [time for _, time in sorted(measured()[group].items())]
    assert seconds != sorted(seconds)
    found = errors(group, held_out=False)
    assert max(found) - min(found) > 0.4
    assert median(found) < 0, "too fast rather than too slow"


def test_the_constants_are_read_off() -> None:
    h100, a100 = (measured()[group] for group in SENDS)
    both = measured()[STEADY[0]]
    small, large = FITTED
    assert large / (h100[large] - h100[small]) / NIC["H100 DGX"] == pytest.approx(
        CALIBRATION.across_efficiency, abs=0.01
    )
    assert large / (a100[large] - a100[small]) / CALIBRATION.across_efficiency == pytest.approx(
        NIC["A100 DGX"], rel=0.01
    )
    latencies = [rows[small] - LINK_LATENCY_S for rows in (h100, a100)]
    assert latencies[0] < CALIBRATION.across_latency_s < latencies[1]
    assert sum(latencies) / 2 == pytest.approx(CALIBRATION.across_latency_s, abs=1e-6)
    share = (a100[large] - a100[small]) / (both[large] - both[small])
    assert share == pytest.approx(CALIBRATION.across_duplex, abs=0.01)


def test_the_documented_residuals_are_current() -> None:
    lines = ["| rows | n | median | worst | mean |", "|---|--:|--:|--:|--:|"]
    for group in [*SENDS, *STEADY, *TORN]:
        found = [100 * error for error in errors(group)]
        what = group.op.replace("_", "-").replace("send-recv", "send")
        servers = group.gpus // group.per_server
        worst = max(found, key=abs)
        lines.append(
            f"| {group.system}, {what}, {servers} × {group.per_server} | {len(found)} | "
            f"{median(map(abs, found)):.1f} | {worst:+.1f} | {sum(found) / len(found):+.1f} |"
        )
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8"), "\n".join(lines)
