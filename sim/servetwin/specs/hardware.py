"""Hardware as its data sheets describe it."""

from __future__ import annotations

from dataclasses import dataclass

#: Weight formats that are multiplied at the rate of another: fp16 is as fast as bf16, int4 is unpacked to it, and the
#: scales of blocks are applied by the same units.
_MULTIPLIED_AS = {"fp16": "bf16", "int4": "bf16", "fp8_block": "fp8"}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure comes from.

    Attributes:
        figure: name of the figure.
        value: the figure as it was given, with its unit.
        text: who says so.
        date: when it was cited, ``YYYY-MM-DD``.
    """

    figure: str
    value: str
    text: str
    date: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        name: its name in the catalogue.
        architecture: hopper, ampere, ada, blackwell, …
        memory_bytes: memory as the driver reports it [B].
        hbm_bytes_per_s: memory bandwidth of the data sheet [B/s].
        flops: dense peak arithmetic by data type [FLOP/s], without sparsity.
        link_bytes_per_s: bandwidth to the other GPUs of its node, one direction [B/s]: NVLink, Infinity Fabric, PCIe.
        price_per_hour_usd: price [USD per GPU and hour]; None where the profile quotes none.
        tdp_watts: board power limit [W]; None where the profile gives none.
        link_domain: GPUs that reach each other at that bandwidth: those of a node, or of a rack.
        all_reduce: measured all-reduce latencies inside a node: ``(GPUs, ((bytes, seconds), …))`` [B, s].
        all_gather: measured all-gather latencies inside a node: ``(GPUs, ((bytes of all parts, seconds), …))`` [B, s].
        switch_reduces: whether the switch between the GPUs of a domain adds up (NVLink SHARP).
        sources: a source for each figure.
        l2_bytes: size of the last cache before HBM [B]; None where the profile gives none. Operands that fit into it
            are not read from HBM again in a benchmark that repeats a kernel.
    """

    name: str
    architecture: str
    memory_bytes: int
    hbm_bytes_per_s: float
    flops: tuple[tuple[str, float], ...]
    link_bytes_per_s: float
    price_per_hour_usd: float | None = None
    tdp_watts: float | None = None
    all_reduce: tuple[tuple[int, tuple[tuple[int, float], ...]], ...] = ()
    sources: tuple[Source, ...] = ()
    link_domain: int = 8
    l2_bytes: float | None = None
    all_gather: tuple[tuple[int, tuple[tuple[int, float], ...]], ...] = ()
    switch_reduces: bool = False

    def peak(self, dtype: str) -> float:
        """Dense peak arithmetic [FLOP/s] for weights of ``dtype``.

        A type that the GPU has no units for runs at the rate of bf16. 4-bit weights times 8-bit activations, both with
        a scale per block, run at the rate of fp8 where there are units for 4 bits.
        """
        peaks = dict(self.flops)
        name = _MULTIPLIED_AS.get(dtype, dtype)
        if name in ("mxfp4", "nvfp4"):
            name = "fp4" if "fp4" in peaks else "bf16"
        elif name == "mxfp4_mxfp8":
            name = "fp8" if "fp4" in peaks else "bf16"
        return peaks.get(name, peaks["bf16"])


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two things.

    Attributes:
        name: its name.
        bytes_per_s: bandwidth, one direction [B/s].
        latency_s: time until the first byte arrives [s].
        sources: a source for each figure.
        lanes: so many NICs can use it at once, each at the speed that it is priced at: those below a leaf switch, where
            it joins the leaf to the spine; else 1.
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    sources: tuple[Source, ...] = ()
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class StorageTier:
    """A place below HBM where KV cache can lie.

    Attributes:
        name: its name.
        capacity_bytes: room [B].
        read_bytes_per_s: read bandwidth [B/s].
        write_bytes_per_s: write bandwidth [B/s].
        latency_s: time to the first byte [s].
        sources: a source for each figure.
    """

    name: str
    capacity_bytes: int
    read_bytes_per_s: float
    write_bytes_per_s: float
    latency_s: float = 0.0
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A server, or a rack whose GPUs are one link domain.

    Attributes:
        name: its name.
        gpu: name of its GPUs in the catalogue.
        gpus: how many.
        gpus_per_domain: GPUs that reach each other over NVLink or its like.
        nic: network link of each GPU.
        memory_bytes: host memory [B].
        host_link: link between each GPU and host memory; None where the profile gives none.
        storage: local drives, all of them together; None where the profile gives none.
        sources: a source for each figure; those of the links and the storage stand in their own profiles.
    """

    name: str
    gpu: str
    gpus: int
    gpus_per_domain: int
    nic: Link
    memory_bytes: int
    host_link: Link | None = None
    storage: StorageTier | None = None
    sources: tuple[Source, ...] = ()
