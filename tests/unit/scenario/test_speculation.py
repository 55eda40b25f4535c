"""``speculation`` of a scenario: what it resolves to, what it takes of the memory, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

import servetwin
from servetwin.catalog import Catalog
from servetwin.errors import CapacityError, CatalogError, InputError, ScenarioError, shorten
from servetwin.physics.drafting import ModelDrafting, products
from servetwin.physics.overheads import Machine
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.policies import PolicyContext, registry
from servetwin.policies.speculation import BatchController, DraftPolicy
from servetwin.scenario.build import build
from servetwin.scenario.draft_methods import METHODS
from servetwin.scenario.engine_settings import captured
from servetwin.scenario.load import LoadedScenario, load
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.slowdown import slow_down
from servetwin.scenario.store import config_hash, run_hash, to_mapping, to_yaml
from servetwin.specs.drafter import METHOD_NAMES, draft_model, eagle, eagle3, mtp, parallel_model

Load = Callable[..., LoadedScenario]


def drafting(base: dict[str, Any], speculation: Any, **cluster: Any) -> dict[str, Any]:
    return deep_merge(base, {"cluster": {"speculation": speculation, **cluster}})


EAGLE3 = {"method": "eagle3", "acceptance": 0.6}
SMALL = {"method": "draft-model", "model": "qwen3-0.6b", "acceptance": 0.6}


def engine(loaded: LoadedScenario) -> Any:
    return loaded.scenario.cluster.pools[0].engine


# -- what the engine decides by itself ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "ahead"),
    [("eagle", True), ("eagle3", True), ("parallel", True), ("draft-model", False), ("medusa", False),
     ("ngram", False), ("suffix", False)],
)  # fmt: skip
def test_vllm_schedules_ahead_for_some_methods_only(
    method: str, ahead: bool, load_it: Load, base: dict[str, Any]
) -> None:
    speculation = {"method": method, "acceptance": 0.6}
    if method in ("draft-model", "parallel"):
        base["model"], speculation["model"] = "qwen3-8b", "qwen3-0.6b"
    assert engine(load_it(drafting(base, speculation))).async_scheduling is ahead
    # Who asks for it gets it.
    asked = deep_merge(drafting(base, speculation), {"cluster": {"engine": {"async_scheduling": not ahead}}})
    assert engine(load_it(asked)).async_scheduling is not ahead


@pytest.mark.parametrize(
    ("method", "again", "ahead"),
    [("eagle", True, 4), ("eagle3", True, 4), ("parallel", False, 4), ("draft-model", False, 4), ("medusa", False, 0),
     ("ngram", False, 0), ("suffix", False, 0), (None, False, 0)],
)  # fmt: skip
def test_hidden_states_cost_a_block_of_a_prefix_and_drafters_slots_ahead(
    method: str | None, again: bool, ahead: int, load_it: Load, base: dict[str, Any]
) -> None:
    speculation: Any = None if method is None else {"method": method, "acceptance": 0.6, "k": 4}
    if method in ("draft-model", "parallel"):
        base["model"], speculation["model"] = "qwen3-8b", "qwen3-0.6b"
    loaded = load_it(drafting(base, speculation))
    replica = build(loaded.scenario).cluster.replicas[0]
    assert replica.executor.settings.recompute_last_block is again
    drafter = pool_parts(loaded.scenario, loaded.scenario.cluster.pools[0], "cluster.pools.0", Catalog()).drafter
    assert (0 if drafter is None else drafter.lookahead) == ahead


def test_an_old_vllm_schedules_synchronously_for_all(load_it: Load, base: dict[str, Any]) -> None:
    base["engine"] = {"name": "vllm", "version": "0.10"}
    assert engine(load_it(drafting(base, EAGLE3))).async_scheduling is False


def test_mtp_schedules_ahead(load_it: Load, base: dict[str, Any]) -> None:
    base["model"], base["cluster"] = "deepseek-r1", {"hardware": "h200-sxm", "parallel": {"tensor": 8}}
    assert engine(load_it(drafting(base, {"method": "mtp", "k": 1, "acceptance": 0.8}))).async_scheduling is True


def test_sglang_has_48_seats_and_does_not_overlap(load_it: Load, base: dict[str, Any]) -> None:
    base["engine"] = {"name": "sglang", "version": "0.5"}
    loaded = engine(load_it(drafting(base, EAGLE3)))
    assert (loaded.max_num_seqs, loaded.async_scheduling) == (48, False)
    plain = engine(load_it(base))
    assert plain.max_num_seqs > 48 and plain.async_scheduling is True


@pytest.mark.parametrize(
    ("seats", "speculation", "largest"),
    [
        (16, EAGLE3 | {"k": 3}, 2 * 16 * 4), (100, EAGLE3 | {"k": 3}, 512), (16, EAGLE3 | {"k": 1}, 2 * 16 * 2),
        (16, EAGLE3 | {"k": 3, "tree": {"nodes": 10}}, 2 * 16 * 11), (16, None, 2 * 16),
    ],
)  # fmt: skip
def test_graphs_are_captured_for_the_tokens_of_drafts(
    seats: int, speculation: Any, largest: int, load_it: Load, base: dict[str, Any]
) -> None:
    loaded = load_it(drafting(base, speculation, engine={"max_num_seqs": seats}))
    assert engine(loaded).max_cudagraph_capture_size == largest


# -- memory -------------------------------------------------------------------------------------------------------

LAYER = 2 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) + 2 * 2 * 4096


def blocks(loaded: LoadedScenario) -> int:
    replica = build(loaded.scenario).cluster.replicas[0]
    return int(replica.executor.settings.num_blocks)


@pytest.mark.parametrize(
    ("model", "speculation", "weights", "cached"),
    [
        ("llama-3.1-8b", {"method": "eagle"}, LAYER + 2 * 4096 * 2 * 4096, 4096),
        ("llama-3.1-8b", {"method": "eagle3", "k": 5},
         LAYER + 2 * (32_000 * 4096 + 4096 * 3 * 4096 + (4096 + 2 * 1024) * 4096), 4096),
        ("llama-3.1-8b", {"method": "medusa", "k": 4}, 4 * 2 * (4096 * 4096 + 128_256 * 4096), 0),
        ("llama-3.1-8b", {"method": "ngram"}, 0, 0),
        # 596 M parameters, and 28 layers of 8 heads of 128.
        ("qwen3-8b", {"method": "draft-model", "model": "qwen3-0.6b"}, 1_192_083_456, 28 * 2 * 8 * 128 * 2),
        ("qwen3-8b", {"method": "parallel", "model": "qwen3-0.6b"}, 1_192_083_456, 28 * 2 * 8 * 128 * 2),
    ],
)  # fmt: skip
def test_a_drafter_takes_room_of_the_kv_cache(
    model: str, speculation: dict[str, Any], weights: float, cached: float, load_it: Load, base: dict[str, Any],
    catalog: Any,
) -> None:  # fmt: skip
    base["model"] = model
    plain = load_it(base).scenario
    room = pool_parts(plain, plain.cluster.pools[0], "", catalog).room(plain.cluster.pools[0], "")
    loaded = load_it(drafting(base, speculation | {"acceptance": 0.6}))
    assert blocks(loaded) == int((room.kv_bytes - weights) // (room.bytes_per_block + 16 * cached))
    assert blocks(load_it(base)) == room.num_blocks


@pytest.mark.parametrize(("share", "weights", "cached"), [(2, 0.5, 0.5), (1, 1.0, 1.0)])
def test_a_drafter_may_be_shared_out(
    share: int, weights: float, cached: float, load_it: Load, base: dict[str, Any], catalog: Any
) -> None:
    base["model"], base["cluster"]["parallel"] = "qwen3-8b", {"tensor": 2}
    plain = load_it(base).scenario
    room = pool_parts(plain, plain.cluster.pools[0], "", catalog).room(plain.cluster.pools[0], "")
    loaded = load_it(drafting(base, SMALL | {"tensor": share}))
    # The norms of 28 layers are on both.
    own = weights * 1_192_083_456 + (28 * 2 * 2 * 1024 / 2 if share == 2 else 0)
    assert blocks(loaded) == int((room.kv_bytes - own) // (room.bytes_per_block + 16 * cached * 114_688))


def test_a_module_for_multi_token_prediction_takes_room(load_it: Load, base: dict[str, Any], catalog: Any) -> None:
    base["model"], base["cluster"] = "deepseek-r1", {"hardware": "h200-sxm", "parallel": {"tensor": 8}}
    plain = load_it(base).scenario
    room = pool_parts(plain, plain.cluster.pools[0], "", catalog).room(plain.cluster.pools[0], "")
    loaded = load_it(drafting(base, {"method": "mtp", "k": 2, "acceptance": 0.8}))
    assert blocks(loaded) == int((room.kv_bytes - 1_660_645_376) // (room.bytes_per_block + 16 * 2 * 576))


def test_drafts_that_do_not_fit_are_refused(load_it: Load, base: dict[str, Any]) -> None:
    """Llama-3.1-8B fits on an L4 alone, and not with one head of Medusa for each of eight drafts."""
    base["cluster"] = {"hardware": "l4", "engine": {"max_model_len": 2048}}
    load_it(base)
    with pytest.raises(
        CapacityError, match=r"weights of llama-3.1-8b and of its drafter Medusa of .* do not fit"
    ) as no:
        load_it(drafting(base, {"method": "medusa", "k": 8, "acceptance": 0.5}))
    # One matrix of 4,096 × 4,096 for each head, and one of 4,096 × 128,256 [2 B].
    assert f"{8 * 2 * 4096 * (4096 + 128_256) / 2**30:.1f} GiB of them the drafter's" in str(no.value.found)
    with pytest.raises(CapacityError) as no:
        load_it(drafting(base, {"method": "medusa", "k": 30, "acceptance": 0.5}))
    assert "no tensor degree up to 64 fits: use a smaller drafter" in str(no.value.hint)


@pytest.mark.parametrize("in_pools", [False, True])
def test_fields_of_a_model_that_are_wrong_have_their_place(in_pools: bool, load_it: Load, base: dict[str, Any]) -> None:
    fields = {"model_type": "llama", "vocab_size": 128_256}
    speculation = SMALL | {"model": fields}
    if in_pools:
        base["cluster"]["pools"] = [{"name": "a"}, {"name": "b", "speculation": speculation}]
    else:
        base["cluster"]["speculation"] = speculation
    with pytest.raises(CatalogError, match="'hidden_size' is missing") as caught:
        load_it(base)
    assert caught.value.path == f"cluster.{'pools.1.' if in_pools else ''}speculation.model"
    base["cluster"] = {"hardware": "h100-sxm", "pools": [{"name": "a"}, {"name": "b", "model": fields}]}
    with pytest.raises(CatalogError, match="'hidden_size' is missing") as caught:
        load_it(base)
    assert caught.value.path == "cluster.pools.1.model"


TREE = {"method": "eagle", "tensor": 1, "tree": {"nodes": 9, "branching": 4}}


# -- what drafting takes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "hardware", "tensor", "speculation", "share", "weights"),
    [
        ("llama-3.1-8b", "h100-sxm", 2, {"method": "eagle3"}, 2, "auto"),
        ("llama-3.1-8b", "h100-sxm", 2, TREE, 1, "auto"),
        ("qwen3-8b", "h100-sxm", 4, {"method": "draft-model", "model": "qwen3-0.6b"}, 4, "auto"),
        ("qwen3-8b", "h100-sxm", 4, {"method": "parallel", "model": "qwen3-0.6b", "tensor": 1}, 1, "auto"),
        ("deepseek-r1", "h200-sxm", 8, {"method": "mtp"}, 8, "fp8_block"),
        # One scale for each matrix where the checkpoint has one for each block: the module is a part of the model.
        ("minimax-m2.5", "h200-sxm", 8, {"method": "mtp"}, 8, "fp8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ahead", [True, False])
def test_a_drafter_is_priced_as_the_scenario_says(
    model: str, hardware: str, tensor: int, speculation: dict[str, Any], share: int, weights: str, ahead: bool,
    load_it: Load, base: dict[str, Any], catalog: Any,
) -> None:  # fmt: skip
    """Greedily whatever the model samples, in graphs, on its share of the GPUs, twice as slow as a cluster may be."""
    base["model"] = model
    base["cluster"] = {
        "hardware": hardware, "parallel": {"tensor": tensor}, "engine": {"async_scheduling": ahead}, "slowdown": 2.0
    }  # fmt: skip
    if weights == "fp8":
        base["cluster"]["precision"] = {"weights": "fp8"}
    base["workload"]["sampling"] = "top-p"
    loaded = load_it(drafting(base, speculation | {"acceptance": 0.5}))
    executor: Any = build(loaded.scenario).cluster.replicas[0].executor
    gpu, calibration = slow_down(catalog.gpu(hardware), catalog.calibration("default"), 2.0)
    method = speculation["method"]
    target = catalog.model(speculation.get("model", model))
    drafter = {
        "eagle": eagle, "eagle3": eagle3, "mtp": mtp, "draft-model": draft_model, "parallel": parallel_model
    }[method](target)  # fmt: skip
    machine = Machine.of(gpu, calibration)
    expected = ModelDrafting(
        RooflineStepTime(
            drafter.model, gpu, tensor=share, weights=weights, kv_cache="bf16", sampling="greedy",
            calibration=calibration,
        ),
        once=products(drafter.once, 1, machine),
        each=products(drafter.each, share, machine) + products(drafter.whole, 1, machine),
        parallel=method == "parallel", on_states=drafter.on_states,
        branching=speculation.get("tree", {}).get("branching", 1),
        graph_sizes=executor.settings.graph_sizes, synchronous=not ahead, calibration=calibration,
    )  # fmt: skip
    shape = StepShape(27, 32, True, 9, 9, (5_000,), (9,), (), 18, drafts=3)
    price = executor._step_time.price(shape)
    assert (price.draft_ps, price.draft_growth_ps) == expected.cost(shape)


# -- what is refused ----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str, str]] = {
    "no model": ({"method": "draft-model", "acceptance": 0.5}, "needs a model that drafts", ".model"),
    "no parallel model": ({"method": "parallel", "acceptance": 0.5}, "parallel needs a model", ".model"),
    "a model of its own": (EAGLE3 | {"model": "qwen3-0.6b"}, "model has no effect", ".model"),
    "a model for lookups": (
        {"method": "ngram", "acceptance": 0.5, "model": "qwen3-0.6b"}, "model has no effect", ".model"
    ),
    "another vocabulary": (SMALL, "their vocabularies differ", ".model"),
    "an unknown model": (SMALL | {"model": "qwen3-0.7b"}, "no model", ".model"),
    "a tree of lookups": (
        {"method": "ngram", "acceptance": 0.5, "tree": {"nodes": 8}}, "ngram drafts chains", ".tree"
    ),
    "a tree that is a chain": (EAGLE3 | {"k": 4, "tree": {"nodes": 4}}, "more nodes than its longest", ".tree.nodes"),
    "branches of heads": (
        {"method": "medusa", "acceptance": 0.5, "tree": {"nodes": 9, "branching": 2}}, "branching has no effect",
        ".tree.branching",
    ),
    "branches of one token": (
        EAGLE3 | {"k": 1, "tree": {"nodes": 9, "branching": 2}}, "branching has no effect", ".tree.branching"
    ),
    "a tree of any length": (
        EAGLE3 | {"tree": {"nodes": 9}, "controller": "ema-tiers"}, "the drafts form a tree", ".controller"
    ),
    "more than may be made": (
        EAGLE3 | {"controller": {"policy": "by-batch-size", "ranges": [[1, 9, 5]]}}, "more drafts than may be made",
        ".controller.ranges.0.2",
    ),
    "ranges that never draft": (
        EAGLE3 | {"controller": {"policy": "by-batch-size", "ranges": [[1, 9, 0], [10, 99, 0]]}}, "never drafts",
        ".controller",
    ),
    "a schedule that never drafts": (
        EAGLE3 | {"controller": {"policy": "draft-len-schedule", "schedule": {9: 0}}},
        "speculation: none is plain decoding", ".controller",
    ),
    "a limit that no batch is below": (
        EAGLE3 | {"controller": {"policy": "disable-by-batch-size", "requests": 1}}, "never drafts", ".controller"
    ),
    "part of the GPUs": (EAGLE3 | {"tensor": 2}, "shared out like its model, or not at all", ".tensor"),
    "more than may be made, in a field": (
        EAGLE3 | {"controller": {"policy": "draft-len-schedule", "schedule": {"4": 2, "8": 7}}}, "set ",
        ".controller.schedule.8",
    ),
    "no method": ({"acceptance": 0.5}, "method", ".method"),
    "no acceptance": ({"method": "eagle3"}, "acceptance", ".acceptance"),
    "an unknown method": ({"method": "eagle4", "acceptance": 0.5}, "eagle3", ".method"),
    "nothing drafted": (EAGLE3 | {"k": 0}, "1", ".k"),
    "too much drafted": (EAGLE3 | {"k": 33}, "32", ".k"),
    "a proposal of who always drafts": (
        {"method": "eagle3", "acceptance": {"rate": 0.5, "proposal": 0.4}}, "proposal has no effect",
        ".acceptance.proposal",
    ),
    "an unknown preset": (EAGLE3 | {"acceptance": "sharegpd"}, "sharegpt", ".acceptance"),
    "a preset of other methods": (
        {"method": "eagle", "acceptance": "sharegpt"}, "no acceptance of this method", ".acceptance"
    ),
    "an unknown controller": (EAGLE3 | {"controller": "good-put"}, "goodput", ".controller"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_its_place(name: str, load_it: Load, base: dict[str, Any]) -> None:
    speculation, said, place = REFUSED[name]
    with pytest.raises(InputError) as caught:
        load_it(drafting(base, speculation))
    assert said in str(caught.value)
    assert (caught.value.path or "").endswith(f"speculation{place}")


@pytest.mark.parametrize("way", ["pipeline", "context"])
def test_what_cannot_be_combined_is_refused(way: str, load_it: Load, base: dict[str, Any]) -> None:
    with pytest.raises(CapacityError, match=f"parallel.{way} cannot be combined"):
        load_it(drafting(base, EAGLE3, parallel={way: 2}))


@pytest.mark.parametrize(
    ("more", "needed"),
    [
        ({}, 4), ({"tree": {"nodes": 9}}, 10),
        ({"controller": {"policy": "by-batch-size", "ranges": [[1, 9, 2]]}}, 3),
    ],
)  # fmt: skip
def test_drafts_that_no_step_can_verify_are_refused(
    more: dict[str, Any], needed: int, load_it: Load, base: dict[str, Any]
) -> None:
    """A token and its drafts need room in the token budget."""
    base["cluster"]["engine"] = {"max_num_batched_tokens": needed, "max_num_seqs": 2}
    load_it(drafting(base, EAGLE3 | more))
    base["cluster"]["engine"]["max_num_batched_tokens"] = needed - 1
    with pytest.raises(ScenarioError, match=f"{needed - 1} are made, and can never be verified together") as caught:
        load_it(drafting(base, EAGLE3 | more))
    assert caught.value.path == "cluster.engine.max_num_batched_tokens"
    assert f"at least {needed}" in str(caught.value.allowed)


@pytest.mark.parametrize("method", ["ngram", "suffix", "medusa"])
def test_nothing_is_shared_out_where_no_model_drafts(method: str, load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["parallel"] = {"tensor": 2}
    with pytest.raises(ScenarioError, match=f"tensor has no effect: {method}"):
        load_it(drafting(base, {"method": method, "acceptance": 0.5, "tensor": 2}))


class Odd(DraftPolicy):
    """Somebody's policy that answers what it should not."""

    policy: Literal["odd"] = "odd"
    method: str
    answer: Any = None

    def build(self, context: PolicyContext) -> Any:
        answers = {"choose": 3, "limit": 3, self.method: self.answer}

        class Controller(BatchController):
            per_request = True

            def choose(self, view: Any) -> Any:
                return answers["choose"]

            def limit(self, history: Any) -> Any:
                return answers["limit"]

        return Controller()


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], dict[str, Any]]:
    """Speculation by a controller that answers something to ``choose`` or to ``limit``."""
    monkeypatch.setitem(registry._POLICIES["speculation"], "odd", Odd)
    return lambda method, answer: EAGLE3 | {"controller": {"policy": "odd", "method": method, "answer": answer}}


