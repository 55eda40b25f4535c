"""Named remarks on a resolved scenario: what runs, but probably is not what was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from servetwin.scenario.engines import NEWEST, version_number
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.schema import Scenario

_NO_PRIORITIES = ("fcfs", "sjf", "edf")
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


def _version(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    if version_number(scenario.engine.version)[:2] > NEWEST:
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
    replicas = sum(pool.replicas or 1 for pool in scenario.cluster.pools)
    if replicas == 1 and scenario.router.policy in _SAME_WITH_ONE:
        yield f"router.policy {scenario.router.policy} has no effect: there is one replica"


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


def _sessions(scenario: Scenario, _: Sequence[PoolParts]) -> Iterator[str]:
    sessions = scenario.workload.sessions
    if sessions is None:
        return
    turns = sessions.turns
    if getattr(turns, "value", None) == 1 or getattr(turns, "max", None) == 1:
        fields = "think_time_s and turn_prompts have" if sessions.turn_prompts is not None else "think_time_s has"
        yield f"workload.sessions.{fields} no effect: every session has one turn"


REMARKS = (
    Remark("unknown-version", _version),
    Remark("more-blocks-than-memory", _blocks),
    Remark("derived-calibration", _calibration),
    Remark("jitter-forces-steps", _jitter),
    Remark("model-approximated", _models),
    Remark("states-and-prefixes", _states),
    Remark("router-of-one-replica", _router),
    Remark("priorities-not-used", _priorities),
    Remark("sessions-of-one-turn", _sessions),
)
