"""Named remarks on a resolved scenario: what runs, but probably is not what was meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from servetwin.acceptance.spec import Recorded
from servetwin.scenario.deciding import unreachable
from servetwin.scenario.drafters import possible_drafts
from servetwin.scenario.engines import NEWEST, OVERLAPPED, version_number
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.schema import Scenario
from servetwin.scenario.stragglers import mixed_faults
from servetwin.workload.chance import is_random
from servetwin.workload.idle import idle_options

_NO_PRIORITIES = ("fcfs", "sjf", "edf")
_WITHOUT_CHANCE = (
    "round-robin", "least-requests", "least-tokens", "always", "never", "max-queue", "max-requests", "max-tokens",
    "fcfs", "sjf", "edf", "priority", "uncached-length", "length-and-queue", "bounded-length", "mixed-overflow", "slo",
)  # fmt: skip
_LIMITS = {"max-requests": "requests", "max-queue": "waiting"}
"""Fields that bound a number of requests, by admission policy."""

_SAME_WITH_ONE = ("random", "least-requests", "least-tokens", "power-of-two")


class Remark(NamedTuple):
    """One remark.

    Attributes:
        name: its name.
        find: the sentences that it says about a scenario and what its pools are made of.
    """

    name: str
    find: Callable[[Scenario, Sequence[PoolParts]], Iterator[str]]


def remarks(scenario: Scenario, parts: Sequence[PoolParts], only: Sequence[str] = ()) -> list[str]:
    """What the user should know before trusting a run, in sentences.

    Args:
        scenario: the resolved scenario.
        parts: what each of its pools is made of.
        only: the names of the remarks to look for; empty = all.
    """
    wanted = [remark for remark in REMARKS if not only or remark.name in only]
    return [f"{text} (check {remark.name})" for remark in wanted for text in remark.find(scenario, parts)]


def _family(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    name = scenario.engine.name
    if name != "vllm":
        yield (
            f"engine.name {name}: its overheads are its own, but it is scheduled by the rules of vLLM {OVERLAPPED} "
            "(one step ahead, chunked prefill), an approximation"
        )


def _version(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    if scenario.engine.name == "vllm" and version_number(scenario.engine.version)[:2] > NEWEST:
        newest = ".".join(map(str, NEWEST))
        yield (
            f"engine.version {scenario.engine.version} of vLLM is not known to this version of servetwin: "
            f"the rules of {newest} are used"
        )


def _blocks(scenario: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    for index, (pool, part) in enumerate(zip(scenario.cluster.pools, parts, strict=True)):
        override = pool.engine.num_gpu_blocks_override
        if override is None:
            continue
        whole = part.whole_room(pool, f"cluster.pools.{index}")
        room = whole.num_blocks if whole else 0
        if override > room:
            yield (
                f"cluster.pools.{index}.engine.num_gpu_blocks_override is {override:,} KV blocks, but the memory of "
                f"the GPUs holds {room:,}: vLLM would run out of memory, so these results are of no real machine"
            )


def _calibration(scenario: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    """GPUs whose kernels nobody measured: a guess from another GPU of their architecture, or of one like it."""
    for gpu, calibration in {part.gpu.name: (part.gpu, part.calibration) for part in parts}.values():
        owner = calibration.kernels_of(gpu.name, gpu.architecture)
        if owner is not None and owner != gpu.name:
            yield (
                f"calibration {calibration.name} has no kernel constants of {gpu.name}: those of {owner} are used, "
                f"which stands for the architecture {gpu.architecture}, so its step times are an extrapolation"
            )


def _jitter(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    if scenario.physics.jitter and scenario.run.stepping == "skip-ahead":
        yield (
            f"physics.jitter {scenario.physics.jitter:g} gives every step a time of its own, so none is skipped: the "
            "run takes as long as with run.stepping every-step"
        )


def _models(_: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    notes = {part.model.name: part.model.notes for part in parts}
    for name, sentences in notes.items():
        for sentence in sentences:
            yield f"model {name}: {sentence}"


def _states(scenario: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    for index, (pool, part) in enumerate(zip(scenario.cluster.pools, parts, strict=True)):
        if part.model.state_bytes() and pool.engine.prefix_caching:
            yield (
                f"cluster.pools.{index}.engine.prefix_caching finds prefixes of any length, but {part.model.name} has "
                "constant-state layers, whose states an engine keeps at few places of a prefix or at none: hits are "
                "overestimated"
            )


def _router(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    by_role = Counter[str]()
    for pool in scenario.cluster.pools:
        by_role[pool.role] += pool.replicas or 1
    if set(by_role.values()) == {1} and scenario.router.policy in _SAME_WITH_ONE:
        each = "" if len(by_role) == 1 else " of each role"
        yield f"router.policy {scenario.router.policy} has no effect: there is one replica{each}"


def _priorities(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    policies = [pool.engine.scheduling.policy for pool in scenario.cluster.pools]
    if len({entry.priority for entry in scenario.workload.classes}) < 2 or not set(policies) <= set(_NO_PRIORITIES):
        return
    if len(set(policies)) == 1:
        said = f"cluster.engine.scheduling is {policies[0]}, which does not look at them"
    else:
        each = (f"cluster.pools.{index}.engine.scheduling is {policy}" for index, policy in enumerate(policies))
        said = f"{', '.join(each)}, and none of these looks at them"
    yield f"the priorities of workload.classes have no effect: {said}"


def _orders(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    """Scheduling policies that have nothing to sort by."""
    workload = scenario.workload
    limits = {entry.ttft_ps for entry in workload.classes}
    reasons = {}
    if workload.trace is None and len(limits) == 1:
        reasons["edf"] = "all classes have the same slo.ttft_ms, so deadlines come in the order of arrival"
    lengths = [entry.prompts or workload.prompts for entry in workload.classes] or [workload.prompts]
    extras = (workload.prefixes, workload.documents, workload.sessions, workload.trace)
    if (
        not workload.in_lanes
        and not any(extras)
        and len({part.only if part else None for part in lengths} - {None}) == 1
    ):
        reasons["sjf"] = "all prompts are equally long"
    for index, pool in enumerate(scenario.cluster.pools):
        policy = pool.engine.scheduling.policy
        if policy in reasons:
            yield f"cluster.pools.{index}.engine.scheduling {policy} does what fcfs does: {reasons[policy]}"


def _workload(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    for option in idle_options(scenario.workload, scenario.run.requests):
        yield f"{option.path} has no effect: {option.reason}"


def _run(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    run, workload = scenario.run, scenario.workload
    at_once = workload.arrivals is not None and workload.arrivals.process == "all-at-once"
    chained = workload.max_concurrency or workload.sessions or any(entry.sessions for entry in workload.classes)
    if run.duration_s is not None and at_once and not chained:
        yield "run.duration_s has no effect: all requests come at once"
    if run.seed and not scenario.physics.jitter and not is_random(workload) and _is_deterministic(scenario):
        yield "run.seed has no effect: nothing in this scenario is random"


def _is_deterministic(scenario: Scenario) -> bool:
    """Whether neither drafts nor a policy draw random numbers; nobody knows what a plug-in does."""
    for pool in scenario.cluster.pools:
        acceptance = pool.speculation.acceptance if pool.speculation is not None else None
        if acceptance is not None and not (isinstance(acceptance, Recorded) and acceptance.proposal is None):
            return False
    transfer = scenario.cluster.transfer
    if transfer is not None and transfer.failure_rate:
        return False
    policies = [scenario.router, scenario.admission, *(pool.engine.scheduling for pool in scenario.cluster.pools)]
    policies += [pool.router for pool in scenario.cluster.pools if pool.router is not None]
    policies += [] if scenario.disaggregation is None else [scenario.disaggregation]
    return all(policy.policy in _WITHOUT_CHANCE for policy in policies)


def _admission(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    policy, requests = scenario.admission, scenario.run.requests
    limit = getattr(policy, _LIMITS[policy.policy]) if policy.policy in _LIMITS else None
    if limit is not None and requests is not None and limit >= requests:
        yield (
            f"admission.policy {policy.policy} has no effect: it allows {limit:,} requests, and the "
            f"run has {requests:,} in all"
        )


def _one_token(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    """Limits on the time between tokens where no answer has two."""
    workload = scenario.workload
    answers = [
        entry.outputs or entry.max_tokens or workload.outputs or workload.max_tokens for entry in workload.classes
    ]
    answers = answers or [workload.outputs or workload.max_tokens]
    if workload.trace is not None or any(one is None or one.longest != 1 for one in answers):
        return
    limits: list[tuple[str, object]] = [("slo.tpot_ms", scenario.slo.tpot_ms), ("slo.itl_ms", scenario.slo.itl_ms)]
    goodput = scenario.slo.goodput
    limits.append(("slo.goodput.tpot_ms", goodput and goodput.tpot_ms))
    for index, entry in enumerate(workload.classes):
        limits.append((f"workload.classes.{index}.slo.tpot_ms", entry.slo and entry.slo.tpot_ms))
    for path, limit in limits:
        if limit is not None:
            yield f"{path} has no effect: every answer has one token, and nothing is between tokens"


def _memory(scenario: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    for index, (pool, part) in enumerate(zip(scenario.cluster.pools, parts, strict=True)):
        place, precision = f"cluster.pools.{index}", pool.precision.kv_cache
        if not part.model.kv_bytes_per_token(part.kv_cache, part.tensor) and precision != part.model.native_kv_cache:
            yield f"{place}.precision.kv_cache has no effect: {part.model.name} keeps nothing per token"
        largest, budget = pool.engine.max_cudagraph_capture_size or 0, pool.engine.max_num_batched_tokens or 0
        if largest > budget:
            yield (
                f"{place}.engine.max_cudagraph_capture_size has no effect above {budget:,}: no step has more than "
                "max_num_batched_tokens tokens"
            )
        override, watermark = pool.engine.num_gpu_blocks_override, pool.engine.watermark
        blocks = override if override is not None else part.room(pool, place).num_blocks if watermark else 0
        if watermark and int(watermark * blocks) == 0:
            yield f"{place}.engine.watermark has no effect: that share of {blocks:,} KV blocks is less than one block"


def _parallel(scenario: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    for index, part in enumerate(parts):
        place = f"cluster.pools.{index}.parallel"
        if part.uneven_heads and all(layer.attention.heads % part.tensor == 0 for layer in part.model.layers):
            yield f"{place}.uneven_heads has no effect: {part.tensor} ranks share out the query heads evenly"
        if part.context > 1:
            yield (
                f"{place}.context {part.context} shares out prompts only: weights and KV cache are held by each group, "
                "and decoding gains neither speed nor room"
            )


def _drafters(_: Scenario, parts: Sequence[PoolParts]) -> Iterator[str]:
    for part in parts:
        if part.drafter is not None and part.drafter.spec.quantised and not part.model.mtp_parameters:
            yield (
                f"model {part.model.name}: nothing is known of a module for multi-token prediction; it is taken to be "
                "its last layer once more"
            )


def _controllers(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    """Policies of speculation that have nothing to decide in steps of as many requests as an engine runs."""
    for index, pool in enumerate(scenario.cluster.pools):
        speculation, place = pool.speculation, f"cluster.pools.{index}.speculation"
        if speculation is None or getattr(speculation.controller, "constant", False):
            continue
        policy, k, seats = speculation.controller.policy, speculation.k, pool.engine.max_num_seqs or 1
        found, anywhere = (set(possible_drafts(speculation, *most)) for most in ((seats,), ()))
        where = "" if found == anywhere else f" in steps of at most max_num_seqs = {seats:,} requests"
        if found == {k}:
            yield f"{place}.controller {policy} has no effect: it always drafts k = {k} tokens{where}"
        elif found == {0}:
            yield f"{place} has no effect: {policy} never drafts{where}"


def _deciders(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    yield from unreachable(scenario)


def _stragglers(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    yield from mixed_faults(scenario.cluster.stragglers, scenario.cluster.pools)


REMARKS = (
    Remark("family-by-vllm-rules", _family),
    Remark("unknown-version", _version),
    Remark("more-blocks-than-memory", _blocks),
    Remark("derived-calibration", _calibration),
    Remark("jitter-forces-steps", _jitter),
    Remark("model-approximated", _models),
    Remark("states-and-prefixes", _states),
    Remark("router-of-one-replica", _router),
    Remark("priorities-not-used", _priorities),
    Remark("nothing-to-sort-by", _orders),
    Remark("workload-option-idle", _workload),
    Remark("run-option-idle", _run),
    Remark("admission-never-refuses", _admission),
    Remark("limits-between-tokens", _one_token),
    Remark("memory-option-idle", _memory),
    Remark("parallel-gains", _parallel),
    Remark("drafter-assumed", _drafters),
    Remark("controller-decides-nothing", _controllers),
    Remark("decider-never-reached", _deciders),
    Remark("stragglers-of-many-kinds", _stragglers),
)
