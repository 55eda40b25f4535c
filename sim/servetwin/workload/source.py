"""Lets requests arrive."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from simpy.events import Event

from servetwin.kernel import ARRIVAL, Environment, Nap, priority
from servetwin.request import Request
from servetwin.workload.stream import RequestStream


class Source:
    """Feeds a stream of requests into the simulation: one event per instant at which somebody arrives.

    Requests that arrive at the same instant are submitted in the order of their ids.

    Args:
        env: the environment.
        stream: the requests.
        submit: takes each request at its arrival.
    """

    def __init__(self, env: Environment, stream: RequestStream, submit: Callable[[Request], None]) -> None:
        self._env = env
        self._stream = stream
        self._submit = submit
        self._nap = Nap(env, priority(ARRIVAL))
        # Follow-ups wait here: (arrival, id, request).
        self._followups: list[tuple[int, int, Request]] = []
        self._open = iter(stream)
        self._upcoming = next(self._open, None)
        self._sleep()

    @property
    def exhausted(self) -> bool:
        """Whether nobody is on the way; requests in the system may still cause new ones by their end."""
        return self._upcoming is None and not self._followups

    def finished(self, request: Request, visible_ps: int) -> None:
        """Tell that ``request`` has met its end, whatever its outcome, which must be set.

        What follows arrives at least 1 ps from now: it never shares the instant of the step boundary that caused it.

        Args:
            request: the request.
            visible_ps: when its last token became visible, or it was refused or lost [ps].
        """
        for followup in self._stream.on_finished(request, visible_ps):
            late = self._env._now + 1 - followup.arrival_ps
            if late > 0:
                followup.postpone(late)
            heappush(self._followups, (followup.arrival_ps, followup.id, followup))
            self._nap.shorten(followup.arrival_ps)

    def _sleep(self) -> None:
        """Sleep until the next arrival."""
        nap, upcoming, followups = self._nap, self._upcoming, self._followups
        due = Nap.FOREVER if upcoming is None else upcoming.arrival_ps
        if followups and followups[0][0] < due:
            due = followups[0][0]
        alarm = nap.until(due) if due < Nap.FOREVER else nap.forever()
        # A process of its own would do nothing but wait here, and costs as much again as the event.
        alarm.callbacks.append(self._arrive)

    def _arrive(self, _alarm: Event) -> None:
        """Submit everybody who arrives now, merging both queues by id."""
        # The nap may have been shortened while it lasted; its own record says until when.
        now = self._nap.until_ps
        followups, submit = self._followups, self._submit
        upcoming = self._upcoming
        while True:
            follows = bool(followups) and followups[0][0] == now
            if upcoming is not None and upcoming.arrival_ps == now:
                if not (follows and followups[0][1] < upcoming.id):
                    # Stepped on before the call: whoever looks from inside it sees what is still to come.
                    self._upcoming = next(self._open, None)
                    submit(upcoming)
                    upcoming = self._upcoming
                    continue
            elif not follows:
                break
            submit(heappop(followups)[2])
        self._sleep()
