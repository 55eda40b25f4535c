"""Attention is counted exactly: every query, every token it attends, every key that is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servetwin.catalog import Catalog
from servetwin.physics.attention import AttentionPrices, attended_pairs, keys_read
from servetwin.physics.overheads import Machine
from servetwin.specs import AttentionCurve

CATALOG = Catalog()


def curve(gpu: str = "h100-sxm", kv_cache: str = "bf16") -> AttentionCurve:
    return Machine.of(CATALOG.gpu(gpu), CATALOG.calibration("default")).kernels.attending(kv_cache)


def prices(model: str, gpu: str = "h100-sxm", tensor: int = 1, kv_cache: str = "bf16") -> AttentionPrices:
    machine = Machine.of(CATALOG.gpu(gpu), CATALOG.calibration("default"))
    return AttentionPrices(CATALOG.model(model), tensor, kv_cache, machine)


@given(new=st.integers(1, 60), context=st.integers(0, 60), window=st.none() | st.integers(1, 70))
def test_pairs_and_keys_match_counting_one_by_one(new: int, context: int, window: int | None) -> None:
    attended = [
        {key for key in range(position + 1) if window is None or position - key < window}
        for position in range(context, context + new)
    ]
    assert attended_pairs(new, context, window) == sum(map(len, attended))
    assert keys_read(new, context, window) == len(set().union(*attended))


def test_decode_reads_the_cache_at_the_measured_bandwidth() -> None:
    ((compute, memory),) = prices("llama-3.1-8b").slopes(1, mixed=False)
    # 32 layers · 2 · 8 heads · 128 values · 2 bytes = 131,072 bytes per token, at the measured share of 3.35 TB/s.
    assert compute == 0
    assert memory == pytest.approx(131_072 / (curve().memory * 3.35e12) * 1e12, abs=1)
    assert 0.9 < curve().memory < 1


def test_each_request_costs_by_query_head() -> None:
    """32 layers · 32 heads of Llama-3.1-8B; four ranks share the heads out, and few ranks do not repeat them."""
    one, four = prices("llama-3.1-8b"), prices("llama-3.1-8b", tensor=4)
    assert one.per_request_ps == pytest.approx(32 * 32 * curve().per_head_s * 1e12, abs=1)
    assert four.per_request_ps == pytest.approx(one.per_request_ps / 4, abs=1)


def test_an_eight_bit_cache_halves_the_bytes_and_ranks_share_the_heads() -> None:
    ((_, full),) = prices("llama-3.1-70b").slopes(1, mixed=False)
    ((_, half),) = prices("llama-3.1-70b", kv_cache="fp8").slopes(1, mixed=False)
    ((_, eighth),) = prices("llama-3.1-70b", tensor=8).slopes(1, mixed=False)
    ((_, repeated),) = prices("llama-3.1-70b", tensor=16).slopes(1, mixed=False)
    assert half == pytest.approx(full / 2 * curve().memory / curve(kv_cache="fp8").memory, abs=1)
    assert eighth == pytest.approx(full / 8, abs=1)
    assert repeated == eighth, "with more ranks than KV heads each holds one whole head"


def test_latent_attention_is_bound_by_arithmetic_with_all_heads_and_by_memory_with_few() -> None:
    ((compute, memory),) = prices("deepseek-r1").slopes(1, mixed=False)
    assert compute > 0
    assert memory == 0
    ((compute, memory),) = prices("deepseek-r1", tensor=16).slopes(1, mixed=False)
    assert compute == 0
    assert memory > 0


def test_verifying_drafts_reads_the_context_once() -> None:
    price = prices("llama-3.1-8b")
    assert price.slopes(4, mixed=False) == price.slopes(1, mixed=False)
    ((narrow, _),) = prices("deepseek-r1").slopes(1, mixed=False)
    ((wide, _),) = prices("deepseek-r1").slopes(4, mixed=False)
    assert wide == pytest.approx(4 * narrow, rel=1e-4)


def test_kernels_that_do_not_pack_a_group_waste_tiles_in_mixed_steps() -> None:
    hopper = prices("llama-3.1-8b")
    assert hopper.slopes(1, mixed=True) == hopper.slopes(1, mixed=False)
    ampere = prices("llama-3.1-8b", "a100-sxm-80gb")
    ((compute, memory),) = ampere.slopes(1, mixed=False)
    assert (compute, memory) == (
        0, pytest.approx(131_072 / (curve("a100-sxm-80gb").memory * 2.039e12) * 1e12, abs=1)
    )  # fmt: skip
    # 64 rows · 32 layers · 4 · 32 heads · 128 FLOP per token of context, at 40 % of 312 TFLOP/s.
    tiled = 64 * 32 * 4 * 4_096 / (0.4 * 312e12) * 1e12
    ((compute, mixed),) = ampere.slopes(1, mixed=True)
    assert mixed == 0
    assert compute == pytest.approx((memory**3 + tiled**3) ** (1 / 3), rel=1e-4)
    ((_, reads),) = prices("llama-3.1-8b", "l40s").slopes(1, mixed=False)
    ((compute, memory),) = prices("llama-3.1-8b", "l40s").slopes(1, mixed=True)
    assert compute + memory < 1.5 * reads, "where memory is slow, reading hides most of it"
    assert ampere.slopes(128, mixed=True) == ampere.slopes(128, mixed=False), "wide enough to fill the tiles"


def test_windows_have_slopes_of_their_own() -> None:
    (full_compute, full), (_, windowed) = prices("gpt-oss-120b").slopes(1, mixed=False)
    assert full_compute == 0
    assert full == windowed, "half of the layers each"


def test_a_long_chunk_is_bound_by_arithmetic_and_a_cached_tail_by_memory() -> None:
    price = prices("llama-3.1-8b")
    compute, memory = price.chunks_ps(((2_048, 0),))
    # Every row counts ramp_tokens more than it attends.
    pairs = 2_048 * 2_049 // 2 + 2_048 * curve().ramp_tokens
    assert memory == 0
    assert compute == pytest.approx(pairs * 4 * 4_096 * 32 / (curve().compute * 989e12) * 1e12, rel=1e-6)
    compute, memory = price.chunks_ps(((7, 583),))
    assert compute == 0
    assert memory == pytest.approx(590 * 131_072 / (curve().memory * 3.35e12) * 1e12, rel=1e-4)


def test_chunks_of_latent_attention_decompress_their_context() -> None:
    price = prices("deepseek-r1")
    fresh, _ = price.chunks_ps(((512, 0),))
    later, _ = price.chunks_ps(((512, 8_192),))
    pairs_only = 512 * 8_192 * 61 * 2 * 128 * (128 + 64 + 128) / (curve().compute * 989e12) * 1e12
    assert later - fresh > 1.1 * pairs_only
