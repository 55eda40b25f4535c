"""GPUs that are slower than the others of their replica, which wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from servetwin.errors import ScenarioError
from servetwin.scenario.part import MOST, Part
from servetwin.specs.health import HEALTHY, Health

if TYPE_CHECKING:
    from servetwin.scenario.schema import Parallel, Pool, Scenario

Share = Annotated[float, Field(ge=1e-6, le=1)]
"""A GPU with less is broken rather than slow."""

Index = Annotated[int, Field(ge=0, le=MOST)]

_PLACE = "cluster.stragglers"


class Straggler(Part):
    """A GPU that brings less than its data sheet says; at least one share is below 1.

    The GPUs of a tensor group meet in every collective, so the slowest sets the pace of all.

    Attributes:
        replica: which replica it belongs to, counted from 0 over all pools.
        gpu: which of its GPUs, counted from 0: tensor ranks first, then context groups, then pipeline stages.
        flops: share of the arithmetic that is left, as of a GPU that is too hot or short of power.
        hbm: share of the memory bandwidth that is left.
        link: share of the bandwidth to the other GPUs of its link domain that is left.
    """

    replica: Index = 0
    gpu: Index = 0
    flops: Share = 1.0
    hbm: Share = 1.0
    link: Share = 1.0

    @property
    def health(self) -> Health:
        """Its shares."""
        return Health(self.flops, self.hbm, self.link)


def stage_health(stragglers: Sequence[Straggler], replica: int, parallel: Parallel) -> tuple[Health, ...]:
    """For each stage of a replica, what sets the pace of its GPUs: of each share the least that any of them has.

    An approximation where several GPUs of a stage are slow in different ways: it is priced as if one had all their
    faults, which is never too fast.

    Args:
        stragglers: the GPUs that are slow.
        replica: the replica's index in the cluster.
        parallel: its GPUs.
    """
    each = parallel.tensor * parallel.context
    mine = [one for one in stragglers if one.replica == replica]
    return tuple(
        reduce(Health.worst, [one.health for one in mine if one.gpu // each == stage], HEALTHY)
        for stage in range(parallel.pipeline)
    )


def check_stragglers(scenario: Scenario, pools: Sequence[Pool]) -> None:
    """Refuse stragglers that there are not, or that change nothing.

    Args:
        scenario: the scenario.
        pools: its resolved pools.

    Raises:
        ScenarioError: with the place of the first.
    """
    replicas = [pool.parallel for pool in pools for _ in range(pool.replicas or 1)]
    seen: set[tuple[int, int]] = set()
    for index, one in enumerate(scenario.cluster.stragglers):
        place = f"{_PLACE}.{index}"
        if one.replica >= len(replicas):
            raise ScenarioError(
                "there is no such replica: they are counted from 0", path=f"{place}.replica", found=one.replica,
                allowed=_up_to(len(replicas)),
            )  # fmt: skip
        parallel = replicas[one.replica]
        gpus = parallel.tensor * parallel.context * parallel.pipeline
        if one.gpu >= gpus:
            raise ScenarioError(
                "the replica has no such GPU: they are counted from 0", path=f"{place}.gpu", found=one.gpu,
                allowed=_up_to(gpus),
            )  # fmt: skip
        if one.health == HEALTHY:
            raise ScenarioError(
                "this GPU is as fast as the others", path=place, allowed="a share below 1 of flops, hbm or link"
            )
        if one.link < 1 and gpus == 1:
            raise ScenarioError(
                "a GPU alone sends nothing to others, so its link has no effect", path=f"{place}.link", found=one.link,
                allowed="1, or left out",
            )  # fmt: skip
        if min(one.flops, one.hbm) < 1 and scenario.physics.backend != "roofline":
            raise ScenarioError(
                "the times of a slower GPU are in no table", path=place, found=one.model_dump(exclude_defaults=True),
                allowed="link alone, or physics.backend: roofline",
            )  # fmt: skip
        if (one.replica, one.gpu) in seen:
            raise ScenarioError(
                "this GPU stands here twice", path=place, found=[one.replica, one.gpu], allowed="each GPU once"
            )
        seen.add((one.replica, one.gpu))


def _up_to(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"


def mixed_faults(stragglers: Sequence[Straggler], pools: Sequence[Pool]) -> Iterator[str]:
    """Where several GPUs of a stage are slow in different ways, and none of them in all."""
    replicas = [pool.parallel for pool in pools for _ in range(pool.replicas or 1)]
    for replica in sorted({one.replica for one in stragglers}):
        parallel = replicas[replica]
        each = parallel.tensor * parallel.context
        for stage, worst in enumerate(stage_health(stragglers, replica, parallel)):
            mine = [one.health for one in stragglers if one.replica == replica and one.gpu // each == stage]
            if worst != HEALTHY and worst not in mine:
                yield (
                    f"{_PLACE}: {len(mine)} GPUs of replica {replica} are slow in different ways; its steps are priced "
                    "as if one of them had all faults, so they are a little too long"
                )
