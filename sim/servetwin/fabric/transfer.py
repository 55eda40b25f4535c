"""What it takes to bring the KV cache of a request from the GPUs of one replica to those of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from servetwin.fabric.flows import Fabric
from servetwin.units import PS_PER_S


@dataclass(frozen=True, slots=True)
class Leg:
    """What one GPU sends to another, or to the memory of its server.

    Attributes:
        path: the links that it takes.
        efficiency: the share of the links' bandwidth that reaches the other side as KV cache; the rest is protocol.
        bytes_per_token: of each token that is moved [B].
        windows: of layers that look back over so many tokens only: the window [tokens], bytes of a token in it [B].
        constant_bytes: however many tokens there are [B].
    """

    path: tuple[int, ...]
    efficiency: float
    bytes_per_token: float
    windows: tuple[tuple[int, float], ...] = ()
    constant_bytes: float = 0.0

    def moved(self, first: int, last: int, length: int) -> int:
        """Bytes of KV cache of the tokens from ``first`` up to ``last`` of a prompt that has ``length`` of them [B]."""
        total = self.bytes_per_token * (last - first)
        for window, each in self.windows:
            total += each * max(0, last - max(first, length - window))
        if last >= length:
            total += self.constant_bytes
        return round(total)


class Transfers:
    """Sends the parts of transfers over the links.

    Args:
        fabric: the links.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def send(self, legs: Sequence[Leg], sizes: Sequence[int], index: int, done: Callable[[], None]) -> None:
        """Start a flow for each leg, now; where no leg takes a link, all of it is there at once.

        Args:
            legs: the legs.
            sizes: bytes of KV cache for each [B].
            index: whose they are; of simultaneous ends the one with the lower index is told first.
            done: called when the last of them has arrived.
        """
        if not any(leg.path for leg in legs):
            done()
            return
        waiting = len(legs)

        def arrived() -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                done()

        for leg, size in zip(legs, sizes, strict=True):
            self._fabric.send(leg.path, ceil(size / leg.efficiency), arrived, index)

    def alone_ps(self, legs: Sequence[Leg], sizes: Sequence[int]) -> int:
        """What it takes where nobody else uses the links [ps]: what the busiest of them needs, and the longest latency.

        Args:
            legs: the legs.
            sizes: bytes of KV cache for each [B].
        """
        links = self._fabric.links
        sent: dict[int, int] = {}
        latency = 0
        for leg, size in zip(legs, sizes, strict=True):
            latency = max(latency, sum([links[link].latency_ps for link in leg.path]))
            for link in leg.path:
                sent[link] = sent.get(link, 0) + ceil(size / leg.efficiency)
        return latency + max([-(-size * PS_PER_S // links[link].bytes_per_s) for link, size in sent.items()], default=0)
