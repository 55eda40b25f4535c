"""Terminal views of hardware profiles: figures in the units that people use, each with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.layout import QUIET, facts, plain
from servetwin.report.units import binary, duration, flops_rate, gib, number, rate, scaled

Row = tuple[str, str, str]
"""Name, figure, remark."""


def print_hardware(kind: str, document: Mapping[str, Any], console: Console | None = None) -> None:
    """Print one hardware profile.

    Args:
        kind: ``hardware`` (a GPU), ``links``, ``storage`` or ``nodes``.
        document: what the catalogue says about it, in base units.
        console: where to print; standard output if not given.
    """
    (console or Console(highlight=False)).print(hardware_view(kind, document))


def hardware_view(kind: str, document: Mapping[str, Any]) -> Group:
    """The tables, for a rich console of any width."""
    heading = Text(printable(document["name"]), style="bold")
    if "architecture" in document:
        heading.append(f"  {printable(document['architecture'])}", style=QUIET)
    parts: list[RenderableType] = [heading, Text(), _figures(_ROWS[kind](document))]
    for name in ("all-reduce", "all-gather"):
        tables = document.get(f"{name.replace('-', '_')}_us")
        if tables:
            parts += [Text(), Text(f"{name} between GPUs of a node [µs]", style=QUIET), _latencies(tables)]
    parts += [Text(), _sources(document), Text(printable(document["file"]), style=QUIET)]
    return Group(*parts)


def _gpu(gpu: Mapping[str, Any]) -> Iterator[Row]:
    yield "memory", gib(gpu["memory_bytes"]), f"{gpu['memory_bytes'] / 2**20:,.0f} MiB, as the driver reports it"
    yield "HBM", rate(gpu["hbm_bytes_per_s"]), "bandwidth of the memory, whatever its kind"
    for place, (dtype, peak) in enumerate(gpu["flops"].items()):
        yield dtype, flops_rate(peak), "dense, without sparsity" if not place else ""
    reach = f"one direction, between the {gpu['link_domain']} GPUs of a node"
    yield "link", rate(gpu["link_bytes_per_s"]), reach
    price, power = gpu["price_per_hour_usd"], gpu["tdp_watts"]
    yield "price", "–" if price is None else f"{number(price)} USD/h", "" if price else "costs are null in the results"
    yield "power", "–" if power is None else f"{number(power)} W", "" if power else "energy is null in the results"
    constants = gpu["kernel_constants_of"]
    if constants == gpu["name"]:
        yield "kernels", "its own", "in calibration default"
    elif constants:
        yield "kernels", constants, "it has no constants of its own in calibration default: those of that GPU are used"
    else:
        yield "kernels", "–", "calibration default has none for this architecture"


def _link(link: Mapping[str, Any]) -> Iterator[Row]:
    yield "bandwidth", rate(link["bytes_per_s"]), "one direction"
    yield "latency", _latency(link), "until the first byte arrives" if link["latency_s"] else "not given: none"


def _storage(tier: Mapping[str, Any]) -> Iterator[Row]:
    yield "capacity", scaled(tier["capacity_bytes"], "B"), gib(tier["capacity_bytes"])
    yield "read", rate(tier["read_bytes_per_s"]), ""
    yield "write", rate(tier["write_bytes_per_s"]), ""
    yield "latency", _latency(tier), "until the first byte arrives" if tier["latency_s"] else "not given: none"


def _latency(thing: Mapping[str, Any]) -> str:
    return duration(thing["latency_s"]) if thing["latency_s"] else "–"


def _node(node: Mapping[str, Any]) -> Iterator[Row]:
    yield "GPUs", f"{node['gpus']} x {node['gpu']}", ""
    yield "domain", f"{node['gpus_per_domain']} GPUs", "that reach each other over NVLink or its like"
    yield "host memory", scaled(node["memory_bytes"], "B"), gib(node["memory_bytes"])
    for key, name in (("nic", "NIC of a GPU"), ("host_link", "link to the host")):
        link = node[key]
        if link is None:
            continue
        yield name, rate(link["bytes_per_s"]), f"{link['name']}, one direction"
    tier = node["storage"]
    if tier is not None:
        read = f"{tier['name']}, read at {rate(tier['read_bytes_per_s'])}"
        yield "local storage", scaled(tier["capacity_bytes"], "B"), read


_ROWS: dict[str, Callable[[Mapping[str, Any]], Iterator[Row]]] = {
    "hardware": _gpu,
    "links": _link,
    "storage": _storage,
    "nodes": _node,
}
KINDS = tuple(_ROWS)
"""The kinds of things that have a view here."""


def _figures(rows: Iterator[Row]) -> Table:
    table = facts()
    for name, figure, remark in rows:
        table.add_row(name, printable(figure), printable(remark))
    return table


def _latencies(tables: Mapping[int, Mapping[int, float]]) -> Table:
    table = plain()
    table.add_column("GPUs", justify="right")
    sizes = list(next(iter(tables.values())))
    for size in sizes:
        table.add_column(binary(size), justify="right", no_wrap=True)
    for gpus, latencies in tables.items():
        table.add_row(str(gpus), *(number(latencies[size]) for size in sizes))
    return table


def _sources(document: Mapping[str, Any]) -> Table:
    table = plain()
    for name in ("sources", "as given", "date", ""):
        table.add_column(name, no_wrap=bool(name))
    for source in document["sources"]:
        cells = (source["figure"], source["value"], source["date"], source["text"])
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
