"""What the ledger says of each kind of exchange, against the phases of every single step."""

from __future__ import annotations

from typing import Any

import pytest
from tests.oracle.levels import at_level

import servetwin
from servetwin.engine.protocols import STEPPING
from servetwin.scenario.build import build
from servetwin.scenario.load import validate_mapping
from servetwin.units import PS_PER_S


def _scenario(parallel: dict[str, int], **cluster: Any) -> Any:
    return validate_mapping(
        {
            "name": "exchanging", "model": "llama-3.1-8b",
            "cluster": {
                "hardware": "h100-sxm", "replicas": 2, "parallel": parallel,
                "engine": {"max_model_len": 4096, "max_num_batched_tokens": 1024}, **cluster,
            },
            "workload": {
                "arrivals": {"process": "poisson", "rate_per_s": 60},
                "prompts": {"distribution": "uniform", "min": 10, "max": 2000},
                "outputs": {"distribution": "uniform", "min": 1, "max": 60},
            },
            "run": {"requests": 60},
        }
    )  # fmt: skip


def _phases_s(result: Any, gpus: int) -> dict[str, float]:
    """GPU-seconds of the phases on links of all steps, one by one."""
    found: dict[str, float] = {}
    recorded = [*(one[-1] for one in result.phases), *(one[-1] for one in result.stage_phases)]
    for phase in (phase for phases in recorded for phase in phases if phase.resource == "link"):
        found[phase.kind] = found.get(phase.kind, 0.0) + gpus * phase.ps / PS_PER_S
    return found


@pytest.mark.parametrize("parallel", [{"tensor": 4}, {"context": 2}, {"tensor": 2, "context": 2}])
def test_every_kind_is_what_its_phases_take(parallel: dict[str, int]) -> None:
    scenario = _scenario(parallel)
    result = servetwin.run(at_level(scenario, "every-step"), timeline=True)
    wanted = _phases_s(result, parallel.get("tensor", 1) * parallel.get("context", 1))
    ledger = result.ledger()
    found = ledger["communication_s"]
    assert set(found) == set(wanted) and len(found) == 2 * ("tensor" in parallel) + ("context" in parallel)
    for kind, seconds in wanted.items():
        assert found[kind] == {"exposed": pytest.approx(seconds, rel=1e-6), "hidden": 0.0}
    whole = sum(one["exposed"] for one in found.values())
    assert whole == pytest.approx(ledger["total"]["seconds"]["exposed_communication"])
    assert ledger["pools"]["engines"]["communication_s"] == found
    for level in STEPPING:
        again = servetwin.run(at_level(scenario, level)).ledger()["communication_s"]
        assert again == found


@pytest.mark.parametrize("batches", ["vllm", "balanced"])
def test_a_pipeline_waits_for_a_part_of_its_hand_offs(batches: str) -> None:
    engine = {"max_model_len": 4096, "max_num_batched_tokens": 1024, "pipeline_batches": batches}
    scenario = at_level(_scenario({"tensor": 2, "pipeline": 4}, engine=engine), "every-step")
    result = servetwin.run(scenario, timeline=True)
    wanted = _phases_s(result, 2)
    prices: Any = build(scenario).cluster.replicas[0].executor
    found, exposed = result.ledger()["communication_s"], result.ledger()["total"]["seconds"]["exposed_communication"]
    for kind in ("all-reduce", "gather"):
        assert found[kind]["exposed"] == pytest.approx(wanted[kind], rel=1e-6)
    hand_off = found["hand-off"]
    assert hand_off["exposed"] == pytest.approx(exposed - sum(wanted.values()), rel=1e-6)
    # Each step is handed on three times, whatever waits for it.
    first = [one for one in result.stage_phases if one[1] == 0]
    under_way = 0.0
    for _, _, _, tokens, *_ in first:
        shape = prices.rank.steps._decoding(tokens, (0,), (tokens,))
        under_way += 2 * sum(prices._step_time.hand_offs(shape)) / PS_PER_S
    assert hand_off["exposed"] + hand_off["hidden"] == pytest.approx(under_way, rel=1e-6)
    assert 0.2 * under_way < hand_off["hidden"] < 0.9 * under_way


def test_what_is_computed_again_is_not_exposed_but_recomputed() -> None:
    """Its all-reduces are in the bucket of recomputed work."""
    engine = {"max_model_len": 2304, "max_num_batched_tokens": 1024, "num_gpu_blocks_override": 150}
    scenario = at_level(_scenario({"tensor": 2, "pipeline": 2}, engine=engine), "every-step")
    result = servetwin.run(scenario, timeline=True)
    assert result.summary()["preemptions"] > 0
    wanted, ledger = _phases_s(result, 2), result.ledger()
    found, spent = ledger["communication_s"], ledger["total"]["seconds"]
    again = sum(wanted.values()) - found["all-reduce"]["exposed"] - found["gather"]["exposed"]
    assert 0 < again < spent["recompute"]


@pytest.mark.parametrize("until", [None, 0.4])
def test_what_each_stage_worked(until: float | None) -> None:
    """All that is neither idle, nor a bubble, nor a wait for a hand-off; the last stage has the output matrix."""
    scenario = _scenario({"tensor": 2, "pipeline": 4})
    if until is not None:
        run = scenario.run.model_copy(update={"requests": None, "duration_s": until})
        scenario = scenario.model_copy(update={"run": run})
    ledgers = [servetwin.run(at_level(scenario, level)).ledger() for level in STEPPING]
    busy, spent = ledgers[0]["pools"]["engines"]["stage_busy_s"], ledgers[0]["total"]["seconds"]
    assert len(busy) == 4 and busy[3] == max(busy) and busy[1] == busy[2]
    waits = spent["idle"] + spent["bubble"] + ledgers[0]["communication_s"]["hand-off"]["exposed"]
    assert sum(busy) == pytest.approx(sum(spent.values()) - waits, rel=1e-3 if until else 1e-6)
    assert [one["pools"]["engines"]["stage_busy_s"] for one in ledgers[1:]] == [busy, busy]
    assert "stage_busy_s" not in servetwin.run(_scenario({"tensor": 2})).ledger()["pools"]["engines"]


def test_a_lone_request_waits_for_all_of_its_hand_offs() -> None:
    scenario = _scenario({"pipeline": 4})
    alone = scenario.model_copy(update={"run": scenario.run.model_copy(update={"requests": 1})})
    (kind,) = servetwin.run(alone).ledger()["communication_s"].items()
    assert kind[0] == "hand-off" and kind[1]["exposed"] > 0 and kind[1]["hidden"] == pytest.approx(0, abs=1e-9)


def test_a_gpu_alone_exchanges_nothing() -> None:
    assert servetwin.run(_scenario({"tensor": 1})).ledger()["communication_s"] == {}


def test_what_a_slow_link_makes_longer() -> None:
    """All of the difference between the two is in the kind that the link carries most of."""
    plain, slow = (
        servetwin.run(_scenario({"tensor": 2}, **more)).ledger()["communication_s"]
        for more in ({}, {"stragglers": [{"replica": 0, "link": 0.3}, {"replica": 1, "link": 0.3}]})
    )
    assert slow["all-reduce"]["exposed"] > 1.3 * plain["all-reduce"]["exposed"]
