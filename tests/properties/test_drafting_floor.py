"""No step that verifies drafts and makes new ones is faster than the hardware allows, and its price adds up.

The floors are computed here, and in ``test_floor``, from the YAML of model and GPU: drafted tokens are tokens of the
model's step, and every pass of a drafter reads its weights once.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.properties.test_floor import CALIBRATION, CATALOG, GPUS, MODELS, Floor

from servetwin.errors import CapacityError
from servetwin.physics.drafting import Drafting, HeadDrafting, LookupDrafting, ModelDrafting, products
from servetwin.physics.jitter import JitteredStepTime
from servetwin.physics.overheads import Machine
from servetwin.physics.protocols import DRAFT, StepShape
from servetwin.physics.speculative_step_time import SpeculativeStepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs.drafter import draft_model, eagle, eagle3, medusa, mtp, parallel_model

OF_THE_MODEL: dict[str, Any] = {"eagle": eagle, "eagle3": eagle3, "mtp": mtp, "medusa": medusa}
METHODS = [*OF_THE_MODEL, "draft-model", "parallel", "ngram"]
SMALL = "qwen3-0.6b"
SIZES = (1, 2, 4, 8, 16, 32, 64)


def speculative(
    method: str, model: str, gpu: str, tensor: int, share: int, synchronous: bool = False, branching: int = 1
) -> SpeculativeStepTime:
    """The steps of ``model`` with what drafting by ``method`` takes."""
    common: dict[str, Any] = {"kv_cache": "bf16", "sampling": "greedy", "calibration": CALIBRATION}
    target, chip = CATALOG.model(model), CATALOG.gpu(gpu)
    verifying = RooflineStepTime(target, chip, tensor=tensor, weights="auto", **common)
    machine = Machine.of(chip, CALIBRATION)
    drafting: Drafting = LookupDrafting(CALIBRATION)
    if method == "medusa":
        heads = medusa(target)
        found = products(heads.each, tensor, machine) + products(heads.whole, 1, machine)
        drafting = HeadDrafting(found, verifying.links)
    elif method != "ngram":
        small = CATALOG.model(SMALL)
        own = {"draft-model": draft_model, "parallel": parallel_model}
        drafter = own[method](small) if method in own else OF_THE_MODEL[method](target)
        drafting = ModelDrafting(
            RooflineStepTime(drafter.model, chip, tensor=share, weights="auto", **common),
            once=products(drafter.once, 1, machine),
            each=products(drafter.each, share, machine) + products(drafter.whole, 1, machine),
            parallel=method == "parallel", on_states=drafter.on_states, branching=branching, graph_sizes=SIZES,
            synchronous=synchronous, calibration=CALIBRATION,
        )  # fmt: skip
    return SpeculativeStepTime(verifying, drafting)


def step(
    contexts: list[int], widths: list[int], chunks: list[tuple[int, int]], windows: tuple[int, ...], drafts: int
) -> StepShape:
    """Requests with so much context verify as many tokens more each, and everybody gets ``drafts`` new ones."""
    decodes = len(contexts)
    drafted = sum(widths)
    tokens = decodes + drafted + sum(new for new, _ in chunks)
    padded = next((size for size in SIZES if size >= tokens), tokens)
    context = tuple(sum(c if w is None else min(c, w) for c in contexts) + drafted for w in (None, *windows))
    width = 0.0
    if len(set(widths)) > 1:
        width = sum(rows(contexts, widths)) / context[0]
    return StepShape(
        tokens, padded, tokens <= SIZES[-1], decodes + len(chunks), decodes, context, (decodes,) * len(context),
        tuple(chunks), drafted, drafts=drafts, width=width,
    )  # fmt: skip


def rows(contexts: list[int], widths: list[int]) -> list[int]:
    """What each token of the decoding requests attends: drafted tokens those before them too."""
    return [context + place for context, width in zip(contexts, widths, strict=True) for place in range(1 + width)]


class DraftFloor(Floor):
    """What the passes of a drafter take at least."""

    def weights(self, method: str, drafts: int, rows: int) -> tuple[float, float]:
        """Bytes of a pass, and of the first one more [B]."""
        model, t = self.model, self.tensor
        hidden, vocab = model["hidden"], model["vocab"]
        if method == "medusa":
            return 2.0 * (hidden * hidden + vocab * hidden / t), 0.0
        if method == "mtp":
            group = model["layers"][-1]
            mlp = group["mlp"]
            moved = self.attention(group["attention"], hidden)[0] * self.size("attention")
            if mlp["kind"] == "moe":
                moved += 3 * hidden / t * mlp["top_k"] * mlp["intermediate"] * self.size("experts")
                moved += 3 * hidden / t * mlp.get("shared_intermediate", 0) * self.size("shared")
            else:
                moved += (3 if mlp.get("gated", True) else 2) * hidden * mlp["intermediate"] / t * self.size("dense")
            return moved + 2.0 * (2 * hidden * hidden + vocab * hidden / t), 0.0
        full = [
            group for group in model["layers"]
            if not group["attention"].get("window") and group["attention"]["kind"] != "state"
        ] or model["layers"]  # fmt: skip
        dense = [
            group["mlp"]
            for group in model["layers"]
            if group["mlp"]["kind"] == "dense" and group["mlp"]["intermediate"]
        ]
        inner = dense[0]["intermediate"] if dense else 4 * hidden
        matrices = 2 if dense and not dense[0].get("gated", True) else 3
        attention = full[0]["attention"]
        moved = 2.0 * (self.attention(attention, hidden)[0] + matrices * hidden * inner / t)
        if method == "eagle":
            return moved + 2.0 * (2 * hidden * hidden + vocab * hidden / t), 0.0
        return moved + 2.0 * min(32_000, vocab) * hidden / t, 2.0 * 3 * hidden * hidden

    def drafting_seconds(
        self, method: str, drafts: int, rows: int, attended: list[int], chunks: list[tuple[int, int]]
    ) -> float:
        """Every pass reads its weights once; the first one computes what the step has, and attends as much."""
        if method in ("draft-model", "parallel"):
            passes = 1 if method == "parallel" else drafts
            tokens = len(attended) + sum(new for new, _ in chunks)
            first = self.seconds(tokens + rows * (drafts if method == "parallel" else 1), rows, attended, chunks)
            again = self.seconds(0, 0, [], [])[1]
            return max(first[0], again) + (passes - 1) * again
        each, once = self.weights(method, drafts, rows)
        return (drafts * each + once) / self.hbm


@st.composite
def verified(draw: st.DrawFn) -> tuple[list[int], list[int], list[tuple[int, int]], int]:
    """Contexts, drafts that each of them verifies, chunks, and drafts that are made."""
    length = draw(st.sampled_from([1, 300, 8_000, 100_000]))
    contexts = draw(st.lists(st.integers(1, length), max_size=16)) * draw(st.sampled_from([1, 1, 8]))
    sizes = st.tuples(st.integers(1, 2_048), st.integers(0, length))
    chunks = draw(st.lists(sizes, max_size=2, min_size=0 if contexts else 1))
    counts = st.sampled_from([0, 1, 3, 7])
    if draw(st.booleans()):
        widths = [draw(counts)] * len(contexts)
    else:
        widths = [draw(counts) for _ in contexts]
    return contexts, widths, chunks, draw(st.sampled_from([1, 2, 3, 7]))


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(METHODS),
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(GPUS),
    tensor=st.sampled_from([1, 2, 8]),
    shared=st.booleans(),
    synchronous=st.booleans(),
    branching=st.sampled_from([1, 1, 4]),
    drawn=verified(),
)
def test_no_step_beats_the_hardware_and_its_price_adds_up(
    method: str, model: str, gpu: str, tensor: int, shared: bool, synchronous: bool, branching: int,
    drawn: tuple[list[int], list[int], list[tuple[int, int]], int],
) -> None:  # fmt: skip
    contexts, widths, chunks, drafts = drawn
    share = tensor if shared else 1
    try:
        prices = speculative(method, model, gpu, tensor, share, synchronous, branching)
    except CapacityError:
        reject()  # these ranks do not divide the heads
    shape = step(contexts, widths, chunks, prices.windows, drafts)
    price = prices.price(shape)
    parts = price.compute_ps + price.memory_ps + price.communication_ps + price.host_ps
    assert price.total_ps == parts + price.draft_ps
    assert min(price.compute_ps, price.memory_ps, price.communication_ps, price.host_ps, price.draft_ps) >= 0
    phases = prices.phases(shape)
    assert sum(phase.ps for phase in phases) == price.total_ps
    assert sum(phase.ps for phase in phases if phase.kind == DRAFT) == price.draft_ps
    order = [phase.kind == DRAFT for phase in phases]
    assert order == sorted(order), "drafting comes last"
    # The model's own part of the step: drafted tokens attend what is before them, and are read with it.
    floor = Floor(model, gpu, tensor, "auto", "bf16")
    attended = rows(contexts, widths)
    compute, _, wire = floor.seconds(shape.tokens, shape.rows, attended, chunks)
    read = [context + width for context, width in zip(contexts, widths, strict=True)]
    _, memory, _ = floor.seconds(shape.tokens, shape.rows, read, chunks)
    assert price.compute_ps + price.memory_ps >= max(compute, memory) * 1e12
    assert price.communication_ps >= wire * 1e12
    if method == "ngram":
        assert price.draft_ps == round(CALIBRATION.lookup_s * 1e12)
        return
    small = SMALL if method in ("draft-model", "parallel") else model
    own = DraftFloor(small, gpu, share if method != "medusa" else tensor, "auto", "bf16")
    assert price.draft_ps >= own.drafting_seconds(method, drafts, shape.requests, attended, chunks) * 1e12


@settings(max_examples=150, deadline=None)
@given(
    method=st.sampled_from(METHODS), model=st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "deepseek-v3.2"]),
    synchronous=st.booleans(), drawn=verified(),
)  # fmt: skip
def test_the_price_is_linear_in_the_context_and_no_draft_is_free(
    method: str, model: str, synchronous: bool, drawn: tuple[list[int], list[int], list[tuple[int, int]], int]
) -> None:
    contexts, widths, chunks, drafts = drawn
    prices = speculative(method, model, "h100-sxm", 1, 1, synchronous)
    shape = step(contexts, widths, chunks, prices.windows, drafts)
    price = prices.price(shape)
    growth = price.compute_growth_ps + price.memory_growth_ps + price.host_growth_ps + price.draft_growth_ps
    assert price.growth_ps == growth
    for later in (1, 9):
        if later >= price.lasts:
            continue
        grown = step(contexts, widths, chunks, prices.windows, drafts)
        grown.context = tuple(c + later * g for c, g in zip(shape.context, shape.growing, strict=True))
        again = prices.price(grown)
        assert again.total_ps == price.total_ps + later * price.growth_ps
        assert again.draft_ps == price.draft_ps + later * price.draft_growth_ps
    none = step(contexts, widths, chunks, prices.windows, 0)
    plain = prices._verifying.price(none)
    kept = prices.price(none)
    assert kept.total_ps - kept.draft_ps == plain.total_ps == price.total_ps - price.draft_ps
    # A drafter with a cache reads along; what has none does nothing.
    assert (kept.draft_ps > 0) == (method not in ("medusa", "ngram"))
    assert kept.draft_ps <= price.draft_ps
    assert prices.phases(none)[: len(prices._verifying.phases(none))] == prices._verifying.phases(none)
    costs = [prices.price(step(contexts, widths, chunks, prices.windows, k)).draft_ps for k in (1, 2, 3, 5, 8)]
    assert costs == sorted(costs) and costs[0] > 0
    # More to verify is never cheaper either.
    wider = [prices.price(step(contexts, [w] * len(contexts), chunks, prices.windows, drafts)) for w in (0, 1, 3, 7)]
    totals = [one.total_ps - one.host_ps for one in wider if shape.decodes]
    assert totals == sorted(totals)


@pytest.mark.parametrize(("long", "short"), [(1_000_000, 100), (50_000, 1)])
def test_who_verifies_drafts_over_a_long_context_pays_for_it(long: int, short: int) -> None:
    """Latent attention is bound by arithmetic: the mean number of drafts times all context would beat the hardware."""
    prices = speculative("mtp", "deepseek-r1", "h200-sxm", 1, 1)
    contexts, widths = [long] + [short] * 15, [7] + [0] * 15
    price = prices.price(step(contexts, widths, [], (), 1))
    attending, _, _ = Floor("deepseek-r1", "h200-sxm", 1, "auto", "bf16").seconds(0, 0, rows(contexts, widths), [])
    assert price.compute_ps >= attending * 1e12
    turned = prices.price(step(contexts, [0] * 15 + [7], [], (), 1))
    assert turned.compute_ps < 0.15 * price.compute_ps


@pytest.mark.parametrize("stretch", [0.3, 0.9, 1.0, 1.7])
def test_noise_leaves_drafting_alone(stretch: float) -> None:
    exact = speculative("eagle3", "llama-3.1-8b", "h100-sxm", 2, 2)
    noisy = JitteredStepTime(exact)
    shape = step([500] * 9, [3] * 9, [(100, 50)], (), 3)
    shape.stretch = stretch
    assert noisy.price(shape).draft_ps == exact.price(shape).draft_ps
    phases = noisy.phases(shape)
    assert sum(phase.ps for phase in phases) == noisy.price(shape).total_ps
    assert sum(phase.ps for phase in phases if phase.kind == DRAFT) == exact.price(shape).draft_ps
