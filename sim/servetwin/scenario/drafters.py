"""From ``speculation`` of a pool to its drafter; what cannot be, or has no effect, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from servetwin.acceptance.resolve import resolve_acceptance
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, ScenarioError
from servetwin.policies.speculation import DraftPolicy
from servetwin.scenario.speculation import OWN_MODEL, Speculation
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

if TYPE_CHECKING:
    from servetwin.scenario.pools import PoolParts
    from servetwin.scenario.schema import Pool

_OF_THE_MODEL: dict[str, Callable[[ModelSpec], DrafterSpec]] = {
    "eagle": eagle, "eagle3": eagle3, "mtp": mtp, "medusa": medusa,
}  # fmt: skip
_BY_THEMSELVES: dict[str, Callable[[ModelSpec], DrafterSpec]] = {"draft-model": draft_model, "parallel": parallel_model}


def drafter_parts(pool: Pool, model: ModelSpec, place: str, catalog: Catalog) -> dict[str, Any]:
    """The drafter of a pool, as keywords of ``PoolParts``; empty where nobody drafts.

    Args:
        pool: the pool.
        model: its model.
        place: the path of the pool, for messages.
        catalog: where models are.

    Raises:
        ScenarioError: the method needs a model and has none, or the other way round.
        CatalogError: the catalog does not have the model.
        CapacityError: drafter and model do not go together.
    """
    speculation = pool.speculation
    if speculation is None:
        return {}
    tensor = pool.parallel.tensor
    path = f"{place}.speculation"
    drafter = _drafter(speculation, model, path, catalog)
    share = tensor if speculation.tensor is None else speculation.tensor
    if share not in (1, tensor):
        raise CapacityError(
            "a drafter is shared out like its model, or not at all", path=f"{path}.tensor", found=share,
            allowed=["1"] if tensor == 1 else ["1", str(tensor)],
        )  # fmt: skip
    if drafter.model is not None and any(layer.attention.heads % share for layer in drafter.model.layers):
        if speculation.tensor is not None:
            raise CapacityError(
                f"the heads of {drafter.name} cannot be shared out evenly over {share} GPUs", path=f"{path}.tensor",
                found=share, allowed="1, or left out: each GPU has all of it then",
            )  # fmt: skip
        share = 1
    return {"drafter": drafter, "draft_tensor": share, "drafts": speculation.k}


def _drafter(speculation: Speculation, model: ModelSpec, path: str, catalog: Catalog) -> DrafterSpec:
    method, named = speculation.method, speculation.model
    if method in OWN_MODEL:
        if named is None:
            raise ScenarioError(
                f"{method} needs a model that drafts", path=f"{path}.model", found=None,
                allowed="a small model with the same vocabulary, by name or by the path of its config.json",
            )  # fmt: skip
        small = catalog.model(named)
        if small.vocab != model.vocab:
            raise CapacityError(
                f"{small.name} cannot draft for {model.name}: their vocabularies differ", path=f"{path}.model",
                found=f"{small.vocab:,} tokens", allowed=f"{model.vocab:,} tokens",
            )  # fmt: skip
        return _BY_THEMSELVES[method](small)
    if named is not None:
        raise ScenarioError(
            f"model has no effect: the drafter of {method} follows from the model", path=f"{path}.model", found=named,
            allowed=f"left out; or method: {' or '.join(OWN_MODEL)}",
        )  # fmt: skip
    return _OF_THE_MODEL[method](model) if method in _OF_THE_MODEL else lookup(method)


def check_speculation(pool: Pool, path: str) -> None:
    """Refuse what this version cannot combine, and what has no effect.

    Args:
        pool: the pool, whose ``speculation`` is set.
        path: of its ``speculation``, for messages.

    Raises:
        CapacityError: pipelines and context groups do not draft.
        ScenarioError: a tree that is none, or an option without effect.
    """
    speculation, parallel = pool.speculation, pool.parallel
    assert speculation is not None
    for name in ("pipeline", "context"):
        degree = getattr(parallel, name)
        if degree > 1:
            raise CapacityError(
                f"speculation and parallel.{name} cannot be combined in this version", path=path,
                found=f"parallel.{name}: {degree}", allowed=f"parallel.{name}: 1, or no speculation",
            )  # fmt: skip
    _check_tree(speculation, path)
    controller = speculation.controller
    counts = controller.counts() if isinstance(controller, DraftPolicy) else {}
    for field, count in counts.items():
        if count > speculation.k:
            raise ScenarioError(
                "the controller names more drafts than may be made",
                path=".".join(map(str, (path, "controller", *field))), found=count,
                allowed=f"at most k, which is {speculation.k}", hint=f"set {path}.k to {max(counts.values())}",
            )  # fmt: skip
    if speculation.method in ("ngram", "suffix", "medusa") and speculation.tensor not in (None, 1):
        raise ScenarioError(
            f"tensor has no effect: {speculation.method} has no drafter to share out", path=f"{path}.tensor",
            found=speculation.tensor, allowed="left out",
        )  # fmt: skip


def _check_tree(speculation: Speculation, path: str) -> None:
    tree = speculation.tree
    if tree is None:
        return
    if speculation.method in ("ngram", "suffix"):
        raise ScenarioError(
            f"{speculation.method} drafts chains", path=f"{path}.tree", found=tree.model_dump(), allowed="left out"
        )
    if tree.nodes <= speculation.k:
        raise ScenarioError(
            "a tree has more nodes than its longest branch", path=f"{path}.tree.nodes", found=tree.nodes,
            allowed=f"more than k, which is {speculation.k}; or no tree",
        )  # fmt: skip
    if tree.branching > 1 and (speculation.method in ("medusa", "parallel") or speculation.k == 1):
        raise ScenarioError(
            "branching has no effect: no pass starts from the tokens of another one", path=f"{path}.tree.branching",
            found=tree.branching, allowed="left out; or a method that drafts token by token, and k of 2 or more",
        )  # fmt: skip
    if speculation.controller.policy not in ("fixed", "disable-by-batch-size", "disable-when-low"):
        raise ScenarioError(
            "the controller changes the length of a chain, and the drafts form a tree", path=f"{path}.controller",
            found=speculation.controller.policy, allowed="fixed, disable-by-batch-size or disable-when-low; or no tree",
        )  # fmt: skip


def resolve_speculation(pool: Pool, parts: PoolParts, path: str, catalog: Catalog) -> Speculation | None:
    """``speculation`` of a pool in which nothing is left to decide.

    Raises:
        CatalogError, FieldError: the acceptance names a preset that there is not, or not for this method.
    """
    speculation = pool.speculation
    if speculation is None:
        return None
    acceptance = resolve_acceptance(
        speculation.acceptance, speculation.method, catalog.acceptance, f"{path}.acceptance"
    )
    update: dict[str, Any] = {"acceptance": acceptance}
    if parts.drafter is not None and parts.drafter.model is not None:
        update["tensor"] = parts.draft_tensor
    if isinstance(speculation.model, str):
        update["model"] = catalog.model_reference(speculation.model)
    return speculation.model_copy(update=update)
