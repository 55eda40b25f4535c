"""Who decides whether a request is split, in the naive engine: every rule from its words, every sum from the beginning.

What a gateway remembers of prompts is kept block by block, and what it predicts is added up anew for each request.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import TYPE_CHECKING, Any

from tests.reference.naive_engine import Job

from servetwin.physics.protocols import StepShape

if TYPE_CHECKING:
    from tests.reference.naive_split import SplitCluster

PS_PER_S = 10**12
PS_PER_MS = 10**9
BLOCK, ROOM, MOST = 64, 31_250, 131_072

Path = tuple[int, ...]


class SentPrompts:
    """The blocks of prompts that were sent to each replica, each named by all tokens up to its end."""

    def __init__(self, block: int = BLOCK, room: int = ROOM, most: int = MOST) -> None:
        self.block, self.room, self.most = block, room, most
        self.names: dict[Any, int] = {}
        self.sent: dict[int, OrderedDict[int, None]] = {}

    def chain(self, job: Job) -> list[int]:
        name, names = -1, []
        for block in range(min(job.prompt, self.most) // self.block):
            tokens = tuple(job.token(block * self.block + place) for place in range(self.block))
            name = self.names.setdefault((name, tokens), len(self.names))
            names.append(name)
        return names

    def matched(self, replica: int, job: Job) -> int:
        known, found = self.sent.get(replica, {}), 0
        for name in self.chain(job):
            if name not in known:
                break
            found += self.block
        return found

    def add(self, replica: int, job: Job) -> None:
        known = self.sent.setdefault(replica, OrderedDict())
        for name in self.chain(job):
            known[name] = None
            known.move_to_end(name)
            if len(known) > self.room:
                known.popitem(last=False)


class Decider:
    """Decides as the policy of a name does.

    Args:
        cluster: the replicas.
        policy: the name and the fields, as in a scenario.
    """

    def __init__(self, cluster: SplitCluster, policy: dict[str, Any]) -> None:
        self.cluster = cluster
        self.policy = policy
        self.rule = getattr(self, policy["policy"].replace("-", "_"))
        self.prompts = SentPrompts()
        self.leaves = False
        #: By replica: the prefills under way, in order, with the time that each should take, and since when the first.
        self.prefills: dict[int, list[tuple[int, int]]] = {}
        self.since: dict[int, int] = {}

    # -- what is sent, and what comes back ---------------------------------------------------------------------

    def sent(self, job: Job, replica: Any, now: int) -> None:
        if replica in self.cluster.group("prefill"):
            line = self.prefills.setdefault(replica.index, [])
            if not line:
                self.since[replica.index] = now
            line.append((job.id, self.prefill_ps(job, replica) // replica.settings.stages))
        if replica.settings.prefix_caching:
            self.prompts.add(replica.index, job)

    def back(self, job: Job, replica: Any, now: int) -> None:
        self.prefills[replica.index] = [entry for entry in self.prefills[replica.index] if entry[0] != job.id]
        self.since[replica.index] = now

    # -- the rules ---------------------------------------------------------------------------------------------

    def decide(self, job: Job, target: Any, now: int) -> str:
        answer: str = self.rule(job, target, now)
        return answer

    def always(self, job: Job, target: Any, now: int) -> str:
        return "split"

    def never(self, job: Job, target: Any, now: int) -> str:
        return "local"

    def uncached(self, job: Job, target: Any) -> int:
        return job.prompt - self.prompts.matched(target.index, job)

    def uncached_length(self, job: Job, target: Any, now: int) -> str:
        return "split" if self.uncached(job, target) >= self.policy["tokens"] else "local"

    def length_and_queue(self, job: Job, target: Any, now: int) -> str:
        waiting = 0
        for replica in self.cluster.group("prefill"):
            waiting += len(replica.present) - 1 if replica.present else 0
        back = self.policy["queue_back"] or self.policy["queue"]
        if waiting >= self.policy["queue"]:
            self.leaves = True
        elif waiting < back:
            self.leaves = False
        long = self.uncached(job, target) > self.policy["tokens"]
        return "split" if long and not self.leaves else "local"

    def bounded_length(self, job: Job, target: Any, now: int) -> str:
        uncached = self.uncached(job, target)
        short = uncached < self.policy["tokens"] and uncached / job.prompt < self.policy["share"]
        return "local" if short else "split"

    def mixed_overflow(self, job: Job, target: Any, now: int) -> str:
        pending = self.cluster.tokens(self.cluster.idlest("prefill"))
        decoding = self.cluster.idlest("decode")
        room = (decoding.settings.num_blocks - 1) * decoding.settings.block_size
        if pending and pending + job.prompt > self.policy["prefill_tokens"]:
            return "mixed"
        if self.cluster.tokens(decoding) + job.prompt >= self.policy["decode_memory"] * room:
            return "mixed"
        return "split"

    def slo(self, job: Job, target: Any, now: int) -> str:
        ttft, tpot = self.policy["ttft_ms"], self.policy["tpot_ms"]
        if ttft is not None and self.ttft_ps(job, now) / PS_PER_MS > ttft:
            return "reject"
        if tpot is not None and self.step_ps(job, self.cluster.idlest("decode")) / PS_PER_MS > tpot:
            return "reject"
        return "split"

    # -- predictions -------------------------------------------------------------------------------------------

    def ttft_ps(self, job: Job, now: int) -> int:
        rules = self.cluster.rules
        source, target = self.cluster.idlest("prefill"), self.cluster.idlest("decode")
        line = self.prefills.get(source.index, [])
        queue = sum(time for _, time in line)
        if line:
            queue -= min(line[0][1], now - self.since[source.index])
        prefill = self.prefill_ps(job, source)
        total = self.front_end_ps(job, source) + queue + prefill + int(source.settings.output_ps_per_request)
        if not rules.regenerates:
            return total
        whole = rules.setup_ps + rules.block_ps * ceil(job.prompt / rules.block_size)
        whole += self.move_ps(job, rules.legs(source.index, target.index))
        if rules.mode == "pull":
            total += whole
        else:
            total += max(whole - prefill, whole // rules.layers)
        if rules.mode == "push":
            total += self.move_ps(job, rules.onward(target.index))
        requests = len(target.present) + 1
        if rules.mode != "stream":
            total += self.front_end_ps(job, target)
        return total + self.step_ps(job, target) + int(target.settings.output_ps_per_request) * requests

    def front_end_ps(self, job: Job, replica: Any) -> int:
        settings = replica.settings
        return int(settings.front_end_ps + settings.front_end_per_token_ps * job.prompt)

    def prefill_ps(self, job: Job, replica: Any) -> int:
        settings = replica.settings
        done = 0
        if settings.prefix_caching:
            found = min(self.prompts.matched(replica.index, job), job.prompt - 1)
            done = found - found % settings.block_size
        total = 0
        while done < job.prompt:
            chunk = min(job.prompt - done, settings.max_num_batched_tokens)
            if settings.long_prefill_token_threshold:
                chunk = min(chunk, settings.long_prefill_token_threshold)
            total += self.price_ps(replica, chunk, 1, 0, 0, ((chunk, done),))
            done += chunk
        return total

    def step_ps(self, job: Job, replica: Any) -> int:
        """A decode step with the job and all that is there; those beyond the seats wait."""
        requests = len(replica.present) + 1
        context = self.cluster.tokens(replica) + job.prompt
        size = ceil(min(requests, replica.settings.max_num_seqs) / replica.settings.stages)
        return self.price_ps(replica, size, size, size, context * size // requests, ())

    def price_ps(self, replica: Any, tokens: int, requests: int, decodes: int, context: int,
                 chunks: tuple[tuple[int, int], ...]) -> int:  # fmt: skip
        assert not replica.step_time.windows
        padded = next((size for size in replica.settings.graph_sizes if size >= tokens), None)
        shape = StepShape(
            tokens=tokens, padded_tokens=tokens if padded is None else padded, graph=padded is not None,
            requests=requests, decodes=decodes, context=(context,), growing=(decodes,), chunks=chunks,
        )  # fmt: skip
        return int(replica.step_time.price(shape).total_ps)

    def move_ps(self, job: Job, legs: Any) -> int:
        """Nobody else uses the links; the busiest one says how long it takes, and the longest way when it begins."""
        rules = self.cluster.rules
        tokens = ceil(job.prompt / rules.block_size) * rules.block_size
        sent: dict[int, int] = {}
        for path, each, efficiency in legs:
            for link in path:
                sent[link] = sent.get(link, 0) + ceil(round(each * tokens) / efficiency)
        times = [-(-size * PS_PER_S // rules.capacities[link]) for link, size in sent.items()]
        latencies = [sum(rules.latencies_ps[link] for link in path) for path, _, _ in legs]
        return max(times, default=0) + max(latencies, default=0)
