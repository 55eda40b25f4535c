"""What the engine asks of its policies and connectors, and the settings it runs under."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from servetwin.request import Fate, Request

SKIP_AHEAD = "skip-ahead"
EVERY_STEP = "every-step"
EVERY_OPERATION = "every-operation"
STEPPING = (SKIP_AHEAD, EVERY_STEP, EVERY_OPERATION)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine settings of one rank, all resolved (names as in vLLM where vLLM has them).

    Attributes:
        max_num_batched_tokens: token budget of a step.
        max_num_seqs: most requests running at once.
        max_model_len: longest prompt + output [tokens].
        block_size: tokens per KV block.
        num_blocks: KV blocks of the rank, the null block included; one fewer is usable.
        prefix_caching: whether full blocks are kept and found again.
        chunked_prefill: whether a prompt may be cut to what is left of the budget.
        long_prefill_token_threshold: most prompt tokens of one request in one step; 0 = no limit.
        reserve_full_prompt: a request is admitted only if its whole prompt fits into the free blocks
            (vLLM ``scheduler_reserve_full_isl``).
        watermark_blocks: blocks kept free when a request is admitted while others are scheduled.
        depth: scheduling depth D: 0 plans a step when it starts, 1 one step ahead (asynchronous scheduling); a pipeline
            has D more batches in flight than stages.
        graph_sizes: captured CUDA-graph sizes, ascending; empty = eager.
        front_end_ps: from arrival at the replica to the waiting queue, per request [ps].
        front_end_per_token_ps: the same per prompt token (tokenising, hashing) [ps].
        output_ps_per_request: delay of a step's tokens per request in the step (detokenise, stream) [ps].
        stages: stages of the pipeline.
        balanced: whether a batch of a pipeline takes at most an even share of the running requests that decode.
        recompute_last_block: whether the last block of a prefix hit is computed again, as a drafter needs that reads
            the model's hidden states.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    block_size: int
    num_blocks: int
    prefix_caching: bool = True
    chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    reserve_full_prompt: bool = True
    watermark_blocks: int = 0
    depth: int = 1
    graph_sizes: tuple[int, ...] = ()
    front_end_ps: int = 0
    front_end_per_token_ps: int = 0
    output_ps_per_request: int = 0
    stages: int = 1
    balanced: bool = False
    recompute_last_block: bool = False


class SharedLinks(Protocol):
    """The links over which a replica's collectives go, which others use too."""

    @property
    def crowd(self) -> float:
        """How many share a lane of the fullest of the links while the replica works, itself included; 1 = nobody."""

    def begin(self, changed: Callable[[int], None]) -> None:
        """The replica's work begins, now.

        Args:
            changed: called whenever ``crowd`` changes from now on, with who has changed it: the index of another
                replica, or -1 for a transfer. Steps that start from now on have the new share, those of the same
                instant too if they come after it: a replica's steps start in the order of the replicas' indices,
                and after what is sent at that instant has arrived.
        """

    def end(self) -> None:
        """The replica has nothing to do from now on."""


class Scheduler(Protocol):
    """The order of the waiting queue and the choice of the victim.

    Keys are read once, when a request enters the waiting queue or the running list, so they may not change while it
    is there. A scheduler sees the request and how much of its prompt is cached, never its output length.
    """

    #: Whether the queue is first come, first served: preempted requests return to its front, and a request that
    #: arrives behind others cannot be admitted before them. Then ``order`` is not called.
    fcfs: bool

    #: Whether ``order`` reads the cache, so that it must be called at the first plan after each arrival.
    reads_cache: bool

    def order(self, request: Request, cached_tokens: int) -> Any:
        """The sort key in the waiting queue: the smallest is admitted first. Ties: earlier in the queue."""

    def victim(self, request: Request) -> Any:
        """The sort key among running requests: the largest is preempted first; ties: the last admitted.

        Return None for every request to preempt the last admitted.
        """


