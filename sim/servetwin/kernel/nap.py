"""A sleep that can be shortened from outside."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any, Final

from simpy.events import Event, EventPriority

from servetwin.kernel.environment import Environment


def _alarm(env: Environment, time_ps: int, priority: EventPriority, callbacks: list[Any]) -> Event:
    """An event that goes off at ``time_ps`` [ps], with a given rank among simultaneous ones.

    SimPy's own ``Timeout`` and ``Environment.schedule`` in one, since every sleep goes through here.
    """
    alarm = Event.__new__(Event)
    alarm.env = env
    alarm.callbacks = callbacks
    alarm._ok = True
    alarm._value = None
    heappush(env._queue, (time_ps, priority, next(env._eid), alarm))
    return alarm


class Nap:
    """The sleep of one process; ``yield nap.until(t)`` in the process, ``nap.shorten(t)`` anywhere else.

    Shortening moves the sleeper's callbacks to an earlier alarm. The old alarm stays in SimPy's queue and goes off
    without a listener; that is cheaper than an interrupt, a condition or a wake event (measured 50 k, 42 k, 22 k and
    38 k requests per second in the same engine).

    Args:
        env: the environment.
        priority: the rank of the wake-up among simultaneous events (see ``servetwin.kernel.order``).
    """

    __slots__ = ("_alarm", "_env", "_numbers", "_priority", "_queue", "until_ps")

    #: ``until_ps`` of a sleep without an end.
    FOREVER: Final = 1 << 200

    def __init__(self, env: Environment, priority: EventPriority) -> None:
        self._env = env
        self._queue = env._queue
        self._numbers = env._eid
        self._priority = priority
        self._alarm: Event | None = None
        self.until_ps = -1

    def until(self, time_ps: int) -> Event:
        """The event to yield in order to sleep until ``time_ps`` [ps], which must not lie in the past."""
        self.until_ps = time_ps
        alarm = self._alarm
        if alarm is None or alarm.callbacks is not None:
            self._alarm = alarm = _alarm(self._env, time_ps, self._priority, [])
        else:
            # It has gone off, so that SimPy is done with it: the same event may be scheduled again.
            alarm.callbacks = []
            heappush(self._queue, (time_ps, self._priority, next(self._numbers), alarm))
        return alarm

    def forever(self) -> Event:
        """The event to yield in order to sleep until somebody calls ``shorten``."""
        self.until_ps = self.FOREVER
        self._alarm = alarm = Event(self._env)
        return alarm

    def shorten(self, time_ps: int) -> None:
        """Wake the sleeper at ``time_ps`` [ps] if that is earlier than it would wake by itself."""
        if time_ps >= self.until_ps:
            return
        old = self._alarm
        assert old is not None and old.callbacks is not None, "nobody sleeps here"
        callbacks = old.callbacks
        old.callbacks = []
        self.until_ps = time_ps
        self._alarm = _alarm(self._env, time_ps, self._priority, callbacks)


def call_at(env: Environment, time_ps: int, priority: EventPriority, action: Callable[[], None]) -> None:
    """Call ``action`` at ``time_ps`` [ps] with a given rank among simultaneous events."""
    _alarm(env, time_ps, priority, [lambda _event: action()])
