"""What stands around the GPUs: the YAML of ``hardware_profiles/links``, ``storage`` and ``nodes``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from servetwin.catalog.fields import Fields
from servetwin.catalog.figures import Figures
from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import CatalogError
from servetwin.specs import Link, Node, StorageTier

Thing = TypeVar("Thing")

MOST_GPUS = 1024
"""GPUs of a node or of a link domain beyond this are a slip of the keyboard."""


def read_link(path: Path) -> Link:
    """The link that a profile describes; its bandwidth is that of one direction.

    Raises:
        CatalogError: where the profile is malformed.
    """
    fields, figures = Fields(read_mapping(path, "link"), str(path)), Figures()
    name = _name(fields)
    bandwidth = figures.required(fields, "bandwidth", "bytes/s")
    latency = figures.optional(fields, "latency", "seconds") or 0.0
    fields.done()
    return Link(name, bandwidth, latency, figures.sources)


def read_storage(path: Path) -> StorageTier:
    """The storage that a profile describes.

    Raises:
        CatalogError: where the profile is malformed.
    """
    fields, figures = Fields(read_mapping(path, "storage"), str(path)), Figures()
    name = _name(fields)
    capacity = round(figures.required(fields, "capacity", "bytes"))
    read, write = figures.required(fields, "read", "bytes/s"), figures.required(fields, "write", "bytes/s")
    latency = figures.optional(fields, "latency", "seconds") or 0.0
    fields.done()
    return StorageTier(name, capacity, read, write, latency, figures.sources)


def read_node(
    path: Path, gpu: Callable[[str], str], link: Callable[[str], Link], storage: Callable[[str], StorageTier]
) -> Node:
    """The server that a profile describes.

    Args:
        path: the profile.
        gpu: the catalogue's name of a GPU.
        link: the link of a name.
        storage: the storage of a name.

    Raises:
        CatalogError: where the profile is malformed or names something that the catalogue does not have.
    """
    fields, figures = Fields(read_mapping(path, "node"), str(path)), Figures()
    name = _name(fields)
    gpus = _count(fields, "gpus", figures)
    domain = _count(fields, "gpus_per_domain", figures)
    if domain > gpus:
        raise fields.error(
            "a link domain cannot have more GPUs than the node", "gpus_per_domain.value", found=domain,
            allowed=f"from 1 to {gpus}",
        )  # fmt: skip
    memory = round(figures.required(fields, "memory", "bytes"))
    node = Node(
        name=name,
        gpu=_named(fields, "gpu", gpu),
        gpus=gpus,
        gpus_per_domain=domain,
        nic=_named(fields, "nic", link),
        memory_bytes=memory,
        host_link=_named(fields, "host_link", link) if fields.has("host_link") else None,
        storage=_named(fields, "storage", storage) if fields.has("storage") else None,
        sources=figures.sources,
    )
    for optional in ("host_link", "storage"):
        fields.take(optional, None)
    fields.done()
    return node


def _name(fields: Fields) -> str:
    fields.strings("aliases")
    fields.text("description", "")
    return fields.text("name")


def _count(fields: Fields, name: str, figures: Figures) -> int:
    """A number of GPUs, with its source."""
    inner = fields.inner(name)
    value = inner.integer("value")
    if value > MOST_GPUS:
        raise inner.error("a number of GPUs is expected", "value", found=value, allowed=f"from 1 to {MOST_GPUS}")
    figures.add(name, str(value), inner)
    inner.done()
    return value


def _named(fields: Fields, name: str, find: Callable[[str], Thing]) -> Thing:
    """What another profile says about the thing that is named here."""
    reference = fields.text(name)
    try:
        return find(reference)
    except CatalogError as error:
        if error.file is None:
            error.file, error.path = fields.file, name
        raise