class Fates(Protocol):
    """Knows how drafts would fare: the same for the same request, whoever asks, and in whatever order."""

    def of(self, request: Request) -> Fate:
        """The fate of drafts for ``request``: as many positions as it has output tokens."""


class DraftView(Protocol):
    """What a controller of speculation sees when it decides how many tokens to draft.

    Attributes:
        most: the most tokens that may be drafted per request, the scenario's ``k``.
        requests: requests in the step at whose end the drafts are made, those that prefill included.
        context: KV tokens that they have.
    """

    most: int
    requests: int
    context: int

    def step_ps(self, k: int) -> int:
        """The predicted time of a step in which all of them have ``k`` drafts to verify and get ``k`` new ones [ps]."""


StepForecast = Callable[[int, int, int], int]
"""``(requests, their KV tokens, k)`` → the time of a step in which each verifies k drafts and gets k new ones [ps]."""


class DraftController(Protocol):
    """Decides how many tokens are drafted per request.

    It is asked when the first step is planned, and every step with another number of requests than the one before, and
    every ``review_steps``-th step since it was last asked. What it answers holds until it is asked again; drafts
    made at the end of a step are verified in the next. It never sees a fate, only what came of drafts, and that as
    late as the engine's scheduler would know.

    Attributes:
        review_steps: after how many steps it is asked again if nothing else changes; 0 = never.
        observes: whether it wants to be told what came of the drafts.
        per_request: whether requests may have different numbers of drafts: then ``limit`` is asked.
        over: whether it never wants drafts again, so that the drafter need not keep its cache; may be left out.
    """

    review_steps: int
    observes: bool
    per_request: bool

    def choose(self, view: DraftView) -> int:
        """How many tokens to draft per request, 0 to ``view.most``; with 0 a drafter only keeps its cache."""

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        """What came of one step that verified drafts; called once for each such step, in order.

        Args:
            requests: requests with drafts in the step.
            drafted: drafted tokens that it verified.
            accepted: by position, how many of the requests had the draft at that position accepted (all before it
                too); as many entries as drafts per request.
        """

    def limit(self, history: Sequence[tuple[int, int]]) -> int:
        """The most drafts for a request with this history; only asked where ``per_request`` is true.

        Args:
            history: of each step so far that verified drafts of the request: drafted and accepted tokens.
        """


class KVConnector(Protocol):
    """The one seam between a rank and KV cache that lies elsewhere: other replicas, CPU memory, SSD, remote stores.

    Calls for a request, in order (after vLLM ``KVConnectorBase_V1``): ``lookup`` each time the scheduler looks at it
    in the waiting queue, ``load`` once blocks were allocated for what was found, ``saved`` when more of its known
    tokens lie in full blocks, ``computing`` when a step begins that computes some of them, ``finished`` when it ends.
    Draft blocks are never offered.

    Attributes:
        watches: whether ``computing`` wants to be called.
    """

    watches: bool

    def lookup(self, request: Request, local_tokens: int) -> int:
        """Tokens found beyond the ``local_tokens`` found in the rank's own cache (0 = nothing).

        Whole blocks, or all but the last of the tokens that are known of the request: then nothing is left to be
        prefilled, and it decodes once they are loaded.
        """

    def load(self, request: Request, tokens: int, done: Callable[[bool, bool], None]) -> None:
        """Start to load ``tokens`` tokens into the request's blocks and call ``done`` when it is over.

        Until then the request keeps its blocks and waits aside, without blocking those behind it. ``done`` is told
        whether the tokens are there, if not the request looks for them again; and whether it is called after the ends
        of steps of the same instant.
        """

    def saved(self, request: Request, tokens: int) -> None:
        """The first ``tokens`` tokens of the request are computed or about to be, in blocks that can be found."""

    def computing(self, request: Request, before: int, tokens: int, end_ps: int) -> None:
        """A step begins now, and ends at ``end_ps`` [ps], that computes ``tokens`` prompt tokens after ``before``."""

    def finished(self, request: Request) -> bool:
        """The request is done. Whether its blocks are to be kept until ``loading.let_go``; else they return to the
        free queue now, where they can still be found."""
