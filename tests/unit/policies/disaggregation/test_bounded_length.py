"""Dynamo's newer rule, worked by hand.

Source: ``isl_bounding`` in ``conditional_bypass.rs`` of Dynamo: local if effective < 2048 and effective / prompt < 0.7.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from servetwin.policies.disaggregation import BoundedLength
from servetwin.testing import FakeSplitView, make_request


@pytest.mark.parametrize(
    ("prompt", "cached", "expected"),
    [
        # 100 of 100: a short prompt that is cold.
        (100, 0, "split"),
        # 1000 − 300 = 700, which is not less than 0.7 of 1000; 699 is.
        (1000, 300, "split"),
        (1000, 301, "local"),
        # 8000 − 5952 = 2048: too long, although only a quarter.
        (8000, 5952, "split"),
        (8000, 5953, "local"),
        (640, 640, "local"),
    ],
)
def test_short_and_warm_stays(prompt: int, cached: int, expected: str) -> None:
    view = FakeSplitView(cached_tokens=cached)
    assert BoundedLength().build(None).decide(make_request(0, prompt_tokens=prompt), view) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("fields", [{"tokens": 0}, {"share": 0}, {"share": 1.1}, {"order": "prefill-first"}])
def test_limits(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BoundedLength(**fields)  # type: ignore[arg-type]
