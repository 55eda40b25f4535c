"""From ``speculation`` of a pool to its drafter; what cannot be, or has no effect, is refused."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from servetwin.acceptance.resolve import resolve_acceptance
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, ScenarioError
from servetwin.policies import union
from servetwin.policies.speculation import DraftPolicy
from servetwin.scenario.draft_methods import METHODS, OWN_MODEL
from servetwin.scenario.speculation import Speculation
from servetwin.specs import ModelSpec
from servetwin.specs.drafter import HEADS, LOOKUP, PARALLEL, DrafterSpec

if TYPE_CHECKING:
    from servetwin.scenario.pools import PoolParts
    from servetwin.scenario.schema import EngineOptions, Pool


@dataclass(frozen=True, slots=True)
class PoolDrafter:
    """The drafter of a pool, on its GPUs.

    Attributes:
        spec: what it is.
        tensor: GPUs that share it out; each has all of it where it is 1.
        k: tokens that it drafts in a row, at most.
        weights: precision of its weights.
        kv_cache: precision of its KV cache.
    """

    spec: DrafterSpec
    tensor: int
    k: int
    weights: str
    kv_cache: str

    @property
    def weight_bytes(self) -> float:
        """Its weights on one GPU [B]."""
        return self.spec.weight_bytes(self.k, self.weights, self.tensor)

    @property
    def kv_bytes(self) -> float:
        """Its KV cache per token on one GPU [B]."""
        return self.spec.kv_bytes_per_token(self.kv_cache, self.tensor)

    @property
    def lookahead(self) -> int:
        """Slots of the KV cache that a request holds beyond its step [tokens]: whoever has a cache writes ahead."""
        return self.k if self.spec.model is not None else 0

    @property
    def reads_states(self) -> bool:
        """Whether its first pass needs hidden states of the model, so that a prefix hit has one block less."""
        return self.spec.on_states and self.spec.model is not None


def pool_drafter(
    pool: Pool, model: ModelSpec, weights: str, kv_cache: str, place: str, catalog: Catalog
) -> PoolDrafter | None:
    """The drafter of a pool; None where nobody drafts.

    Args:
        pool: the pool.
        model: its model.
        weights: precision of the model's weights, which a module of the model shares; others run as published.
        kv_cache: precision of its KV cache.
        place: the path of the pool, for messages.
        catalog: where models are.

    Raises:
        ScenarioError: the method needs a model and has none, or the other way round.
        CatalogError: the catalog does not have the model.
        CapacityError: drafter and model do not go together.
    """
    speculation = pool.speculation
    if speculation is None:
        return None
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
    return PoolDrafter(drafter, share, speculation.k, weights if drafter.quantised else "auto", kv_cache)


def _drafter(speculation: Speculation, model: ModelSpec, path: str, catalog: Catalog) -> DrafterSpec:
    name, named = speculation.method, speculation.model
    method = METHODS[name]
    if method.own_model:
        if named is None:
            raise ScenarioError(
                f"{name} needs a model that drafts", path=f"{path}.model", found=None,
                allowed="a small model with the same vocabulary, by name or by the path of its config.json",
            )  # fmt: skip
        small = catalog.model(named, f"{path}.model")
        if small.vocab != model.vocab:
            raise CapacityError(
                f"{small.name} cannot draft for {model.name}: their vocabularies differ", path=f"{path}.model",
                found=f"{small.vocab:,} tokens", allowed=f"{model.vocab:,} tokens",
            )  # fmt: skip
        return method.drafter(small)
    if named is not None:
        raise ScenarioError(
            f"model has no effect: the drafter of {name} follows from the model", path=f"{path}.model", found=named,
            allowed=f"left out; or method: {' or '.join(OWN_MODEL)}",
        )  # fmt: skip
    return method.drafter(model)


def check_speculation(pool: Pool, drafter: PoolDrafter, path: str) -> None:
    """Refuse what this version cannot combine, and what has no effect.

    Args:
        pool: the pool, whose ``speculation`` is set.
        drafter: who drafts.
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
    _check_tree(speculation, drafter.spec.works, path)
    controller = speculation.controller
    counts = controller.counts() if isinstance(controller, DraftPolicy) else {}
    for field, count in counts.items():
        if count > speculation.k:
            raise ScenarioError(
                "the controller names more drafts than may be made",
                path=".".join(map(str, (path, "controller", *field))), found=count,
                allowed=f"at most k, which is {speculation.k}", hint=f"set {path}.k to {max(counts.values())}",
            )  # fmt: skip
    if set(possible_drafts(speculation)) == {0}:
        raise ScenarioError(
            "the controller never drafts", path=f"{path}.controller", found=controller.model_dump(exclude_unset=True),
            allowed="one that drafts at some batch size", hint=f"{path}: none is plain decoding",
        )  # fmt: skip
    if drafter.spec.model is None and speculation.tensor not in (None, 1):
        raise ScenarioError(
            f"tensor has no effect: {speculation.method} has no drafter to share out", path=f"{path}.tensor",
            found=speculation.tensor, allowed="left out",
        )  # fmt: skip


