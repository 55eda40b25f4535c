"""The wires of a group of GPUs as a collective finds them."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs import Calibration, Gpu
from servetwin.specs.span import Span

LOW_LATENCY = 2.0
"""Bytes on the wire per byte of a message in NCCL's protocol for small messages (LL), where a flag of four bytes goes
with every four bytes of data.

Source: Z. Hu et al., "Demystifying NCCL", arXiv 2507.04786, section on protocols.
"""


def one_domain(gpu: Gpu, gpus: int) -> Span:
    """``gpus`` GPUs of one link domain."""
    return Span(gpus, 1, (gpus,), gpu.link_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Wires:
    """Rates and latencies between the domains of a span, while a GPU sends and receives at once.

    Attributes:
        gpus: how many, n.
        domains: in how many domains, d.
        abreast: NICs that work side by side in the domain with the fewest GPUs, g.
        bytes_per_s: what reaches the next domain through one NIC [B/s]:
            ``across_duplex · across_efficiency · bandwidth``.
        step_s: from a GPU to one in the next domain: latency of the links and NCCL's own [s].
        inside_s: latency per doubling of GPUs inside a domain [s].
    """

    gpus: int
    domains: int
    abreast: int
    bytes_per_s: float
    step_s: float
    inside_s: float

    @classmethod
    def of(cls, span: Span, calibration: Calibration) -> Wires:
        """Those of a span of more than one domain."""
        return cls(
            gpus=span.gpus,
            domains=span.domains,
            abreast=min(span.per_domain),
            bytes_per_s=calibration.across_duplex * calibration.across_efficiency * span.across_bytes_per_s,
            step_s=span.across_latency_s + calibration.across_latency_s,
            inside_s=calibration.link_latency_s,
        )
