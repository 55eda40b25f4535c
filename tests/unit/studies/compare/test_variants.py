"""What is compared, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.compare.small import CLIENTS, SCENARIO, SESSIONS, plan, write

from servetwin.errors import InputError
from servetwin.studies.compare.same_requests import depends_on_system
from servetwin.studies.compare.variants import OFF


@pytest.fixture
def small(tmp_path: Path) -> str:
    return write(tmp_path)


def refused(*scenarios: str, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        plan(*scenarios, **more)
    return str(error.value)


def test_a_scenario_beside_itself_changed(small: str) -> None:
    first, more = plan(small, f"more={small}", changes=["run.requests=9"], changes_for=["more:cluster.replicas=3"])
    assert (first.name, more.name) == ("small", "more")
    assert (first.scenario.cluster.pools[0].replicas, more.scenario.cluster.pools[0].replicas) == (2, 3)
    assert first.changes == ("run.requests=9",)
    assert more.changes == ("run.requests=9", "cluster.replicas=3")
    assert first.scenario.run.requests == more.scenario.run.requests == 9


def test_the_baseline_is_the_first_or_the_one_that_is_named(small: str) -> None:
    names = [f"{name}={small}" for name in "abc"]
    assert [variant.name for variant in plan(*names)] == ["a", "b", "c"]
    assert [variant.name for variant in plan(*names, baseline="b")] == ["b", "a", "c"]
    assert "nearest: a" in refused("aa=" + small, "bb=" + small, baseline="a a")


def test_all_combinations_begin_with_none(small: str) -> None:
    variants = plan(small, techniques=["prefix-caching", "cuda-graphs"])
    assert [variant.name for variant in variants] == [
        OFF, "prefix-caching", "cuda-graphs", "prefix-caching+cuda-graphs",
    ]  # fmt: skip
    engines = [variant.scenario.cluster.pools[0].engine for variant in variants]
    assert [(engine.prefix_caching, not engine.enforce_eager) for engine in engines] == [
        (False, False), (True, False), (False, True), (True, True),
    ]  # fmt: skip
    assert all(not variant.warnings for variant in variants)


def test_the_order_of_techniques_makes_no_difference(small: str) -> None:
    one = plan(small, techniques=["prefix-caching", "routing"])
    other = plan(small, techniques=["routing", "prefix-caching"])
    assert one == other


def test_one_by_one(small: str) -> None:
    five = ["prefix-caching", "chunked-prefill", "cuda-graphs", "routing", "tensor-parallelism"]
    assert [variant.name for variant in plan(small, techniques=five, one_by_one=True)] == [OFF, *five]
    message = refused(small, techniques=five)
    assert "32 runs" in message
    assert "at most 4" in message


def test_other_scenarios_beside_techniques(small: str) -> None:
    variants = plan(small, f"more={small}", techniques=["prefix-caching"], changes_for=["more:cluster.replicas=4"])
    assert [variant.name for variant in variants] == [OFF, "prefix-caching", "more"]
    assert [variant.techniques for variant in variants] == [frozenset(), frozenset({"prefix-caching"}), None]


def test_techniques_that_a_scenario_has_in_its_own_way(tmp_path: Path) -> None:
    own = SCENARIO.replace("parallel:", "engine: {long_prefill_token_threshold: 512}, parallel:")
    off, on = plan(write(tmp_path, own), techniques=["prefill-limit"])
    pools = [variant.scenario.cluster.pools[0].engine.long_prefill_token_threshold for variant in (off, on)]
    assert pools == [0, 512]


def test_every_pool_is_switched(tmp_path: Path) -> None:
    text = SCENARIO.replace("replicas: 2,", "engine: {prefix_caching: true}, pools: [{name: a}, {name: b, replicas: 2, "
                            "engine: {prefix_caching: false}}],")  # fmt: skip
    off, on = plan(write(tmp_path, text), techniques=["prefix-caching"])
    assert [pool.engine.prefix_caching for pool in off.scenario.cluster.pools] == [False, False]
    assert [pool.engine.prefix_caching for pool in on.scenario.cluster.pools] == [True, True]
    assert not off.warnings


def test_speculation_and_who_controls_it(tmp_path: Path) -> None:
    """What the engine does without speculation comes back too."""
    own = "speculation: {method: ngram, k: 5, acceptance: instructcoder, controller: {policy: ema-tiers, interval: 7}}"
    file = write(tmp_path, SCENARIO.replace("parallel:", f"{own}, parallel:"))
    off, on = (variant.scenario.cluster.pools[0] for variant in plan(file, techniques=["speculation"]))
    assert (off.speculation, off.engine.async_scheduling) == (None, True)
    assert on.engine.async_scheduling is False
    assert on.speculation is not None and (on.speculation.method, on.speculation.k) == ("ngram", 5)
    fixed, tiers = (
        variant.scenario.cluster.pools[0].speculation for variant in plan(file, techniques=["draft-control"])
    )
    assert fixed is not None and tiers is not None
    assert fixed.controller.policy == "fixed"
    assert tiers.controller.model_dump()["interval"] == 7
    assert fixed.acceptance == tiers.acceptance


OWN = "speculation: {method: eagle, k: 4, acceptance: 0.6, controller: {policy: goodput, interval: 5}}"


def test_there_is_nothing_to_control_without_speculation(tmp_path: Path) -> None:
    file = write(tmp_path, SCENARIO.replace("parallel:", f"{OWN}, parallel:"))
    variants = {variant.name: variant for variant in plan(file, techniques=["draft-control", "speculation"])}
    found = {name: variant.scenario.cluster.pools[0].speculation for name, variant in variants.items()}
    assert found[OFF] is found["draft-control"] is None
    assert variants[OFF].scenario == variants["draft-control"].scenario
    assert {name: one.controller.policy for name, one in found.items() if one is not None} == {
        "speculation": "fixed", "speculation+draft-control": "goodput"
    }  # fmt: skip
    said = {name: [text for text in variant.warnings if "switched off" in text] for name, variant in variants.items()}
    assert [name for name, texts in said.items() if texts] == ["draft-control"]
    assert said["draft-control"] == ["draft-control does nothing here: what it works on is switched off"]
    # One switch does not undo the other.
    assert not [text for variant in variants.values() for text in variant.warnings if "comes later" in text]


def test_control_is_switched_in_pools_that_draft(tmp_path: Path) -> None:
    pools = f"pools: [{{name: a, {OWN}}}, {{name: b}}]"
    file = write(tmp_path, SCENARIO.replace("replicas: 2, parallel: {tensor: 2}", pools))
    off, on = plan(file, techniques=["draft-control"])
    found = [[pool.speculation for pool in variant.scenario.cluster.pools] for variant in (off, on)]
    assert [one and one.controller.policy for one, _ in found] == ["fixed", "goodput"]
    assert [other for _, other in found] == [None, None]


@pytest.mark.parametrize("shared", ["", "tensor: 2, "])
def test_a_drafter_is_not_shared_out_without_tensor_parallelism(tmp_path: Path, shared: str) -> None:
    own = OWN.replace("k: 4", f"{shared}k: 4")
    file = write(tmp_path, SCENARIO.replace("parallel:", f"{own}, parallel:"))
    techniques = ["tensor-parallelism", "speculation", "draft-control"]
    for variant in plan(file, techniques=techniques):
        (pool,) = variant.scenario.cluster.pools
        on = [name in variant.name for name in techniques]
        assert pool.parallel.tensor == (2 if on[0] else 1)
        assert (pool.speculation is not None) is on[1]
        if pool.speculation is not None:
            assert pool.speculation.tensor == pool.parallel.tensor
            assert (pool.speculation.controller.policy == "goodput") is on[2]
    off, on_ = plan(file, techniques=["tensor-parallelism"])
    assert [one.scenario.cluster.pools[0].speculation.tensor for one in (off, on_)] == [1, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize("technique", ["prefill-limit", "scheduling", "admission", "speculation", "draft-control"])
def test_a_technique_that_the_scenario_does_not_have(small: str, technique: str) -> None:
    message = refused(small, techniques=[technique])
    assert f"does not say how to do {technique}" in message
    assert "--set" in message


def test_unknown_techniques(small: str) -> None:
    assert "nearest: prefix-caching" in refused(small, techniques=["prefix-cache"])
    assert "given twice" in refused(small, techniques=["routing", "routing"])


def test_too_little_to_compare(small: str) -> None:
    message = refused(small)
    assert "at least two scenarios" in message
    assert "--toggle" in message
    assert "no effect" in refused(small, f"more={small}", one_by_one=True)


def test_two_of_one_name(small: str) -> None:
    message = refused(small, small)
    assert "two variants have the same name" in message
    assert "small" in message
    assert "same name" in refused(small, f"off={small}", techniques=["prefix-caching"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mor:cluster.replicas=3", "nearest: more"),
        ("cluster.replicas=3", "NAME:PATH=VALUE"),
        ("more:cluster.replicas", "PATH=VALUE"),
        ("more:cluster.replcas=3", "nearest: replicas"),
        ("more:cluster.replicas=[3", "must be YAML"),
    ],
)
def test_wrong_changes_of_one_variant(small: str, text: str, words: str) -> None:
    message = refused(small, f"more={small}", changes_for=[text])
    assert words in message
    assert f"--set-for {text}" in message


def test_a_name_that_is_none(small: str) -> None:
    assert "NAME=SCENARIO" in refused(small, f"a b={small}")


@pytest.mark.parametrize(
    ("change", "path", "found"),
    [
        ("workload.arrivals.rate_per_s=31", "workload.arrivals.rate_per_s", "31.0 in b, 30.0 in a"),
        ("workload.prefixes.tokens=801", "workload.prefixes.tokens", "801 in b, 800 in a"),
        ("workload.prefixes=null", "workload.prefixes.", "nothing in b"),
        ("run.seed=1", "run.seed", "1 in b, 0 in a"),
        ("run.requests=61", "run.requests", "61 in b, 60 in a"),
        ("run.warmup_requests=5", "run.warmup_requests", "5 in b, 0 in a"),
    ],
)
def test_other_requests_are_refused(small: str, change: str, path: str, found: str) -> None:
    message = refused(f"a={small}", f"b={small}", changes_for=[f"b:{change}"])
    assert path in message
    assert found in message


def test_how_requests_are_treated_may_differ(small: str) -> None:
    plan(f"a={small}", f"b={small}", changes_for=["b:workload.sampling=top-p"])


def test_whether_arrivals_depend_on_the_system(tmp_path: Path, small: str) -> None:
    def reacts(text: str, change: str = "run.seed=0") -> bool:
        file = write(tmp_path, text, "one")
        return depends_on_system(plan(f"a={file}", f"b={file}", changes=[change])[0].scenario.workload)

    assert not reacts(SCENARIO)
    assert reacts(SCENARIO, "workload.max_concurrency=4")
    assert reacts(SESSIONS)
    assert reacts(CLIENTS)
