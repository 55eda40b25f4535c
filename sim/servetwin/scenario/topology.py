"""The servers of a cluster and the network between them, as a scenario describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from servetwin.scenario.part import Count, Part
from servetwin.units import MAX_S

_MOST_NODES = 10_000
"""Beyond this a number of servers is a slip of the keyboard; so many take half a gigabyte of memory."""

_LEAST_GB, _MOST_GB = 1e-9, 1e9
"""A transfer has at least a byte; with more than an exabyte it is a slip too."""

NodeCount = Annotated[int, Field(ge=1, le=_MOST_NODES)]
Index = Annotated[int, Field(ge=0, le=_MOST_NODES)]
GpuPlace = Annotated[tuple[Index, Index], Field(strict=False)]
Places = Annotated[tuple[Index | GpuPlace, ...], Field(strict=False, min_length=1)]


class ExplicitPlacement(Part):
    """Where each replica lies.

    Attributes:
        explicit: for each replica, pool after pool, its GPUs as ``[node, gpu]``, or nodes, of each of which it takes as
            many; all are counted from 0.
    """

    explicit: Annotated[tuple[Places, ...], Field(strict=False, min_length=1)]


class BackgroundTraffic(Part):
    """Traffic of others on the same links.

    Attributes:
        from: a node, all of whose GPUs send, or one GPU as ``[node, gpu]``.
        to: a node, all of whose GPUs receive, or one GPU as ``[node, gpu]``.
        gigabytes: length of a transfer [GB], in equal parts over the GPUs of a node.
        start_s: when the first begins [s].
        every_s: from the beginning of one to that of the next [s], as long as requests are on their way; null = there
            is only one.
    """

    source: Index | GpuPlace = Field(alias="from")
    to: Index | GpuPlace
    gigabytes: float = Field(ge=_LEAST_GB, le=_MOST_GB)
    start_s: float = Field(default=0.0, ge=0, le=MAX_S)
    every_s: float | None = Field(default=None, ge=1e-3, le=MAX_S)


class TopologyOptions(Part):
    """The servers, the network between them, and who lies where. Pools on the same GPU share its servers.

    Attributes:
        node: the server: a name, or the path of a profile; by default the one with the GPU of the pools. Where pools
            have different GPUs, a mapping from the GPU.
        nodes: how many servers; by default as many as ``packed`` takes. Where pools have different GPUs, a mapping from
            the GPU.
        nodes_per_rack: servers behind the same leaf switches; by default all.
        rail_optimised: whether the n-th NICs of the servers of a rack share a leaf of their own.
        oversubscription: bandwidth of the NICs below a leaf over that of its links to the spine.
        nic: the network link of each GPU, instead of that of the server: a name, or the path of a profile.
        hop_latency_us: of each switch on the way [µs].
        placement: ``packed`` fills one link domain after the other, ``spread`` deals the replicas out to the servers;
            or a list.
        background: other traffic on the network.
    """

    node: str | Mapping[str, str] | None = None
    nodes: NodeCount | Mapping[str, NodeCount] | None = None
    nodes_per_rack: Count | None = None
    rail_optimised: bool = False
    oversubscription: float = Field(default=1.0, ge=1, le=1000)
    nic: str | None = None
    hop_latency_us: float = Field(default=0.3, ge=0, le=1000)
    placement: Literal["packed", "spread"] | ExplicitPlacement = "packed"
    background: tuple[BackgroundTraffic, ...] = Field(default=(), strict=False)
