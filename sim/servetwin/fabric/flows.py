"""Transfers that share links max-min fairly.

A flow takes the latency of its path, plus its bytes at its max-min fair rate. Rates are divided anew only when a flow
starts or has been sent, or an occupant comes or goes, and only among the flows that share links with it. Between two
such instants everything is a straight line, so what happens there is computed when somebody has to know it: a flow
costs one event for its end, and one more where others make that end earlier or later than it was due. Only on links
with occupants, who are told of every change of their share, is the instant at which a flow has been sent an event too.

Rates and bytes are whole numbers of small units (``fairness.RATE_UNIT``), so nothing is lost by rounding, and equal
instants are equal. Simultaneous ends are told in the order of the flows' indices, paths and sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from servetwin.errors import InvariantError
from servetwin.fabric.bundles import Bundle, Component, Flow
from servetwin.fabric.links import WORK_UNIT, Link
from servetwin.kernel import FLOW_END, Environment, Nap, priority
from servetwin.specs import Link as LinkSpec

FLOW = -1
"""Stands for a flow where the index of a replica says who has changed a share."""


class Occupant:
    """A busy replica whose steps send collectives over links.

    Attributes:
        index: the replica's index.
        links: by link, as how many flows it counts there.
        crowd: how many share a lane of the fullest of its links, itself included.
    """

    __slots__ = ("crowd", "index", "links", "on_share")

    def __init__(self, index: int, links: Mapping[Link, int], on_share: Callable[[int], None] | None) -> None:
        self.index = index
        self.links = links
        self.on_share = on_share
        self.crowd = 1.0

    @property
    def share(self) -> float:
        """The part of a lane that it has on its fullest link; 1.0 where it has lanes to itself."""
        return 1 / self.crowd


class Fabric:
    """All links, and the flows over them.

    Args:
        env: the environment, with the integer picosecond clock.
        links: the links, one for each direction; a path is a tuple of their indices, none of them twice.
    """

    def __init__(self, env: Environment, links: Sequence[LinkSpec]) -> None:
        self.links = tuple(Link(index, spec) for index, spec in enumerate(links))
        #: Flows that ``send`` has taken.
        self.started = 0
        #: Flows whose end has been told.
        self.ended = 0
        self._env = env
        self._capacities = [link.capacity for link in self.links]
        self._nap = Nap(env, priority(FLOW_END))
        self._armed = False
        self._waking = False
        self._bundles: dict[tuple[int, ...], Bundle] = {}
        self._numbers = 0
        #: ``(wake, number, component)``; components that have been replaced are skipped.
        self._wakes: list[tuple[int, int, Component]] = []
        #: Flows that have been sent and have not arrived: ``(arrival, index, path, size, number, flow)``.
        self._arriving: list[tuple[int, int, tuple[int, ...], int, int, Flow]] = []
        #: Links on which flows have departed and nobody has looked for occupants yet.
        self._departed: dict[Link, None] = {}

    # -- what others call ----------------------------------------------------------------------------------------

    def send(self, path: tuple[int, ...], size: int, done: Callable[[], None], index: int = 0) -> None:
        """Start a flow, now.

        Args:
            path: the links that it takes; none = it arrives at once.
            size: its length [B].
            done: called when its last byte has arrived.
            index: whose flow it is; of simultaneous ends the one with the lower index is told first.
        """
        now = self._env._now
        self.started += 1
        flow = Flow(index, path, size, done)
        links = tuple(self.links[link] for link in path)
        if not links or size <= 0:
            self._arrive_at(now + sum(link.latency_ps for link in links), flow)
        else:
            bundles = self._detach(links, now)
            bundle = self._bundles.get(path)
            if bundle is None:
                bundle = self._bundles[path] = Bundle(path, links)
                bundles.append(bundle)
                for link in links:
                    link.bundles[bundle] = None
            for link in links:
                link.flows += 1
            bundle.join(self._number(), flow)
            self._form(bundles, now)
            self._tell_occupants(links)
        self._arm()

    def occupy(self, path: tuple[int, ...], index: int = 0, on_share: Callable[[int], None] | None = None) -> Occupant:
        """From now on, a replica that sends collectives over ``path`` counts as a flow each time that a link is named.

        Args:
            path: the links that it uses, one to the spine once for each of its NICs that does.
            index: the replica's index: who is told first of changes at the same instant.
            on_share: called whenever its ``share`` changes, except by this call itself, with the index of the replica
                that comes or goes, or ``FLOW``: who is first at the same instant.
        """
        links = Counter(self.links[link] for link in path)
        occupant = Occupant(index, links, on_share)
        self._change_occupants(occupant, lambda link: link.occupants.update({occupant: links[link]}), comes=True)
        return occupant

    def release(self, occupant: Occupant) -> None:
        """The replica's work has ended, now."""
        occupant.on_share = None
        self._change_occupants(occupant, lambda link: link.occupants.pop(occupant), comes=False)

    def bytes_sent(self, link: int) -> int:
        """What a link has carried of flows so far [B]; a flow under way counts by its part."""
        self._catch_up()
        one = self.links[link]
        under_way = one.work_under_way(self._env._now) // WORK_UNIT
        return one.bytes_finished + under_way

    def audit(self) -> None:
        """Check that flows and bytes balance; raises ``InvariantError`` where they do not."""
        self._catch_up()
        now = self._env._now
        for link in self.links:
            link.audit(now)
        under_way = sum(len(bundle.members) for bundle in self._bundles.values()) + len(self._arriving)
        if self.started != self.ended + under_way:
            raise InvariantError(f"{self.started} flows started, {self.ended} ended, {under_way} are under way")

    # -- components ----------------------------------------------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _form(self, bundles: list[Bundle], now: int) -> Component:
        """Divide the links of connected bundles anew."""
        component = Component(bundles, now, self._capacities)
        heappush(self._wakes, (component.wake_ps, self._number(), component))
        return component

    def _components(self, links: Iterable[Link]) -> list[Component]:
        """What the flows on ``links`` belong to; those on one link belong together."""
        return list(dict.fromkeys(next(iter(link.bundles)).component for link in links if link.bundles))

    def _detach(self, links: Sequence[Link], now: int) -> list[Bundle]:
        """The bundles connected with ``links``, as of ``now`` [ps]; they need a new component."""
        for component in self._components(links):
            self._settle(component, now)
        bundles: list[Bundle] = []
        for component in self._components(links):
            component.advance(now)
            component.alive = False
            bundles += component.bundles
        return bundles

    def _settle(self, component: Component, now: int) -> None:
        """Let every flow depart that has been sent by ``now`` [ps]."""
        waiting = [component]
        while waiting:
            one = waiting.pop()
            if one.departs_ps > now:
                continue
            departs = one.departs_ps
            one.advance(departs)
            one.alive = False
            for bundle in one.bundles:
                for flow in bundle.leave():
                    self._arrive_at(departs + bundle.latency_ps, flow)
                    self._departed.update(dict.fromkeys(bundle.links))
                if not bundle.members:
                    self._drop(bundle, departs)
            waiting += [self._form(part, departs) for part in one.parts()]

    def _drop(self, bundle: Bundle, now: int) -> None:
        del self._bundles[bundle.path]
        for link in bundle.links:
            del link.bundles[bundle]
            if not link.bundles:
                link.set_rate(now, 0)

    def _catch_up(self) -> None:
        """Let every flow depart that has been sent by now."""
        now = self._env._now
        for component in [component for _, _, component in self._wakes if component.alive]:
            self._settle(component, now)
        self._tell_occupants(())
        self._arm()

    # -- occupants -----------------------------------------------------------------------------------------------

    def _change_occupants(self, occupant: Occupant, change: Callable[[Link], object], *, comes: bool) -> None:
        now, links = self._env._now, occupant.links
        for component in self._components(links):
            self._settle(component, now)
        for link in links:
            change(link)
        for component in self._components(links):
            component.advance(now)
            component.alive = False
            self._form(component.bundles, now)
        if comes:
            occupant.crowd = max((link.crowd for link in links), default=1.0)
        self._tell_occupants(links, occupant.index)
        self._arm()

    def _tell_occupants(self, links: Iterable[Link], cause: int = FLOW) -> None:
        """Tell those on ``links``, and where flows have departed, whose share ``cause`` has changed."""
        touched = [*links, *self._departed]
        self._departed.clear()
        changed = []
        for occupant in dict.fromkeys(occupant for link in touched for occupant in link.occupants):
            crowd = max(link.crowd for link in occupant.links)
            if crowd != occupant.crowd:
                occupant.crowd = crowd
                changed.append(occupant)
        for occupant in sorted(changed, key=lambda one: one.index):
            if occupant.on_share is not None:
                occupant.on_share(cause)

    # -- the alarm -----------------------------------------------------------------------------------------------

    def _arrive_at(self, time_ps: int, flow: Flow) -> None:
        heappush(self._arriving, (time_ps, flow.index, flow.path, flow.size, self._number(), flow))

    def _arm(self) -> None:
        """Set the alarm to the next instant at which somebody has to be told something."""
        if self._waking:
            return
        wakes = self._wakes
        while wakes and not wakes[0][2].alive:
            heappop(wakes)
        due = wakes[0][0] if wakes else Nap.FOREVER
        if self._arriving and self._arriving[0][0] < due:
            due = self._arriving[0][0]
        if due == Nap.FOREVER:
            return
        if self._armed:
            self._nap.shorten(due)
        else:
            self._armed = True
            self._nap.until(due).callbacks.append(self._wake)

    def _wake(self, _alarm: Any) -> None:
        """Tell everybody who has to be told something now."""
        now = self._env._now
        self._armed = False
        self._waking = True
        wakes, arriving = self._wakes, self._arriving
        while True:
            while wakes and (wakes[0][0] <= now or not wakes[0][2].alive):
                component = heappop(wakes)[2]
                if component.alive:
                    self._settle(component, now)
            if self._departed:
                self._tell_occupants(())
            elif arriving and arriving[0][0] <= now:
                self.ended += 1
                heappop(arriving)[5].done()
            else:
                break
        self._waking = False
        self._arm()