@pytest.mark.parametrize(
    ("method", "answer", "allowed"),
    [
        *[("choose", answer, "from 0 to k, which is 3") for answer in (4, 99, -1, 1.5, None, "3", True, 1 << 70)],
        *[("limit", answer, "from 0 on") for answer in (-1, 1.5, None, "3")],
    ],
    ids=lambda value: shorten(value, 20),
)
def test_a_controller_that_answers_what_cannot_be_is_named(
    method: str, answer: Any, allowed: str, base: dict[str, Any], odd: Callable[[str, Any], dict[str, Any]]
) -> None:
    base["run"]["requests"] = 2
    with pytest.raises(ScenarioError) as caught:
        servetwin.run(drafting(base, odd(method, answer)))
    error = caught.value
    assert "the speculation policy 'odd'" in str(error)
    assert error.path == "cluster.pools.0.speculation.controller"
    assert str(error.found).startswith(f"{method} returned ") and allowed in str(error.allowed)


def test_a_limit_above_all_drafts_is_none(base: dict[str, Any], odd: Callable[[str, Any], dict[str, Any]]) -> None:
    assert servetwin.run(drafting(base, odd("limit", 1 << 40))).summary()["spec_decode_num_drafts"] > 0


# -- on and off, and the same again -------------------------------------------------------------------------------


