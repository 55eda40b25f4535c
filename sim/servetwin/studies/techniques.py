"""What can be switched off and on in a scenario, to see what it gains and what it costs.

A technique is a small class: its name, what it does, which buckets of the ledger pay for it, and the overrides that
switch it. One more technique is one more entry of ``TECHNIQUES``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pydantic import BaseModel

from servetwin.errors import ScenarioError, nearest_name
from servetwin.scenario.overrides import Override
from servetwin.scenario.schema import Scenario


@dataclass(frozen=True, slots=True)
class Technique(ABC):
    """Something that a scenario may do without.

    Attributes:
        name: what ``--toggle`` calls it.
        does: what it does, in half a sentence.
        costs: the buckets of the ledger that it alone fills: without it they are exactly zero.
    """

    name: str
    does: str
    costs: tuple[str, ...] = ()

    @property
    @abstractmethod
    def sides(self) -> tuple[str, str]:
        """What the scenario has without it and with it, for people."""

    @abstractmethod
    def switched(self, scenario: Scenario, on: bool, before: Sequence[Override] = ()) -> list[Override]:
        """The overrides that make a scenario do it, or do without.

        Args:
            scenario: the resolved scenario as the user gave it; where it does it in a way of its own, that is ``on``.
            on: whether to do it.
            before: the overrides of techniques that were switched before.

        Returns:
            The overrides; none where it needs something that is switched off.

        Raises:
            ScenarioError: the scenario does not say how to do it, and there is no usual way.
        """

    def _override(self, on: bool, path: str, value: Any) -> Override:
        return Override(f"--toggle {self.name} ({'on' if on else 'off'})", path, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSetting(Technique):
    """A setting of the pools.

    Attributes:
        field: its dotted path in a pool.
        off: the value that does without.
        on: the value that does it, where the scenario has ``off``; None = there is no usual one.
    """

    field: str
    off: Any
    on: Any = None

    @property
    def sides(self) -> tuple[str, str]:
        """The two values."""
        field = self.field.rpartition(".")[2]
        on = "the scenario's own" if self.on is None else self.on
        if not isinstance(self.off, bool) and self.on is not None:
            on = f"the scenario's own, else {self.on}"
        return f"`{field}: {_yaml(self.off)}`", f"`{_yaml(on)}`" if isinstance(on, bool) else on

    def switched(self, scenario: Scenario, on: bool, before: Sequence[Override] = ()) -> list[Override]:
        """One override a pool, so that none is overruled."""
        overrides = []
        for path, own in _in_pools(scenario, self.field):
            if on and own == self.off and self.on is None:
                raise _not_said(self.name, f"cluster.{self.field}", own)
            value = self.off if not on else self.on if own == self.off else _written(own)
            overrides.append(self._override(on, path, value))
        return overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice(Technique):
    """A policy, against the plainest one.

    Attributes:
        field: the dotted path of the policy in the scenario, or in its pools.
        off: the name of the plainest policy.
        of_pools: whether each pool has its own.
    """

    field: str
    off: str
    of_pools: bool = False

    @property
    def sides(self) -> tuple[str, str]:
        """The two policies."""
        return f"`{self.off}`", "the scenario's own policy"

    def switched(self, scenario: Scenario, on: bool, before: Sequence[Override] = ()) -> list[Override]:
        """The scenario's own policy, or the plainest."""
        overrides = []
        places = _in_pools(scenario, self.field) if self.of_pools else [(self.field, getattr(scenario, self.field))]
        for path, own in places:
            if on and own.policy == self.off:
                raise _not_said(self.name, f"cluster.{self.field}" if self.of_pools else self.field, own.policy)
            value = _written(own) if on else {"policy": self.off}
            overrides.append(self._override(on, path, value))
        return overrides


