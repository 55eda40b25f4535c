"""The methods of speculation: what a scenario may name, and what each of them means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from servetwin.specs import ModelSpec
from servetwin.specs.drafter import (
    DrafterSpec,
    draft_model,
    eagle,
    eagle3,
    lookup,
    medusa,
    mtp,
    parallel_model,
)


@dataclass(frozen=True, slots=True)
class DraftMethod:
    """A method of speculation.

    Attributes:
        drafter: who drafts, made from the model that is drafted for, or from a model of its own.
        own_model: whether it is the latter, which the scenario names.
        synchronous: whether vLLM switches asynchronous scheduling off by default (``config/vllm.py`` of 0.15: "Async
            scheduling not supported with %s-based speculative decoding").
    """

    drafter: Callable[[ModelSpec], DrafterSpec]
    own_model: bool = False
    synchronous: bool = False


def _looking_up(name: str, _: ModelSpec) -> DrafterSpec:
    return lookup(name)


METHODS: Mapping[str, DraftMethod] = {
    "draft-model": DraftMethod(draft_model, own_model=True, synchronous=True),
    "parallel": DraftMethod(parallel_model, own_model=True),
    "eagle": DraftMethod(eagle),
    "eagle3": DraftMethod(eagle3),
    "mtp": DraftMethod(mtp),
    "medusa": DraftMethod(medusa, synchronous=True),
    "ngram": DraftMethod(partial(_looking_up, "ngram"), synchronous=True),
    "suffix": DraftMethod(partial(_looking_up, "suffix"), synchronous=True),
}
"""By the name that a scenario gives it."""

OWN_MODEL = tuple(name for name, method in METHODS.items() if method.own_model)
"""Methods whose drafter is a model that the scenario names."""
