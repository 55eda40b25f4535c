"""What would break a promise is rejected at the door; the rest is split."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from servetwin.cluster.protocols import REJECT, SPLIT, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request

_PS_PER_MS = 10**9

Limit = Annotated[float, Field(gt=0, le=1e9, strict=False)]
"""A time [ms]."""


@register
class SplitBySlo(SplitPolicy):
    """A request is split if its predicted latencies keep the limits, and is rejected otherwise.

    The TTFT is predicted for the prefilling and the decoding replica with the fewest tokens: front end, the prefills
    that were sent there and have not come back, one after the other, and that of the request; where the decoding
    replica yields the first token, what of the transfer is not hidden, over links that nobody else uses, and a decode
    step. The TPOT is that step: as many requests as are there, and this one. Times are the prices of steps. Nothing is
    known of an engine but what was sent there and came back; what it has cached of a prompt is what the gateway
    remembers of those before, as for ``uncached-length``; and no output length is known to anybody.

    Source: Mooncake (arXiv 2407.00079): algorithm 1 and early rejection. There the prefilling instance is the one with
        the least predicted TTFT, where the router of the scenario chooses here. It has a second rule, which predicts
        the load at the time when the prefill will have ended; without it decoding is judged by what is there now, and
        the load of the two sides swings in turn.

    Attributes:
        order: ``prefill-first`` chooses the decoding replica when the prefill has ended, or at once where its blocks
            are needed earlier; ``decode-first`` chooses it before the prefilling one.
        ttft_ms: the longest predicted TTFT [ms]; None = any.
        tpot_ms: the longest predicted TPOT [ms]; None = any. One of both must be given.

    >>> from servetwin.policies.disaggregation import SplitBySlo
    >>> from servetwin.testing import FakeSplitView, make_request
    >>> decider = SplitBySlo(ttft_ms=500, tpot_ms=50).build(None)
    >>> decider.decide(make_request(0), FakeSplitView(ttft_ms=500, tpot_ms=20))
    'split'
    >>> decider.decide(make_request(1), FakeSplitView(ttft_ms=750, tpot_ms=20))
    'reject: slo: the predicted TTFT is above 500 ms'
    """

    predicts: ClassVar[bool] = True
    policy: Literal["slo"] = "slo"
    ttft_ms: Limit | None = None
    tpot_ms: Limit | None = None

    @model_validator(mode="after")
    def _sensible(self) -> SplitBySlo:
        if self.ttft_ms is None and self.tpot_ms is None:
            raise ValueError("give ttft_ms, tpot_ms, or both: without a limit nothing is rejected, as with always")
        return self

    def build(self, context: PolicyContext) -> SplitBySloDecider:
        """A decider for one gateway."""
        return SplitBySloDecider(self.ttft_ms, self.tpot_ms)


class SplitBySloDecider:
    """Compares predictions with limits."""

    def __init__(self, ttft_ms: float | None, tpot_ms: float | None) -> None:
        self._ttft_ms = ttft_ms
        self._tpot_ms = tpot_ms

    def decide(self, request: Request, view: SplitView) -> str:
        """Reject what would be late, with the first limit that it breaks; split the rest."""
        for name, limit, predict in (("TTFT", self._ttft_ms, view.ttft_ps), ("TPOT", self._tpot_ms, view.tpot_ps)):
            if limit is None:
                continue
            if predict(request) / _PS_PER_MS > limit:
                # Without the predicted time: equal reasons are counted together.
                return f"{REJECT}slo: the predicted {name} is above {limit:g} ms"
        return SPLIT
