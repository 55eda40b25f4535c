"""From a scenario as written to one in which nothing is left to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, ScenarioError
from servetwin.physics.aiconfigurator import check_available
from servetwin.scenario.consistency import Idle, idle_options, idle_places
from servetwin.scenario.departures import check_departures
from servetwin.scenario.drafters import check_speculation, check_verification, resolve_speculation
from servetwin.scenario.engines import (
    CALIBRATIONS,
    EngineDefaults,
    largest_graph,
    rules_version,
    vllm_defaults,
    with_drafts,
)
from servetwin.scenario.idle_topology import resolve_topology
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.pools import PoolParts, pool_parts
from servetwin.scenario.prices import TABLES
from servetwin.scenario.roles import idle_hand_over, resolve_hand_over
from servetwin.scenario.schema import (
    Cluster,
    Engine,
    EngineOptions,
    Physics,
    Pool,
    Precision,
    Run,
    Scenario,
)
from servetwin.scenario.store import as_written
from servetwin.scenario.stragglers import check_stragglers

DEFAULT_REQUESTS = 1000
"""Requests of a run that does not say how many, where the workload has no end of its own."""

INHERITED = ("replicas", "hardware", "parallel", "engine", "precision", "speculation")
"""What may stand once under ``cluster`` for all pools."""


def resolve(scenario: Scenario, catalog: Catalog, raw: Mapping[str, Any] | None = None) -> tuple[Scenario, list[Idle]]:
    """Fill in everything that the scenario leaves to the engine, the GPU and the model.

    A resolved scenario resolves to itself.

    Args:
        scenario: the scenario as written.
        catalog: where models, GPUs and calibrations are.
        raw: what the user wrote, to tell it from defaults; by default the fields that were set.

    Returns:
        The resolved scenario, and the options of ``raw`` that have no effect.

    Raises:
        ScenarioError: two settings contradict each other.
        CatalogError: something is named that the catalog does not have.
        CapacityError: the scenario cannot exist.
    """
    written = raw if raw is not None else as_written(scenario)
    pools, idle = [], []
    for index, merged in enumerate(_merged_pools(scenario)):
        pool, found = _resolve_pool(scenario, merged, f"cluster.pools.{index}", catalog)
        pools.append(pool)
        idle.append(found)
    _check_names(pools)
    everywhere = {repr(pool.model) for pool in pools if pool.model is not None}
    shared = pools[0].model if len(everywhere) == 1 else None
    if shared is not None:
        pools = [pool.model_copy(update={"model": None}) for pool in pools]
    check_stragglers(scenario, pools)
    check_departures(scenario.cluster.departures, pools)
    transfer, disaggregation, idle_splits = resolve_hand_over(scenario, pools, catalog)
    hands_over = transfer is not None and transfer.link is None
    topology, idle_servers = resolve_topology(scenario.cluster.topology, pools, catalog, hands_over=hands_over)
    cluster = Cluster(
        pools=tuple(pools),
        topology=topology,
        transfer=transfer,
        slowdown=scenario.cluster.slowdown,
        stragglers=scenario.cluster.stragglers,
        departures=scenario.cluster.departures,
    )
    resolved = scenario.model_copy(
        update={
            "model": shared,
            "cluster": cluster,
            "disaggregation": disaggregation,
            "physics": _resolve_physics(scenario),
            "run": _resolve_run(scenario),
        }
    )
    seen = {entry.path for entry in idle_splits}
    idle_splits += [entry for entry in idle_hand_over(transfer, pools, written) if entry.path not in seen]
    return resolved, [*idle_places(idle, written, INHERITED), *idle_servers, *idle_splits]


def _merged_pools(scenario: Scenario) -> list[Pool]:
    """The pools, with what stands under ``cluster`` merged in."""
    common = scenario.cluster.model_dump(include=set(INHERITED), exclude_unset=True, exclude_none=True)
    pools = []
    for pool in scenario.cluster.pools:
        own = pool.model_dump(exclude_unset=True, exclude_none=True)
        merged = deep_merge(common, own)
        if "speculation" in pool.model_fields_set and pool.speculation is None:
            # Switched off where the other pools have it.
            merged.pop("speculation", None)
        pools.append(Pool.model_validate(merged))
    return pools


def _check_names(pools: list[Pool]) -> None:
    seen: set[str] = set()
    for index, pool in enumerate(pools):
        if pool.name in seen:
            raise ScenarioError(
                "two pools have the same name",
                path=f"cluster.pools.{index}.name",
                found=pool.name,
                allowed="a name that no other pool has",
            )
        seen.add(pool.name)


def _resolve_pool(
    scenario: Scenario, pool: Pool, place: str, catalog: Catalog
) -> tuple[Pool, dict[str, tuple[str, str]]]:
    """A pool with all its settings, and its engine options without effect, which are back at their defaults."""
    parts = pool_parts(scenario, pool, place, catalog)
    if scenario.physics.backend == TABLES:
        check_available(parts.gpu)
    rules = rules_version(scenario.engine.name, scenario.engine.version)
    defaults = vllm_defaults(rules, parts.gpu.name, parts.gpu.memory_bytes, len(parts.stages))
    if pool.speculation is not None:
        assert parts.drafter is not None
        check_speculation(pool, parts.drafter, f"{place}.speculation")
        defaults = with_drafts(defaults, scenario.engine.name, pool.speculation.method)
    filled = pool.model_copy(
        update={
            "replicas": pool.replicas or 1,
            "hardware": catalog.gpu_reference(pool.hardware or parts.gpu.name),
            "model": catalog.model_reference(parts.reference),
            "precision": Precision(weights=parts.weights, kv_cache=parts.kv_cache),
            "engine": _fill_engine(pool, defaults, parts, place),
            "speculation": resolve_speculation(pool, parts, f"{place}.speculation", catalog),
        }
    )
    if pool.speculation is not None:
        check_verification(pool.speculation, filled.engine, place, pool.engine.max_num_batched_tokens is not None)
    idle = idle_options(filled, scenario)
    if idle:
        reset = {field: EngineOptions.model_fields[field].default for field in idle}
        filled = filled.model_copy(update={"engine": filled.engine.model_copy(update=reset)})
    return _resolve_room(filled, parts, place), idle


def _fill_engine(pool: Pool, defaults: EngineDefaults, parts: PoolParts, place: str) -> EngineOptions:
    """The engine's options with vLLM's defaults."""
    engine = pool.engine
    longest = parts.model.max_position
    max_model_len = engine.max_model_len or longest
    if max_model_len != "auto" and max_model_len > longest:
        raise ScenarioError(
            f"{parts.model.name} cannot take sequences that long",
            path=f"{place}.engine.max_model_len",
            found=max_model_len,
            allowed=f"at most {longest}, or auto",
        )
    length = longest if max_model_len == "auto" else max_model_len
    tokens = engine.max_num_batched_tokens
    if tokens is None:
        # Without chunked prefill the longest prompt must fit into one step.
        tokens = max(defaults.max_num_batched_tokens, length if not engine.chunked_prefill else 0)
        tokens = min(tokens, (engine.max_num_seqs or defaults.max_num_seqs) * length)
    seqs = engine.max_num_seqs or min(defaults.max_num_seqs, tokens)
    _check_budget(engine, tokens, seqs, length, place)
    update: dict[str, Any] = {
        "max_num_batched_tokens": tokens,
        "max_num_seqs": seqs,
        "max_model_len": max_model_len,
    }
    if engine.async_scheduling == "auto":
        update["async_scheduling"] = defaults.async_scheduling
    if engine.gpu_memory_utilization is None and engine.num_gpu_blocks_override is None:
        update["gpu_memory_utilization"] = defaults.gpu_memory_utilization
    if engine.max_cudagraph_capture_size is None and not engine.enforce_eager:
        drafts = pool.speculation.nodes if pool.speculation is not None else 0
        update["max_cudagraph_capture_size"] = largest_graph(seqs, tokens, drafts)
    return engine.model_copy(update=update)


def without_drafts(pool: Pool, engine: Engine, parts: PoolParts) -> Pool:
    """A resolved pool that drafts as it would be without speculation.

    What the defaults of drafting have set goes back to those without. What was written the same by hand goes with them:
    a resolved pool does not tell.

    Args:
        pool: the pool, resolved.
        engine: which engine it runs.
        parts: what it is made of.
    """
    speculation, options = pool.speculation, pool.engine
    assert speculation is not None and options.max_num_seqs is not None and options.max_num_batched_tokens is not None
    rules = rules_version(engine.name, engine.version)
    plain = vllm_defaults(rules, parts.gpu.name, parts.gpu.memory_bytes, len(parts.stages))
    drafting = with_drafts(plain, engine.name, speculation.method)
    update: dict[str, Any] = {}
    if options.async_scheduling == drafting.async_scheduling:
        update["async_scheduling"] = plain.async_scheduling
    sizes = options.max_num_seqs, options.max_num_batched_tokens
    if options.max_cudagraph_capture_size == largest_graph(*sizes, speculation.nodes):
        update["max_cudagraph_capture_size"] = largest_graph(*sizes)
    return pool.model_copy(update={"speculation": None, "engine": options.model_copy(update=update)})


def _check_budget(engine: EngineOptions, tokens: int, seqs: int, length: int, place: str) -> None:
    """The two rules of vLLM about the token budget."""
    path = f"{place}.engine.max_num_batched_tokens"
    if tokens < seqs and engine.max_num_batched_tokens is None:
        raise ScenarioError(
            f"a step has a budget of {tokens} tokens here, so not every one of so many running requests gets one",
            path=f"{place}.engine.max_num_seqs",
            found=seqs,
            allowed=f"at most {tokens}, or a larger max_num_batched_tokens",
        )
    if tokens < seqs:
        raise ScenarioError(
            "the token budget of a step is smaller than max_num_seqs, so not every running request gets a token",
            path=path,
            found=tokens,
            allowed=f"at least max_num_seqs, which is {seqs}",
        )
    if not engine.chunked_prefill and tokens < length:
        raise ScenarioError(
            "without chunked prefill the longest prompt must fit into one step",
            path=path,
            found=tokens,
            allowed=f"at least max_model_len, which is {length}; or chunked_prefill: true",
        )


def _resolve_room(pool: Pool, parts: PoolParts, place: str) -> Pool:
    """The pool with a number as its ``max_model_len``, for which the KV cache has room."""
    engine = pool.engine
    wanted = parts.model.max_position if engine.max_model_len == "auto" else engine.max_model_len
    assert isinstance(wanted, int)
    if engine.num_gpu_blocks_override is not None:
        # An override is a tool for tests: requests that do not fit are rejected one by one.
        blocks = engine.num_gpu_blocks_override
    else:
        blocks = parts.room(pool, place).num_blocks
    room = (blocks - 1) * engine.block_size
    if engine.max_model_len == "auto":
        wanted = min(wanted, room)
    elif wanted > room and engine.num_gpu_blocks_override is None:
        raise CapacityError(
            f"one request of max_model_len = {wanted} tokens does not fit into the KV cache of a replica, "
            f"which holds {room} tokens",
            path=f"{place}.engine.max_model_len",
            found=wanted,
            allowed=f"at most {room}, or auto",
            hint=f"set {place}.engine.max_model_len, use more GPUs ({place}.parallel.tensor), "
            f"or {place}.precision.kv_cache: fp8",
        )
    return pool.model_copy(update={"engine": engine.model_copy(update={"max_model_len": wanted})})


def _resolve_physics(scenario: Scenario) -> Physics:
    """With the calibration of the engine's family, where none is named."""
    physics = scenario.physics
    if physics.calibration is None:
        return physics.model_copy(update={"calibration": CALIBRATIONS[scenario.engine.name]})
    return physics


def _resolve_run(scenario: Scenario) -> Run:
    run, workload = scenario.run, scenario.workload
    if run.requests is None and run.duration_s is None and not workload.finite:
        run = run.model_copy(update={"requests": DEFAULT_REQUESTS})
    if run.requests is not None and run.warmup_requests >= run.requests:
        raise ScenarioError(
            "the warm-up leaves no requests to measure",
            path="run.warmup_requests",
            found=run.warmup_requests,
            allowed=f"fewer than run.requests, which is {run.requests}",
        )
    return run