@dataclass(frozen=True, slots=True)
class DraftControl(Technique):
    """A controller of speculation, against always drafting as many tokens."""

    @property
    def sides(self) -> tuple[str, str]:
        """The two controllers."""
        return "`fixed`", "the scenario's own controller"

    def switched(self, scenario: Scenario, on: bool, before: Sequence[Override] = ()) -> list[Override]:
        """All of the speculation, with one controller or the other, for a part of it says nothing by itself; only the
        controller where an override before has put the rest there."""
        drafting = [(path, own) for path, own in _in_pools(scenario, "speculation") if own is not None]
        for _, own in drafting:
            if on and own.controller.policy == "fixed":
                raise _not_said(self.name, "cluster.speculation.controller", own.controller.policy)
        if not drafting:
            raise _not_said(self.name, "cluster.speculation.controller", None)
        overrides = []
        for path, own in drafting:
            present = _so_far(path, own, before)
            if present is None:
                continue
            controller = present["controller"] if on else {"policy": "fixed"}
            if any(one.path == path for one in before):
                overrides.append(self._override(on, f"{path}.controller", controller))
            else:
                overrides.append(self._override(on, path, {**present, "controller": controller}))
        return overrides


@dataclass(frozen=True, slots=True)
class Disaggregation(Technique):
    """Prefill and decode on different replicas, against as many replicas that do both."""

    @property
    def sides(self) -> tuple[str, str]:
        """Off, there are as many replicas, with the settings of their pools."""
        return "`role: both` in every pool", "the scenario's own roles"

    def switched(self, scenario: Scenario, on: bool, before: Sequence[Override] = ()) -> list[Override]:
        """Off: every replica does both, behind the router of the scenario."""
        cluster = scenario.cluster
        if on and cluster.transfer is None:
            raise _not_said(self.name, "cluster.pools", "role: both")
        overrides = [
            self._override(on, "cluster.transfer", _written(cluster.transfer) if on else None),
            self._override(on, "disaggregation", _written(scenario.disaggregation) if on else None),
        ]
        for pool in cluster.pools:
            path = f"cluster.pools.{pool.name}"
            overrides.append(self._override(on, f"{path}.role", pool.role if on else "both"))
            if pool.router is not None:
                overrides.append(self._override(on, f"{path}.router", _written(pool.router) if on else None))
        return overrides


@dataclass(frozen=True, slots=True)
class TensorParallelism(Technique):
    """Several GPUs a replica, against as many GPUs in replicas of one."""

    @property
    def sides(self) -> tuple[str, str]:
        """Off, there are as many GPUs."""
        return "`tensor: 1`, and as many times the replicas", "the scenario's own"

    def switched(self, scenario: Scenario, on: bool, before: Sequence[Override] = ()) -> list[Override]:
        """Off: every GPU is a replica of its own, with all of a drafter."""
        overrides = []
        for pool in scenario.cluster.pools:
            tensor, replicas = pool.parallel.tensor, pool.replicas or 1
            if on and tensor == 1:
                raise _not_said(self.name, "cluster.parallel.tensor", tensor)
            path = f"cluster.pools.{pool.name}"
            overrides += [
                self._override(on, f"{path}.parallel.tensor", tensor if on else 1),
                self._override(on, f"{path}.replicas", replicas if on else replicas * tensor),
            ]
            if not on and pool.speculation is not None and pool.speculation.tensor not in (None, 1):
                drafts = _so_far(f"{path}.speculation", pool.speculation, before)
                if drafts is not None and any(one.path == f"{path}.speculation" for one in before):
                    overrides.append(self._override(on, f"{path}.speculation.tensor", 1))
                elif drafts is not None:
                    overrides.append(self._override(on, f"{path}.speculation", {**drafts, "tensor": 1}))
        return overrides


def _in_pools(scenario: Scenario, field: str) -> list[tuple[str, Any]]:
    """The path of a field in each pool, and its value there."""
    of = attrgetter(field)
    return [(f"cluster.pools.{pool.name}.{field}", of(pool)) for pool in scenario.cluster.pools]


