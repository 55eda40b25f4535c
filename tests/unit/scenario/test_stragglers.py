"""GPUs that are slow: whom they slow down, by how much, and which of them are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.oracle.levels import check_levels

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.build import build
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.schema import Parallel
from servetwin.scenario.store import config_hash
from servetwin.scenario.stragglers import Straggler, stage_health
from servetwin.specs.health import HEALTHY, Health
from servetwin.studies.explain import explain
from servetwin.studies.step import Step

Load = Callable[..., Any]


def _with(base: dict[str, Any], *stragglers: dict[str, Any], **parallel: int) -> dict[str, Any]:
    cluster = {**base["cluster"], "parallel": parallel or {"tensor": 4}, "stragglers": list(stragglers)}
    return {**base, "cluster": cluster}


def _step_ms(scenario: dict[str, Any], step: Step) -> float:
    """The step on the first replica, from the price that its engine uses."""
    prices = build(validate_mapping(scenario)).prices[-1]
    return prices.price(step.shape(prices.windows, (1, 2, 4, 8, 16, 32, 64))).total_ps / 1e9


@pytest.mark.parametrize(
    ("straggler", "path", "allowed"),
    [
        ({"replica": 1, "flops": 0.5}, "cluster.stragglers.0.replica", "0"),
        ({"gpu": 4, "flops": 0.5}, "cluster.stragglers.0.gpu", "0 to 3"),
        ({"gpu": 3}, "cluster.stragglers.0", "a share below 1 of flops, hbm or link"),
        ({"flops": 0.0}, "cluster.stragglers.0.flops", "a number at least 1e-06"),
        ({"link": 5e-324}, "cluster.stragglers.0.link", "a number at least 1e-06"),
        ({"hbm": 1.1}, "cluster.stragglers.0.hbm", "a number at most 1"),
    ],
)
def test_what_is_refused(base: dict[str, Any], straggler: dict[str, Any], path: str, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        validate_mapping(_with(base, straggler))
    assert (caught.value.path, caught.value.allowed) == (path, allowed)


def test_a_gpu_stands_once(base: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="twice"):
        validate_mapping(_with(base, {"gpu": 1, "flops": 0.5}, {"gpu": 1, "hbm": 0.5}))


def test_a_gpu_alone_has_no_link(base: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="its link has no effect"):
        validate_mapping(_with(base, {"link": 0.5}, tensor=1))
    assert validate_mapping(_with(base, {"flops": 0.5}, tensor=1)).cluster.stragglers[0].flops == 0.5


def test_tables_have_no_slow_gpus(base: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servetwin.scenario.resolve.check_available", lambda _: None)
    tables = {"physics": {"backend": "tables"}}
    with pytest.raises(InputError, match="in no table") as caught:
        validate_mapping({**_with(base, {"flops": 0.5}), **tables})
    assert caught.value.allowed == "link alone, or physics.backend: roofline"
    assert validate_mapping({**_with(base, {"link": 0.5}), **tables}).cluster.stragglers[0].link == 0.5


def test_ranks_are_numbered_stage_after_stage() -> None:
    parallel = Parallel(tensor=2, context=2, pipeline=3)
    slow = [Straggler(gpu=5, flops=0.5), Straggler(gpu=7, hbm=0.8), Straggler(replica=1, gpu=0, link=0.1)]
    assert stage_health(slow, 0, parallel) == (HEALTHY, Health(0.5, 0.8, 1.0), HEALTHY)
    assert stage_health(slow, 1, parallel) == (Health(link=0.1), HEALTHY, HEALTHY)
    assert stage_health(slow, 2, parallel) == (HEALTHY,) * 3


def test_what_a_fault_costs_depends_on_what_bounds_the_step(base: dict[str, Any]) -> None:
    """A decode is bound by memory, a prompt by arithmetic: each suffers from its own fault."""
    decode, prompt = Step.of(8, 1000, None), Step.of(0, None, 2000)
    healthy, hot, worn, thin = (
        _with(base, *one) for one in ([], [{"flops": 0.5}], [{"gpu": 2, "hbm": 0.5}], [{"gpu": 3, "link": 0.5}])
    )  # fmt: skip
    loss = {
        name: tuple(_step_ms(fault, step) / _step_ms(healthy, step) - 1 for step in (decode, prompt))
        for name, fault in {"hot": hot, "worn": worn, "thin": thin}.items()
    }
    assert loss["hot"][0] < 0.01 < 0.3 < loss["hot"][1] < 1
    assert 0.3 < loss["worn"][0] < 1 and loss["worn"][1] < 0.2
    assert 0 < loss["thin"][0] < 0.15 < loss["thin"][1] < 1
    again = _with(base, {"gpu": 1, "flops": 0.5})
    assert _step_ms(again, prompt) == _step_ms(hot, prompt), "whichever rank it is, the others wait"


def test_other_replicas_are_not_slowed(base: dict[str, Any]) -> None:
    base["cluster"]["replicas"] = 2
    base["run"]["requests"] = 40
    plain, slow = (
        servetwin.run(_with(base, *one)).requests() for one in ([], [{"replica": 1, "gpu": 3, "hbm": 0.3}])
    )  # fmt: skip
    mine = plain["replica"] == 1
    assert mine.sum() == 20 and (plain["replica"] == slow["replica"]).all()
    assert (slow["e2e_ms"][mine] > 1.5 * plain["e2e_ms"][mine]).all()
    assert (slow["e2e_ms"][~mine] == plain["e2e_ms"][~mine]).all()


def test_the_configuration_is_another_one_only_with_stragglers(base: dict[str, Any]) -> None:
    none = {**base, "cluster": {**base["cluster"], "parallel": {"tensor": 4}}}
    assert config_hash(validate_mapping(_with(base))) == config_hash(validate_mapping(none))
    assert config_hash(validate_mapping(_with(base, {"flops": 0.9}))) != config_hash(validate_mapping(none))


def test_explain_says_what_the_step_takes_there(base: dict[str, Any]) -> None:
    base["cluster"]["replicas"] = 2
    step, catalog = Step.of(8, 1000, None), Catalog()
    for parallel in ({"tensor": 4}, {"tensor": 2, "pipeline": 2}):
        slow = validate_mapping(_with(base, {"replica": 1, "gpu": 2, "hbm": 0.5}, **parallel))
        document = explain(slow, step, catalog)
        assert document["step"] == explain(validate_mapping(_with(base, **parallel)), step, catalog)["step"]
        (text,) = [text for text in document["warnings"] if "is slow" in text]
        assert text.startswith("in replica 1 a GPU is slow: this step takes ")


def test_explain_reckons_with_where_the_other_replicas_lie(base: dict[str, Any]) -> None:
    """The second replica lies on two servers: there its step takes longer, and its straggler comes on top."""
    step, catalog = Step.of(8, 1000, None), Catalog()
    near, far = ([[0, gpu] for gpu in range(4)], [[0, 4], [0, 5], [1, 0], [1, 1]])

    def explained(*replicas: Any, **slow: float) -> dict[str, Any]:
        base["cluster"] |= {
            "replicas": len(replicas), "topology": {"nodes": 2, "placement": {"explicit": list(replicas)}},
        }  # fmt: skip
        stragglers = [{"replica": len(replicas) - 1, "gpu": 2, **slow}] if slow else []
        return explain(validate_mapping(_with(base, *stragglers)), step, catalog)

    alone = explained(far)["step"]["total_us"]
    here = explained(near, far)
    (text,) = [text for text in here["warnings"] if "otherwise" in text]
    more = f"{alone / here['step']['total_us'] - 1:.1%}"
    assert text == f"the GPUs of replica 1 lie otherwise: this step takes {more} longer there ({alone / 1000:.2f} ms)"
    (slow,) = explained(near, far, hbm=0.5)["stragglers"]
    assert slow == explained(far, hbm=0.5)["stragglers"][0] | {"replica": 1}
    assert slow["total_us"] == pytest.approx(alone * (1 + slow["longer"]))
    assert not [text for text in explained(far)["warnings"] if "otherwise" in text]


@pytest.mark.parametrize("parallel", [{"tensor": 2}, {"tensor": 2, "pipeline": 2}, {"context": 2}])
def test_levels(base: dict[str, Any], parallel: dict[str, int], tmp_path: Any) -> None:
    base["cluster"]["replicas"] = 2
    base["workload"] |= {"prompts": 700, "outputs": 30, "arrivals": {"process": "poisson", "rate_per_s": 100}}
    base["run"]["requests"] = 40
    slow = [{"replica": 1, "gpu": 1, "flops": 0.6, "link": 0.7}, {"replica": 0, "hbm": 0.5}]
    scenario = validate_mapping(_with(base, *slow, **parallel))
    assert check_levels(scenario, tmp_path, strict=True)["completed"] == 40


def test_a_pipeline_hands_on_over_the_slower_of_two_links(base: dict[str, Any]) -> None:
    """Two stages of two ranks; the second gathers what it was sent over links of its own."""

    def hand_off(*stragglers: dict[str, Any]) -> int:
        simulation = build(validate_mapping(_with(base, *stragglers, tensor=2, pipeline=2)))
        executor: Any = simulation.cluster.replicas[0].executor
        prices = executor._step_time
        (found,) = prices.hand_offs(Step.of(64, 100, None).shape(prices.windows, (64,)))
        return int(found)

    healthy = hand_off()
    sender, receiver = hand_off({"gpu": 1, "link": 0.5}), hand_off({"gpu": 2, "link": 0.5})
    assert healthy < sender < receiver
    assert hand_off({"gpu": 1, "link": 0.5}, {"gpu": 2, "link": 0.5}) == receiver
