"""The few SimPy techniques that the simulator is built from.

* ``new_environment`` makes the SimPy environment with its integer picosecond clock.
* ``Nap`` is a sleep that somebody else may shorten, the cheapest way to be woken early.
* ``order`` holds the written order of events at the same instant.
"""

from servetwin.kernel.environment import Environment, events_popped, new_environment
from servetwin.kernel.nap import Nap
from servetwin.kernel.order import (
    ARRIVAL,
    BOUNDARY,
    CANCEL,
    CONTROL,
    FAULT,
    FLOW_END,
    HAND_OVER,
    TELEMETRY,
    priority,
)

__all__ = [
    "ARRIVAL",
    "BOUNDARY",
    "CANCEL",
    "CONTROL",
    "FAULT",
    "FLOW_END",
    "HAND_OVER",
    "TELEMETRY",
    "Environment",
    "Nap",
    "events_popped",
    "new_environment",
    "priority",
]