@pytest.mark.parametrize("off", ["none", "off", False, None, {"method": "none"}])
def test_speculation_can_be_switched_off(off: Any, load_it: Load, base: dict[str, Any]) -> None:
    assert to_yaml(load_it(drafting(base, off)).scenario) == to_yaml(load_it(base).scenario)
    drafted = drafting(base, EAGLE3)
    assert config_hash(load_it(drafted).scenario) != config_hash(load_it(base).scenario)
    switched = load_it(drafted, "cluster.speculation=none")
    assert config_hash(switched.scenario) == config_hash(load_it(base).scenario)


def test_one_pool_may_do_without(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"] = {
        "hardware": "h100-sxm", "speculation": EAGLE3, "pools": [{"name": "a"}, {"name": "b", "speculation": "none"}]
    }  # fmt: skip
    first, second = load_it(base).scenario.cluster.pools
    assert first.speculation is not None and second.speculation is None
    assert first.engine.max_model_len == second.engine.max_model_len


RESOLVED = [
    EAGLE3, SMALL, EAGLE3 | {"acceptance": "sharegpt", "controller": "ema-tiers", "k": 7},
    EAGLE3 | {"tree": {"nodes": 9, "branching": 2}}, {"method": "ngram", "acceptance": "instructcoder"},
    EAGLE3 | {"controller": {"policy": "by-batch-size", "ranges": [[1, 9, 2]]}},
]  # fmt: skip


