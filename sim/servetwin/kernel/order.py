"""The written order of events at the same instant.

fault < cancel < arrival < flow end < step boundary < hand-over < controller tick < telemetry, and within a class by the
index of the replica, link or request: never by the order of insertion, which would differ between the stepping levels.
A hand-over is what the end of a step on one replica sets going on another: it comes after all ends of steps, whose
order among each other it would depend on otherwise.
SimPy orders simultaneous events by an integer priority, of which 0 and 1 are its own.
"""

from __future__ import annotations

from simpy.events import EventPriority

_INDEX_BITS = 40

FAULT = 1 << _INDEX_BITS
CANCEL = 2 << _INDEX_BITS
ARRIVAL = 3 << _INDEX_BITS
FLOW_END = 4 << _INDEX_BITS
BOUNDARY = 5 << _INDEX_BITS
HAND_OVER = 6 << _INDEX_BITS
CONTROL = 7 << _INDEX_BITS
TELEMETRY = 8 << _INDEX_BITS


def priority(event_class: int, index: int = 0) -> EventPriority:
    """The SimPy priority of an event of ``event_class`` that belongs to replica, link or request ``index``."""
    return EventPriority(event_class + index)
