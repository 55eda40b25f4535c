"""Runs that draft: nothing gets lost, and the ends of the scale are the plain engine and K + 1 tokens a step."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.levels import resolved, simulate

import servetwin
from servetwin.results.result import Result


def scenario(speculation: Any, requests: int = 6, output: Any = 41, **engine: Any) -> dict[str, Any]:
    """Requests that come at once and fit into one step."""
    return {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": "h100-sxm", "speculation": speculation, "engine": {"max_model_len": 4096, **engine}},
        "workload": {"arrivals": {"process": "all-at-once"}, "prompts": 100, "outputs": output},
        "run": {"requests": requests},
    }


def column(result: Result, name: str) -> list[int]:
    found: list[int] = result.segments.store.column(name).tolist()
    return found


def run(case: dict[str, Any]) -> Result:
    return servetwin.run(case, run__stepping="every-step")


@pytest.mark.parametrize("asynchronous", [True, False])
def test_nothing_proposed_is_the_plain_engine_and_the_look_ups(asynchronous: bool) -> None:
    """Step by step, to the picosecond; without graphs, whose sizes are multiples of what a request may verify."""
    none = {"method": "ngram", "k": 4, "acceptance": {"rate": 0.0, "proposal": 0.0}}
    plain = run(scenario("none", async_scheduling=asynchronous, enforce_eager=True))
    drafted = run(scenario(none, async_scheduling=asynchronous, enforce_eager=True))
    assert column(drafted, "draft_ps") == [39_000_000] * plain.summary()["steps"]
    for name in ("tokens", "emitted", "decodes", "context", "compute_ps", "memory_ps", "communication_ps", "held"):
        assert column(drafted, name) == column(plain, name), name
    longer = np.array(column(drafted, "first_ps")) - np.array(column(plain, "first_ps"))
    assert set(longer.tolist()) == {39_000_000}
    assert drafted.summary()["spec_decode_num_drafts"] == 0


@pytest.mark.parametrize("method", ["eagle3", "medusa", "ngram"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_nothing_accepted_takes_as_many_steps_as_the_plain_engine(method: str, k: int) -> None:
    plain = run(scenario("none", async_scheduling=False))
    drafted = run(scenario({"method": method, "k": k, "acceptance": 0.0}, async_scheduling=False))
    assert column(drafted, "emitted") == column(plain, "emitted")
    assert column(drafted, "drafted") == [6 * k * (decodes > 0) for decodes in column(plain, "decodes")]
    assert sum(column(drafted, "accepted")) == 0
    assert all(new > old for new, old in zip(column(drafted, "first_ps"), column(plain, "first_ps"), strict=True))
    shares = drafted.ledger()["total"]["share"]
    assert shares["draft"] > 0 and shares["wasted_verify"] > 0


@pytest.mark.parametrize("method", ["eagle3", "medusa", "ngram"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_all_accepted_is_one_more_than_k_in_each_step(method: str, k: int) -> None:
    """One token of the prompt's step, then five full steps."""
    result = run(scenario({"method": method, "k": k, "acceptance": 1.0}, output=1 + 5 * (k + 1)))
    assert column(result, "emitted") == [6] + 5 * [6 * (k + 1)]
    summary = result.summary()
    assert summary["mean_acceptance_length"] == k + 1 and summary["draft_acceptance_rate"] == 1.0
    assert summary["spec_decode_num_rejected_tokens"] == 0
    assert result.ledger()["total"]["seconds"]["wasted_verify"] == 0
    assert result.requests()["accepted_tokens"].tolist() == [5 * k] * 6


def test_a_request_of_one_token_never_verifies() -> None:
    result = run(scenario({"method": "eagle3", "acceptance": 1.0}, output=1))
    assert sum(column(result, "drafted")) == 0 and result.summary()["steps"] == 1


@pytest.mark.parametrize(("rate", "k"), [(0.6, 3), (0.8, 5), (0.9, 7)])
def test_one_rate_is_the_closed_form(rate: float, k: int) -> None:
    """``(1 − a^(K+1)) / (1 − a)`` tokens a step (Leviathan et al., arXiv 2211.17192, equation 1), within 3.3 σ."""
    result = servetwin.run(
        scenario({"method": "eagle3", "k": k, "acceptance": rate}, requests=300, output=150), run__seed=5
    )
    summary = result.summary()
    chances = [rate**place * (1 - rate) for place in range(k)] + [rate**k]
    mean = sum(place * chance for place, chance in enumerate(chances))
    variance = sum(place * place * chance for place, chance in enumerate(chances)) - mean * mean
    sigma = sqrt(variance / summary["spec_decode_num_drafts"])
    expected = (1 - rate ** (k + 1)) / (1 - rate)
    assert expected == pytest.approx(1 + mean)
    assert sigma < 0.01 * expected
    assert abs(summary["mean_acceptance_length"] - expected) < 3.3 * sigma