@pytest.mark.parametrize("speculation", RESOLVED, ids=lambda one: f"{one['method']} {one['acceptance']}")
def test_a_resolved_scenario_resolves_to_itself_and_runs_the_same(
    speculation: Any, base: dict[str, Any], write: Any, tmp_path: Path
) -> None:
    base["model"] = "qwen3-8b" if speculation["method"] == "draft-model" else "llama-3.1-8b"
    first = load(write(drafting(base, speculation))).scenario
    again = load(write(to_yaml(first), "again.yaml")).scenario
    assert to_yaml(again) == to_yaml(first)
    assert config_hash(again) == config_hash(first)
    for name, scenario in (("first", first), ("again", again)):
        servetwin.run(scenario, out=tmp_path / name, figures=False)
    third = servetwin.run(tmp_path / "first" / "scenario.yaml", out=tmp_path / "third", figures=False)
    assert third.summary()["spec_decode_num_drafts"] > 0
    for file in ("requests.parquet", "ledger.json", "scenario.yaml", "timeseries.parquet"):
        written = {(tmp_path / name / file).read_bytes() for name in ("first", "again", "third")}
        assert len(written) == 1, file


def recording(path: Path, lengths: list[int]) -> None:
    path.write_text(json.dumps({"lengths": lengths}) + "\n", encoding="utf-8")


