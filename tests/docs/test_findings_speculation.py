"""What the page about speculative decoding says in sentences is what the simulator says now."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from tests.docs.blocks import ROOT
from tests.docs.test_generated import generate

from servetwin.catalog.find import Catalog
from servetwin.physics.protocols import StepPrice, StepShape
from servetwin.scenario.build import build
from servetwin.scenario.load import load_scenario

assert str(ROOT / "scripts") in sys.path and generate.speculation
runs: ModuleType = import_module("speculation_runs")
batch: ModuleType = import_module("speculation_batch")
depth: ModuleType = import_module("speculation_depth")
load: ModuleType = import_module("speculation_load")

H100_BYTES_PER_S, H100_FLOPS = 3.35e12, 989e12
OLD = 'engine.version="0.10.1"'
RISE, SEEDS, BURSTS = range(3)
BY_NAME = {candidate.name: candidate for candidate in load.CANDIDATES}
NONE, ONE, TWO, THREE, FIVE, SEVEN = load.FIXED
GOODPUT, PER_REQUEST = BY_NAME["goodput"], BY_NAME["per-request"]


@cache
def _page() -> str:
    return " ".join((ROOT / "docs" / "findings" / "speculation.md").read_text(encoding="utf-8").split())


def says(sentence: str) -> bool:
    """Whether the page has these words in a row."""
    return sentence in _page()


def _less(candidate: Any, other: Any, where: int, metric: str = "TPOT mean, ms") -> float:
    """By how much a candidate is below another one [%]."""
    return float(100 * (1 - load.mean(candidate, where, metric) / load.mean(other, where, metric)))


def test_no_token_beats_the_hardware() -> None:
    """A step reads the weights once, and computes each token that it verifies."""
    weights = Catalog().model("llama-3.1-8b").weight_bytes("bf16") - 2 * 128_256 * 4_096
    for variant in (batch.EAGLE, batch.TREE, batch.DRAFT):
        for requests in (1, 512):
            found = runs.at(variant, requests)
            step_s = runs.tokens_a_step(found) * found.summary["tpot_ms.mean"] / 1000
            assert step_s > weights / H100_BYTES_PER_S
            assert step_s > requests * batch.verified(variant) * weights / H100_FLOPS


def test_where_drafts_lose() -> None:
    """The crossings, and what the first paragraph says of them."""
    found = {variant: runs.crossing(variant) for variant in (*batch.SCHOOL, *batch.EDITS)}
    ngram, eagle, draft, tree = (found[variant] for variant in batch.SCHOOL)
    assert says("from 33 requests (n-gram, or a tree of 21) over 170 (a draft model) to 195 (EAGLE-3)")
    assert round(ngram) == pytest.approx(33, abs=1) and round(tree) == pytest.approx(33, abs=1)
    assert eagle == pytest.approx(195, abs=6) and draft == pytest.approx(170, abs=6)
    assert 0.06 < runs.speed_up(batch.NGRAM, 1) - 1 < 0.075 and says("7 to 76 % faster")
    assert runs.speed_up(batch.NGRAM_5_EDITS, 1) == pytest.approx(1.76, abs=0.02)
    # Four tokens of a request are verified, or 22; the ridge lies at 295 FLOP/B.
    ridge = H100_FLOPS / H100_BYTES_PER_S
    assert says(f"at {ridge:.0f} requests, EAGLE-3 with four tokens each at {ridge / 4:.0f}, the tree of 21 at")
    assert eagle / (ridge / 4) == pytest.approx(2.5, abs=0.25) and tree / (ridge / 22) == pytest.approx(2.5, abs=0.25)
    assert ngram * batch.verified(batch.NGRAM) < ridge
    assert all(runs.dearer(variant, 512) < batch.verified(variant) for variant in (batch.EAGLE, batch.TREE))


def test_what_a_step_costs() -> None:
    """With one request."""
    eagle, draft, ngram = (runs.dearer(variant, 1) for variant in (batch.EAGLE, batch.DRAFT, batch.NGRAM))
    assert says(f"takes {100 * (eagle - 1):.0f} % longer than one that yields one")
    found = runs.at(batch.EAGLE, 1).share
    assert found["draft"] > (1 - 1 / eagle) / 2
    assert 1.9 < draft < 2 and says("takes nearly as long as the model itself")
    # Four verified tokens and the newest one, of 128 requests: more than the largest graph holds.
    assert says("With 128 requests its first pass has 640 tokens") and 128 * (4 + 1) == 640 > 512
    assert runs.dearer(batch.DRAFT, 128) / runs.dearer(batch.DRAFT, 64) > 1.3
    assert says(f"but {100 * (ngram - 1):.0f} %: vLLM 0.15")


def test_gain_and_cost() -> None:
    """The bill of the same requests."""

    def cost(variant: Any, requests: int, *buckets: str) -> float:
        return float(sum(batch.ms_per_token(variant, requests, bucket) for bucket in buckets or batch.BILL))

    plain = batch.EAGLE.plain
    share = cost(batch.EAGLE, 1, "draft", "wasted_verify") / cost(batch.EAGLE, 1)
    assert says(f"{100 * share:.0f} % of the bill of a lone request")
    gain = cost(plain, 1) - cost(batch.EAGLE, 1)
    assert says(f"a gain of {gain:.1f} ms of {cost(plain, 1):.1f} a token with one request")
    assert abs(1 - cost(batch.EAGLE, 256) / cost(plain, 256)) < 0.03
    loss = 1000 * (cost(batch.EAGLE, 512) - cost(plain, 512))
    assert says(f"a loss of {loss:.0f} µs of {1000 * cost(plain, 512):.0f} with 512")
    assert runs.at(plain, 512).summary["compute_bound_share"] > 0.5
    first = [runs.at(variant, 64).summary["ttft_ms.mean"] for variant in (batch.EAGLE, plain)]
    assert says(f"{first[0]:.0f} ms instead of {first[1]:.0f} with 64 requests")


def test_other_machines() -> None:
    """Which gains more, which loses sooner, and where experts fill."""
    small, eight_bits, large, experts = batch.ELSEWHERE
    assert says(f"gains more ({runs.speed_up(large, 1):.2f} ×)") and says(f"sooner, at {runs.crossing(large):.0f}")
    assert runs.crossing(large) < runs.crossing(small) < runs.crossing(eight_bits)
    assert says(f"only {100 * (runs.speed_up(experts, 4) - 1):.0f} %")
    assert says(f"drafts fill them, {runs.speed_up(experts, 64):.2f} ×")
    gains = [runs.speed_up(experts, requests) for requests in runs.BATCHES]
    assert min(gains[:5]) == gains[2] and max(gains) == gains[6] and gains[-1] > 1.3


def test_room() -> None:
    """What drafters take of the KV cache."""
    plain, eagle, draft = (batch.room(variant) for variant in (batch.EAGLE.plain, batch.EAGLE, batch.DRAFT))
    shares = [100 * (1 - tokens / plain) for tokens in (eagle, draft)]
    assert says(f"EAGLE-3 {shares[0]:.0f} % of the tokens, Llama-3.2-1B {shares[1]:.0f} %")
    assert says(f"more than {plain // 512} tokens together") and says(f"model more than {draft // 512}.")
    assert max(runs.at(variant, 512).summary["kv_use_max"] for variant in batch.SCHOOL) < 1 / 3


def test_best_depth() -> None:
    """By batch, and gaps between chunks."""
    best = [depth.best(requests) for requests in depth.BATCHES]
    assert runs.speed_up(depth.eagle(1), 512) < 1 and says("with 512 requests of GSM8K it does not")
    assert best == [4, 4, 2, 1] and says("The best K is 4 with one request, 2 with 64, 1 with 256.")
    gains = [runs.speed_up(depth.eagle(k), 1) for k in (3, 4, 5, 6)]
    assert min(gains) > 0.97 * max(gains)
    assert says(f"K = 8 is {100 * (1 - runs.speed_up(depth.eagle(8), 256)):.0f} % slower")
    alone = runs.at(depth.eagle(3), 1).summary
    assert says(f"every {alone['itl_ms.p50']:.1f} ms, while a token takes {alone['tpot_ms.mean']:.1f} ms")
    one, none = (runs.at(variant, 256).summary for variant in (depth.eagle(1), depth.eagle(1).plain))
    assert says(f"a token comes {100 * (1 - one['tpot_ms.mean'] / none['tpot_ms.mean']):.0f} % sooner")
    assert says(f"gaps that are {100 * (one['itl_ms.p50'] / none['itl_ms.p50'] - 1):.0f} % longer")


@pytest.mark.parametrize("where", (RISE, SEEDS, BURSTS))
def test_the_best_rule_and_fixed_numbers(where: int) -> None:
    """Goodput is ahead of all of them, and of the best by little."""
    pace = {candidate.name: load.mean(candidate, where, "TPOT mean, ms") for candidate in load.CANDIDATES}
    assert min(pace, key=lambda name: pace[name]) == "goodput"
    assert min(load.FIXED, key=lambda one: pace[one.name]) == TWO
    assert 1 < _less(GOODPUT, TWO, where) < 3.5 and says("1 to 3 % below that of K = 2")
    assert 38.5 < _less(GOODPUT, NONE, where) < 51.5 and says("39 to 51 % below plain decoding")
    more = load.mean(GOODPUT, where, "GPU-s wasted") / load.mean(TWO, where, "GPU-s wasted")
    assert 1.24 < more < 1.36
    for candidate in (ONE, TWO):
        assert pace[candidate.name] < pace[NONE.name]
        assert load.mean(candidate, where, "within the SLO, %") > 99.9
    assert pace["by-batch-size"] > max(pace[one.name] for one in (ONE, TWO, THREE))
    assert pace["ema-tiers"] == pytest.approx(pace[THREE.name], rel=1e-3)


def price_of_a_step(requests: int, context: int) -> StepPrice:
    """A step in which nothing is drafted, and the drafter reads along."""
    executor: Any = build(load_scenario("bench-8b-spec", [])).cluster.replicas[0].executor
    shape = StepShape(requests, requests, True, requests, requests, (requests * context,), (requests,))
    price: StepPrice = executor._step_time.price(shape)
    return price


def test_rules_at_the_rush_hour() -> None:
    """Of seed 0: what is lost by a K that is too large, and by rules that look at the wrong thing."""
    for metric, said in (("TPOT, quiet, ms", "while it is quiet"), ("TPOT, peak, ms", "at the peak")):
        slower = load.mean(THREE, RISE, metric) / load.mean(GOODPUT, RISE, metric) - 1
        assert says(f"{100 * slower:.0f} % {said}") or says(f"{100 * slower:.0f} % slower than `goodput` {said}")
    ratio = load.mean(FIVE, RISE, "TPOT mean, ms") / load.mean(GOODPUT, RISE, "TPOT mean, ms")
    assert says(f"takes {ratio:.1f} times as long")
    assert says(f"queue grow for {load.mean(SEVEN, RISE, 'TTFT p99, ms') / 1000:.0f} s")
    assert load.mean(ONE, RISE, "TPOT p99, ms") == min(load.mean(one, RISE, "TPOT p99, ms") for one in load.CANDIDATES)
    peak = load.mean(NONE, RISE, "TPOT, peak, ms")
    assert load.mean(PER_REQUEST, RISE, "TPOT, peak, ms") == pytest.approx(peak, rel=0.02)
    for name in ("draft-len-schedule", "disable-by-batch-size"):
        assert 1.1 < load.mean(BY_NAME[name], RISE, "TPOT, peak, ms") / peak < 1.15 and says("**Off is not free**")
    step = price_of_a_step(280, 500)
    assert 0.025 < step.draft_ps / step.total_ps < 0.035 and says("some 3 % of a step")
    spent = [load.mean(candidate, RISE, "GPU-s drafting") for candidate in (PER_REQUEST, GOODPUT)]
    assert says(f"takes {spent[0]:.0f} GPU-seconds against {spent[1]:.0f}")
    # Not known before the first step.
    chosen = [k for k in load.at(BY_NAME["disable-when-low"], load.RISE, 0).course["k"] if k == k]
    assert chosen[0] == 3 and chosen[len(chosen) // 2] == 0
    chosen = [k for k in load.at(BY_NAME["disable-when-low"], load.BURSTS, 0).course["k"] if k == k]
    assert chosen[3 * len(chosen) // 4] == 3 and says("hardly before the end under bursts")
    lengths = [load.at(THREE, stages, 0).summary["mean_acceptance_length"] for stages in (load.RISE, load.BURSTS)]
    assert all(length == pytest.approx(2.25, abs=0.02) for length in lengths)


def test_beside_measurements() -> None:
    """In the version that was measured."""
    old = replace(batch.EAGLE, more=(OLD,))
    for variant in (batch.EAGLE, old):
        gains = ", ".join(f"{runs.speed_up(variant, requests):.2f}" for requests in (1, 16, 64, 128))
        assert says(gains)


def test_acceptance_of_the_draft_model() -> None:
    """The inferred rate makes the speed-up of the pair that was measured what it was."""
    more = (OLD, "model=qwen3-8b")
    pair = runs.drafting(
        "", more=more, method="draft-model", k=3, model="qwen3-0.6b", acceptance=batch.DRAFT_RATE
    )  # fmt: skip
    assert runs.speed_up(pair, 1) == pytest.approx(1.701, abs=0.02)
    assert runs.tokens_a_step(runs.at(batch.TREE, 1)) == pytest.approx(2.92, abs=0.03)
