"""Where a dense model of 100 B parameters fits, and how fast it writes there: the tables and the picture of the page.

``python scripts/capacity_100b.py [--out DIR]``

Each row is what two commands say of the scenario ``capacity-100b`` on one GPU at one tensor degree: ``servetwin explain
--batch 1 --context 1000`` (what fits, and the gap between two tokens of a lone request) and ``servetwin run`` (the same
under the load of the scenario). Without ``--out`` the tables are printed; with it they and the picture are written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.scenario.load import load_scenario
from servetwin.studies.explain import Step, explain

SCENARIO = "capacity-100b"
GPUS = (
    "a100-sxm-80gb", "h100-sxm", "h20", "h200-sxm", "b200-sxm", "gb200-nvl72", "b300-sxm", "mi300x", "l40s",
)  # fmt: skip
DEGREES = (1, 2, 4, 8)
PRECISIONS = ("bf16", "fp8", "int4")
PICTURE = "capacity-100b.png"

_ALONE = Step.of(1, 1000, None)
_CATALOG = Catalog()
_GIB = 2**30


@dataclass(frozen=True)
class Place:
    """A GPU at a tensor degree, and what became of the model there.

    Attributes:
        gpu: name of the GPU.
        tensor: GPUs of a replica.
        weights_bytes: weights on each GPU [B].
        explained: what ``explain`` says of a lone decode; None where the weights do not fit.
    """

    gpu: str
    tensor: int
    weights_bytes: float
    explained: dict[str, Any] | None

    @property
    def alone_ms(self) -> float:
        """The gap between two tokens of a lone request [ms]."""
        assert self.explained is not None
        return float(self.explained["step"]["total_us"]) / 1000

    @property
    def kv_tokens(self) -> int:
        """Room for KV cache of the replica [tokens]."""
        assert self.explained is not None
        return int(self.explained["memory"]["kv_capacity_tokens"])


@cache
def place(gpu: str, tensor: int, precision: str = "bf16") -> Place:
    """What fits, and the pace of a lone request."""
    weights = _CATALOG.model("dense-100b").weight_bytes(precision, tensor)
    changes = [f"cluster.hardware={gpu}", f"cluster.parallel.tensor={tensor}", f"cluster.precision.weights={precision}"]
    try:
        explained = explain(load_scenario(SCENARIO, changes, _CATALOG), _ALONE, _CATALOG)
    except CapacityError:
        return Place(gpu, tensor, weights, None)
    return Place(gpu, tensor, weights, explained)


@cache
def under_load(gpu: str, tensor: int) -> dict[str, Any]:
    """The summary of the scenario there."""
    changes: dict[str, Any] = {"cluster__hardware": gpu, "cluster__parallel__tensor": tensor}
    return servetwin.run(SCENARIO, **changes).summary()


def room_bytes(gpu: str) -> float:
    """What a GPU has for weights and KV cache [B], which no degree changes."""
    for tensor in DEGREES:
        found = place(gpu, tensor)
        if found.explained is not None:
            return float(found.explained["memory"]["weights_bytes"] + found.explained["memory"]["kv_bytes"])
    raise SystemExit(f"{SCENARIO} fits on no number of {gpu}")


def degrees_table() -> str:
    """A row per GPU and degree, in Markdown."""
    lines = [
        "| GPU | room, GiB | tensor | weights per GPU, GiB | KV room, tokens | ITL alone, ms | ITL p50, ms "
        "| ITL p99, ms | TTFT p99, ms | USD / h | USD / 1M tokens |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for gpu in GPUS:
        for tensor in DEGREES:
            cells = [_named(gpu), f"{room_bytes(gpu) / _GIB:.1f}", f"{tensor}"]
            lines.append(f"| {' | '.join([*cells, *_degree(place(gpu, tensor))])} |")
    return "\n".join(lines)


def _degree(found: Place) -> Iterator[str]:
    yield f"{found.weights_bytes / _GIB:.1f}"
    if found.explained is None:
        yield from ("does not fit", "", "", "", "", "", "")
        return
    yield from (f"{found.kv_tokens:,}", f"{found.alone_ms:.2f}")
    summary = under_load(found.gpu, found.tensor)
    price = _CATALOG.gpu(found.gpu).price_per_hour_usd
    if any(warning.startswith("overloaded") for warning in summary["warnings"]):
        # The latencies of an overloaded run say how long it was.
        yield from ("overloaded", "", "")
    else:
        yield from (f"{summary['itl_ms.p50']:.2f}", f"{summary['itl_ms.p99']:.1f}", f"{summary['ttft_ms.p99']:,.0f}")
    if price is None:
        yield from ("–", "–")
    else:
        yield from (f"{price * found.tensor:.2f}", f"{summary['cost_per_million_output_tokens']:.2f}")


def _named(gpu: str) -> str:
    """The name, with a star where the kernels are those of another GPU."""
    measured = _CATALOG.gpu(gpu)
    own = _CATALOG.calibration("default").kernels_of(measured.name, measured.architecture) == gpu
    return f"`{gpu}`" if own else f"`{gpu}` \\*"


def precisions_table() -> str:
    """The smallest degree that holds the weights in each precision, in Markdown."""
    head = " | ".join(f"{name}: GPUs | KV room, tokens | ITL alone, ms" for name in PRECISIONS)
    lines = [f"| GPU | {head} |", "|---|" + "--:|" * (3 * len(PRECISIONS))]
    for gpu in GPUS:
        cells = [_named(gpu)]
        for precision in PRECISIONS:
            fitting = (place(gpu, tensor, precision) for tensor in DEGREES)
            found = next(one for one in fitting if one.explained is not None)
            cells += [f"{found.tensor}", f"{found.kv_tokens:,}", f"{found.alone_ms:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(path: Path) -> None:
    """The picture: memory of each GPU against its share of the weights, and the pace of a lone request."""
    from servetwin.report.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, canvas

    colours = (GREY, BLUE, "#0f8b8d", GREEN, ORANGE, "#b5651d", RED, PURPLE, INK)
    subtitle = "left: a GPU holds its share of the weights if its bar reaches the line of that share · right: alone"
    with canvas(11, 5, "dense-100b in bf16: where it fits, and how fast it writes", subtitle, path) as figure:
        left, right = figure.subplots(1, 2)
        left.set_title("Room for weights and KV cache of one GPU [GiB]")
        left.barh(range(len(GPUS)), [room_bytes(gpu) / _GIB for gpu in GPUS], color=colours, height=0.6)
        left.set_yticks(range(len(GPUS)), GPUS)
        left.invert_yaxis()
        left.grid(axis="y", visible=False)
        for tensor in DEGREES:
            at = place(GPUS[0], tensor).weights_bytes / _GIB
            left.axvline(at, color=INK, linewidth=1.2, linestyle="--")
            left.text(at, -0.75, f" 1/{tensor}" if tensor > 1 else " all", fontsize=8.5, va="bottom")
        left.set_ylim(len(GPUS) - 0.5, -1.2)
        right.set_title("Time between two tokens [ms], by tensor degree")
        for gpu, colour in zip(GPUS, colours, strict=True):
            fitting = [found for found in (place(gpu, tensor) for tensor in DEGREES) if found.explained is not None]
            degrees, gaps = [found.tensor for found in fitting], [found.alone_ms for found in fitting]
            right.plot(degrees, gaps, "o-", color=colour, label=gpu)
        right.set_xscale("log", base=2)
        right.set_yscale("log", base=2)
        right.set_xlim(0.85, 9.5)
        right.set_xticks(DEGREES, [f"{tensor}" for tensor in DEGREES])
        right.set_yticks((8, 16, 32, 64), ("8", "16", "32", "64"))
        right.minorticks_off()
        right.set_xlabel("GPUs of a replica")
        right.legend(ncols=2)


def main() -> int:
    """Print the tables, or write them and the picture; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write degrees.md, precisions.md and the picture here")
    out = parser.parse_args().out
    tables = {"degrees": degrees_table(), "precisions": precisions_table()}
    if out is None:
        print("\n\n".join(tables.values()))
        return 0
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        (out / f"{name}.md").write_text(f"{table}\n", encoding="utf-8")
    draw(out / PICTURE)
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