def _so_far(path: str, own: BaseModel, before: Sequence[Override]) -> dict[str, Any] | None:
    """What the techniques that were switched before leave at a path, as a file would hold it; None = nothing."""
    values = [override.value for override in before if override.path == path]
    found: dict[str, Any] | None = values[-1] if values else _written(own)
    return found


def _written(value: Any) -> Any:
    """A value as a file would hold it."""
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else value


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _not_said(name: str, path: str, found: object) -> ScenarioError:
    return ScenarioError(
        f"the scenario does not say how to do {name}",
        file=f"--toggle {name}",
        path=path,
        found=found,
        allowed="a scenario that has it on",
        hint=f"set it for both sides: --set {path}=…",
    )


TECHNIQUES: dict[str, Technique] = {
    technique.name: technique
    for technique in (
        PoolSetting("prefix-caching", "keeps the KV cache of what prompts have in common",
                    field="engine.prefix_caching", off=False, on=True),
        PoolSetting("chunked-prefill", "cuts prompts to what a step has room for", field="engine.chunked_prefill",
                    off=False, on=True),
        PoolSetting("async-scheduling", "plans a step while the one before runs", field="engine.async_scheduling",
                    off=False, on=True),
        PoolSetting("cuda-graphs", "replays recorded kernel launches", field="engine.enforce_eager",
                    off=True, on=False),
        PoolSetting("full-prompt-admission", "starts a request only if its whole prompt fits",
                    field="engine.scheduler_reserve_full_isl", off=False, on=True),
        PoolSetting("prefill-limit", "bounds a prompt's tokens in a step",
                    field="engine.long_prefill_token_threshold", off=0),
        PoolSetting("kv-quantisation", "keeps the KV cache in 8 bits", field="precision.kv_cache",
                    off="bf16", on="fp8"),
        PoolSetting("speculation", "drafts tokens that a step verifies together", field="speculation", off=None,
                    costs=("draft", "wasted_verify")),
        DraftControl("draft-control", "changes how many tokens are drafted"),
        PolicyChoice("scheduling", "orders the waiting queue", field="engine.scheduling", off="fcfs",
                     of_pools=True),
        PolicyChoice("routing", "chooses replicas by their load", field="router", off="round-robin"),
        PolicyChoice("admission", "refuses requests under load", field="admission", off="always"),
        Disaggregation("disaggregation", "prefills and decodes on different replicas", costs=("transfer_wait",)),
        TensorParallelism("tensor-parallelism", "spreads every layer over the GPUs of a replica",
                          costs=("exposed_communication",)),
    )
}  # fmt: skip
"""All techniques, by name."""

MOST_COMBINED = 4
"""Techniques that are tried in all combinations: 16 runs a seed."""


def find_techniques(names: Sequence[str]) -> list[Technique]:
    """The techniques of some names, in the order of ``TECHNIQUES``: what they are given in makes no difference.

    Raises:
        ScenarioError: a name is unknown, or given twice.
    """
    for index, name in enumerate(names):
        given = f"--toggle {name}"
        find_technique(name, given)
        if name in names[:index]:
            raise ScenarioError("this technique is given twice", file=given, found=name, allowed="each of them once")
    return [TECHNIQUES[name] for name in in_order(names)]


def find_technique(name: str, given: str) -> Technique:
    """The technique of a name.

    Args:
        name: the name.
        given: what the user wrote, for messages.

    Raises:
        ScenarioError: there is none.
    """
    if name not in TECHNIQUES:
        raise ScenarioError(
            "there is no technique of that name", file=given, found=name, allowed=list(TECHNIQUES),
            nearest=nearest_name(name, TECHNIQUES),
        )  # fmt: skip
    return TECHNIQUES[name]


def in_order(names: Collection[str]) -> list[str]:
    """Known names in the order of ``TECHNIQUES``."""
    return [name for name in TECHNIQUES if name in names]
