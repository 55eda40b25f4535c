"""The whole cluster: pools behind a gateway, run to the end, with its accounts checked."""

from __future__ import annotations

from simpy.core import StopSimulation
from simpy.events import URGENT, Event

from servetwin.cluster.fleet import Fleet
from servetwin.cluster.gateway import Gateway
from servetwin.cluster.pool import Pool
from servetwin.cluster.replica import Replica
from servetwin.engine.audit import audit_rank
from servetwin.errors import InvariantError
from servetwin.kernel import Environment, events_popped
from servetwin.records import RunLog


class Cluster:
    """Pools of replicas behind one gateway.

    Args:
        env: the environment.
        gateway: where requests enter.
        pools: the pools, with how many replicas each starts with.
        log: receives what remains unfinished at the end.
    """

    def __init__(self, env: Environment, gateway: Gateway, pools: list[tuple[Pool, int]], log: RunLog) -> None:
        self._env = env
        self._log = log
        self.gateway = gateway
        self.pools = [pool for pool, _ in pools]
        self.replicas: list[Replica] = []
        for pool, size in pools:
            for _ in range(size):
                self.replicas.append(pool.grow(len(self.replicas)))
        self.fleet = Fleet(env, self.replicas)
        gateway.open(self.replicas, self.fleet)
        self.interrupted = False

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
            request.last_token_ps = -1
            self._log.finished(request)
        self.audit()
        return end

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
