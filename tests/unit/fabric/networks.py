"""Small networks, and a log of what happens on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.fabric.flows import Fabric
from servetwin.kernel import ARRIVAL, Environment, events_popped, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.specs import Link

MS = 10**9
"""[ps]"""
GB = 10**9
"""[B]"""


class Network:
    """A fabric, with what is to happen written down before.

    Args:
        links: ``(bandwidth [B/s], latency [s])`` of each link.
    """

    def __init__(self, links: Sequence[tuple[float, float]]) -> None:
        self.env: Environment = new_environment()
        self.fabric = Fabric(self.env, [Link(f"link {i}", *link) for i, link in enumerate(links)])
        self.ends: dict[str, int] = {}
        self.starts = 0

    def at(self, time_ps: int, action: Callable[[], object], index: int = 0) -> None:
        """Do something at ``time_ps``."""
        self.starts += 1
        call_at(self.env, time_ps, priority(ARRIVAL, index), lambda: action() and None)

    def send(self, time_ps: int, name: str, path: tuple[int, ...], size: int, index: int = 0) -> None:
        """Start a flow at ``time_ps``; its end is in ``ends`` under its name."""
        self.at(time_ps, lambda: self.fabric.send(path, size, lambda: self._ended(name), index))

    def run(self) -> dict[str, int]:
        """Simulate, and check the accounts; the ends [ps], in their order."""
        self.env.run()
        self.fabric.audit()
        return self.ends

    @property
    def events(self) -> int:
        """Events that the fabric needed."""
        return events_popped(self.env) - self.starts

    def _ended(self, name: str) -> None:
        assert name not in self.ends
        self.ends[name] = self.env.now
