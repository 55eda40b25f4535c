"""The SimPy environment and its event count."""

from __future__ import annotations

import simpy


def new_environment() -> simpy.Environment:
    """An environment whose clock is an integer number of picoseconds, starting at 0."""
    return simpy.Environment(initial_time=0)


def events_popped(env: simpy.Environment) -> int:
    """How many events the environment has popped so far, stale alarms included.

    Every scheduled event takes the next number of ``env._eid``, so what was scheduled less what still waits is
    what was popped. SimPy has no public counter; reading one number beats counting in the event loop.
    """
    scheduled = int(repr(env._eid)[len("count(") : -1])
    return scheduled - len(env._queue)
