"""What the engine asks of its policies and connectors, and the settings it runs under."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from servetwin.request import Request

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


class KVConnector(Protocol):
    """The one seam between a rank and KV cache that lies elsewhere: other replicas, CPU memory, SSD, remote stores.

    Calls for a request, in order (after vLLM ``KVConnectorBase_V1``): ``lookup`` each time the scheduler looks at it
    in the waiting queue, ``load`` once blocks were allocated for what was found, ``saved`` when more of its known
    tokens lie in full blocks, ``finished`` when it ends. Draft blocks are never offered.
    """

    def lookup(self, request: Request, local_tokens: int) -> int:
        """Tokens found beyond the ``local_tokens`` found in the rank's own cache (whole blocks; 0 = nothing)."""

    def load(self, request: Request, tokens: int, done: Callable[[], None]) -> None:
        """Start to load ``tokens`` tokens into the request's blocks and call ``done`` when they are there.

        Until then the request keeps its blocks and waits aside, without blocking those behind it.
        """

    def saved(self, request: Request, tokens: int) -> None:
        """The first ``tokens`` tokens of the request are computed or about to be, in blocks that can be found."""

    def finished(self, request: Request) -> None:
        """The request is done; its blocks return to the free queue now, where they can still be found."""
