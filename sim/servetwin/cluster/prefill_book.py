"""What a gateway knows of the prefills that it has sent: how long each should take, and which have come back."""

from __future__ import annotations

from collections.abc import Sequence

from servetwin.cluster.prefix_index import PrefixIndex
from servetwin.engine.forecast import Forecast
from servetwin.kernel import Environment
from servetwin.request import Request


class _Line:
    """The prefills under way on one replica.

    Attributes:
        times: by request, how long its prefill should keep the replica busy [ps]; in the order in which they were sent.
        total_ps: of all of them [ps].
        since_ps: when the first of them should have begun [ps].
    """

    __slots__ = ("since_ps", "times", "total_ps")

    def __init__(self) -> None:
        self.times: dict[int, int] = {}
        self.total_ps = 0
        self.since_ps = 0


class PrefillBook:
    """The prefills under way on each replica.

    Every prompt is priced as if it had the replica to itself, and they are taken to follow one another: the first began
    when it was sent, or when one before it came back. The stages of a pipeline work on as many at once.

    Source: algorithm 1 of Mooncake (arXiv 2407.00079): the time in the queue is that predicted for the prefills in it.

    Args:
        env: the environment.
        forecasts: by replica, how long prefills take.
        index: how much of a prompt a replica has cached.
    """

    def __init__(self, env: Environment, forecasts: Sequence[Forecast], index: PrefixIndex) -> None:
        self._env = env
        self._forecasts = forecasts
        self._index = index
        self._lines: dict[int, _Line] = {}

    def prefill_ps(self, request: Request, replica: int) -> int:
        """How long the prefill of the request should take on the replica, without waiting [ps]."""
        cached = self._index.matched(replica, request)
        return self._forecasts[replica].prefill_ps(request.prompt_tokens, cached)

    def queue_ps(self, replica: int) -> int:
        """How long the replica should be busy with what was sent there [ps]."""
        line = self._lines.get(replica)
        if line is None or not line.times:
            return 0
        first: int = next(iter(line.times.values()))
        return line.total_ps - min(first, self._env._now - line.since_ps)

    def sent(self, request: Request, replica: int) -> None:
        """The prefill of the request goes to the replica; the index has not heard of it yet."""
        line = self._lines.get(replica)
        if line is None:
            line = self._lines[replica] = _Line()
        if not line.times:
            line.since_ps = self._env._now
        time_ps = self.prefill_ps(request, replica) // self._forecasts[replica].stages
        line.times[request.id] = time_ps
        line.total_ps += time_ps

    def left(self, request: Request) -> None:
        """The prefill of the request is back."""
        line = self._lines[request.replica]
        line.total_ps -= line.times.pop(request.id)
        line.since_ps = self._env._now
