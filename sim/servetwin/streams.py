"""Named random streams from one seed, drawn in blocks.

Each purpose (arrivals, prompt lengths, a router, …) has a stream of its own, so that switching one technique on
leaves every other draw alone: two scenarios with the same seed see the same requests.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

BLOCK = 1024
"""Numbers drawn at once."""


class Streams:
    """Hands out independent generators by name.

    Args:
        seed: the run's seed, any non-negative integer.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, *name: str | int) -> np.random.Generator:
        """The generator of one purpose, always the same for the same seed and name.

        Names are hashed with CRC-32, not with ``hash()``, which changes from process to process.
        """
        words = [zlib.crc32(str(part).encode()) for part in name]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, *words])))

    def uniforms(self, *name: str | int) -> Callable[[], float]:
        """A function that returns the next uniform number in [0, 1), drawn in blocks."""
        generator = self.generator(*name)
        block: list[float] = []

        def draw() -> float:
            if not block:
                block.extend(generator.random(BLOCK).tolist())
                block.reverse()
            return block.pop()

        return draw
