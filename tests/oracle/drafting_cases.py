"""Random small scenarios whose replicas draft."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from hypothesis import strategies as st
from tests.oracle.strategies import Case, cases, random_case
from tests.reference.naive_drafting import Drafts
from tests.reference.simple_controllers import FewerForMore, Fickle, Never
from tests.reference.simple_price import AffinePrice, DraftingPrice

from servetwin.policies.speculation import ByBatchSize, DisableWhenLow, EmaTiers, Goodput, PerRequest
from servetwin.request import Fate, Request


@dataclass(frozen=True)
class Coins:
    """Fates from a seed, the same for the same request.

    Attributes:
        seed: names the fates.
        accepts: share of the positions where a draft goes on to stand.
        looks: share of the positions where anything is proposed; None = as many drafts as asked for.
    """

    seed: int
    accepts: float
    looks: float | None = None

    def of(self, request: Request) -> Fate:
        rng = random.Random(f"{self.seed} {request.id}")
        matches, proposed = bytearray(), bytearray()
        for _ in range(request.output_tokens):
            run = 0
            while run < 12 and rng.random() < self.accepts:
                run += 1
            matches.append(run)
            proposed.append(rng.choice((1, 2, 3, 12)) if self.looks is not None and rng.random() < self.looks else 0)
        return Fate(bytes(matches), None if self.looks is None else bytes(proposed))


#: Controllers by name; each makes a new one for the most drafts that a request may have.
CONTROLLERS: dict[str, Callable[[int], Any]] = {
    "none": lambda most: None,
    "never": lambda most: Never(),
    "fewer for more": lambda most: FewerForMore(),
    "fickle": lambda most: Fickle(),
    "fickle, every third step": lambda most: Fickle(review_steps=3, multiplier=3),
    "fickle, when the batch changes": lambda most: Fickle(review_steps=0, multiplier=7),
    "fickle, blind": lambda most: Fickle(review_steps=2, observes=False, multiplier=11),
    "fickle, predicting": lambda most: Fickle(predicts=True),
    "fickle by request": lambda most: Fickle(per_request=True, multiplier=9),
    "fickle by request, every second step": lambda most: Fickle(per_request=True, review_steps=2, observes=False),
    "by batch size": lambda most: ByBatchSize(ranges=[[1, 2, most], [3, 5, most // 2], [6, 99, 0]]).build(ANY),
    "tiers": lambda most: EmaTiers(
        tiers=[1, max(2, most)] if most > 1 else None, interval=1, warmup=1, alpha=0.5
    ).build(ANY),
    "goodput": lambda most: Goodput(interval=2, memory=5).build(ANY),
    "when low": lambda most: DisableWhenLow(window=3, threshold=0.7).build(ANY),
    "per request": lambda most: PerRequest(patience=1, target=0.5).build(ANY),
}
ANY: Any = None


@dataclass(frozen=True)
class Drafting:
    """How the replicas of a case draft: see ``naive_drafting.Drafts``; a controller of their own each."""

    most: int
    nodes: int
    lookahead: int
    fates: Coins
    controller: str = "none"

    def drafts(self) -> Drafts:
        return Drafts(self.most, self.nodes, self.lookahead, self.fates, CONTROLLERS[self.controller](self.most))


@dataclass(frozen=True)
class DraftingCase:
    """A scenario, and how it drafts."""

    case: Case
    drafting: Drafting


def with_drafts(case: Case, costs: dict[str, int], recompute: bool, budget: int) -> Case:
    """The case with a price of drafts, and perhaps less of a budget for drafts.

    Args:
        case: the case.
        costs: fields of ``DraftingPrice``.
        recompute: see ``EngineSettings.recompute_last_block``.
        budget: tokens that a step has more.
    """
    replicas = []
    for settings, price in case.replicas:
        assert isinstance(price, AffinePrice)
        more = budget if settings.chunked_prefill else 0
        settings = replace(
            settings, recompute_last_block=recompute, max_num_batched_tokens=settings.max_num_batched_tokens + more
        )
        replicas.append((settings, DraftingPrice(**asdict(price), **costs)))
    return replace(case, replicas=tuple(replicas))


@st.composite
def draftings(draw: st.DrawFn) -> Drafting:
    most = draw(st.sampled_from((1, 1, 2, 3, 3, 5, 7)))
    tree = draw(st.sampled_from((0, 0, 0, 1, 4)))
    controllers = sorted(CONTROLLERS)
    if tree:
        controllers = ["none", "never", "when low", "fickle", "fickle, predicting", "fickle by request"]
    return Drafting(
        most=most,
        nodes=most + tree,
        lookahead=draw(st.sampled_from((0, most))),
        fates=Coins(
            draw(st.integers(0, 999)),
            draw(st.sampled_from((0.0, 0.3, 0.6, 0.9, 1.0))),
            draw(st.sampled_from((None, None, None, 0.0, 0.4, 0.9))),
        ),
        controller=draw(st.sampled_from(controllers)),
    )


@st.composite
def drafting_cases(draw: st.DrawFn, replicas: int = 1) -> DraftingCase:
    case = draw(cases(replicas=replicas))
    unit = draw(st.sampled_from((1, 10)))
    costs = {
        name: unit * draw(st.sampled_from((0, 0, 1, 3))) for name in ("row", "draft", "draft_request", "draft_context")
    }
    costs["wide"] = unit * draw(st.sampled_from((0, 0, 7)))
    costs["reads"] = unit * draw(st.sampled_from((0, 1)))
    budget = draw(st.sampled_from((0, 0, 3, 20)))
    return DraftingCase(with_drafts(case, costs, draw(st.booleans()), budget), draw(draftings()))


def random_drafting_case(seed: int, replicas: int = 1, requests: int = 100, tight: bool = False) -> DraftingCase:
    """A larger scenario from a seed; see ``random_case``."""
    rng = random.Random(f"drafting {seed}")
    most = rng.choice((1, 2, 3, 3, 5, 7))
    costs = {name: rng.choice((0, 1, 10)) for name in ("row", "draft", "draft_request", "draft_context")}
    costs["wide"], costs["reads"] = rng.choice((0, 7)), rng.choice((0, 1))
    case = with_drafts(
        random_case(seed, replicas, requests, tight), costs, rng.random() < 0.5, rng.choice((0, 0, 10, 100))
    )
    tree = rng.random() < 0.2
    names = ["none", "when low", "fickle, predicting", "fickle by request"] if tree else sorted(CONTROLLERS)
    fates = Coins(seed, rng.choice((0.0, 0.3, 0.6, 0.8, 1.0)), rng.choice((None, None, 0.3, 0.9)))
    return DraftingCase(
        case,
        Drafting(most, most + rng.choice((1, 5)) * tree, rng.choice((0, most)), fates, rng.choice(names)),
    )
