"""The links of a replica's collectives, which others use too."""

from __future__ import annotations

from collections.abc import Callable

from servetwin.fabric.flows import Fabric, Occupant


class ReplicaLinks:
    """What a replica has of the network; implements the engine's ``SharedLinks``.

    Args:
        fabric: all links.
        path: those over which the collectives of the replica go, each once for every flow as which it counts there.
        index: the replica's index.
    """

    def __init__(self, fabric: Fabric, path: tuple[int, ...], index: int) -> None:
        self._fabric = fabric
        self._path = path
        self._index = index
        self._occupant: Occupant | None = None

    @property
    def crowd(self) -> float:
        """How many share a lane of the fullest of the links while the replica works, itself included."""
        return 1.0 if self._occupant is None else self._occupant.crowd

    def begin(self, changed: Callable[[int], None]) -> None:
        """The replica's work begins, now; ``changed`` is told who changes ``crowd``."""
        self._occupant = self._fabric.occupy(self._path, self._index, changed)

    def end(self) -> None:
        """The replica has nothing to do from now on."""
        if self._occupant is not None:
            self._fabric.release(self._occupant)
            self._occupant = None
