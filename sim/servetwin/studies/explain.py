"""Where the time of one step goes, where it stands on the roofline, and what fits into memory; nothing is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import ScenarioError, nearest_name
from servetwin.physics.itemize import COLUMNS, Item, itemize
from servetwin.physics.memory import KvRoom
from servetwin.physics.protocols import StepShape
from servetwin.scenario.engine_settings import captured
from servetwin.scenario.pools import PoolParts, pool_parts
from servetwin.scenario.prices import price_steps
from servetwin.scenario.remarks import remarks
from servetwin.scenario.schema import Pool, Scenario
from servetwin.specs import ModelSpec
from servetwin.studies.explain_drafts import DraftedStep
from servetwin.studies.explain_pipeline import StagedStep, shape_on
from servetwin.studies.explain_replicas import OtherReplicas
from servetwin.studies.step import Step
from servetwin.units import PS_PER_US


def explain(scenario: Scenario, step: Step, catalog: Catalog, pool_name: str | None = None) -> dict[str, Any]:
    """Explain a step of one pool of a resolved scenario.

    Args:
        scenario: the scenario, resolved.
        step: the step.
        catalog: where models, GPUs and calibrations are.
        pool_name: the pool; the first one if not given.

    Returns:
        What ``servetwin explain --json`` prints; times in microseconds, everything else of one GPU of the pool's first
        replica, as if no GPU of it were a straggler; in a pipeline, of one GPU of each stage, all stages together.
        With speculation the step verifies drafts; what it takes and its operators are without drafting.

    Raises:
        ScenarioError: there is no pool of that name.
    """
    index = _pool_index(scenario, pool_name)
    pool = scenario.cluster.pools[index]
    place = f"cluster.pools.{index}"
    parts = pool_parts(scenario, pool, place, catalog)
    others = OtherReplicas(scenario, index, parts, catalog)
    span = others.first_span
    prices = price_steps(scenario, parts, span=span)
    drafted = DraftedStep.of(scenario, pool, parts, prices, step, span)
    shape = drafted.shape if drafted is not None else step.shape(prices.windows, captured(pool))
    staged = StagedStep(scenario, parts, prices, shape, span) if len(parts.stages) > 1 else None
    items = itemize(prices, shape, parts.gpu) if staged is None else staged.items
    priced = [prices] if staged is None else staged.prices
    phases = [phase for one in priced for phase in one.phases(shape_on(one, prices, shape))]
    if drafted is not None:
        phases += drafted.drafting.phases(shape)
    memory = _memory(pool, parts, place, step)
    notes = remarks(scenario, [parts], only=("model-approximated", "parallel-gains", "drafter-assumed"))
    slow = others.stragglers(shape)
    return {
        "inputs": _inputs(scenario, pool, parts, step, shape),
        "step": _columns(items) | {"floor_us": _intensity(items, parts)["floor_us"]},
        "phases": [
            {"kind": phase.kind, "resource": phase.resource, "count": phase.count, "us": phase.ps / PS_PER_US}
            for phase in phases
        ],
        "speculation": None if drafted is None else drafted.document(),
        "pipeline": None if staged is None else staged.document(pool, _rooms(pool, parts, place)),
        "operators": [_operator(item, sum(one.total_ps for one in items)) for item in items],
        "stragglers": slow,
        "memory": memory,
        "intensity": _intensity(items, parts),
        "warnings": [
            *_warnings(pool, step, shape, memory),
            *dict.fromkeys(remark for one in priced for remark in one.remarks()),
            *notes,
            *others.lying_otherwise(shape),
            *(
                f"in replica {one['replica']} a GPU is slow: this step takes {one['longer']:.1%} longer there "
                f"({one['total_us'] / 1000:.2f} ms)"
                for one in slow
            ),
            *_other_pools(scenario, pool_name),
        ],
    }


def _pool_index(scenario: Scenario, name: str | None) -> int:
    names = [pool.name for pool in scenario.cluster.pools]
    if name is None:
        return 0
    if name not in names:
        raise ScenarioError(
            "there is no pool of that name", path="--pool", found=name, allowed=names, nearest=nearest_name(name, names)
        )
    return names.index(name)


def _inputs(scenario: Scenario, pool: Pool, parts: PoolParts, step: Step, shape: StepShape) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "pool": pool.name,
        "pools": [one.name for one in scenario.cluster.pools],
        "model": parts.model.name,
        "hardware": parts.gpu.name,
        "gpus_per_replica": parts.gpus,
        "stages": len(parts.stages),
        "parallel": {"tensor": parts.tensor, "context": parts.context},
        "engine": f"{scenario.engine.name} {scenario.engine.version}",
        "weights": parts.weights,
        "kv_cache": parts.kv_cache,
        "slowdown": scenario.cluster.slowdown,
        "backend": scenario.physics.backend,
        "calibration": parts.calibration.name,
        "kernel_constants_of": parts.calibration.kernels_of(parts.gpu.name, parts.gpu.architecture),
        "batch": step.batch,
        "context": step.context,
        "prefill": step.prefill,
        "tokens": shape.tokens,
        "verified_tokens_per_request": 1 + (pool.speculation.nodes if pool.speculation is not None else 0),
        "padded_tokens": shape.padded_tokens,
        "cuda_graph": shape.graph,
    }


def _columns(items: Sequence[Item]) -> dict[str, Any]:
    """Time by what bounds it [us]; each column is the sum of whole picoseconds."""
    columns = {column: sum(item.ps[column] for item in items) for column in COLUMNS.values()}
    times = {f"{column}_us": ps / PS_PER_US for column, ps in columns.items()}
    bound = max(columns, key=lambda column: columns[column])
    return {"total_us": sum(columns.values()) / PS_PER_US, **times, "bound": bound}


def _operator(item: Item, step_ps: int) -> dict[str, Any]:
    seconds = item.total_ps * 1e-12
    return {
        "name": item.name,
        "layers": item.layers,
        **_columns([item]),
        "share": item.total_ps / step_ps,
        "floor_us": item.floor_s * 1e6,
        "efficiency": item.floor_s / seconds if item.floor_s else None,
        "flops": item.flops,
        "bytes": item.bytes_moved,
        "wire_bytes": item.wire_bytes,
        "collective": _collective(item),
        "flops_per_byte": item.flops / item.bytes_moved if item.bytes_moved else None,
        "provenance": item.provenance,
    }


def _collective(item: Item) -> dict[str, Any] | None:
    """The collectives that an item consists of, one of them; bandwidth as nccl-tests reckon it."""
    exchange = item.exchange
    if exchange is None:
        return None
    seconds = item.total_ps * 1e-12 / exchange.calls
    return {
        "calls": exchange.calls,
        "message_bytes": exchange.message_bytes,
        "algorithm": exchange.algorithm,
        "us": seconds * 1e6,
        "bus_bytes_per_s": exchange.bus_bytes / seconds,
    }


def _intensity(items: Sequence[Item], parts: PoolParts) -> dict[str, Any]:
    """Where the step stands on the roofline of one GPU, whose roof is the peak for the precision of the weights."""
    gpu = parts.gpu
    flops, moved = sum(item.flops for item in items), sum(item.bytes_moved for item in items)
    wire = sum(item.wire_bytes for item in items)
    seconds = sum(item.total_ps for item in items) * 1e-12
    peak, bandwidth = gpu.peak(parts.weights), gpu.hbm_bytes_per_s
    floors = {
        "compute": sum(item.arithmetic_s for item in items) * 1e6,
        "memory": moved / bandwidth * 1e6,
        "communication": sum(item.wire_s for item in items) * 1e6,
    }
    return {
        "flops": flops,
        "bytes": moved,
        "wire_bytes": wire,
        "flops_per_byte": flops / moved,
        "ridge_flops_per_byte": peak / bandwidth,
        "peak_flops_per_s": peak,
        "peak_bytes_per_s": bandwidth,
        "achieved_flops_per_s": flops / seconds,
        "achieved_bytes_per_s": moved / seconds,
        "share_of_peak_flops": flops / seconds / peak,
        "share_of_peak_bandwidth": moved / seconds / bandwidth,
        **{f"{name}_floor_us": floor for name, floor in floors.items()},
        "floor_us": max(floors.values()),
        "bound": max(floors, key=lambda name: floors[name]),
    }


def _memory(pool: Pool, parts: PoolParts, place: str, step: Step) -> dict[str, Any]:
    """What fits into one GPU: bytes, and how many requests or tokens the KV cache has room for.

    Constant-size states are set aside for ``max_num_seqs`` requests, so no more than these fit, however short.
    """
    stage, room, blocks = _room(pool, parts, place)
    size = pool.engine.block_size
    drafter = parts.drafter
    drafter_bytes, drafter_kv_bytes = (0.0, 0.0) if drafter is None else (drafter.weight_bytes, drafter.kv_bytes)
    per_token = stage.kv_bytes_per_token(parts.kv_cache, parts.tensor) + drafter_kv_bytes
    tokens = (blocks - 1) * size
    ahead = pool.speculation.nodes + drafter.lookahead if pool.speculation is not None and drafter is not None else 0
    per_request = -(-(max(step.context, 1) + ahead) // size) * size
    needed = step.batch * per_request
    if step.prefill:
        needed += -(-(step.before + step.prefill) // size) * size
    most = pool.engine.max_num_seqs if parts.model.state_bytes(parts.tensor) else None
    states_fit = most is None or step.batch + (1 if step.prefill else 0) <= most
    batch = tokens // per_request if most is None else min(tokens // per_request, most)
    context = max(tokens // step.batch // size * size - ahead, 0) if step.batch and states_fit else 0
    return {
        "gpu_bytes": parts.gpu.memory_bytes,
        "utilization": pool.engine.gpu_memory_utilization,
        "weights_bytes": room.weight_bytes if room else stage.weight_bytes(parts.weights, parts.tensor) + drafter_bytes,
        "drafter_bytes": drafter_bytes,
        "drafter_kv_bytes_per_token": drafter_kv_bytes,
        "overhead_bytes": room.overhead_bytes if room else None,
        "state_bytes": room.state_bytes if room else None,
        "kv_bytes": room.kv_bytes
        if room and pool.engine.num_gpu_blocks_override is None
        else blocks * size * per_token,
        "kv_bytes_per_token": per_token,
        "kv_blocks": blocks,
        "kv_capacity_tokens": tokens,
        "kv_needed_tokens": needed,
        "max_num_seqs": pool.engine.max_num_seqs,
        "max_model_len": pool.engine.max_model_len,
        "max_requests_with_state": most,
        "fits": needed <= tokens and states_fit,
        "max_batch_at_context": batch if step.batch else None,
        "max_context_at_batch": context if step.batch else None,
    }


def _room(pool: Pool, parts: PoolParts, place: str) -> tuple[ModelSpec, KvRoom | None, int]:
    """The stage with the fewest blocks, the room of one of its GPUs, and its KV blocks.

    Blocks that the scenario sets need not fit.
    """
    rooms = _rooms(pool, parts, place)
    override = pool.engine.num_gpu_blocks_override
    if not rooms:
        return parts.stages[0], None, override or 0
    fewest = min(range(len(rooms)), key=lambda stage: rooms[stage].num_blocks)
    return parts.stages[fewest], rooms[fewest], override or rooms[fewest].num_blocks


def _rooms(pool: Pool, parts: PoolParts, place: str) -> list[KvRoom]:
    """The room of a GPU of each stage; none where blocks are set by the scenario and the weights do not fit."""
    if pool.engine.num_gpu_blocks_override is None:
        return parts.rooms(pool, place)
    return parts.whole_rooms(pool, place) or []


def _warnings(pool: Pool, step: Step, shape: StepShape, memory: dict[str, Any]) -> list[str]:
    """Why the engine would not run this step as it is."""
    engine = pool.engine
    assert engine.max_num_batched_tokens is not None and engine.max_num_seqs is not None
    assert isinstance(engine.max_model_len, int)
    longest = max(step.context if step.batch else 0, step.before + step.prefill)
    found = []
    if shape.tokens > engine.max_num_batched_tokens:
        found.append(
            f"a step of this pool has at most max_num_batched_tokens = {engine.max_num_batched_tokens:,} tokens; "
            f"the engine would spread these {shape.tokens:,} over several"
        )
    if shape.requests > engine.max_num_seqs:
        states = ", and the memory is set aside for the states of no more" if memory["max_requests_with_state"] else ""
        found.append(
            f"at most max_num_seqs = {engine.max_num_seqs:,} requests run at once in this pool, "
            f"not {shape.requests:,}{states}"
        )
    if longest > engine.max_model_len:
        found.append(f"no request of this pool is longer than max_model_len = {engine.max_model_len:,} tokens")
    if memory["kv_needed_tokens"] > memory["kv_capacity_tokens"]:
        found.append(
            f"the KV cache has room for {memory['kv_capacity_tokens']:,} tokens, "
            f"and this step needs {memory['kv_needed_tokens']:,}"
        )
    return found


def _other_pools(scenario: Scenario, chosen: str | None) -> list[str]:
    """That there are others, where the user did not choose one."""
    first, *others = (pool.name for pool in scenario.cluster.pools)
    if chosen is not None or not others:
        return []
    return [f"this is a step of pool {first}; for another one: --pool {' or '.join(others)}"]
