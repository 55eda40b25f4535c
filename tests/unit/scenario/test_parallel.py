"""How the GPUs of a replica share it out, as a scenario says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servetwin.errors import CapacityError
from servetwin.scenario.build import build
from servetwin.scenario.load import LoadedScenario
from servetwin.scenario.run import execute

Load = Callable[..., LoadedScenario]


def test_context_groups_take_gpus_and_say_what_they_do_not_gain(base: dict[str, Any], load_it: Load) -> None:
    plain, shared = (load_it(base, "cluster.parallel.tensor=2", f"cluster.parallel.context={c}") for c in (1, 2))
    assert not any("context" in text for text in build(plain.scenario).remarks)
    (remark,) = (text for text in build(shared.scenario).remarks if "parallel-gains" in text)
    assert "shares out prompts only" in remark
    results = [execute(loaded.scenario) for loaded in (plain, shared)]
    assert [result.meta.pools[0].gpus_per_replica for result in results] == [2, 4]
    assert [result.meta.pools[0].peak_flops for result in results] == [2 * 989e12, 4 * 989e12]
    assert results[0].summary()["ttft_ms.mean"] > results[1].summary()["ttft_ms.mean"]


@pytest.mark.parametrize(
    ("changes", "path", "allowed"),
    [
        (["cluster.parallel.context=9"], "cluster.parallel.context", "at most 8"),
        (
            ["cluster.parallel.tensor=4", "cluster.parallel.context=3"], "cluster.parallel.context",
            "at most 2 beside tensor: 4",
        ),
        (["cluster.parallel.tensor=16"], "cluster.parallel.tensor", "at most 8"),
        (
            ["cluster.parallel.context=4", "cluster.engine.max_num_batched_tokens=2", "cluster.engine.max_num_seqs=1"],
            "cluster.parallel.context", "at most max_num_batched_tokens = 2",
        ),
        (
            ["cluster.parallel.tensor=33", "cluster.parallel.uneven_heads=true", "cluster.hardware=gb200-nvl72"],
            "cluster.parallel.tensor", "at most 32",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_out(
    changes: list[str], path: str, allowed: str, base: dict[str, Any], load_it: Load
) -> None:
    with pytest.raises(CapacityError) as caught:
        load_it(base, *changes)
    assert (caught.value.path, caught.value.allowed) == (path, allowed)


def test_uneven_heads_are_asked_for(base: dict[str, Any], load_it: Load) -> None:
    with pytest.raises(CapacityError) as caught:
        load_it(base, "cluster.parallel.tensor=3")
    assert caught.value.hint is not None and "cluster.parallel.uneven_heads: true" in caught.value.hint
    loaded = load_it(base, "cluster.parallel.tensor=3", "cluster.parallel.uneven_heads=true")
    assert execute(loaded.scenario).summary()["completed"] == 20
    idle = build(load_it(base, "cluster.parallel.tensor=4", "cluster.parallel.uneven_heads=true").scenario)
    assert any("uneven_heads has no effect: 4 ranks share out the query heads evenly" in text for text in idle.remarks)