def test_a_recording_counts_by_its_content(base: dict[str, Any], write: Any, tmp_path: Path) -> None:
    recording(tmp_path / "a.jsonl", [1, 2, 3])
    recording(tmp_path / "b.jsonl", [1, 2, 3])
    hashes = {}
    for name in ("a", "b"):
        acceptance = {"recorded": str(tmp_path / f"{name}.jsonl"), "column": "lengths"}
        scenario = load(write(drafting(base, EAGLE3 | {"acceptance": acceptance}))).scenario
        hashes[name] = (config_hash(scenario), run_hash(scenario))
        assert to_mapping(scenario)["cluster"]["pools"][0]["speculation"]["acceptance"]["recorded"].endswith(
            f"{name}.jsonl"
        )
    assert hashes["a"] == hashes["b"]
    recording(tmp_path / "b.jsonl", [1, 2, 4])
    scenario = load(write(drafting(base, EAGLE3 | {"acceptance": acceptance}))).scenario
    assert config_hash(scenario) != hashes["a"][0] and run_hash(scenario) != hashes["a"][1]


def test_a_drafter_counts_by_its_shape(base: dict[str, Any], write: Any, tmp_path: Path) -> None:
    """As a model does, wherever its config.json lies."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "vocab_size": 128_256,
        "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1024,
        "max_position_embeddings": 131_072, "torch_dtype": "bfloat16",
    }  # fmt: skip
    hashes = []
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        model = str(tmp_path / folder / "config.json")
        scenario = load(write(drafting(base, {"method": "draft-model", "model": model, "acceptance": 0.5}))).scenario
        hashes.append(config_hash(scenario))
        assert yaml.safe_load(to_yaml(scenario))["cluster"]["pools"][0]["speculation"]["model"]
    assert hashes[0] == hashes[1]


def test_another_way_to_say_the_acceptance_replaces_the_first(load_it: Load, base: dict[str, Any]) -> None:
    """A pool's own over that of the cluster."""
    for own in ({"rate": 0.7}, {"survival": [0.5]}, {"recorded": "a.jsonl", "column": "n"}, {"preset": "gsm8k"}):
        pools: dict[str, Any] = {"cluster": {"pools": [{"name": "a", "speculation": EAGLE3 | {"acceptance": own}}]}}
        alone = load_it(deep_merge(base, pools)).scenario.cluster.pools[0].speculation
        everywhere = drafting(base, EAGLE3 | {"acceptance": {"preset": "sharegpt"}})
        pools["cluster"]["pools"].append({"name": "b"})
        assert load_it(deep_merge(everywhere, pools)).scenario.cluster.pools[0].speculation == alone


