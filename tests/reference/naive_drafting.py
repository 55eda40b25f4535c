"""Speculation in the naive engine: drafts are verified request by request and token by token, in each step.

What a step drafts is decided when it is planned; who decodes verifies it in its next step. A draft at a place of the
output stands as its fate says. Nothing is looked ahead: what a request gains is read when the step is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.reference.naive_engine import Cluster, Entry, Job, Plan, Replica

from servetwin.engine.protocols import EngineSettings
from servetwin.physics.protocols import StepShape
from servetwin.request import Fate


@dataclass(frozen=True)
class Drafts:
    """How a replica drafts.

    Attributes:
        most: drafts in a row per request, at most.
        nodes: drafted tokens that a request verifies for so many.
        lookahead: slots that a request holds beyond those of its step [tokens].
        fates: how drafts fare; ``of`` a request.
        controller: how many to make; None = always ``most``.
    """

    most: int
    nodes: int
    lookahead: int
    fates: Any
    controller: Any = None


class View:
    """What a controller sees."""

    def __init__(self, replica: DraftingReplica, step: Plan) -> None:
        self.replica = replica
        self.most = replica.drafts.most
        self.requests = len(step)
        self.context = 0
        for entry in step:
            self.context += entry.before + (1 if entry.decode else entry.tokens)

    def step_ps(self, k: int) -> int:
        """The price of a step in which all of them decode, with so many drafts to verify and to make [ps]."""
        replica, requests = self.replica, self.requests
        drafted = requests * replica.verified(k)
        tokens = requests + drafted
        padded = next((size for size in replica.settings.graph_sizes if size >= tokens), None)
        context = [self.context + drafted]
        for window in replica.step_time.windows:
            # It is not told who has how much: as if all had the same.
            context.append(min(self.context, requests * window) + drafted)
        shape = StepShape(
            tokens=tokens, padded_tokens=tokens if padded is None else padded, graph=padded is not None,
            requests=requests, decodes=requests, context=tuple(context),
            growing=(requests,) * len(context), drafted=drafted, drafts=k,
        )  # fmt: skip
        total: int = replica.step_time.price(shape).total_ps
        return total


@dataclass
class Outcome:
    """What came of the drafts of a step."""

    step: int
    requests: int
    drafted: int
    accepted: list[int]


class DraftingReplica(Replica):
    """One replica that drafts.

    Attributes:
        k: drafts per request that the last planned step makes at its end.
        planned: steps that have been planned.
        choices: of each of them, how many drafts it makes.
        verifying: steps of requests that verified at least one draft.
        by_position: how many drafts stood, by position.
    """

    def __init__(
        self, index: int, settings: EngineSettings, step_time: Any, scheduler: Any, cluster: Cluster, drafts: Drafts
    ) -> None:
        super().__init__(index, settings, step_time, scheduler, cluster)
        self.drafts = drafts
        self.lookahead = drafts.lookahead
        self.k = drafts.most
        self.planned = 0
        self.choices: list[int] = []
        self.asked_in = -1
        self.asked_for = -1
        self.outcomes: list[Outcome] = []
        self.told = 0
        self.fates: dict[int, Fate] = {}
        self.histories: dict[int, list[tuple[int, int, int]]] = {}
        self.verifying = 0
        self.by_position = [0] * drafts.most

    def verified(self, drafts: int) -> int:
        """Tokens that a request verifies for so many drafts in a row."""
        return self.drafts.nodes if drafts == self.drafts.most else drafts

    def found(self, job: Job) -> int:
        found = super().found(job)
        if found and self.settings.recompute_last_block:
            found -= self.settings.block_size
        return found

    def place(self, job: Job) -> int:
        """Output tokens that the job has when the step being planned begins."""
        return job.produced + job.tokens_in_flight

    def in_a_row(self, job: Job) -> int:
        """Drafts in a row that the job has for the step being planned."""
        drafts = self.k
        fate = self.fates.get(job.id)
        if fate is None:
            fate = self.fates[job.id] = self.drafts.fates.of(job.request)
        if fate.proposed is not None:
            drafts = min(drafts, fate.proposed[self.place(job)])
        controller = self.drafts.controller
        if controller is not None and controller.per_request and drafts:
            seen = self.planned - 1 - self.settings.depth
            history = [(drafted, stood) for step, drafted, stood in self.histories.get(job.id, ()) if step < seen]
            drafts = min(drafts, controller.limit(history))
        return drafts

    def decode_tokens(self, job: Job) -> int:
        return 1 + self.verified(self.in_a_row(job))

    def decoding(self, job: Job, want: int) -> Entry:
        drafts = min(self.in_a_row(job), want - 1)
        place = self.place(job)
        accepted = min(self.fates[job.id].matches[place], drafts)
        gain = min(accepted + 1, job.output - place)
        return Entry(job, want, job.computed, decode=True, gain=gain, drafted=want - 1, accepted=accepted)

    def plan(self, now: int) -> tuple[Plan, bool]:
        step, preempted = super().plan(now)
        if step:
            self.settle(step)
        return step, preempted

    def settle(self, step: Plan) -> None:
        """Nothing changes the step any more: decide what it drafts, and write down what comes of its drafts."""
        drafting = [entry for entry in step if entry.drafted]
        outcome = Outcome(self.planned, len(drafting), sum(entry.drafted for entry in drafting), [0] * self.k)
        for entry in drafting:
            job = entry.job
            job.drafted_tokens += entry.drafted
            job.accepted_tokens += entry.accepted
            self.histories.setdefault(job.id, []).append((self.planned, entry.drafted, entry.accepted))
            for position in range(entry.accepted):
                outcome.accepted[position] += 1
                self.by_position[position] += 1
        self.verifying += len(drafting)
        self.decide(step)
        if drafting:
            self.outcomes.append(outcome)
        # A controller that never wants drafts again lets the drafter's cache go.
        over = self.k == 0 and getattr(self.drafts.controller, "over", False)
        step.drafts = -1 if over else self.k
        self.choices.append(step.drafts)
        self.planned += 1

    def decide(self, step: Plan) -> None:
        controller = self.drafts.controller
        if controller is None:
            return
        due = controller.review_steps and self.planned - self.asked_in >= controller.review_steps
        if self.asked_in >= 0 and self.asked_for == len(step) and not due:
            return
        if controller.observes:
            for outcome in self.outcomes[self.told :]:
                if outcome.step < self.planned - self.settings.depth:
                    controller.observe(outcome.requests, outcome.drafted, outcome.accepted)
                    self.told += 1
        self.asked_in, self.asked_for = self.planned, len(step)
        self.k = controller.choose(View(self, step))

    def shape(self, entries: list[Entry]) -> StepShape:
        assert isinstance(entries, Plan)
        shape = super().shape(entries)
        decodes = [entry for entry in entries if entry.decode]
        drafted = sum(entry.drafted for entry in decodes)
        width = 0.0
        if drafted:
            # Where all verify as many drafts, whatever is left out says how many.
            pairs = sum(self.pairs(entry.before, entry.drafted) for entry in decodes)
            each = drafted // len(decodes)
            if drafted % len(decodes) or pairs != sum(self.pairs(entry.before, each) for entry in decodes):
                width = pairs / (shape.context[0] + drafted)
        return StepShape(
            tokens=shape.tokens, padded_tokens=shape.padded_tokens, graph=shape.graph, requests=shape.requests,
            decodes=shape.decodes, context=tuple(read + drafted for read in shape.context),
            growing=(shape.decodes,) * len(shape.context), chunks=shape.chunks, drafted=drafted, drafts=entries.drafts,
            width=width,
        )  # fmt: skip

    def pairs(self, before: int, drafted: int) -> int:
        """Whom the tokens of a decoding request attend, token by token: its context, itself, and the drafts it follows.

        Of a tree the longest chain is known to be ``most`` tokens; every other draft follows somebody too.
        """
        found = before + 1
        for place in range(1, drafted + 1):
            found += before + 1 + (place if place <= self.drafts.most else 1)
        return found


class DraftingCluster(Cluster):
    """Replicas that draft, behind a router."""

    def __init__(
        self, replicas: Sequence[tuple[EngineSettings, Any, Any]], drafts: Sequence[Drafts], *rest: Any
    ) -> None:
        self._drafts = drafts
        super().__init__(replicas, *rest)

    def replica(self, index: int, settings: EngineSettings, step_time: Any, scheduler: Any) -> Replica:
        return DraftingReplica(index, settings, step_time, scheduler, self, self._drafts[index])
