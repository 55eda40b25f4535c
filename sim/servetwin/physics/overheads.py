"""The constants of an engine and of its kernels on a GPU, ready for the formulas."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.errors import CatalogError
from servetwin.specs import Calibration, Gpu, KernelConstants


@dataclass(frozen=True, slots=True)
class Machine:
    """One GPU with the constants that hold on it.

    Attributes:
        gpu: its data sheet.
        kernels: how near to it the kernels come.
        calibration: constants that hold on every GPU.
    """

    gpu: Gpu
    kernels: KernelConstants
    calibration: Calibration

    @classmethod
    def of(cls, gpu: Gpu, calibration: Calibration) -> Machine:
        """The constants that ``calibration`` has for ``gpu``, or for its architecture.

        Raises:
            CatalogError: where it has neither.
        """
        kernels = calibration.kernels_for(gpu.name, gpu.architecture)
        if kernels is None:
            raise CatalogError(
                f"calibration {calibration.name!r} has no constants for this GPU, nor for its architecture",
                found=f"{gpu.name} ({gpu.architecture})",
                allowed=sorted({*dict(calibration.kernels), *dict(calibration.architectures)}),
                hint="name a calibration that has them, or give the profile one of the known architectures",
            )
        return cls(gpu, kernels, calibration)
