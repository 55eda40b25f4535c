"""Named checks for options without effect.

Such an option is an error where a file writes it, and a warning where an override leads to it. A field at its default,
and the values that switch something off, never count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from servetwin.scenario.schema import EngineOptions, Pool, Scenario

Path = tuple[str | int, ...]


class Idle(NamedTuple):
    """An option without effect.

    Attributes:
        check: the name of the check that found it.
        path: where it is written.
        value: what is written there.
        reason: why it has no effect.
    """

    check: str
    path: Path
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"{'.'.join(str(part) for part in self.path)} has no effect: {self.reason}"


class Check(NamedTuple):
    """One check of a pool whose engine options are all filled in.

    Attributes:
        name: its name.
        field: the engine option that it is about.
        reason: why the option has no effect when the check fails.
        fails: whether the option has no effect.
    """

    name: str
    field: str
    reason: str
    fails: Callable[[Pool, Scenario], bool]


def _policy(pool: Pool) -> str:
    return pool.engine.scheduling.policy


ENGINE_CHECKS = (
    Check(
        "threshold-without-chunking",
        "long_prefill_token_threshold",
        "prompts are not cut, for chunked_prefill is false",
        lambda pool, _: not pool.engine.chunked_prefill,
    ),
    Check(
        "threshold-above-budget",
        "long_prefill_token_threshold",
        "it is not below max_num_batched_tokens, which cuts prompts anyway",
        lambda pool, _: pool.engine.long_prefill_token_threshold >= (pool.engine.max_num_batched_tokens or 0),
    ),
    Check(
        "graphs-when-eager",
        "max_cudagraph_capture_size",
        "no graph is captured, for enforce_eager is true",
        lambda pool, _: pool.engine.enforce_eager,
    ),
    Check(
        "utilization-with-override",
        "gpu_memory_utilization",
        "num_gpu_blocks_override says how many blocks there are",
        lambda pool, _: pool.engine.num_gpu_blocks_override is not None,
    ),
    Check(
        "batches-without-pipeline",
        "pipeline_batches",
        "there is one stage, for parallel.pipeline is 1",
        lambda pool, _: pool.parallel.pipeline == 1,
    ),
    Check(
        "deadlines-without-limits",
        "scheduling",
        "no class of the workload has slo.ttft_ms, so no request has a deadline",
        lambda pool, scenario: _policy(pool) == "edf" and all(entry.ttft_ps < 0 for entry in scenario.workload.classes),
    ),
    Check(
        "priorities-all-equal",
        "scheduling",
        "all requests have the same priority; the classes of the workload give them",
        lambda pool, scenario: (
            _policy(pool) == "priority" and len({entry.priority for entry in scenario.workload.classes}) < 2
        ),
    ),
)


def idle_options(pool: Pool, scenario: Scenario) -> dict[str, tuple[str, str]]:
    """The engine options of a pool that are set and have no effect: field → (name of the check, reason)."""
    found: dict[str, tuple[str, str]] = {}
    for check in ENGINE_CHECKS:
        value = getattr(pool.engine, check.field)
        default = EngineOptions.model_fields[check.field].default
        if value != default and check.field not in found and check.fails(pool, scenario):
            found[check.field] = (check.name, check.reason)
    return found


def idle_places(
    pools: Sequence[dict[str, tuple[str, str]]], raw: Mapping[str, Any], inherited: Sequence[str]
) -> list[Idle]:
    """Where the options without effect are written.

    Args:
        pools: what ``idle_options`` found in each pool.
        raw: the scenario as written; what is not written there was filled in and does not count.
        inherited: the settings that may stand once under ``cluster`` for all pools.
    """
    cluster = raw.get("cluster") or {}
    written = [pool if isinstance(pool, Mapping) else {} for pool in cluster.get("pools") or [{}] * len(pools)]
    idle = []
    fields = dict.fromkeys(field for found in pools for field in found)
    for field in fields:
        heirs = [i for i, pool in enumerate(written) if field not in (pool.get("engine") or {})]
        for index, found in enumerate(pools):
            if field in found and index not in heirs:
                value = written[index]["engine"][field]
                idle.append(Idle(found[field][0], ("cluster", "pools", index, "engine", field), value, found[field][1]))
        common = cluster.get("engine") or {}
        if field in common and heirs and all(field in pools[index] for index in heirs):
            check, reason = pools[heirs[0]][field]
            idle.append(Idle(check, ("cluster", "engine", field), common[field], reason))
    return idle + _overruled(raw, written, inherited)


def _overruled(raw: Mapping[str, Any], pools: Sequence[Mapping[str, Any]], inherited: Sequence[str]) -> list[Idle]:
    """Settings for all pools that every pool overrules."""
    cluster = raw.get("cluster") or {}
    idle = []
    for key in inherited:
        value = cluster.get(key)
        if isinstance(value, Mapping):
            for field, inner in value.items():
                if all(field in (pool.get(key) or {}) for pool in pools):
                    idle.append(_overruled_by_all(("cluster", key, field), inner))
        elif value is not None and all(pool.get(key) is not None for pool in pools):
            idle.append(_overruled_by_all(("cluster", key), value))
    if raw.get("model") is not None and all(pool.get("model") is not None for pool in pools):
        idle.append(_overruled_by_all(("model",), raw["model"]))
    return idle


def _overruled_by_all(path: Path, value: Any) -> Idle:
    return Idle("overruled-by-every-pool", path, value, "every pool has its own")
