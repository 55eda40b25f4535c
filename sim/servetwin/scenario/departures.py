"""Replicas that leave during a run, as a scenario names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from servetwin.errors import ScenarioError
from servetwin.scenario.part import MOST, Part
from servetwin.units import MAX_S

if TYPE_CHECKING:
    from servetwin.scenario.schema import Pool

_PLACE = "cluster.departures"


class Departure(Part):
    """A replica that leaves and does not come back.

    It ends the step under way. What its requests have computed is lost; they go to other replicas, which compute prompt
    and tokens so far again, and fail where there is none. KV cache that others were to fetch from it is lost too.

    Attributes:
        replica: which replica, counted from 0 over all pools.
        at_s: when [s].
        drain: whether it ends the requests that it has, and only takes no more.
    """

    replica: Annotated[int, Field(ge=0, le=MOST)]
    at_s: float = Field(ge=0, le=MAX_S)
    drain: bool = False


def check_departures(departures: Sequence[Departure], pools: Sequence[Pool]) -> None:
    """Refuse replicas that there are not, that leave twice, or that this version cannot let go.

    Args:
        departures: the replicas that leave.
        pools: the resolved pools.
    """
    owners = [pool for pool in pools for _ in range(pool.replicas or 1)]
    seen: set[int] = set()
    for index, one in enumerate(departures):
        path = f"{_PLACE}.{index}.replica"
        if one.replica >= len(owners):
            raise ScenarioError(
                "there is no such replica", path=path, found=one.replica, allowed=f"0 to {len(owners) - 1}"
            )
        if one.replica in seen:
            raise ScenarioError("a replica leaves once", path=path, found=one.replica, allowed="each replica once")
        seen.add(one.replica)
        pool = owners[one.replica]
        if not one.drain and (pool.parallel.pipeline > 1 or pool.speculation is not None):
            raise ScenarioError(
                "in this version a replica with a pipeline or with speculation cannot leave before its requests",
                path=path, found=one.replica, allowed="drain: true, or a replica without them",
            )  # fmt: skip
