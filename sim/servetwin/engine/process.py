"""What the process of a replica is to everybody else, whatever runs inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from servetwin.engine.loading import GONE, take_in, tell
from servetwin.engine.plan import PlannedStep
from servetwin.engine.protocols import EngineSettings, SharedLinks
from servetwin.engine.rank import Rank
from servetwin.errors import InvariantError
from servetwin.kernel import Environment
from servetwin.request import REJECTED, Request


class Accounts(Protocol):
    """The books of a replica."""

    @property
    def steps(self) -> int:
        """Engine steps that have ended."""

    @property
    def stage_busy_ps(self) -> Sequence[int]:
        """By stage of a pipeline, for how long it worked on steps [ps]; none where there is one stage."""

    def ledger(self, spent: Mapping[str, int], end_ps: int) -> dict[str, int]:
        """See ``EngineProcess.ledger``."""


class EngineProcess(ABC):
    """The front end of a replica, and what others may ask of its engine.

    Args:
        env: the environment, with the integer picosecond clock.
        index: the replica's index in the cluster.
        settings: the engine's settings.
        rank: queue, batches and blocks.
        on_finished: told of each request that ends here, with the visible time of its last token [ps].
        gpus: GPUs of the replica, or of each stage of its pipeline.
        books: its books.
        links: the links of its collectives where others use them too, or None.
    """

    def __init__(
        self,
        env: Environment,
        index: int,
        settings: EngineSettings,
        rank: Rank,
        on_finished: Callable[[Request, int], None],
        gpus: int,
        books: Accounts,
        links: SharedLinks | None,
    ) -> None:
        self.index = index
        self.gpus = gpus
        self.settings = settings
        self.rank = rank
        self._env = env
        self._on_finished = on_finished
        self._books = books
        self._links = links
        #: For how long there was nothing to do but to wait for a connector, and since when there is not [ps].
        self.waited_ps = 0
        self._waits_ps = -1
        #: Since when the replica is gone [ps]; -1 = it is there.
        self.left_ps = -1
        #: Whether the links know that work is under way.
        self._begun = False
        self._front_end_ps = 0
        #: The longest prompt + output that can run here.
        self._most_tokens = min(settings.max_model_len, (settings.num_blocks - 1) * settings.block_size + 1)

    def submit(self, request: Request, after: bool = False) -> None:
        """Take a request in, now; it reaches the waiting queue when the front end is done with it.

        A request that can never fit is rejected at once, with its reason.

        Args:
            request: the request.
            after: whether steps that end at this very instant have ended, and what follows them is planned.
        """
        settings = self.settings
        if request.prompt_tokens + request.output_tokens > self._most_tokens:
            request.outcome = REJECTED
            request.reason = self._misfit(request.prompt_tokens + request.output_tokens)
            self._on_finished(request, self._env._now)
            return
        ready = self._env._now + settings.front_end_ps + settings.front_end_per_token_ps * request.prompt_tokens
        if ready < self._front_end_ps:
            ready = self._front_end_ps
        self._front_end_ps = ready
        request.queued_ps = ready
        self.rank.generated += request.produced
        self.rank.incoming.append(request)
        self._arrived(ready, after)

    def leave(self, left: Callable[[list[Request]], None]) -> None:
        """The replica leaves at the end of the step under way, and takes no more requests.

        Args:
            left: told then of the requests that were here, which may go elsewhere.
        """
        # A pipeline cannot: ``scenario.departures`` refuses it before anything runs.
        raise NotImplementedError

    def ledger(self, spent: Mapping[str, int], end_ps: int) -> dict[str, int]:
        """The time up to ``end_ps`` in each bucket, of one GPU of each stage, all stages together [ps].

        Args:
            spent: what its segments say (``results.spent``).
            end_ps: when the run ended [ps]; ``stop`` has been called.
        """
        row = self._books.ledger(spent, end_ps)
        waited = self.waited_ps * self.settings.stages
        gone = 0 if self.left_ps < 0 else max(0, end_ps - self.left_ps) * self.settings.stages
        row["idle"] -= waited + gone
        row["transfer_wait"] += waited
        row["down"] += gone
        if row["idle"] < 0:
            raise InvariantError(f"replica {self.index} waited for longer than it was idle")
        return row

    def stage_busy_ps(self) -> Sequence[int]:
        """By stage of a pipeline, for how long it worked on steps, its collectives included [ps]; see ``ledger``."""
        return self._books.stage_busy_ps

    def steps(self) -> int:
        """Engine steps that have ended."""
        return self._books.steps

    @abstractmethod
    def generated(self, now: int) -> int:
        """Output tokens of the unfinished requests here, as of the last step that ended before ``now`` [ps]."""

    @abstractmethod
    def stop(self, now: int) -> None:
        """Account for what has happened before ``now`` [ps], in the middle of a run or not; the engine is over.

        A step that ends at ``now`` is cut off like any other: its output comes too late.
        """

    @abstractmethod
    def _arrived(self, ready_ps: int, after: bool) -> None:
        """A request is in the front end, which will be done with it at ``ready_ps`` [ps]; see ``submit``."""

    @abstractmethod
    def _disturb(self, ready_ps: int) -> None:
        """Something may change what runs from ``ready_ps`` [ps] on."""

    @property
    @abstractmethod
    def works(self) -> bool:
        """Whether a step is under way."""

    @abstractmethod
    def _share_changed(self, cause: int) -> None:
        """Another replica (``cause``) or a transfer (-1) changes the share of the links, now."""

    def _sharing(self, step: PlannedStep) -> PlannedStep:
        """``step``, which belongs to what starts now, with today's share of the links."""
        links = self._links
        assert links is not None
        if not self._begun:
            self._begun = True
            links.begin(self._share_changed)
        return self.rank.steps.sharing(step, links.crowd)

    def _hear_the_rest(self) -> None:
        """At the end of everything, what an idle engine was told and needed not be woken for."""
        if not self.works:
            take_in(self.rank, self._env._now)

    def _books_waiting(self, now: int) -> None:
        """The engine falls asleep for want of work, or has slept until ``now`` [ps].

        If there are requests whose blocks are being filled, or that find none because others read them, it waits for
        a connector.
        """
        if self._waits_ps >= 0:
            self.waited_ps += now - self._waits_ps
            self._waits_ps = -1
        elif self.rank.aside or self.rank.waiting:
            self._waits_ps = now

    def _tell_connector(self, step: PlannedStep, end_ps: int) -> None:
        """A step with prompt tokens begins, and ends at ``end_ps`` [ps]."""
        connector = self.rank.connector
        assert connector is not None and step.chunked is not None
        for request, (tokens, before) in zip(step.chunked, step.shape.chunks, strict=True):
            connector.computing(request, before, tokens, end_ps)

    def _leave_links(self) -> None:
        """There is nothing to do: others have the links to themselves."""
        assert self._links is not None
        self._begun = False
        self._links.end()

    def _hears(self, after: bool, wakes: bool) -> int:
        """A connector has something to say; from when on plans take it in [ps]."""
        works = self.works
        time = self._env._now + (after and works)
        if works or wakes or self.rank.waiting:
            self._disturb(time)
        return time

    def withdraw(self, request: Request, after: bool = False) -> None:
        """The request, which has no seat here yet, is not wanted any more; its blocks are free at the next plan.

        Args:
            request: the request.
            after: see ``submit``.
        """
        self.rank.generated -= request.produced
        tell(self.rank, request, GONE, after)

    def _misfit(self, tokens: int) -> str:
        """Why a request of so many prompt and output tokens can never run here."""
        settings = self.settings
        if tokens > settings.max_model_len:
            return f"longer than max_model_len {settings.max_model_len}"
        blocks = settings.num_blocks - 1
        return f"longer than the KV cache of a replica: {blocks} blocks of {settings.block_size} tokens"
