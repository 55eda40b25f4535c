"""Splitwise's overflow into a mixed pool, worked by hand.

Source: ``scheduler.py`` of splitwise-sim: a prompt instance is full if its queue is not empty and pending + prompt >
8192; a token instance is full if its memory and the request's are its capacity or more.
"""

from __future__ import annotations

import pytest

from servetwin.policies.disaggregation import MixedOverflow
from servetwin.testing import FakeSplitView, make_request


def choice(prompt: int, *, mixed: bool = True, share: float = 1.0, **view: int) -> str:
    decider = MixedOverflow(decode_memory=share).build(None)  # type: ignore[arg-type]
    return decider.decide(make_request(0, prompt_tokens=prompt), FakeSplitView(mixed=mixed, **view))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pending", "prompt", "expected"),
    [(0, 20_000, "split"), (1, 20_000, "mixed"), (8000, 192, "split"), (8000, 193, "mixed")],
)
def test_the_prefilling_side_is_full(pending: int, prompt: int, expected: str) -> None:
    """An idle replica takes a prompt of any length."""
    assert choice(prompt, prefill_tokens=pending) == expected


@pytest.mark.parametrize(("tokens", "expected"), [(40_000, "mixed"), (39_999, "split")])
def test_the_decoding_side_is_full(tokens: int, expected: str) -> None:
    """40,000 and a prompt of 10,000 are all of 50,000."""
    assert choice(10_000, decode_tokens=tokens, decode_room=50_000) == expected


def test_a_smaller_share_of_the_memory() -> None:
    """Nine tenths of 50,000 are 45,000."""
    assert choice(5_000, share=0.9, decode_tokens=39_999, decode_room=50_000) == "split"
    assert choice(5_000, share=0.9, decode_tokens=40_000, decode_room=50_000) == "mixed"


def test_where_nobody_does_both_everything_is_split() -> None:
    assert choice(20_000, mixed=False, prefill_tokens=9_000) == "split"
