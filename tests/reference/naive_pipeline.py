"""Pipelines in the naive engine: a list of batches in flight, and a table of when each was on which stage.

The rules are those of vLLM's queue of batches: fill it as long as there is anything to schedule, then wait for the
oldest batch. A job whose token is on the way is not scheduled; nobody in flight loses its blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.reference.naive_engine import BOUNDARY, Cluster, Entry, Job, Replica, Step

from servetwin.engine.protocols import EngineSettings
from servetwin.physics.protocols import StepPrice, StepShape


@dataclass
class Flight:
    """A batch, with the time at which it begins and ends on each stage."""

    entries: list[Entry]
    shape: StepShape
    prices: list[StepPrice]
    hand_offs: list[int]
    begins: list[int]
    ends: list[int]


class PipelinedReplica(Replica):
    """One replica with stages."""

    def __init__(self, index: int, settings: EngineSettings, step_time: Any, scheduler: Any, cluster: Cluster) -> None:
        super().__init__(index, settings, step_time, scheduler, cluster)
        self.in_flight: list[Flight] = []
        #: All batches so far.
        self.flights: list[Flight] = []
        #: When the last batch came back, or the first left an idle engine.
        self.since_ps = 0
        self.cap = 0

    def boundary(self, now: int) -> None:
        """The oldest batch is back, or an idle engine wakes."""
        if self.in_flight:
            self.come_back(self.in_flight.pop(0), now)
        while len(self.in_flight) < self.settings.stages + self.settings.depth:
            while self.front_end and self.front_end[0].queued_ps <= now:
                self.enter_queue(self.front_end.popleft(), preempted=False)
            self.cap = -(-len(self.running) // self.settings.stages)
            entries, preempted = self.plan(now)
            if entries:
                self.depart(entries, now)
            elif self.in_flight or not preempted:
                break
        self.current = self.in_flight[0].entries if self.in_flight else None
        if self.in_flight:
            self.cluster.push(self.in_flight[0].ends[-1], BOUNDARY, self.index, self)
        elif self.front_end:
            self.cluster.push(self.front_end[0].queued_ps, BOUNDARY, self.index, self)

    def depart(self, entries: list[Entry], now: int) -> None:
        if not self.in_flight:
            self.since_ps = now
        shape = self.shape(entries)
        prices, hand_offs = self.step_time.stages(shape), self.step_time.hand_offs(shape)
        flight = Flight(entries, shape, prices, hand_offs, [], [])
        for stage, price in enumerate(prices):
            there = now if stage == 0 else flight.ends[-1] + hand_offs[stage - 1]
            free = self.flights[-1].ends[stage] if self.flights else 0
            flight.begins.append(max(there, free))
            flight.ends.append(flight.begins[-1] + price.total_ps)
        self.flights.append(flight)
        self.in_flight.append(flight)

    def come_back(self, flight: Flight, now: int) -> None:
        entries, shape = flight.entries, flight.shape
        visible = max(now + self.settings.output_ps_per_request * len(entries), self.last_visible_ps)
        self.last_visible_ps = visible
        names = ("compute", "memory", "communication", "host", "compute_growth", "memory_growth")
        price = StepPrice(*(sum(getattr(one, f"{name}_ps") for one in flight.prices) for name in names))
        emitted = sum(entry.gain for entry in entries if not entry.job.unseen)
        ids = tuple(entry.job.id for entry in entries)
        self.steps.append(
            Step(self.since_ps, now - self.since_ps, shape.tokens, shape.decodes, shape.chunks, shape.context[0],
                 emitted, visible, price, ids)
        )  # fmt: skip
        self.since_ps = now
        self.outputs(entries, now)

    def passed_over(self, job: Job, step: list[Entry]) -> bool:
        if job.tokens_in_flight:
            return any(entry.job is job for flight in self.in_flight for entry in flight.entries)
        full = sum(entry.decode for entry in step) == self.cap
        return self.settings.balanced and job.computed >= job.target and full

    def keeps_blocks(self, job: Job) -> bool:
        return any(entry.job is job for flight in self.in_flight for entry in flight.entries)

    def books(self, end_ps: int) -> dict[str, int]:
        """Where the time of all stages went up to ``end_ps``, by looking at every stage and every batch [ps]."""
        books = dict.fromkeys(("compute", "memory", "communication", "host", "hand-off"), 0)
        flying = 0
        last = 0
        for place, flight in enumerate(self.flights):
            first = flight.begins[0] if place == 0 or flight.begins[0] > last else last
            flying += flight.ends[-1] - first
            last = flight.ends[-1]
            for stage, price in enumerate(flight.prices):
                for part in ("compute", "memory", "communication", "host"):
                    books[part] += getattr(price, part + "_ps")
                if stage:
                    free = self.flights[place - 1].ends[stage] if place else 0
                    sent = flight.ends[stage - 1]
                    books["hand-off"] += max(0, sent + flight.hand_offs[stage - 1] - max(sent, free))
        stages = self.settings.stages
        return books | {"bubble": stages * flying - sum(books.values()), "idle": stages * (end_ps - flying)}


class PipelinedCluster(Cluster):
    """Replicas with stages behind a router."""

    def replica(self, index: int, settings: EngineSettings, step_time: Any, scheduler: Any) -> Replica:
        kind = PipelinedReplica if settings.stages > 1 else Replica
        return kind(index, settings, step_time, scheduler, self)
