"""Small scenarios, each about one thing that a fast engine can get wrong."""

from __future__ import annotations

from typing import Any

from tests.oracle.strategies import Case, Spec, Turn
from tests.reference.simple_price import AffinePrice

from servetwin.engine.protocols import EngineSettings

FLAT = AffinePrice(base=100, token=0, context=(0,))
PAIRS = AffinePrice(base=100, token=0, context=(0,), pair=1)


def case(*specs: Spec, price: AffinePrice = FLAT, scheduler: str = "fcfs", **changes: Any) -> Case:
    values: dict[str, Any] = {
        "max_num_batched_tokens": 100,
        "max_num_seqs": 8,
        "max_model_len": 400,
        "block_size": 5,
        "num_blocks": 5,
        "depth": 0,
        "reserve_full_prompt": False,
    }
    return Case(((EngineSettings(**(values | changes)), price),), scheduler, "round-robin", specs)


def own(arrival_ps: int, prompt: int, output: int, priority: int = 0) -> Spec:
    """A request that shares nothing."""
    return Spec(arrival_ps, (), prompt, output, priority=priority)


def shared(arrival_ps: int, output: int, *segments: tuple[str, int], turns: tuple[Turn, ...] = ()) -> Spec:
    return Spec(arrival_ps, segments, sum(length for _, length in segments), output, turns=turns)


def window(size: int) -> AffinePrice:
    return AffinePrice(base=300, token=0, context=(3, 1), context_bound=(False, True), windows=(size,))


NEXT = (Turn(0, 1, 1),)

SMALL_CASES = {
    # Reads 14, 15, 16 and then 16 again.
    "a request crosses its window": case(own(0, 13, 5), price=window(16), block_size=3, num_blocks=7),
    # Request 1 comes back after a preemption and leaves; request 2 is alone in the last step.
    "a preempted request leaves its window behind": case(
        own(0, 12, 8), own(301, 5, 11), own(3263, 1, 5), price=window(16), block_size=3, num_blocks=11, depth=1,
        prefix_caching=False,
    ),
    # Request 0 is first in the running list and its own victim, with nothing in flight.
    "a plan that only preempts is made again": case(
        own(0, 4, 14, priority=1), own(5501, 9, 2), price=AffinePrice(base=500, token=0, context=(0,)),
        scheduler="priority", block_size=4, num_blocks=8, prefix_caching=False,
    ),
    # Request 1 goes back with five tokens computed: four of its prompt, one of its output.
    "the block at the end of the prompt is found after a preemption": case(
        own(0, 4, 8), shared(1901, 3, ("s", 4)), price=AffinePrice(base=100, token=100, request=200, context=(0,))
    ),
    # Request 1's first decoded block is request 0's last prompt block, its second is new.
    "what follows a duplicate is found": case(
        shared(0, 1, ("s", 16)), shared(0, 6, ("s", 15), turns=NEXT), block_size=4, num_blocks=7
    ),
    "two streams become one": case(
        shared(0, 8, ("s", 9), turns=NEXT), Spec(0, (("s", 9),), 9, 4, continues=True), block_size=4, num_blocks=6
    ),
    # At 100 request 0 goes back with 12 of its 13 known tokens cached: its key is 0.
    "the key of a preempted request": case(
        own(0, 12, 2), own(0, 1, 2), own(1, 1, 1), price=PAIRS, scheduler="sjf", block_size=2, num_blocks=8
    ),
    # At 800 request 2 goes back with its first token in flight: five known tokens, none found.
    "the key of a preempted request with a token in flight": case(
        own(401, 1, 1), own(0, 8, 4), own(1, 5, 2), price=AffinePrice(base=400, token=0, context=(0,), pair=1),
        scheduler="sjf", depth=1,
    ),
    # At 2800 request 2 goes back, which frees nothing, and then request 3, with the same key.
    "two preempted in one plan": case(
        own(0, 31, 1), own(2311, 1, 4), shared(276, 1, ("s", 16), ("t", 20)), shared(0, 1, ("s", 16), ("t", 20)),
        shared(0, 1, ("s", 33)), price=PAIRS, scheduler="sjf", block_size=16, num_blocks=5,
        long_prefill_token_threshold=5,
    ),
    # The plan at 100 schedules nobody who runs, so no watermark holds request 1 back.
    "no watermark beside a last token in flight": case(
        own(0, 1, 2), own(0, 1, 1), block_size=2, num_blocks=3, watermark_blocks=2, depth=1
    ),
}  # fmt: skip
