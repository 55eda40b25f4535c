"""How the GPUs of a replica lie to each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """What a group of GPUs has between its members.

    A *domain* is a set of GPUs that reach each other over NVLink or its like.

    Attributes:
        gpus: how many.
        domains: in how many link domains.
        per_domain: how many of them in each domain, in the order of the ranks.
        inside_bytes_per_s: bandwidth of a GPU to the others of its domain, one direction [B/s].
        across_bytes_per_s: bandwidth of a GPU to other domains, one direction [B/s]: PCIe within a server, else its
            NIC, divided by the oversubscription where the group lies in several racks; 0 with one domain.
        across_latency_s: until the first byte arrives there, over all links and switches on the way [s].
    """

    gpus: int
    domains: int
    per_domain: tuple[int, ...]
    inside_bytes_per_s: float
    across_bytes_per_s: float = 0.0
    across_latency_s: float = 0.0
