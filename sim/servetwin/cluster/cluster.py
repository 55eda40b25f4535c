"""The whole cluster: pools behind a gateway, run to the end, with its accounts checked."""

from __future__ import annotations

from collections.abc import Mapping

from simpy.core import StopSimulation
from simpy.events import URGENT, Event

from servetwin.cluster.disaggregation import Disaggregation
from servetwin.cluster.fleet import Fleet, Whole
from servetwin.cluster.gateway import Gateway
from servetwin.cluster.group import Group
from servetwin.cluster.pool import Pool
from servetwin.cluster.predictions import MoveForecast, Predictions
from servetwin.cluster.prefill_book import PrefillBook
from servetwin.cluster.prefix_index import PrefixIndex
from servetwin.cluster.protocols import Router
from servetwin.cluster.replica import BOTH, DECODE, PREFILL, Replica
from servetwin.cluster.split_view import ClusterView
from servetwin.engine.audit import audit_rank
from servetwin.errors import InvariantError
from servetwin.kernel import HAND_OVER, Environment, events_popped, priority
from servetwin.kernel.nap import call_at
from servetwin.records import RunLog
from servetwin.request import Request


class Cluster:
    """Pools of replicas behind one gateway.

    Args:
        env: the environment.
        gateway: where requests enter.
        pools: the pools, with how many replicas each starts with.
        log: receives what remains unfinished at the end.
        routers: by role, which of its replicas gets a request.
        split: hands requests from replicas that prefill to replicas that decode, where there are such.
    """

    def __init__(
        self,
        env: Environment,
        gateway: Gateway,
        pools: list[tuple[Pool, int]],
        log: RunLog,
        routers: Mapping[str, Router],
        split: Disaggregation | None = None,
    ) -> None:
        self._env = env
        self._log = log
        self.gateway = gateway
        self.pools = [pool for pool, _ in pools]
        self.replicas: list[Replica] = []
        for pool, size in pools:
            for _ in range(size):
                self.replicas.append(pool.grow(len(self.replicas)))
        self.split = split
        groups = self._groups = {role: self._group(role, router) for role, router in routers.items()}
        both = groups.get(BOTH)
        if split is None:
            assert both is not None
            gateway.open(both.fleet, both)
        else:
            prefill, decode = groups[PREFILL], groups[DECODE]
            view = self._view(split, prefill, decode, both)
            split.open(gateway, self.replicas, prefill, decode, both, view)
            gateway.open(Whole([group.fleet for group in groups.values()]), both, split)
        self.interrupted = False

    def _group(self, role: str, router: Router) -> Group:
        """The replicas of a role behind their router."""
        among = [replica.index for replica in self.replicas if replica.role == role]
        return Group(router, Fleet(self._env, self.replicas, among), self.replicas)

    def _view(self, split: Disaggregation, prefill: Group, decode: Group, mixed: Group | None) -> ClusterView:
        """What the decider sees; the books for what it does not ask for are not kept."""
        forecasts = [replica.forecast for replica in self.replicas if replica.forecast is not None]
        assert len(forecasts) == len(self.replicas)
        predictions = None
        if split.judge.reads_cache:
            decode.index = PrefixIndex()
        if split.judge.predicts:
            prefill.index = PrefixIndex()
            prefill.book = PrefillBook(self._env, forecasts, prefill.index)
            moves = MoveForecast(split.rules, split.transfers, split.legs, split.onward)
            predictions = Predictions(prefill.fleet, decode.fleet, prefill.book, forecasts, moves)
        return ClusterView(prefill, decode, forecasts, mixed, predictions)

    def run(self, until_ps: int | None = None) -> int:
        """Simulate until nothing is left to do, or until ``until_ps`` [ps]; returns the end [ps].

        What is under way at the end is accounted for up to there, and recorded as unfinished.
        """
        env = self._env
        if until_ps is None:
            env.run()
        elif until_ps > env._now:
            env.run(until=until_ps)
        # A run ends with its last request: an alarm that nobody waits for any more may go off later.
        whole = until_ps is None and not self.interrupted
        end: int = self.gateway.last_end_ps if whole else env._now
        for replica in self.replicas:
            replica.executor.stop(end)
        unfinished = list(self.gateway.in_flight)
        if unfinished and whole:
            raise InvariantError(f"no events are left, yet {len(unfinished)} requests are unfinished: a livelock")
        for request in unfinished:
            if request.hand_over is not None and self.split is not None:
                self.split.settle(request.hand_over)
            request.last_token_ps = -1
            self._log.finished(request)
        self.audit()
        return end

    def retire(self, index: int, *, drains: bool) -> None:
        """A replica takes no more requests, from now on.

        Args:
            index: its index.
            drains: whether it ends those that it has; else it leaves at the end of the step under way.
        """
        replica = self.replicas[index]
        replica.routable = False
        self._groups[replica.role].fleet.leave(index)
        if not drains:
            replica.executor.leave(lambda requests: self._stranded(index, requests))

    def _stranded(self, index: int, requests: list[Request]) -> None:
        """The steps of this instant come first: those that take the requests over have planned."""
        if requests:
            # It has worked until now, be it for requests that have ended elsewhere.
            self.gateway.last_end_ps = self._env._now
        call_at(self._env, self._env._now, priority(HAND_OVER, index), lambda: self.gateway.stranded(index, requests))

    def interrupt(self) -> None:
        """Stop the run between two events, as soon as possible; safe to call from a signal handler."""
        self.interrupted = True
        stop = Event(self._env)
        stop._ok = True
        stop._value = None
        stop.callbacks = [StopSimulation.callback]
        self._env.schedule(stop, priority=URGENT)

    def audit(self) -> None:
        """Check that requests, blocks and sums balance; raises ``InvariantError`` where they do not."""
        gateway = self.gateway
        if gateway.submitted != gateway.ended + len(gateway.in_flight):
            raise InvariantError(
                f"{gateway.submitted} requests came in, {gateway.ended} ended, {len(gateway.in_flight)} are under way"
            )
        for replica in self.replicas:
            audit_rank(replica.executor.rank, replica.index)

    def ledger(self, end_ps: int) -> list[dict[str, int]]:
        """By replica, the GPU-time up to ``end_ps`` in each bucket [GPU · ps]; it adds up to GPUs × ``end_ps``."""
        rows = []
        for replica, spent in zip(self.replicas, self._log.spent(len(self.replicas)), strict=True):
            executor = replica.executor
            row = executor.ledger(spent, end_ps)
            rows.append({bucket: time * executor.gpus for bucket, time in row.items()})
        return rows

    def stages_busy(self) -> list[list[int]]:
        """By replica and stage of its pipeline, the GPU-time that went to steps [GPU · ps]; after ``ledger``."""
        return [
            [time * replica.executor.gpus for time in replica.executor.stage_busy_ps()] for replica in self.replicas
        ]

    @property
    def events(self) -> int:
        """SimPy events popped so far, stale alarms included."""
        return events_popped(self._env)

    @property
    def steps(self) -> int:
        """Engine steps that have ended."""
        return sum(replica.executor.steps() for replica in self.replicas)
