"""With noise on the step times the stepping levels still write the same bytes, and the naive engine agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.oracle.levels import at_level, check_levels, resolved, simulate
from tests.oracle.naive_scenarios import compare, naive
from tests.oracle.tight_scenarios import TIGHT

import servetwin
from servetwin.engine.protocols import STEPPING
from servetwin.physics.jitter import StepNoise
from servetwin.physics.protocols import Phase, StepPrice, StepShape
from servetwin.scenario.schema import Scenario
from servetwin.streams import Streams

NOISY = ["physics.jitter=0.2"]


@pytest.mark.parametrize("name", ["quickstart", "multi-turn", "mixed-gpus"])
def test_levels(name: str, tmp_path: Path) -> None:
    scenario = resolved(name, "run.requests=40", *NOISY)
    summary = check_levels(scenario, tmp_path, strict=True)
    assert summary["completed"] == 40
    # No two steps are equal: each is an event of its own at every level.
    assert min(summary["events"]) > summary["steps"]


@pytest.mark.parametrize("batches", ["vllm", "balanced"])
def test_levels_of_a_pipeline(batches: str, tmp_path: Path) -> None:
    """The factor of a step holds on all stages; hand-offs keep their time."""
    scenario = resolved("bench-70b-pp4", "run.requests=40", f"cluster.engine.pipeline_batches={batches}", *NOISY)
    assert check_levels(scenario, tmp_path, strict=True)["completed"] == 40


@pytest.mark.parametrize("stepping", STEPPING)
def test_a_timeline_of_noisy_steps_adds_up(stepping: str, tmp_path: Path) -> None:
    scenario = at_level(resolved("quickstart", "run.requests=15", *NOISY), stepping)
    plain = servetwin.run(scenario, out=tmp_path / "plain")
    drawn = servetwin.run(scenario, out=tmp_path / "drawn", timeline=True)
    assert (tmp_path / "plain" / "requests.parquet").read_bytes() == (
        tmp_path / "drawn" / "requests.parquet"
    ).read_bytes()
    assert plain.summary()["steps"] == drawn.summary()["steps"]


class _Noisy:
    """The step time of a replica for the naive engine, which prices each step once, in order."""

    def __init__(self, step_time: Any, noise: StepNoise) -> None:
        self._step_time, self._noise = step_time, noise
        self.windows = step_time.windows

    def price(self, shape: StepShape) -> StepPrice:
        shape.stretch = self._noise()
        return self._step_time.price(shape)

    def phases(self, shape: StepShape) -> list[Phase]:
        return self._step_time.phases(shape)


def naive_with_noise(scenario: Scenario) -> Any:
    def noisy(index: int, step_time: Any) -> _Noisy:
        generator = Streams(scenario.run.seed).generator("jitter", index)
        return _Noisy(step_time, StepNoise(scenario.physics.jitter, generator))

    return naive(scenario, noisy)


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
def test_the_naive_engine_agrees(model: str, asynchronous: bool) -> None:
    """Short of blocks, so that requests are preempted and plans are made again."""
    cluster = TIGHT["cluster"] | {"engine": TIGHT["cluster"]["engine"] | {"async_scheduling": asynchronous}}
    scenario = resolved(
        TIGHT | {"model": model, "cluster": cluster, "physics": {"jitter": 0.1}, "run": {"requests": 50},
                 "router": {"policy": "round-robin"}}
    )  # fmt: skip
    _, result = simulate(scenario)
    assert result.summary()["preemptions"] > 0
    compare(result, naive_with_noise(scenario))


def test_noise_widens_the_gaps_and_nothing_else(tmp_path: Path) -> None:
    """The same requests arrive; the mean step stays; equal steps no longer take equal time."""
    calm, noisy = (servetwin.run("quickstart", run__requests=300, physics__jitter=value) for value in (0, 0.3))
    assert (calm.requests()["arrival_s"] == noisy.requests()["arrival_s"]).all()
    assert noisy.summary()["tpot_ms.mean"] == pytest.approx(calm.summary()["tpot_ms.mean"], rel=0.1)
    # The longest gaps are those of steps with prompts, whose number is small; most gaps are plain decode steps.
    spread = [run.summary()["itl_ms.p90"] / run.summary()["itl_ms.p50"] for run in (calm, noisy)]
    assert spread[1] > 1.05 * spread[0]
    again = servetwin.run("quickstart", run__requests=300, physics__jitter=0.3)
    assert again.requests().equals(noisy.requests())
    assert (
        not servetwin.run("quickstart", run__requests=300, run__seed=1, physics__jitter=0.3)
        .requests()
        .equals(noisy.requests())
    )
