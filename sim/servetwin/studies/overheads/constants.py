"""The constants of a family of engines that are fitted to serving runs: at most ten, none of them of a model."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs import Calibration


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that is fitted.

    Attributes:
        name: what a calibration file calls it.
        field: the attribute of ``Calibration`` that holds it.
        unit: the unit of a file, empty for a share.
        unit_s: the unit in seconds [s]; 1 for a share.
        most: its largest value that is plausible [s], or a share; the least is 0.
        far: by how much it may be wrong where no measurement says otherwise [s], or a share.
    """

    name: str
    field: str
    unit: str
    unit_s: float
    most: float
    far: float

    def of(self, calibration: Calibration) -> float:
        """Its value in a calibration [s], or a share."""
        value: float = getattr(calibration, self.field)
        return value

    def text(self, value: float) -> str:
        """A value as a file has it, with three significant digits."""
        number = f"{float(f'{value / self.unit_s:.3g}'):g}"
        return f"{number} {self.unit}" if self.unit else number


CONSTANTS = (
    Constant("step.host", "step_s", "us", 1e-6, 50e-3, 500e-6),
    Constant("step.per_request", "request_step_s", "us", 1e-6, 200e-6, 10e-6),
    Constant("step.experts_eager", "experts_eager_s", "us", 1e-6, 5e-3, 500e-6),
    Constant("step.launch", "launch", "", 1.0, 1.0, 0.3),
    Constant("step.experts_launch", "experts_launch", "", 1.0, 1.0, 0.3),
    Constant("step.router", "router_s", "ns", 1e-9, 1e-6, 200e-9),
    Constant("step.all_reduce", "all_reduce", "", 1.0, 4.0, 0.05),
    Constant("front_end.per_request", "front_end_s", "ms", 1e-3, 1.0, 2e-3),
    Constant("front_end.per_prompt_token", "front_end_s_per_token", "us", 1e-6, 200e-6, 10e-6),
    Constant("output.per_request", "output_s_per_request", "us", 1e-6, 10e-3, 100e-6),
)
"""In the order of a file."""