def test_captured_sizes_are_multiples_of_what_a_request_verifies(load_it: Load, base: dict[str, Any]) -> None:
    def sizes(speculation: Any) -> tuple[int, ...]:
        return captured(load_it(drafting(base, speculation)).scenario.cluster.pools[0])

    assert sizes("none")[:5] == (1, 2, 4, 8, 16)
    assert sizes(EAGLE3 | {"k": 5})[:4] == (6, 12, 18, 24)
    assert {size % 5 for size in sizes(EAGLE3 | {"k": 4})} == {0}
    assert {size % 10 for size in sizes(EAGLE3 | {"tree": {"nodes": 9, "branching": 2}})} == {0}


def test_a_drafter_whose_heads_cannot_be_shared_out_is_whole_on_each_gpu(load_it: Load, base: dict[str, Any]) -> None:
    """Unless somebody asks for more than there can be."""
    small = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 768, "vocab_size": 128_256,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 1024,
        "max_position_embeddings": 131_072, "torch_dtype": "bfloat16",
    }  # fmt: skip
    base["cluster"]["parallel"] = {"tensor": 4}
    speculation = {"method": "draft-model", "model": small, "acceptance": 0.5}
    loaded = load_it(drafting(base, speculation)).scenario.cluster.pools[0].speculation
    assert loaded is not None and loaded.tensor == 1
    with pytest.raises(CapacityError, match="cannot be shared out evenly over 4 GPUs") as caught:
        load_it(drafting(base, speculation | {"tensor": 4}))
    assert (caught.value.path or "").endswith("speculation.tensor")


def test_every_method_that_may_be_named_is_known() -> None:
    assert tuple(METHODS) == METHOD_NAMES
    assert {method.drafter(Catalog().model("llama-3.1-8b")).name for method in METHODS.values()}
