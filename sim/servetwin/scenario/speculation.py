"""``speculation`` of a pool: who drafts, how many tokens, how they fare, and who decides."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from servetwin.acceptance.spec import Acceptance
from servetwin.policies import Policy, parse_policy
from servetwin.policies.speculation import Fixed
from servetwin.scenario.part import Count, Part
from servetwin.specs.drafter import Method

MOST_DRAFTS = 32
"""Most tokens in a row that a scenario may ask for; acceptance may be given for more."""

Controller = Annotated[SerializeAsAny[Policy], BeforeValidator(partial(parse_policy, "speculation"))]


class Tree(Part):
    """Drafts that form a tree; the model verifies all of its nodes at once.

    Attributes:
        nodes: drafted tokens that a request verifies in a step [tokens].
        branching: tokens per request that each pass of the drafter but the first starts from [tokens].
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
        tree: verify a tree instead of a chain; ``k`` is its depth.
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


_OFF: tuple[object, ...] = (False, 0, "none", "off", {}, {"method": "none"}, {"method": None})


def _off(value: object) -> object:
    """What means no speculation."""
    return None if any(type(value) is type(off) and value == off for off in _OFF) else value


SpeculationOption = Annotated[Speculation | None, BeforeValidator(_off)]
"""Speculation, or what switches it off: none, off, false, or the method none."""
