"""The nap, the order of simultaneous events and the event count."""

from __future__ import annotations

from collections.abc import Generator

from simpy.events import Event

from servetwin.kernel import (
    ARRIVAL,
    BOUNDARY,
    CANCEL,
    CONTROL,
    FAULT,
    FLOW_END,
    TELEMETRY,
    Nap,
    events_popped,
    new_environment,
    priority,
)
from servetwin.kernel.nap import call_at


def test_a_nap_ends_when_it_should_or_when_it_is_shortened() -> None:
    """Shortening moves the wake-up forward, never back; the stale alarm wakes nobody."""
    env = new_environment()
    nap = Nap(env, BOUNDARY)
    woken: list[int] = []

    def sleeper() -> Generator[Event, None, None]:
        for until in (100, 300):
            yield nap.until(until)
            woken.append(env.now)
        yield nap.forever()
        woken.append(env.now)

    env.process(sleeper())
    call_at(env, 10, ARRIVAL, lambda: nap.shorten(40))
    call_at(env, 20, ARRIVAL, lambda: nap.shorten(60))
    call_at(env, 500, ARRIVAL, lambda: nap.shorten(500))
    env.run()
    assert woken == [40, 300, 500]


def test_simultaneous_events_follow_the_written_order() -> None:
    """By class, then by index, whatever the order of insertion."""
    env = new_environment()
    seen: list[tuple[int, int]] = []
    classes = [FAULT, CANCEL, ARRIVAL, FLOW_END, BOUNDARY, CONTROL, TELEMETRY]
    wanted = [(event_class, index) for event_class in classes for index in (0, 1, 70_000)]
    for event_class, index in reversed(wanted):
        call_at(env, 5, priority(event_class, index), lambda key=(event_class, index): seen.append(key))
    env.run()
    assert seen == wanted


def test_events_are_counted_stale_alarms_included() -> None:
    """A process is one event to start it, one for each wake-up, one when it ends, and one for each stale alarm."""
    env = new_environment()
    nap = Nap(env, BOUNDARY)

    def sleeper() -> Generator[Event, None, None]:
        yield nap.until(100)

    env.process(sleeper())
    call_at(env, 10, ARRIVAL, lambda: nap.shorten(40))
    assert events_popped(env) == 0
    env.run(until=50)
    # start, call, wake-up, end of the process; the run's own stop event is popped too.
    assert events_popped(env) == 5
    env.run()
    # The stale alarm, and the stop event, which SimPy puts back when it stops.
    assert events_popped(env) == 7
