"""What the process of a replica is to everybody else, whatever runs inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from servetwin.engine.plan import PlannedStep
from servetwin.engine.protocols import EngineSettings, SharedLinks
from servetwin.engine.rank import Rank
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
        #: Whether the links know that work is under way.
        self._begun = False
        self._front_end_ps = 0
        #: The longest prompt + output that can run here.
        self._most_tokens = min(settings.max_model_len, (settings.num_blocks - 1) * settings.block_size + 1)

    def submit(self, request: Request) -> None:
        """Take a request in, now; it reaches the waiting queue when the front end is done with it.

        A request that can never fit is rejected at once, with its reason.
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
        self.rank.incoming.append(request)
        self._arrived(ready)

    def ledger(self, spent: Mapping[str, int], end_ps: int) -> dict[str, int]:
        """The time up to ``end_ps`` in each bucket, of one GPU of each stage, all stages together [ps].

        Args:
            spent: what its segments say (``results.spent``).
            end_ps: when the run ended [ps]; ``stop`` has been called.
        """
        return self._books.ledger(spent, end_ps)

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
    def _arrived(self, ready_ps: int) -> None:
        """A request is in the front end, which will be done with it at ``ready_ps`` [ps]."""

    @abstractmethod
    def _disturb(self, ready_ps: int) -> None:
        """Something may change what runs from ``ready_ps`` [ps] on."""

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

    def _leave_links(self) -> None:
        """There is nothing to do: others have the links to themselves."""
        assert self._links is not None
        self._begun = False
        self._links.end()

    def _returning(self) -> None:
        """A request is back from a connector, now: it takes part as soon as one that arrives now could."""
        self._disturb(self._env._now)

    def _misfit(self, tokens: int) -> str:
        """Why a request of so many prompt and output tokens can never run here."""
        settings = self.settings
        if tokens > settings.max_model_len:
            return f"longer than max_model_len {settings.max_model_len}"
        blocks = settings.num_blocks - 1
        return f"longer than the KV cache of a replica: {blocks} blocks of {settings.block_size} tokens"
