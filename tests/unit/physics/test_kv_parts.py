"""Who sends what of a KV cache to whom."""

from __future__ import annotations

from collections import Counter

import pytest

from servetwin.catalog.find import Catalog
from servetwin.physics.kv_parts import KvPart, Spread, kv_parts

CATALOG = Catalog()


def parts(model: str, source: Spread, target: Spread, kv_cache: str = "bf16") -> list[KvPart]:
    return kv_parts(CATALOG.model(model, "model"), source, target, kv_cache)


def pairs(found: list[KvPart]) -> dict[tuple[int, int], float]:
    return {(part.source, part.target): part.bytes_per_token for part in found}


def test_equal_degrees_send_rank_to_rank() -> None:
    """Llama-3.1-8B: 2 · 32 layers · 8 heads · 128 · 2 B = 128 KiB a token, an eighth on each of 8 ranks."""
    found = pairs(parts("llama-3.1-8b", Spread(8), Spread(8)))
    assert found == {(rank, rank): 128 * 1024 / 8 for rank in range(8)}


def test_more_ranks_on_one_side_send_slices() -> None:
    """A rank of two reads the heads 4 to 7 of those of four ranks that have them."""
    wide = pairs(parts("llama-3.1-8b", Spread(4), Spread(2)))
    assert wide == {(0, 0): 32768.0, (1, 0): 32768.0, (2, 1): 32768.0, (3, 1): 32768.0}
    narrow = pairs(parts("llama-3.1-8b", Spread(1), Spread(4)))
    assert narrow == {(0, rank): 32768.0 for rank in range(4)}


def test_a_head_on_several_ranks_is_read_from_one_of_them_in_turn() -> None:
    """Qwen3-235B has 4 KV heads: on 8 ranks each is there twice, and each copy is read once."""
    found = pairs(parts("qwen3-235b-a22b", Spread(8), Spread(8)))
    readers, givers = Counter(target for _, target in found), Counter(source for source, _ in found)
    assert set(readers.values()) == {1} and set(givers.values()) == {1}
    total = sum(found.values())
    # Each rank needs a whole head, of which there are four: twice the cache is sent.
    model = CATALOG.model("qwen3-235b-a22b", "model")
    assert total == pytest.approx(2 * model.kv_bytes_per_token("bf16"))


@pytest.mark.parametrize(("sources", "targets"), [(1, 1), (8, 8), (4, 8), (8, 4)])
def test_a_latent_vector_is_read_once_by_each_rank(sources: int, targets: int) -> None:
    """DeepSeek-R1: 61 layers · 576 · 2 B = 68.6 KiB, whole on every rank."""
    found = pairs(parts("deepseek-r1", Spread(sources), Spread(targets)))
    assert sorted(target for _, target in found) == list(range(targets))
    assert set(found.values()) == {61 * 576 * 2.0}
    assert len({source for source, _ in found}) == min(sources, targets)


@pytest.mark.parametrize(
    ("source", "target"), [(Spread(1, 4), Spread(1)), (Spread(2, 2), Spread(1, 3)), (Spread(2, 3), Spread(4, 2))]
)
def test_stages_send_their_layers(source: Spread, target: Spread) -> None:
    """Every byte of every layer is sent once, by a stage that has it, to the stage that needs it."""
    found = parts("llama-3.1-8b", source, target)
    assert sum(part.bytes_per_token for part in found) == pytest.approx(128 * 1024)
    assert {part.source for part in found} == set(range(source.tensor * source.stages))
    assert {part.target for part in found} == set(range(target.tensor * target.stages))


def test_context_groups_have_equal_parts_of_the_tokens() -> None:
    found = pairs(parts("llama-3.1-8b", Spread(2, context=2), Spread(2)))
    assert found == {(0, 0): 32768.0, (1, 1): 32768.0, (2, 0): 32768.0, (3, 1): 32768.0}


def test_windows_and_states_do_not_grow_with_the_prompt() -> None:
    """gpt-oss-20b: 12 of 24 layers look back over 128 tokens only; Qwen3-Next keeps states."""
    (sliding,) = parts("gpt-oss-20b", Spread(1), Spread(1))
    assert sliding.bytes_per_token == 12 * 2 * 8 * 64 * 2
    assert sliding.windows == {128: 12 * 2 * 8 * 64 * 2}
    (states,) = parts("qwen3-next-80b-a3b", Spread(1), Spread(1))
    model = CATALOG.model("qwen3-next-80b-a3b", "model")
    assert states.constant_bytes == pytest.approx(model.state_bytes())
    assert states.bytes_per_token == pytest.approx(model.kv_bytes_per_token("bf16"))