def possible_drafts(speculation: Speculation, requests: int = sys.maxsize) -> Collection[int]:
    """Every number of drafts in a row that a request may get; nobody knows what a plug-in does.

    Args:
        speculation: who drafts, and who decides.
        requests: the most requests that a step has.
    """
    controller = speculation.controller
    if isinstance(controller, DraftPolicy):
        return controller.choices(speculation.k, requests)
    return range(speculation.k + 1)


def check_verification(speculation: Speculation, engine: EngineOptions, path: str, named: bool) -> None:
    """Refuse drafts that are made, and that no step has room for.

    Args:
        speculation: who drafts.
        engine: the engine's options, filled in.
        path: of the pool, for messages.
        named: whether the scenario itself says how many tokens a step has.

    Raises:
        ScenarioError: a step has fewer tokens than one request has to verify.
    """
    budget = engine.max_num_batched_tokens or 0
    drafts = speculation.nodes if speculation.tree is not None else max(possible_drafts(speculation))
    if budget < 1 + drafts:
        raise ScenarioError(
            f"a step has no room for the drafts of one request: {drafts} are made, and can never be verified together",
            path=f"{path}.engine.max_num_batched_tokens" if named else f"{path}.speculation", found=budget,
            allowed=f"a token budget of at least {1 + drafts}: a token and its drafts; or fewer drafts",
        )  # fmt: skip


def _check_tree(speculation: Speculation, works: str, path: str) -> None:
    tree = speculation.tree
    if tree is None:
        return
    if works == LOOKUP:
        raise ScenarioError(
            f"{speculation.method} drafts chains", path=f"{path}.tree", found=tree.model_dump(), allowed="left out"
        )
    if tree.nodes <= speculation.k:
        raise ScenarioError(
            "a tree has more nodes than its longest branch", path=f"{path}.tree.nodes", found=tree.nodes,
            allowed=f"more than k, which is {speculation.k}; or no tree",
        )  # fmt: skip
    if tree.branching > 1 and (works in (HEADS, PARALLEL) or speculation.k == 1):
        raise ScenarioError(
            "branching has no effect: no pass starts from the tokens of another one", path=f"{path}.tree.branching",
            found=tree.branching, allowed="left out; or a method that drafts token by token, and k of 2 or more",
        )  # fmt: skip
    if not getattr(speculation.controller, "all_or_nothing", False):
        known = [policy.name() for policy in union("speculation") if getattr(policy, "all_or_nothing", False)]
        raise ScenarioError(
            "the controller changes the length of a chain, and the drafts form a tree", path=f"{path}.controller",
            found=speculation.controller.policy, allowed=f"{', '.join(known)}; or no tree",
        )  # fmt: skip


def resolve_speculation(pool: Pool, parts: PoolParts, path: str, catalog: Catalog) -> Speculation | None:
    """``speculation`` of a pool in which nothing is left to decide.

    Raises:
        CatalogError, FieldError: the acceptance names a preset that there is not, or not for this method.
    """
    speculation, drafter = pool.speculation, parts.drafter
    if speculation is None or drafter is None:
        return None
    acceptance = resolve_acceptance(
        speculation.acceptance, speculation.method, catalog.acceptance, f"{path}.acceptance",
        always_drafts=drafter.spec.works != LOOKUP,
    )  # fmt: skip
    update: dict[str, Any] = {"acceptance": acceptance}
    if drafter.spec.model is not None:
        update["tensor"] = drafter.tensor
    if isinstance(speculation.model, str):
        update["model"] = catalog.model_reference(speculation.model)
    return speculation.model_copy(update=update)
