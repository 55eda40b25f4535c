"""Bounds on names, times, nodes and slowness; overrides without effect; what a plug-in may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import servetwin
from servetwin.errors import CapacityError, InputError, ScenarioError
from servetwin.scenario.load import LoadedScenario
from servetwin.scenario.run import execute

Load = Callable[..., LoadedScenario]


@pytest.mark.parametrize("place", ["cluster.engine", "cluster.pools.0.engine", "cluster.pools.engines.engine"])
@pytest.mark.parametrize("policy", ["priority", "edf"])
def test_an_override_without_effect_runs_with_a_warning(
    place: str, policy: str, base: dict[str, Any], load_it: Load
) -> None:
    loaded = load_it(base, f"{place}.scheduling={policy}")
    (warning,) = loaded.warnings
    assert "scheduling has no effect" in warning
    assert loaded.scenario.cluster.pools[0].engine.scheduling.policy == "fcfs"
    assert execute(loaded.scenario, notes=loaded.warnings).summary()["completed"] == 20


def test_a_policy_keeps_its_name_when_only_what_was_set_is_written() -> None:
    from servetwin.policies.routing import RoundRobin

    assert RoundRobin().model_dump(exclude_unset=True) == {"policy": "round-robin"}


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ("run.duration_s=1e300", "run.duration_s", "7.776e+06"),
        ("cluster.slowdown=1e300", "cluster.slowdown", "at most 1000"),
        ("cluster.slowdown=0.5", "cluster.slowdown", "at least 1"),
        (f"name={'n' * 5000}", "name", "100 characters"),
        (f"cluster.pools.0.name={'n' * 101}", "cluster.pools.0.name", "100 characters"),
        ("a" + ".a" * 3000 + "=1", "a" + ".a" * 3000, "that deep"),
        ("a=" + "[" * 3000, "a", "nested more than 40 deep"),
        (f"run.seed={'9' * 5000}", "run.seed", "4300 digits"),
    ],
    ids=["duration", "slow", "fast", "name", "pool name", "deep path", "deep value", "long number"],
)
def test_a_bound(change: str, path: str, words: str, base: dict[str, Any], load_it: Load) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_it(base, change)
    assert caught.value.path == path
    assert words in str(caught.value)
    assert len(str(caught.value)) < 1_500


def test_a_file_name_that_is_no_name(base: dict[str, Any], write: Callable[..., Any]) -> None:
    """The user never wrote it as a name, so it is made one."""
    from servetwin.scenario.load import load

    del base["name"]
    assert load(write(base, "my study (2).yaml")).scenario.name == "my-study-2"
    assert load(write(base, f"{'n' * 200}.yaml")).scenario.name == "n" * 100


def test_a_run_that_lasts_too_long(base: dict[str, Any]) -> None:
    """Only the simulation shows it."""
    base["cluster"]["slowdown"] = 1000
    base["workload"] |= {"prompts": 100, "outputs": 100_000}
    base["run"]["requests"] = 30
    base["cluster"]["engine"] = {"max_num_seqs": 1}
    with pytest.raises(ScenarioError, match="90 days"):
        servetwin.run(base)


def test_an_arrival_beyond_the_longest_run_keeps_its_place(base: dict[str, Any]) -> None:
    """Though it is found in the middle of the simulation."""
    base["workload"]["arrivals"] = {"process": "bursts", "size": 1, "interval_s": 1e6}
    with pytest.raises(ScenarioError) as caught:
        servetwin.run(base)
    assert caught.value.path == "workload.arrivals.interval_s"
    assert caught.value.found == 1e6


def test_more_gpus_than_a_node_has(base: dict[str, Any], load_it: Load) -> None:
    with pytest.raises(CapacityError, match="how nodes are joined") as caught:
        load_it(base, "cluster.parallel.tensor=16")
    assert (caught.value.path, caught.value.allowed) == ("cluster.parallel.tensor", "at most 8")
    with pytest.raises(CapacityError) as caught:
        load_it(base, "cluster.parallel.tensor=3")
    assert caught.value.allowed == ["1", "2", "4", "8"]


def test_no_advice_that_would_be_refused(base: dict[str, Any], load_it: Load) -> None:
    base["model"] = "deepseek-r1"
    with pytest.raises(CapacityError) as caught:
        load_it(base)
    assert caught.value.hint is not None
    assert "is the smallest degree" not in caught.value.hint
    assert "16 GPUs, more than the 8 inside one node" in caught.value.hint


def test_an_empty_folder_name(base: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="empty text"):
        servetwin.run(base, out="")