CONTROLLERS = [
    "fixed", "ema-tiers", "goodput", "per-request", {"policy": "by-batch-size", "ranges": [[1, 4, 2], [5, 90, 0]]},
    {"policy": "disable-when-low", "window": 30, "threshold": 0.8},
]  # fmt: skip


@st.composite
def drafting(draw: st.DrawFn) -> dict[str, Any]:
    method = draw(st.sampled_from(["eagle", "eagle3", "medusa", "ngram", "suffix"]))
    k = draw(st.sampled_from([2, 3, 5]))
    survival = sorted(draw(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 1.0]), min_size=1, max_size=6)))[::-1]
    acceptance: dict[str, Any] = {"survival": survival, "persistence": 0.0}
    if method in ("ngram", "suffix"):
        acceptance["proposal"] = draw(st.sampled_from([0.0, 0.4, 1.0]))
    speculation: dict[str, Any] = {"method": method, "k": k, "acceptance": acceptance}
    if draw(st.booleans()):
        speculation["controller"] = draw(st.sampled_from(CONTROLLERS))
    elif method in ("eagle", "eagle3"):
        speculation["tree"] = {"nodes": k + draw(st.sampled_from([1, 9])), "branching": draw(st.sampled_from([1, 3]))}
    seats = draw(st.sampled_from([4, 12, 30]))
    return {
        "model": draw(st.sampled_from(["llama-3.1-8b", "gpt-oss-20b"])),
        "cluster": {
            "hardware": "h100-sxm", "replicas": draw(st.sampled_from([1, 2])), "speculation": speculation,
            "engine": {
                "max_model_len": 900, "num_gpu_blocks_override": draw(st.sampled_from([60, 110, 400])),
                "max_num_batched_tokens": draw(st.sampled_from([30, 64, 512])), "max_num_seqs": seats,
                "async_scheduling": draw(st.booleans()),
            },
        },
        "workload": {
            "arrivals": {"rate_per_s": draw(st.sampled_from([20, 200]))},
            "prompts": {"distribution": "uniform", "min": 1, "max": 300},
            "outputs": {"distribution": "uniform", "min": 1, "max": 80},
            "prefixes": {"groups": 2, "tokens": 60},
        },
        "run": {"requests": 25, "seed": draw(st.integers(0, 99))},
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(drafting())
def test_nothing_gets_lost(case: dict[str, Any]) -> None:
    scenario = resolved(case)
    simulation, result = simulate(scenario, strict=True)
    summary, frame = result.summary(), result.requests()
    assert summary["completed"] == 25
    counts = np.array(column(result, "count"))
    emitted, drafted, accepted = (np.array(column(result, name)) for name in ("emitted", "drafted", "accepted"))
    assert (emitted * counts).sum() == frame["output_tokens"].sum()
    assert drafted.sum() == frame["drafted_tokens"].sum() == summary["spec_decode_num_draft_tokens"]
    assert accepted.sum() == frame["accepted_tokens"].sum() == summary["spec_decode_num_accepted_tokens"]
    assert summary["spec_decode_num_rejected_tokens"] == drafted.sum() - accepted.sum()
    assert (accepted <= drafted).all() and (counts[drafted > 0] == 1).all()
    # A decode yields its own token and drafts that stand, but for those behind the end of the output.
    ends = np.array(column(result, "decodes")) + accepted - emitted + np.array(column(result, "prefill_tokens"))
    assert (ends[drafted > 0] >= 0).all()
    tokens = np.array(column(result, "tokens"))
    budget = scenario.cluster.pools[0].engine.max_num_batched_tokens
    assert budget is not None and tokens.max() <= budget
    assert (tokens == np.array(column(result, "decodes")) + drafted + np.array(column(result, "prefill_tokens"))).all()
    for replica in simulation.cluster.replicas:
        rank = replica.executor.rank
        assert rank.pool.free == rank.pool.total == rank.settings.num_blocks - 1
        assert not rank.running and not rank.batch.size and rank.tokens_held == 0
    ledger = result.ledger()["total"]["seconds"]
    assert sum(ledger.values()) == pytest.approx(result.summary()["gpu_seconds"])
    assert (ledger["wasted_verify"] > 0) == bool((drafted > accepted).any())
