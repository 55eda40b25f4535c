"""What the collectives of each replica send over the links of the network: who exchanges, over which links, how much.

Formulas are those of ``physics.collectives.traffic``; sizes, algorithms and times those that price the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from servetwin.engine.steps import padding
from servetwin.errors import InvariantError
from servetwin.fabric.placement import Placed
from servetwin.fabric.topology import Topology
from servetwin.physics.collectives import context_groups, stage_pairs, tensor_groups
from servetwin.physics.collectives import traffic as routes
from servetwin.physics.communication import ALL_REDUCE, GATHER, Exchange
from servetwin.physics.drafting import Drafting
from servetwin.physics.hand_off import HandOff
from servetwin.physics.protocols import OVER, StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.results.exact import Floats, Ints
from servetwin.results.exchanged import Amounts, CollectiveUse

_REDUCES = (routes.RING, routes.SWITCH, routes.TREE, routes.SHARDED_RING, routes.SHARDED_TREE)
_GATHERS = (routes.RING, routes.SHORT_RING)

_Sizes = Callable[[Any], Sequence[Exchange]]
"""The collectives of a step of so many tokens, rows of logits, …"""

_Loads = dict[str, dict[int, float]]
"""By route, bytes over each link for one byte of a message."""


class _Made(NamedTuple):
    """What the drafting of a step depends on.

    Attributes:
        tokens: tokens of the step.
        requests: requests of it.
        k: tokens that are drafted for each of them at its end.
    """

    tokens: int
    requests: int
    k: int


class Exchanges:
    """What the replicas of a pool that lie alike exchange in a step.

    Args:
        stages: what prices the step on each stage of the pipeline, or the whole.
        hand_offs: from each stage but the last to the next.
        tensor: ranks of a tensor group.
        context: tensor groups that share out the tokens of prompts.
        graph_sizes: the sizes of the captured graphs [tokens].
        drafting: what prices the drafts; None = there are none.
    """

    def __init__(
        self,
        stages: Sequence[RooflineStepTime],
        hand_offs: Sequence[HandOff],
        tensor: int,
        context: int,
        graph_sizes: tuple[int, ...],
        drafting: Drafting | None = None,
    ) -> None:
        self.tensor, self.context = tensor, context
        self.padded: Ints = np.array(padding(graph_sizes), np.int64)
        self.reduced: list[_Sizes] = [cache(stage.links.reduced) for stage in stages]
        self.gathered: list[_Sizes] = [cache(stage.links.gathered) for stage in stages]
        self.shared: list[_Sizes] = [cache(stage.links.shared) for stage in stages]
        self.sent: list[_Sizes] = [cache(hand_off.sent) for hand_off in hand_offs]
        self.handed: list[_Sizes] = [cache(hand_off.gathered) for hand_off in hand_offs]
        self.drafted: DraftExchanges | None = None if drafting is None else DraftExchanges(drafting, self.padded)


class DraftExchanges:
    """What a tensor group exchanges for drafts.

    Args:
        drafting: prices the drafts.
        padded: by the tokens of a step, those with the padding of the captured graph; steps beyond have none.
    """

    def __init__(self, drafting: Drafting, padded: Ints) -> None:
        self._drafting = drafting
        self._padded = padded

    def reduced(self, made: _Made) -> list[Exchange]:
        """The all-reduces."""
        return [exchange for exchange in self._exchanges(made) if exchange.kind == ALL_REDUCE]

    def gathered(self, made: _Made) -> list[Exchange]:
        """The all-gathers of logits."""
        return [exchange for exchange in self._exchanges(made) if exchange.kind == GATHER]

    def _exchanges(self, made: _Made) -> list[Exchange]:
        if made.k == OVER:
            return []
        graph = made.tokens < len(self._padded)
        padded = int(self._padded[made.tokens]) if graph else made.tokens
        return self._drafting.exchanges(
            StepShape(made.tokens, padded, graph, made.requests, made.requests, (0,), (0,), drafts=made.k)
        )


@dataclass(frozen=True, slots=True)
class _Term:
    """One kind of collectives of a step, of all groups that do it at the same time.

    Attributes:
        depends: what its size depends on: ``tokens``, ``rows``, ``own``, or ``drafting`` for ``_Made``.
        sizes: the collectives for such a size.
        loads: what a byte of their message makes the links carry.
    """

    depends: str
    sizes: _Sizes
    loads: _Loads


def collective_use(topology: Topology, placed: Placed, replica: int, what: Exchanges) -> CollectiveUse:
    """What the collectives of a replica send over its links.

    Args:
        topology: the links.
        placed: the GPUs of the replica, by rank.
        replica: its index.
        what: what it exchanges.
    """
    terms = _Lying(topology, placed).terms(what)
    found: dict[tuple[float, ...], list[int]] = {}
    for link in sorted({link for term in terms for load in term.loads.values() for link in load}):
        own = [load.get(link, 0.0) for term in terms for load in term.loads.values()]
        found.setdefault((topology.links[link].bytes_per_s, *own), []).append(link)
    classes = list(found.values())
    by = {depends: _amounts(topology, classes, [term for term in terms if term.depends == depends])
          for depends in ("tokens", "rows", "own", "drafting")}  # fmt: skip
    return CollectiveUse(
        replica, classes, what.padded, what.context, by["tokens"], by["rows"], by["own"], len(what.reduced) == 1,
        by["drafting"] if what.drafted is not None else None,
    )  # fmt: skip


class _Lying:
    """The GPUs of a replica, and what its groups make the links carry."""

    def __init__(self, topology: Topology, placed: Placed) -> None:
        self._topology, self._placed = topology, placed
        self._beyond = len({topology.server(gpu).index for gpu in placed}) > 1

    def terms(self, what: Exchanges) -> list[_Term]:
        """The kinds of collectives of a step; those of different stages of a pipeline are different kinds."""
        gpus, stages = len(self._placed), len(what.reduced)
        each = gpus // stages
        terms = []
        for stage in range(stages):
            first = stage * each
            ranks = [range(first + one.start, first + one.stop) for one in tensor_groups(each, what.tensor)]
            gathers = self._loads(ranks, _GATHERS, routes.gather_traffic)
            reduces = self._loads(ranks, _REDUCES, routes.all_reduce_traffic)
            terms += [_Term("tokens", what.reduced[stage], reduces), _Term("rows", what.gathered[stage], gathers)]
            if what.drafted is not None:
                terms += [
                    _Term("drafting", what.drafted.reduced, reduces), _Term("drafting", what.drafted.gathered, gathers),
                ]  # fmt: skip
            if what.context > 1:
                shares = context_groups(each, what.tensor, what.context)
                terms.append(_Term("own", what.shared[stage], self._loads(shares, _GATHERS, routes.gather_traffic)))
            if stage:
                pairs = [pair for pair in stage_pairs(gpus, each) if first <= pair[1] < first + each]
                terms += [
                    _Term("tokens", what.sent[stage - 1], self._sent(pairs)),
                    _Term("tokens", what.handed[stage - 1], gathers),
                ]
        return terms

    def _loads(
        self,
        groups: Sequence[Sequence[int]],
        names: Sequence[str],
        traffic_of: Callable[[str, Sequence[int]], routes.Traffic],
    ) -> _Loads:
        """What one byte of the message of each group makes the links carry, by route."""
        if len(groups[0]) == 1:
            return {}
        loads: _Loads = {name: {} for name in names}
        for group in groups:
            members: dict[tuple[int, int], list[int]] = {}
            for rank in group:
                gpu = self._placed[rank]
                members.setdefault(self._topology.domain(gpu), []).append(gpu)
            domains = list(members.values())
            for name in names:
                self._add(loads[name], domains, traffic_of(name, [len(domain) for domain in domains]))
        return loads

    def _add(self, load: dict[int, float], domains: Sequence[list[int]], traffic: routes.Traffic) -> None:
        for domain, share in zip(domains, traffic.ports, strict=True):
            # Out of each port and into the next one: every port has both directions once.
            for place, gpu in enumerate(domain if len(domain) > 1 else ()):
                self._pass(load, gpu, domain[place - 1], share)
        for lane in traffic.lanes:
            ends = zip(domains[lane.source][: traffic.abreast], domains[lane.target][: traffic.abreast], strict=True)
            for source, target in ends:
                self._pass(load, source, target, lane.share)

    def _sent(self, pairs: Sequence[tuple[int, int]]) -> _Loads:
        load: dict[int, float] = {}
        for source, target in pairs:
            self._pass(load, self._placed[source], self._placed[target], 1.0)
        return {routes.SEND: load}

    def _pass(self, load: dict[int, float], source: int, target: int, share: float) -> None:
        for link in self._topology.collective_way(source, target, self._beyond):
            load[link] = load.get(link, 0.0) + share


def _amounts(topology: Topology, classes: Sequence[Sequence[int]], terms: Sequence[_Term]) -> Amounts:
    """By size, the bytes of a step over each class of links, all terms together; each is rounded to whole bytes."""
    capacity = np.array([topology.links[links[0]].bytes_per_s for links in classes])
    shares = [
        {route: np.array([load.get(links[0], 0.0) for links in classes]) for route, load in term.loads.items()}
        for term in terms
    ]

    def amounts(sizes: Ints) -> Ints:
        found: Ints = np.zeros((len(sizes), len(classes)), np.int64)
        each = sizes.tolist() if sizes.ndim == 1 else [_Made(*row) for row in sizes.tolist()]
        for term, by_route in zip(terms, shares, strict=True):
            for place, size in enumerate(each):
                for exchange in term.sizes(size) if size else ():
                    sent = exchange.message_bytes * by_route[exchange.route]
                    _check(exchange, sent, capacity)
                    found[place] += np.rint(exchange.calls * sent).astype(np.int64)
        return found

    return amounts


def _check(exchange: Exchange, sent: Floats, capacity: Floats) -> None:
    """No link carries more of a collective than it can in the time that the collective is priced.

    Raises:
        InvariantError: otherwise: the price and the bytes contradict each other.
    """
    if (sent > capacity * exchange.seconds * (1 + 1e-9)).any():
        raise InvariantError(
            f"a collective ({exchange.kind}, {exchange.route}) of {exchange.message_bytes:g} bytes in "
            f"{exchange.seconds:g} s sends {float(sent.max()):g} bytes over a link"
        )
