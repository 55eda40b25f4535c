"""Small scenarios of speculation, each about one thing that a fast engine can get wrong."""

from __future__ import annotations

from typing import Any

from tests.oracle.drafting_cases import Coins, Drafting, DraftingCase
from tests.oracle.small_cases import case, own
from tests.reference.simple_price import DraftingPrice

PRICE = DraftingPrice(base=100, token=0, context=(0,), draft=10)


def drafting(
    *specs: Any, most: int = 3, nodes: int = 0, lookahead: int = 0, accepts: float = 1.0, looks: float | None = None,
    controller: str = "none", price: DraftingPrice = PRICE, **changes: Any,
) -> DraftingCase:  # fmt: skip
    return DraftingCase(
        case(*specs, price=price, **changes),
        Drafting(most, nodes or most, lookahead, Coins(0, accepts, looks), controller),
    )


SMALL_DRAFTING = {
    # Eleven tokens after the first, four in a step: the last step has room for three.
    "all drafts stand": drafting(own(0, 5, 12)),
    "no draft stands": drafting(own(0, 5, 6), accepts=0.0),
    # Verified tokens take the room of prompts; ten nodes for three drafts, of which the budget leaves five.
    "a tree is trimmed to more nodes than its longest branch": drafting(
        own(0, 1, 9), own(0, 1, 9), nodes=10, max_num_batched_tokens=17, num_blocks=40
    ),
    # Alone, it needs more blocks for its drafts than there are, and goes on by prefills.
    "a request that is short of blocks for its drafts": drafting(own(0, 10, 9), lookahead=3, num_blocks=5),
    "the budget is below one token for each draft": drafting(
        own(0, 1, 9), own(0, 1, 9), own(0, 1, 9), max_num_batched_tokens=8, num_blocks=40
    ),
    # The second decode step is planned late, when the run of the first is over.
    "a step is put off that is above the budget": drafting(
        own(0, 1, 3), most=1, accepts=0.0, max_num_batched_tokens=1, max_num_seqs=1, depth=1
    ),
    # More steps than sums are kept for; the second request comes when the first ones are forgotten.
    "a run that is longer than its memory": drafting(
        own(0, 1, 4_900), own(460_000, 1, 300), most=2, accepts=0.05, lookahead=1, looks=0.9,
        controller="fickle, when the batch changes", max_model_len=10_000, block_size=50, num_blocks=200,
    ),
    # Tokens of one request are ready nine steps before those of the step with both.
    "tokens of a smaller batch do not overtake": drafting(
        own(0, 1, 3), own(0, 1, 60), accepts=0.2, output_ps_per_request=900, num_blocks=40
    ),
    "a tree whose steps are predicted": drafting(
        own(0, 1, 30), own(700, 4, 20), nodes=7, accepts=0.6, controller="fickle, predicting", num_blocks=60,
        price=DraftingPrice(base=100, token=1, context=(1,), row=3, draft=10, draft_context=1),
    ),
    "lookups propose nothing": drafting(own(0, 3, 9), looks=0.0),
}  # fmt: skip
