"""``speculation`` of a pool: who drafts, how many tokens, how they fare, and who decides."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny

from servetwin.acceptance.spec import Acceptance
from servetwin.policies import Policy, parse_policy
from servetwin.policies.speculation import Fixed
from servetwin.scenario.part import Count, Part

Method = Literal["draft-model", "parallel", "eagle", "eagle3", "mtp", "medusa", "ngram", "suffix"]

OWN_MODEL = ("draft-model", "parallel")
"""Methods whose drafter is a model that the scenario names."""

ON_HIDDEN_STATES = ("eagle", "eagle3", "mtp")
"""Methods whose drafter reads the model's hidden states, so that the last block of a prefix hit is computed again."""

LOOKAHEAD = (*OWN_MODEL, *ON_HIDDEN_STATES)
"""Methods that write the KV cache ahead of what is verified."""

SYNCHRONOUS = ("draft-model", "medusa", "ngram", "suffix")
"""Methods for which vLLM switches asynchronous scheduling off by default.

Source: vLLM ``config/vllm.py``, 0.15 ("Async scheduling not supported with %s-based speculative decoding").
"""

MOST_DRAFTS = 32
"""More tokens in a row nobody drafts."""

Controller = Annotated[SerializeAsAny[Policy], BeforeValidator(partial(parse_policy, "speculation"))]


class Tree(Part):
    """Drafts that form a tree; the model verifies all of its nodes at once.

    Attributes:
        nodes: drafted tokens that a request verifies in a step [tokens].
        branching: tokens per request that each pass of the drafter starts from [tokens].
    """

    nodes: Annotated[int, Field(ge=2, le=512)]
    branching: Annotated[int, Field(ge=1, le=64)] = 1


class Speculation(Part):
    """Speculative decoding.

    Attributes:
        method: who drafts. ``draft-model``: a small model, once per token · ``parallel``: a small model, once for all
            (PARD, P-EAGLE, DFlash) · ``eagle``, ``eagle3``: one layer on the model's hidden states · ``mtp``: the
            model's own module for multi-token prediction · ``medusa``: heads on its last hidden state · ``ngram``:
            what followed the last tokens where they stood before · ``suffix``: the same by a suffix tree.
        k: tokens that are drafted in a row, at most [tokens].
        model: the drafter of ``draft-model`` and ``parallel``.
        tensor: GPUs that share out the drafter: 1, or as many as share out the model, which is the default.
        tree: nodes beside the row; by default the drafts are a chain.
        acceptance: how many of the drafted tokens stand; of a tree, of its longest branch that stands.
        controller: who decides how many tokens are drafted.
    """

    method: Method
    k: Annotated[int, Field(ge=1, le=MOST_DRAFTS)] = 3
    model: str | dict[str, Any] | None = None
    tensor: Count | None = None
    tree: Tree | None = None
    acceptance: Acceptance
    controller: Controller = Fixed()

    @property
    def nodes(self) -> int:
        """Drafted tokens that a request verifies for ``k`` drafts in a row."""
        return self.tree.nodes if self.tree is not None else self.k

    @property
    def lookahead(self) -> int:
        """Slots of the KV cache that a request holds beyond its step [tokens]."""
        return self.k if self.method in LOOKAHEAD else 0


_OFF: tuple[object, ...] = (False, 0, "none", "off", {}, {"method": "none"}, {"method": None})


def _off(value: object) -> object:
    """What means no speculation."""
    return None if any(type(value) is type(off) and value == off for off in _OFF) else value


SpeculationOption = Annotated[Speculation | None, BeforeValidator(_off)]
"""Speculation, or what switches it off: none, off, false, or the method none."""
