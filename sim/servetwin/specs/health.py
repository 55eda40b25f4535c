"""What a faulty GPU still brings of its data sheet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from servetwin.specs.hardware import Gpu


@dataclass(frozen=True, slots=True)
class Health:
    """Shares of the data sheet, each above 0 and at most 1.

    Attributes:
        flops: of the arithmetic, as of a GPU that is hot or short of power and runs at a lower clock.
        hbm: of the bandwidth of its memory.
        link: of the bandwidth of its links to the GPUs of its domain.
    """

    flops: float = 1.0
    hbm: float = 1.0
    link: float = 1.0

    def worst(self, other: Health) -> Health:
        """The lesser of each share."""
        return Health(min(self.flops, other.flops), min(self.hbm, other.hbm), min(self.link, other.link))

    def of(self, gpu: Gpu) -> Gpu:
        """The GPU as it computes; its links keep their figures, which measured collectives refer to."""
        if self.flops == self.hbm == 1.0:
            return gpu
        return replace(
            gpu,
            hbm_bytes_per_s=self.hbm * gpu.hbm_bytes_per_s,
            flops=tuple((dtype, self.flops * peak) for dtype, peak in gpu.flops),
        )


HEALTHY = Health()
