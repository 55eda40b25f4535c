"""From the options of a resolved pool to the settings of its engines."""

from __future__ import annotations

from servetwin.engine.protocols import EngineSettings
from servetwin.scenario.engines import graph_sizes
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.schema import Pool
from servetwin.units import seconds_to_ps


def captured(pool: Pool) -> tuple[int, ...]:
    """The batch sizes of the CUDA graphs of a resolved pool [tokens]; no step is above its token budget."""
    engine = pool.engine
    tokens = 1 + pool.speculation.nodes if pool.speculation is not None else 1
    return graph_sizes(min(engine.max_cudagraph_capture_size or 0, engine.max_num_batched_tokens or 0), tokens)


def engine_settings(pool: Pool, parts: PoolParts, num_blocks: int) -> EngineSettings:
    """The settings of the engines of a resolved pool.

    Args:
        pool: the pool, resolved.
        parts: what it is made of.
        num_blocks: KV blocks of a rank, the null block included.
    """
    engine, calibration = pool.engine, parts.calibration
    assert engine.max_num_batched_tokens is not None and engine.max_num_seqs is not None
    assert isinstance(engine.max_model_len, int)
    return EngineSettings(
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_num_seqs=engine.max_num_seqs,
        max_model_len=engine.max_model_len,
        block_size=engine.block_size,
        num_blocks=num_blocks,
        prefix_caching=engine.prefix_caching,
        chunked_prefill=engine.chunked_prefill,
        long_prefill_token_threshold=engine.long_prefill_token_threshold,
        reserve_full_prompt=engine.scheduler_reserve_full_isl,
        # Rounded down, as in vLLM's kv_cache_manager.
        watermark_blocks=int(engine.watermark * num_blocks),
        depth=1 if engine.async_scheduling is True else 0,
        graph_sizes=captured(pool),
        front_end_ps=seconds_to_ps(calibration.front_end_s),
        front_end_per_token_ps=seconds_to_ps(calibration.front_end_s_per_token),
        output_ps_per_request=seconds_to_ps(calibration.output_s_per_request),
        stages=len(parts.stages),
        balanced=engine.pipeline_batches == "balanced",
        recompute_last_block=parts.drafter is not None and parts.drafter.reads_states,
    )
