"""Mooncake's early rejection by predicted latencies, worked by hand.

Source: arXiv 2407.00079, algorithm 1: reject if TTFT > its SLO or TBT > its SLO. The predictions have tests of their
own, in ``tests/unit/cluster/test_predictions.py``.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from servetwin.policies.disaggregation import SplitBySlo
from servetwin.testing import FakeSplitView, make_request


def answer(predicted_ttft_ms: float, predicted_tpot_ms: float, **limits: float) -> str:
    view = FakeSplitView(ttft_ms=predicted_ttft_ms, tpot_ms=predicted_tpot_ms)
    return SplitBySlo(**limits).build(None).decide(make_request(0), view)  # type: ignore[arg-type]


TTFT = "reject: slo: the predicted TTFT is above 500 ms"
TPOT = "reject: slo: the predicted TPOT is above 37.5 ms"


@pytest.mark.parametrize(
    ("ttft_ms", "tpot_ms", "expected"),
    [(500, 37.5, "split"), (500.1, 10, TTFT), (100, 37.6, TPOT), (501, 38, TTFT)],
)
def test_what_breaks_a_limit_is_rejected(ttft_ms: float, tpot_ms: float, expected: str) -> None:
    """A prediction that meets its limit exactly keeps it; of two that do not, the TTFT is named."""
    assert answer(ttft_ms, tpot_ms, ttft_ms=500, tpot_ms=37.5) == expected


def test_one_limit_alone() -> None:
    assert answer(10_000, 30, tpot_ms=37.5) == "split"
    assert answer(400, 1_000, ttft_ms=500) == "split"


@pytest.mark.parametrize("limits", [{}, {"ttft_ms": 0}, {"tpot_ms": -1}, {"ttft_ms": float("inf")}])
def test_limits_must_be_limits(limits: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        SplitBySlo(**limits)  # type: ignore[arg-type]
