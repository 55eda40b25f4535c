"""Test doubles: a fleet without engines, a view of a batch without one, and requests without a workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from servetwin.cluster.protocols import METRICS, REQUESTS, TOKENS
from servetwin.request import Request


class FakeFleet:
    """A ``FleetView`` over plain lists.

    Args:
        requests: unfinished requests of each replica; its length is the number of replicas.
        tokens: tokens of each replica's unfinished requests; as many as requests by default.
        indices: the indices of the replicas, ascending; 0, 1, 2, … by default.
    """

    def __init__(
        self,
        requests: Sequence[int],
        tokens: Sequence[int] | None = None,
        indices: Sequence[int] | None = None,
    ) -> None:
        self._indices = tuple(indices) if indices is not None else tuple(range(len(requests)))
        self.values = {
            REQUESTS: dict(zip(self._indices, requests, strict=True)),
            TOKENS: dict(zip(self._indices, tokens if tokens is not None else requests, strict=True)),
        }

    def all(self) -> Sequence[int]:
        """Every replica, ascending."""
        return self._indices

    def least(self, metric: str) -> int:
        """The replica with the smallest value; ties go to the smallest index."""
        self._check(metric)
        values = self.values[metric]
        return min(self._indices, key=lambda replica: (values[replica], replica))

    def value(self, replica: int, metric: str) -> int:
        """The value of one replica."""
        self._check(metric)
        return self.values[metric][replica]

    def routed(self, request: Request, replica: int) -> None:
        """Count a request that was sent to ``replica``."""
        self.values[REQUESTS][replica] += 1
        self.values[TOKENS][replica] += request.prompt_tokens

    @staticmethod
    def _check(metric: str) -> None:
        assert metric in METRICS, f"a fleet has no metric '{metric}'"


class FakeDraftView:
    """A ``DraftView`` over plain numbers.

    Args:
        most: the most tokens that may be drafted per request.
        requests: requests in the step.
        context: KV tokens that they have.
        times_ps: for 0, 1, … ``most`` drafts, what a step takes [ps]; by default each takes a tenth of the first more.
    """

    def __init__(self, most: int, requests: int, context: int = 0, times_ps: Sequence[int] | None = None) -> None:
        self.most = most
        self.requests = requests
        self.context = context
        self._times_ps = times_ps if times_ps is not None else [1000 + 100 * k for k in range(most + 1)]

    def step_ps(self, k: int) -> int:
        """The time of a step with ``k`` drafts [ps]."""
        assert 0 <= k <= self.most, f"a controller asked for the time of {k} drafts, of at most {self.most}"
        return self._times_ps[k]


class FakeSplitView:
    """A ``SplitView`` over plain numbers.

    Args:
        prefill_waiting: requests that wait at prefilling replicas.
        prefill_tokens: prompt tokens under way on the least loaded of them.
        decode_tokens: tokens on the least loaded decoding replica.
        decode_room: tokens for which it has KV cache.
        mixed: whether there are replicas that do both.
        cached_tokens: prompt tokens that the decoding replica has cached; of a shorter prompt all.
        ttft_ms: the predicted TTFT [ms].
        tpot_ms: the predicted TPOT [ms].
    """

    def __init__(
        self,
        prefill_waiting: int = 0,
        prefill_tokens: int = 0,
        decode_tokens: int = 0,
        decode_room: int = 100_000,
        mixed: bool = False,
        cached_tokens: int = 0,
        ttft_ms: float = 0.0,
        tpot_ms: float = 0.0,
    ) -> None:
        self.prefill_waiting = prefill_waiting
        self.prefill_tokens = prefill_tokens
        self.decode_tokens = decode_tokens
        self.decode_room = decode_room
        self.mixed = mixed
        self._cached_tokens = cached_tokens
        self._ttft_ps = round(ttft_ms * 1e9)
        self._tpot_ps = round(tpot_ms * 1e9)

    def cached_tokens(self, request: Request) -> int:
        """Prompt tokens of the request that the decoding replica has cached."""
        return min(self._cached_tokens, request.prompt_tokens)

    def ttft_ps(self, request: Request) -> int:
        """The predicted TTFT [ps]."""
        return self._ttft_ps

    def tpot_ps(self, request: Request) -> int:
        """The predicted TPOT [ps]."""
        return self._tpot_ps


class SealedRequest:
    """A request whose output length nobody may read: it lies in the future of every policy.

    It stands before a real one and passes on everything else.
    """

    def __init__(self, request: Request) -> None:
        object.__setattr__(self, "_request", request)

    def __getattr__(self, name: str) -> Any:
        if name == "output_tokens":
            raise AssertionError("a policy read the output length of a request, which lies in the future")
        return getattr(self._request, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._request, name, value)


def make_request(
    id: int,
    *,
    arrival_ps: int = 0,
    prompt_tokens: int = 100,
    output_tokens: int = 10,
    priority: int = 0,
    deadline_ps: int = -1,
    sealed: bool = False,
) -> Request:
    """A request that has just arrived; ``sealed`` makes reading its output length an error."""
    request = Request(id, arrival_ps, prompt_tokens, output_tokens, priority=priority, deadline_ps=deadline_ps)
    request.queued_ps = arrival_ps
    return cast(Request, SealedRequest(request)) if sealed else request
