"""Steps of a pipeline that will surely be planned, taken at once.

While nobody joins or leaves, the micro-batches come round in turn: each time the oldest comes back it is scheduled
again with the same requests, and its step is longer by what their context has grown. So the times at which they leave
the stages follow from each other by maxima and sums of integers alone.
"""

from __future__ import annotations

from bisect import bisect_left

from servetwin.engine.lane import Lane

#: Steps that are looked ahead at once. An arrival throws away what lies behind it.
_MOST = 256


class LookAhead:
    """The micro-batches in flight, and how they go on.

    Flights are numbered from the oldest one in flight. Flight ``f`` belongs to lane ``f % n`` of ``n``; it comes back
    at ``times[f]``, and then flight ``f + n`` is launched.

    Args:
        stages: stages of the pipeline.

    Attributes:
        lanes: the lanes in flight, the oldest first.
        count: how many flights come back without anything else happening; ``times[count]`` is when something does.
        times: when each flight comes back [ps].
    """

    __slots__ = ("_exposed", "_stages", "_trail", "count", "lanes", "times")

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self.lanes: list[Lane] = []
        self.count = 0
        self.times: list[int] = []
        #: Of the flights launched ahead: when they leave each stage, one flight after the other, and the waits for
        #: their hand-offs.
        self._trail: list[int] = []
        self._exposed: list[int] = []

    def look(self, lanes: list[Lane], ends: list[int], free: int, until_ps: int, most_decodes: int) -> None:
        """Go on until a request ends, blocks run out, or a flight comes back at ``until_ps`` [ps] or later.

        Args:
            lanes: the lanes in flight, the oldest first.
            ends: when the stages are done with the youngest of them [ps].
            free: blocks that are free.
            until_ps: from when on plans may find more than the decodes of today [ps].
            most_decodes: how many requests may decode in a step.
        """
        self.lanes = lanes = list(lanes)
        number, stages = len(lanes), self._stages
        times = [lane.end_ps for lane in lanes]
        left = [0 if lane.batch.size > most_decodes else lane.steps_ahead() for lane in lanes]
        spans = [lane.span(stage) for lane in lanes for stage in range(stages)]
        trail: list[int] = []
        waits: list[int] = []
        ends = list(ends)
        size = lanes[0].batch.block_size
        count = at = 0
        while count < _MOST and left[at]:
            now = times[count]
            lane = lanes[at]
            free -= lane.batch.crossings[(lane.batch.step + count // number) % size]
            if now >= until_ps or free < 0:
                break
            growths, hand_offs = lane.growths, lane.hand_offs
            leaves = arrives = now
            exposed = 0
            base = at * stages
            for stage in range(stages):
                begins = ends[stage]
                if begins < arrives:
                    exposed += arrives - (begins if begins > leaves else leaves)
                    begins = arrives
                span = spans[base + stage] + growths[stage]
                spans[base + stage] = span
                ends[stage] = leaves = begins + span
                arrives = leaves + hand_offs[stage]
                trail.append(leaves)
            times.append(leaves)
            waits.append(exposed)
            left[at] -= 1
            count += 1
            at += 1
            if at == number:
                at = 0
        self.count, self.times, self._trail, self._exposed = count, times, trail, waits

    def cut(self, ready_ps: int) -> bool:
        """End where a request that reaches the queue at ``ready_ps`` [ps] is seen: when the next flight comes back.

        Returns whether that is earlier than before.
        """
        count = bisect_left(self.times, ready_ps, 0, self.count)
        if count == self.count:
            return False
        self.count = count
        return True

    def back_before(self, now: int) -> int:
        """How many flights, of those that come back without anything else happening, are back before ``now`` [ps]."""
        return bisect_left(self.times, now, 0, self.count)

    def emitted(self, flights: int) -> int:
        """Output tokens of the first ``flights`` flights."""
        rounds, rest = divmod(flights, len(self.lanes))
        total = sum(lane.step.emitted for lane in self.lanes[:rest])
        return total + rounds * sum(lane.step.emitted for lane in self.lanes) if rounds else total

    def rounds(self, place: int) -> int:
        """How many of the first ``count`` flights belong to the lane at ``place``."""
        number = len(self.lanes)
        return (self.count - place + number - 1) // number

    def exposed_ps(self, flight: int) -> int:
        """The waits for the hand-offs of a flight [ps]."""
        number = len(self.lanes)
        return self.lanes[flight].exposed_ps if flight < number else self._exposed[flight - number]

    def ends(self, flight: int) -> list[int]:
        """When a flight leaves each stage [ps]."""
        number = len(self.lanes)
        if flight < number:
            return self.lanes[flight].ends
        start = (flight - number) * self._stages
        return self._trail[start : start + self._stages]
