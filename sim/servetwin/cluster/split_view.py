"""What a decider sees of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from servetwin.cluster.group import Group
from servetwin.cluster.predictions import Predictions
from servetwin.cluster.protocols import REQUESTS, TOKENS
from servetwin.engine.forecast import Forecast
from servetwin.request import Request


class ClusterView:
    """Implements ``SplitView`` on what the gateway knows: what it has sent, and what has come back.

    Args:
        prefill: the replicas that prefill.
        decode: those that decode.
        forecasts: by replica, what it has room for.
        mixed: those that do both; None = there never were any.
        predictions: what requests would take; None = nobody asks.

    Attributes:
        target: the decoding replica of the request that is decided on; -1 = none has been chosen.
    """

    def __init__(
        self, prefill: Group, decode: Group, forecasts: Sequence[Forecast], mixed: Group | None,
        predictions: Predictions | None,
    ) -> None:  # fmt: skip
        self.target = -1
        self._prefill = prefill.fleet
        self._decode = decode.fleet
        self._index = decode.index
        self._forecasts = forecasts
        self._mixed = mixed
        self._predictions = predictions

    @property
    def prefill_waiting(self) -> int:
        """Requests that wait at prefilling replicas, those beyond one for each."""
        fleet = self._prefill
        return sum([max(0, fleet.value(replica, REQUESTS) - 1) for replica in fleet.all()])

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens of the prefills under way on the least loaded prefilling replica."""
        fleet = self._prefill
        return fleet.value(fleet.least(TOKENS), TOKENS)

    @property
    def decode_tokens(self) -> int:
        """Prompt and generated tokens of the requests on the least loaded decoding replica."""
        fleet = self._decode
        return fleet.value(fleet.least(TOKENS), TOKENS)

    @property
    def decode_room(self) -> int:
        """Tokens for which that replica has KV cache."""
        return self._forecasts[self._decode.least(TOKENS)].room_tokens

    @property
    def mixed(self) -> bool:
        """Whether there are replicas that do both."""
        return self._mixed is not None and bool(self._mixed.fleet.all())

    def cached_tokens(self, request: Request) -> int:
        """Prompt tokens that the decoding replica of the request is believed to have cached; 0 if none was chosen."""
        index = self._index
        if index is None:
            raise TypeError("a policy that asks for cached tokens must say so: reads_cache = True")
        return index.matched(self.target, request)

    def ttft_ps(self, request: Request) -> int:
        """The predicted TTFT of the request if it is split [ps]; see ``Predictions``."""
        return self._asked().ttft_ps(request)

    def tpot_ps(self, request: Request) -> int:
        """The predicted time of a decode step with the request [ps]; see ``Predictions``."""
        return self._asked().tpot_ps(request)

    def _asked(self) -> Predictions:
        if self._predictions is None:
            raise TypeError("a policy that asks for predictions must say so: predicts = True")
        return self._predictions
