"""llm-d's rule, worked by hand.

Source: ``prefix-based-pd-decider`` of llm-d's router: 0 = never; uncached = tokens − cached blocks · block size; split
if uncached ≥ ``nonCachedTokens``.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from servetwin.policies.disaggregation import UncachedLength
from servetwin.testing import FakeSplitView, make_request


def choice(tokens: int, prompt: int, cached: int) -> str:
    view = FakeSplitView(cached_tokens=cached)
    return UncachedLength(tokens=tokens).build(None).decide(make_request(0, prompt_tokens=prompt), view)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "cached", "expected"),
    [(511, 0, "local"), (512, 0, "split"), (1024, 512, "split"), (1024, 576, "local"), (128, 128, "local")],
)
def test_as_many_as_the_limit_are_enough(prompt: int, cached: int, expected: str) -> None:
    """512 tokens: 1024 − 8 · 64 = 512 is split, 1024 − 9 · 64 = 448 is not."""
    assert choice(512, prompt, cached) == expected


def test_nothing_is_split_at_0() -> None:
    assert choice(0, 10_000, 0) == "local"


def test_the_decoding_replica_comes_first() -> None:
    assert UncachedLength(tokens=1).order == "decode-first"
    with pytest.raises(ValidationError):
        UncachedLength(tokens=1, order="prefill-first")  # type: ignore[arg-type]


@pytest.mark.parametrize("tokens", [-1, 1.5, "10", True])
def test_the_limit_is_a_whole_number(tokens: object) -> None:
    with pytest.raises(ValidationError):
        UncachedLength(tokens=tokens)  # type: ignore[arg-type]
