"""What errors of physics, which knows no scenario, tell the user: where to look, and what would do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.scenario.topology import TopologyOptions
from servetwin.specs import Gpu

_PLACES = {
    "parallel.tensor": "parallel.tensor",
    "parallel.pipeline": "parallel.pipeline",
    "parallel.context": "parallel.context",
    "gpu_memory_utilization": "engine.gpu_memory_utilization",
    "max_num_seqs": "engine.max_num_seqs",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "block_size": "engine.block_size",
}
"""Where a pool has what physics names."""


DEGREE = re.compile(r"tensor: (\d+) is the smallest degree that fits")
"""Where physics names a tensor degree."""

_SMALLER = re.compile(r"tensor: (\d+) fits with a lower (\w+)")


class MostGpus(NamedTuple):
    """How many GPUs a replica can have.

    Attributes:
        gpus: that many.
        where: what has them, for messages.
        joined: whether servers are joined by a network.
    """

    gpus: int
    where: str
    joined: bool


@contextmanager
def placed_in(place: str, most: MostGpus, others: int = 1) -> Iterator[None]:
    """Give errors of physics, which knows no scenario, the path of the pool, and no advice beyond its GPUs.

    Args:
        place: the path of the pool.
        most: how many GPUs a replica can have.
        others: GPUs of a replica for each tensor rank: stages of its pipeline times context groups.
    """
    try:
        yield
    except CapacityError as error:
        degree, smaller = DEGREE.search(error.hint or ""), _SMALLER.search(error.hint or "")
        if smaller is not None and int(smaller[1]) * others > most.gpus:
            smaller = None
        needed = 0 if degree is None else int(degree[1]) * others
        if needed > most.gpus:
            ways = [
                *([f"{place}.parallel.{smaller[0]}"] if smaller else ()),
                "use a GPU with more memory", "weights of lower precision",
                *(() if most.joined else ("cluster.topology, which joins nodes",)),
            ]  # fmt: skip
            error.hint = f"it would need {needed} GPUs, more than the {most.gpus} {most.where}: {', or '.join(ways)}"
        elif (degree is not None or smaller is not None) and error.hint is not None:
            error.hint = error.hint.replace("tensor:", f"{place}.parallel.tensor:")
        elif error.hint is not None and error.hint.startswith("pipeline:"):
            error.hint = f"{place}.parallel.{error.hint}"
        elif error.hint is not None:
            error.hint = error.hint.replace("gpu_memory_utilization", f"{place}.engine.gpu_memory_utilization")
            error.hint = error.hint.replace("parallel.uneven_heads", f"{place}.parallel.uneven_heads")
        if isinstance(error.allowed, list) and error.path == "parallel.tensor":
            error.allowed = [degree for degree in error.allowed if int(degree) * others <= most.gpus]
        if error.path in _PLACES:
            error.path = f"{place}.{_PLACES[error.path]}"
        raise


def most_gpus(topology: TopologyOptions | None, hardware: str, gpu: Gpu, catalog: Catalog) -> MostGpus:
    """How many GPUs a replica can have: those of a node, or of all servers that are joined.

    Args:
        topology: the servers of the scenario, if it has any.
        hardware: the GPU, as the pool names it.
        gpu: the same.
        catalog: where servers are.
    """
    if topology is None:
        return MostGpus(gpu.link_domain, f"inside one node of {gpu.name}", joined=False)
    node, nodes = (_of_gpu(entry, hardware, catalog) for entry in (topology.node, topology.nodes))
    if nodes is None:
        return MostGpus(sys.maxsize, "of cluster.topology", joined=True)
    each = gpu.link_domain if node is None else catalog.node(str(node)).gpus
    return MostGpus(int(nodes) * each, "of cluster.topology", joined=True)


def _of_gpu(entry: Any, hardware: str, catalog: Catalog) -> Any:
    """What a field of the topology, one value or a mapping from GPUs, says about a GPU; None = nothing."""
    if not isinstance(entry, Mapping):
        return entry
    return {catalog.gpu_reference(key): inner for key, inner in entry.items()}.get(catalog.gpu_reference(hardware))
