"""What the page about splitting a model says in sentences is what the simulator says now."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from tests.docs.blocks import ROOT
from tests.docs.test_generated import generate

from servetwin.catalog.find import Catalog

assert str(ROOT / "scripts") in sys.path and generate.splitting
runs: ModuleType = import_module("splitting_runs")
tensor: ModuleType = import_module("splitting_tensor")
servers: ModuleType = import_module("splitting_servers")
bubbles: ModuleType = import_module("splitting_bubbles")
measured: ModuleType = import_module("splitting_measured")
stragglers: ModuleType = import_module("splitting_stragglers")

ALONE, BATCH, PROMPT = tensor.STEPS
H100_BYTES_PER_S, H100_FLOPS = 3.35e12, {"bf16": 989e12, "fp8": 1979e12}
PP_BF16, TP_BF16, PP_FP8, TP_FP8, TWO_FP8 = servers.LAYOUTS


@cache
def _page() -> str:
    return " ".join((ROOT / "docs" / "findings" / "splitting.md").read_text(encoding="utf-8").split())


def says(sentence: str) -> bool:
    """Whether the page has these words in a row."""
    return sentence in _page()


def _step(degree: int, weights: str, name: str) -> dict[str, Any]:
    found = tensor.step(degree, weights, name)
    assert found is not None
    return dict(found)


def _gpu_ms(degree: int, weights: str, name: str, *operators: str) -> float:
    """GPU time of some operators of a step, or of all of it [ms]."""
    found = _step(degree, weights, name)
    named = [one["total_us"] for one in found["operators"] if not operators or one["name"] in operators]
    return float(sum(named)) * degree / 1000


def _times(degree: int, weights: str, name: str) -> float:
    """How much faster a step is than on half of the GPUs."""
    half, took = (_step(one, weights, name)["step"]["total_us"] for one in (degree // 2, degree))
    return float(half / took)


def _share(degree: int, weights: str, name: str) -> float:
    """Share of a step that its all-reduces and gathers take."""
    took = _step(degree, weights, name)["step"]
    return float(took["communication_us"] / took["total_us"])


@pytest.mark.parametrize("weights", tensor.PRECISIONS)
@pytest.mark.parametrize("name", tensor.STEPS)
def test_no_step_beats_the_hardware(name: str, weights: str) -> None:
    """Each GPU reads its share of the weights once, and computes its share of the products: worked from the shapes."""
    model = Catalog().model("llama-3.1-70b")
    batch, _, prompt = tensor.STEPS[name]
    products = 2 * (70.55e9 - 2 * 128_256 * 8_192) * (batch + prompt)
    for degree in (2, 4, 8):
        found = tensor.step(degree, weights, name)
        if found is None:
            continue
        # Of the embedding only the rows of the tokens are read.
        read = model.weight_bytes(weights, degree) - 2 * 128_256 * 8_192 / degree
        least_s = max(read / H100_BYTES_PER_S, products / degree / H100_FLOPS[weights])
        assert found["step"]["floor_us"] * 1e-6 >= 0.999 * least_s
        assert found["step"]["total_us"] >= found["step"]["floor_us"]


def test_what_fits() -> None:
    """The first paragraphs."""
    assert round(Catalog().model("llama-3.1-70b").weight_bytes("bf16") / 1e9) == 141 and says("bf16 are 141 GB")
    assert all(tensor.step(1, weights, ALONE) is None for weights in tensor.PRECISIONS)
    shorter = runs.Layout("", 1, 1, 1, "fp8", ("cluster.engine.max_num_seqs=128", "cluster.engine.max_model_len=4096"))
    memory = runs.explained(tensor.SCENARIO, shorter, 1, 1000)["memory"]
    assert says(f"{memory['kv_capacity_tokens']:,} tokens of KV cache are left")
    # The longest prompt and answer of the scenario.
    assert memory["kv_capacity_tokens"] < 6_000 + 1_500
    assert memory["max_batch_at_context"] == 5 and says("would run five short chats at a time")
    assert says(f"{memory['weights_bytes'] / 2**30:.1f} of its 69.4 GiB")
    two = _step(2, "bf16", ALONE)["memory"]
    assert round(two["kv_capacity_tokens"], -3) == 24_000 and 18 <= two["kv_capacity_tokens"] / 1250 <= 22


def test_no_doubling_pays_in_full() -> None:
    """Nowhere in the table, and by how much a lone request falls short."""
    gains = [
        _times(degree, weights, name)
        for weights in tensor.PRECISIONS for name in tensor.STEPS for degree in (4, 8)
        if (degree, weights, name) != (4, "bf16", BATCH)
    ]  # fmt: skip
    assert 1.3 < min(gains) < max(gains) < 1.8
    four, eight = (_times(degree, "bf16", ALONE) for degree in (4, 8))
    assert says(f"{four:.2f} × as fast on four GPUs as on two and {eight:.2f} × as fast on eight as on four")
    assert says(f"{_times(4, 'fp8', ALONE):.2f} × and {_times(8, 'fp8', ALONE):.2f} ×")
    dearer = [_gpu_ms(8, weights, ALONE) / _gpu_ms(2, weights, ALONE) - 1 for weights in tensor.PRECISIONS]
    assert says(
        f"costs {100 * dearer[0]:.0f} % more GPU time on eight GPUs than on two, in fp8 {100 * dearer[1]:.0f} %"
    )


def test_what_eats_the_gain() -> None:
    """Where the steps stand, and what grows with the number of GPUs."""
    for weights, ridge in (("bf16", 295), ("fp8", 591)):
        found = _step(8, weights, BATCH)["intensity"]
        assert round(found["ridge_flops_per_byte"]) == ridge and 50 < found["flops_per_byte"] < 100
        assert _step(8, weights, ALONE)["step"]["bound"] == _step(8, weights, BATCH)["step"]["bound"] == "memory"
        assert _step(8, weights, PROMPT)["step"]["bound"] == "compute"
    lost = _gpu_ms(8, "bf16", ALONE) - _gpu_ms(2, "bf16", ALONE)
    reduced = _gpu_ms(8, "bf16", ALONE, "all-reduce") - _gpu_ms(2, "bf16", ALONE, "all-reduce")
    assert 0.2 < reduced / lost < 0.25
    assert 0.18 < _share(8, "bf16", BATCH) < 0.22 and 0.18 < _share(8, "fp8", BATCH) < 0.22
    assert says(
        f"grow from {100 * _share(2, 'bf16', PROMPT):.0f} to {100 * _share(8, 'bf16', PROMPT):.0f} % of the step"
    )
    lost = _gpu_ms(8, "bf16", PROMPT) - _gpu_ms(2, "bf16", PROMPT)
    reduced = _gpu_ms(8, "bf16", PROMPT, "all-reduce") - _gpu_ms(2, "bf16", PROMPT, "all-reduce")
    assert reduced / lost == pytest.approx(2 / 3, abs=0.03)
    compute = [_step(degree, "bf16", PROMPT)["step"]["compute_us"] * degree for degree in (2, 8)]
    assert compute[0] == pytest.approx(compute[1], rel=0.01)
    assert 2 * 8192 * 1 == 16_384 and pytest.approx(134e6, rel=0.01) == 2 * 8192 * 8192


def test_at_low_load_the_widest_replica_wins() -> None:
    """And gain and price, of the same requests."""
    for weights, sooner in (("bf16", 1 / 3), ("fp8", 1 / 4)):
        found = tensor.comparison(weights, 1.0)["variants"]
        two, four, eight = (found[f"tp{degree}"]["metrics"]["e2e_ms.mean"] for degree in (2, 4, 8))
        assert eight < four < two
        assert 1 - eight / four == pytest.approx(sooner, abs=0.025)
        ends = found["tp8"]["ci"]["e2e_ms.mean"]
        assert ends["low"] < ends["high"] < 0
    wide, base = (tensor.comparison("bf16", 1.0)["variants"][name] for name in ("tp8", "tp4"))
    saved, price = wide["net"]["saved_gpu_seconds"], wide["cost"]["exposed_communication"]
    assert says(f"saves {saved:,.0f} of {base['metrics']['gpu_seconds_in_use']:,.0f}")
    assert says(f"gives back {price:,.0f} for all-reduces")
    assert 0.8 * saved < price < saved
    assert tensor.comparison("fp8", 1.0)["variants"]["tp8"]["net"]["gpu_seconds"] < 0


def test_at_high_load_narrow_replicas_win() -> None:
    """The highest loads within the SLO."""
    found = {
        (weights, degree): tensor.highest(degree, weights) for weights in tensor.PRECISIONS for degree in (2, 4, 8)
    }
    assert found["bf16", 2] < found["bf16", 4] / 2
    assert found["bf16", 8] <= found["bf16", 4]
    two, four, eight = (found["fp8", degree] for degree in (2, 4, 8))
    assert says(f"{two:g} requests per second, TP4 {four:g}, TP8 {eight:g}") and two > four > eight
    assert tensor.at(2, "bf16", found["bf16", 2]).summary["kv_use_max"] > 0.95
    assert says(f"{100 * tensor.at(8, 'fp8', eight).share['exposed_communication']:.0f} % of its GPU-seconds")
    # At the load where TP8 is just within the SLO in bf16, or beyond it in fp8, the requests do not fare better there.
    high = tensor.comparison("fp8", 18.0)["variants"]["tp8"]
    assert high["ci"]["e2e_ms.mean"]["low"] > 0


def test_405b_by_its_shapes() -> None:
    """What it weighs, and what it sends over the NICs of a server for a token."""
    assert round(Catalog().model("llama-3.1-405b").weight_bytes("bf16") / 1e9) == 812 and says("bf16 is 812 GB")
    reduced, gathered, handed = 252 * 16_384 * 2, 128_256 * 2 / 2, 2 * 16_384 * 2
    assert servers.nic_bytes_per_token(TP_BF16) == reduced + gathered
    assert servers.nic_bytes_per_token(PP_BF16) == handed
    assert servers.nic_bytes_per_token(TWO_FP8) == 0
    assert says(f"sends {(reduced + gathered) / 1e6:.1f} MB") and says(f"{(reduced + gathered) / handed:.0f} times")
    assert says("uses 6 to 8 % of them")
    for layout, most in ((TP_BF16, 2.0), (TP_FP8, 2.0), (PP_BF16, 1.05)):
        # Small messages go along the tree with twice the bytes; batches are padded to the captured sizes.
        reached = servers.at(layout, servers.highest(layout))
        tokens_per_s = reached.summary["total_throughput_tokens_per_s"]
        least = servers.nic_bytes_per_token(layout) * tokens_per_s / (8 * 50e9)
        assert least < servers.nic_use(reached) < most * least
        assert layout is PP_BF16 or 0.06 < servers.nic_use(reached) < 0.08
    assert servers.nic_use(servers.at(TWO_FP8, servers.highest(TWO_FP8))) == 0


def test_405b_in_steps() -> None:
    """Waiting for all-reduces over InfiniBand, against reading the weights."""
    wide, staged = (runs.explained(servers.SCENARIO, layout, *servers.STEPS[ALONE]) for layout in (TP_BF16, PP_BF16))
    assert says(f"{wide['step']['floor_us'] / 1000:.0f} ms against {staged['step']['floor_us'] / 1000:.0f} at full")
    each = servers.all_reduce_us(wide)
    assert says(f"waits {each:.0f} µs in each of 252 all-reduces, {0.252 * each:.0f} ms in all")
    prompt = runs.explained(servers.SCENARIO, TP_BF16, *servers.STEPS[PROMPT])
    assert says(f"takes {servers.all_reduce_us(prompt) / 1000:.1f} ms")
    bounds = [
        [runs.explained(servers.SCENARIO, layout, *servers.STEPS[name])["step"]["bound"] for layout in servers.LAYOUTS]
        for name in (ALONE, BATCH, PROMPT)
    ]
    assert bounds[0] == ["memory"] * 5
    assert bounds[1] == ["memory", "memory", "memory", "communication", "memory"]
    assert bounds[2] == ["compute", "communication", "compute", "communication", "compute"]
    assert prompt["step"]["communication_us"] / prompt["step"]["total_us"] == pytest.approx(0.5, abs=0.02)
    assert wide["memory"]["kv_capacity_tokens"] == pytest.approx(staged["memory"]["kv_capacity_tokens"] / 2, rel=0.05)
    one, split, all_reduced = (
        runs.explained(servers.SCENARIO, layout, *servers.STEPS[ALONE])["step"]["total_us"] / 1000
        for layout in (TWO_FP8, PP_FP8, TP_FP8)
    )
    assert one < split < all_reduced and says(f"whose {one:.1f} ms for a token")
    half_ms = 0.252 * servers.all_reduce_us(runs.explained(servers.SCENARIO, TP_FP8, *servers.STEPS[ALONE])) / 2
    assert says(f"write a token {half_ms:.0f} ms sooner") and all_reduced - half_ms < split


def test_405b_by_load() -> None:
    """Who wins where."""

    def tpot_ms(layout: Any, rate: float) -> float:
        return float(servers.at(layout, rate).summary["tpot_ms.mean"])

    ahead = 1 - tpot_ms(TP_BF16, 0.25) / tpot_ms(PP_BF16, 0.25)
    assert says(f"It is {100 * ahead:.0f} % ahead at one request in four seconds")
    assert tpot_ms(TP_BF16, 3.0) == pytest.approx(tpot_ms(PP_BF16, 3.0), rel=0.03)
    assert servers.highest(TP_BF16) == pytest.approx(servers.highest(PP_BF16), rel=0.1)
    assert servers.at(TP_BF16, 5.0).overloaded and not servers.at(PP_BF16, 5.0).overloaded
    assert servers.at(TP_BF16, 5.0).summary["kv_use_max"] > 0.95
    for layout in (PP_BF16, PP_FP8):
        assert 0.4 < servers.at(layout, 0.25).share["bubble"] < 0.51
        assert servers.at(layout, 2.0).share["bubble"] == pytest.approx(0.5, abs=0.01)
    for rate in servers.CURVE[:6]:
        assert tpot_ms(TWO_FP8, rate) < tpot_ms(PP_FP8, rate) < tpot_ms(TP_FP8, rate)
    assert servers.highest(TWO_FP8) == pytest.approx(2 * servers.highest(PP_FP8), rel=0.1)
    assert servers.highest(TP_FP8) < servers.highest(PP_FP8)


def test_bubbles() -> None:
    """By load, under both rules, and what filling them is worth."""
    for rate in (0.25, 1.0, 6.0):
        assert bubbles.waits(bubbles.at(bubbles.VLLM, rate)) == pytest.approx(0.75, abs=0.005)
    assert 0.65 < bubbles.waits(bubbles.at(bubbles.VLLM, 8.0)) < 0.745 and bubbles.at(bubbles.VLLM, 8.0).overloaded
    ours, theirs, wide = (bubbles.at(layout, 1.0) for layout in (bubbles.BALANCED, bubbles.VLLM, bubbles.WIDE))
    assert says(f"bring it to {100 * bubbles.waits(ours):.0f} % at one request per second")
    pace = [found.summary["tpot_ms.mean"] for found in (ours, theirs)]
    assert says(f"{pace[0]:.0f} against {pace[1]:.0f} ms")
    bubble = theirs.gpu_s["bubble"] - ours.gpu_s["bubble"]
    assert ours.gpu_s["hbm"] - theirs.gpu_s["hbm"] == pytest.approx(bubble, rel=0.06)
    assert wide.share["bubble"] == 0
    ours, theirs = (bubbles.at(layout, 6.0).summary for layout in (bubbles.BALANCED, bubbles.VLLM))
    less = [100 * (1 - ours[metric] / theirs[metric]) for metric in ("tpot_ms.mean", "ttft_ms.mean")]
    assert says(f"token takes {less[0]:.0f} % less and the first one {less[1]:.0f} %")
    most = [
        bubbles.at(layout, 8.0).summary["output_throughput_tokens_per_s"] for layout in (bubbles.BALANCED, bubbles.VLLM)
    ]
    assert says(f"at eight {100 * (most[0] / most[1] - 1):.0f} % more tokens come out")


def test_a_pipeline_is_as_slow_as_one_gpu() -> None:
    """A lone token reads all weights, one stage after the other, and TP4 a quarter of them."""
    read = Catalog().model("llama-3.1-70b").weight_bytes("bf16") - 2 * 128_256 * 8_192
    assert bubbles.lone_ms(bubbles.VLLM) > 1000 * read / H100_BYTES_PER_S
    for rate in (0.25, 4.0):
        wide, ours, theirs = (bubbles.at(layout, rate) for layout in (bubbles.WIDE, bubbles.BALANCED, bubbles.VLLM))
        paces = [found.summary["tpot_ms.mean"] for found in (ours, theirs)]
        assert wide.summary["tpot_ms.mean"] < min(paces) / 3
    for rate, share in ((0.25, 0.05), (8.0, 0.15)):
        spent = bubbles.at(bubbles.WIDE, rate).share
        assert spent["exposed_communication"] / (1 - spent["idle"]) == pytest.approx(share, abs=0.01)


def test_a_fault_costs_where_the_work_stands() -> None:
    """Of a step on eight GPUs."""
    hot, worn, thin = (
        [100 * stragglers.longer(8, name, field) for name in (ALONE, BATCH, PROMPT)]
        for field in ("flops", "hbm", "link")
    )  # fmt: skip
    assert max(hot[0], hot[1]) < 0.5 and says(f"a prompt on eight GPUs {hot[2]:.0f} %")
    assert says(f"the reverse: {worn[0]:.0f} % for a lone decode, {worn[2]:.0f} % for the prompt")
    assert thin[0] < 0.2 and thin[1] < 3 and thin[2] > 10


def test_one_slow_gpu_slows_as_many_as_it_meets() -> None:
    """Under load, by layout and router."""

    def e2e_ms(degree: int, field: str | None, router: str) -> float:
        return float(stragglers.at(degree, field, router).summary["e2e_ms.mean"])

    # 30 % of one of eight.
    assert says("a 27th of all that they have") and round(8 / (1 - stragglers.SHARE)) == 27
    wide = e2e_ms(8, "hbm", "round-robin") / e2e_ms(8, None, "round-robin") - 1
    halves = e2e_ms(4, "hbm", "least-requests") / e2e_ms(4, None, "least-requests") - 1
    assert says(f"take {100 * wide:.0f} % longer on one group of eight, and {100 * halves:.0f} % on two of four")
    for field in stragglers.FAULTS.values():
        assert e2e_ms(4, field, "least-requests") < e2e_ms(4, field, "round-robin")


def test_beside_measurements() -> None:
    """How far off, and what a real doubling gains."""
    found = {
        (load, degree): measured.simulated_ms(load, degree) / tpot - 1
        for load, by_degree in measured.MEASURED_TPOT_MS.items()
        for degree, tpot in by_degree.items()
    }
    assert max(abs(error) for (_, degree), error in found.items() if degree < 8) < 0.06
    assert -0.115 < min(found.values()) < -0.10 and min(found, key=lambda key: found[key])[1] == 8
    real = [by_degree[4] / by_degree[8] for by_degree in measured.MEASURED_TPOT_MS.values()]
    ours = [measured.simulated_ms(load, 4) / measured.simulated_ms(load, 8) for load in measured.MEASURED_TPOT_MS]
    assert says(
        f"gains {min(real):.2f} to {max(real):.2f} ×, where the simulator says {min(ours):.2f} to {max(ours):.2f} ×"
    )
