"""What ``explain`` says about a step: which step is meant, what fits, what the engine would not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

import servetwin
from servetwin.catalog import Catalog
from servetwin.errors import ScenarioError
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.schema import Scenario
from servetwin.studies.explain import explain
from servetwin.studies.step import Step

CATALOG = Catalog()


def scenario(cluster: dict[str, Any] | None = None, **fields: Any) -> Scenario:
    return validate_mapping(
        {
            "name": "test",
            "model": "llama-3.1-8b",
            "cluster": {"hardware": "h100-sxm", **(cluster or {})},
            "workload": {"arrivals": {"rate_per_s": 1}, "prompts": 100, "outputs": 10},
            **fields,
        },
        CATALOG,
    )


def explained(batch: int | None = None, context: int | None = None, prefill: int | None = None, **more: Any) -> Any:
    return explain(scenario(**more), Step.of(batch, context, prefill), CATALOG)


PIPELINE = {"parallel": {"pipeline": 4}, "engine": {"async_scheduling": True}}


def test_a_pipeline_is_explained_stage_by_stage() -> None:
    found = explained(64, 2_000, cluster=PIPELINE)
    pipeline, inputs = found["pipeline"], found["inputs"]
    assert (inputs["gpus_per_replica"], inputs["stages"], pipeline["slots"]) == (4, 4, 5)
    stages = pipeline["stages"]
    assert [stage["layers"] for stage in stages] == [8, 8, 8, 8]
    assert [stage["holds"] for stage in stages] == ["embedding", "", "", "output"]
    busy = sum(stage["total_us"] for stage in stages)
    travels = sum(stage["hand_off_us"] for stage in stages)
    assert stages[3]["hand_off_us"] == 0 < travels
    assert found["step"]["total_us"] == pytest.approx(busy + travels) == pytest.approx(pipeline["latency_us"])
    assert sum(operator["total_us"] for operator in found["operators"]) == pytest.approx(found["step"]["total_us"])
    assert sum(phase["us"] for phase in found["phases"]) == pytest.approx(busy)
    assert found["memory"]["kv_blocks"] == min(stage["kv_blocks"] for stage in stages)


def test_a_pipeline_of_groups_has_the_collectives_of_all_its_stages() -> None:
    """As many all-reduces as one group of two GPUs has, and what they and the hand-offs send in the floor."""
    staged, whole = (
        explained(64, 2_000, cluster={"parallel": {"tensor": 2, **more}}) for more in ({"pipeline": 2}, {})
    )  # fmt: skip
    found, wanted = (
        {one["name"]: one for one in document["operators"] if one["collective"]} for document in (staged, whole)
    )  # fmt: skip
    assert set(found) == set(wanted) == {"all-reduce", "gather"}
    for name, operator in found.items():
        assert operator["collective"]["calls"] == wanted[name]["collective"]["calls"]
        assert operator["total_us"] == pytest.approx(wanted[name]["total_us"])
    (hand_off,) = (one for one in staged["operators"] if one["name"] == "hand-off")
    floors = [document["intensity"]["communication_floor_us"] for document in (staged, whole)]
    assert floors[1] > 0 < hand_off["floor_us"]
    assert floors[0] == pytest.approx(floors[1] + hand_off["floor_us"])


WIDE = {
    "on one server": ({"parallel": {"tensor": 8}}, 1),
    "on two servers": ({"parallel": {"tensor": 16}, "topology": {}}, 1),
    "stages on two servers": ({"parallel": {"tensor": 8, "pipeline": 2}, "topology": {}}, 2),
    "half of a server and of another": (
        {"parallel": {"tensor": 8}, "topology": {"nodes": 2, "placement": {"explicit": [[0, 1]]}}}, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_a_lone_token_takes_what_the_step_is_explained_to_take(name: str) -> None:
    """Wherever the GPUs of the replica lie: the gap that a run finds is the step that ``explain`` shows."""
    cluster, stages = WIDE[name]
    fields: Any = {
        "model": "llama-3.1-405b",
        "cluster": {
            "precision": {"weights": "fp8"}, "engine": {"max_model_len": 4096, "max_num_seqs": 64}, **cluster,
        },
    }  # fmt: skip
    found = explained(1, 1_000, **fields)
    workload = {"arrivals": {"rate_per_s": 1}, "prompts": 999, "outputs": 2}
    gap = servetwin.run(scenario(**fields, workload=workload, run={"requests": 1})).summary()["itl_ms.max"]
    assert found["step"]["total_us"] / 1000 == pytest.approx(gap, rel=1e-9)
    assert found["inputs"]["stages"] == stages


def test_across_servers_an_all_reduce_goes_over_the_nics() -> None:
    """By another algorithm, and never below what the NICs allow; a stage that lies on one server stays inside."""
    fields: Any = {"model": "llama-3.1-405b"}
    engine = {"max_model_len": 4096, "max_num_seqs": 64}
    wide, staged = (
        explained(64, 1_000, cluster={"engine": engine, "topology": {}, "parallel": parallel}, **fields)
        for parallel in ({"tensor": 16}, {"tensor": 8, "pipeline": 2})
    )
    reduced = next(operator for operator in wide["operators"] if operator["name"] == "all-reduce")
    one = reduced["collective"]
    assert (one["calls"], one["message_bytes"], one["algorithm"]) == (252, 64 * 16_384 * 2, "tree")
    assert one["us"] >= 1e6 * one["message_bytes"] / (8 * 50e9)
    inside = next(operator for operator in staged["operators"] if operator["name"] == "all-reduce")
    assert inside["total_us"] < reduced["total_us"] / 3
    handed = next(operator for operator in staged["operators"] if operator["name"] == "hand-off")
    assert handed["wire_bytes"] == 2 * 64 * 16_384 * 2 / 8
    assert handed["floor_us"] == pytest.approx(1e6 * handed["wire_bytes"] / 50e9)


def test_the_bubble_by_hand() -> None:
    """One micro-batch keeps a stage busy for its share of the latency; enough of them wait for the slowest stage."""
    pipeline = explained(64, 2_000, cluster=PIPELINE)["pipeline"]
    spans = [stage["total_us"] for stage in pipeline["stages"]]
    first, *_, last = pipeline["loads"]
    assert [load["micro_batches"] for load in pipeline["loads"]] == [1, 2, 3, 4, 5]
    assert first["itl_us"] == pipeline["latency_us"]
    assert first["bubble_share"] == pytest.approx(1 - sum(spans) / (4 * pipeline["latency_us"]))
    assert last["itl_us"] == pytest.approx(5 * max(spans))
    assert last["bubble_share"] == pytest.approx(1 - sum(spans) / (4 * max(spans)))


def test_a_pipeline_of_windows_and_one_without_room() -> None:
    windows = explained(8, 3_000, cluster={"parallel": {"pipeline": 3}}, model="gpt-oss-120b")
    assert sum(stage["layers"] for stage in windows["pipeline"]["stages"]) == 36
    blocks = {"parallel": {"pipeline": 2}, "engine": {"num_gpu_blocks_override": 500, "max_model_len": 4_000}}
    found = explained(8, 100, cluster=blocks, model="llama-3.1-405b")
    assert [stage["kv_blocks"] for stage in found["pipeline"]["stages"]] == [None, None]
    assert found["memory"]["kv_blocks"] == 500


def test_one_stage_has_no_pipeline() -> None:
    assert explained(8, 100)["pipeline"] is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ((None, None, None), (32, 1024, 0)),
        ((8, None, None), (8, 1024, 0)),
        ((8, 50, None), (8, 50, 0)),
        ((None, None, 512), (0, 0, 512)),
        ((None, 300, 512), (0, 300, 512)),
        ((4, None, 512), (4, 1024, 512)),
        ((0, None, 512), (0, 0, 512)),
    ],
)
def test_which_step_is_meant(given: tuple[int | None, ...], meant: tuple[int, ...]) -> None:
    step = Step.of(*given)
    assert (step.batch, step.context, step.prefill) == meant


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ((0, None, None), "--batch"), ((-1, None, None), "--batch"), ((1, 0, None), "--context"),
        ((1, -5, None), "--context"), ((1, 1, -1), "--prefill"), ((10**9, 1, None), "--batch"), ((0, 7, 0), "--batch"),
    ],
)  # fmt: skip
def test_steps_that_cannot_be(given: tuple[int | None, ...], path: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Step.of(*given)
    assert caught.value.path == path


def test_the_document_has_the_promised_keys_and_adds_up() -> None:
    document = explained(32, 2000)
    assert {"step", "phases", "operators", "memory", "intensity"} <= set(document)
    step = document["step"]
    parts = ("compute_us", "memory_us", "communication_us", "overhead_us")
    assert {"total_us", *parts, "bound"} <= set(step)
    assert step["total_us"] == pytest.approx(sum(step[part] for part in parts), abs=1e-6)
    for part in ("total_us", *parts):
        assert sum(operator[part] for operator in document["operators"]) == pytest.approx(step[part], abs=1e-5)
    assert sum(operator["share"] for operator in document["operators"]) == pytest.approx(1.0)
    assert sum(phase["us"] for phase in document["phases"]) == pytest.approx(step["total_us"], abs=1e-5)
    assert step["bound"] == "memory"
    assert document["warnings"] == []
    json.dumps(document, allow_nan=False)


def test_it_is_the_step_that_the_engine_would_run() -> None:
    """Padded to a captured graph where there is one."""
    inputs = explained(33, 100)["inputs"]
    assert (inputs["tokens"], inputs["padded_tokens"], inputs["cuda_graph"]) == (33, 40, True)
    inputs = explained(600, 100)["inputs"]
    assert (inputs["tokens"], inputs["padded_tokens"], inputs["cuda_graph"]) == (600, 600, False)
    inputs = explained(33, 100, cluster={"engine": {"enforce_eager": True}})["inputs"]
    assert (inputs["padded_tokens"], inputs["cuda_graph"]) == (33, False)


def test_the_context_of_a_chunk_is_what_was_computed_before_it() -> None:
    whole, behind, mixed = explained(prefill=500), explained(prefill=500, context=5000), explained(4, 5000, 500)
    names = [{operator["name"]: operator for operator in one["operators"]} for one in (whole, behind, mixed)]
    assert names[1]["attention.prefill"]["flops"] > 10 * names[0]["attention.prefill"]["flops"]
    assert names[2]["attention.prefill"]["flops"] == names[0]["attention.prefill"]["flops"]
    assert "attention.decode" not in names[1] and "attention.decode" in names[2]


def test_memory_by_hand() -> None:
    memory = explained(30, 1000)["memory"]
    assert memory["weights_bytes"] == CATALOG.model("llama-3.1-8b").weight_bytes()
    assert memory["kv_bytes_per_token"] == 32 * 2 * 8 * 128 * 2
    assert memory["kv_capacity_tokens"] == (memory["kv_blocks"] - 1) * 16
    # Whole blocks of 16: 63 of them hold 1,000 tokens.
    assert memory["kv_needed_tokens"] == 30 * 63 * 16
    assert memory["max_batch_at_context"] == memory["kv_capacity_tokens"] // (63 * 16)
    assert memory["max_context_at_batch"] == memory["kv_capacity_tokens"] // 30 // 16 * 16
    total = sum(memory[key] for key in ("weights_bytes", "overhead_bytes", "kv_bytes", "state_bytes"))
    assert total <= memory["utilization"] * memory["gpu_bytes"]
    override = explained(1, 10, cluster={"engine": {"num_gpu_blocks_override": 100, "max_model_len": 1000}})["memory"]
    assert (override["utilization"], override["kv_capacity_tokens"]) == (None, 99 * 16)


SPECULATION = {"speculation": {"method": "eagle3", "k": 3, "acceptance": 0.5}}


def test_a_step_that_drafts() -> None:
    document, plain = explained(16, 1000, cluster=SPECULATION), explained(16, 1000)
    assert plain["speculation"] is None
    inputs, found = document["inputs"], document["speculation"]
    assert (inputs["tokens"], inputs["verified_tokens_per_request"]) == (64, 4)
    # The model's operators, then the drafter's passes: one over what was verified, two more.
    assert sum(operator["total_us"] for operator in document["operators"]) == pytest.approx(
        document["step"]["total_us"]
    )
    assert [one["count"] for one in found["passes"]] == [1, 2]
    assert sum(one["us"] for one in found["passes"]) == pytest.approx(found["draft_us"])
    assert found["total_us"] == pytest.approx(document["step"]["total_us"] + found["draft_us"])
    assert sum(phase["us"] for phase in document["phases"]) == pytest.approx(found["total_us"])
    assert [phase["kind"] for phase in document["phases"]][-2:] == ["draft", "draft"]
    # Against the same step without speculation.
    assert found["plain_us"] == pytest.approx(plain["step"]["total_us"])
    assert found["pays_from_tokens"] == pytest.approx(found["total_us"] / found["plain_us"])
    assert found["tokens_per_step"] == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert found["speedup"] == pytest.approx(1.875 / found["pays_from_tokens"])
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("batch", [1, 3, 200])
def test_without_drafts_an_engine_schedules_ahead_and_captures_other_graphs(batch: int) -> None:
    """Whoever looks n-grams up schedules synchronously; plain decoding does not, and is padded by 1, not by 4."""
    plain = explained(batch, 500)
    looking = explained(batch, 500, cluster={"speculation": {"method": "ngram", "k": 3, "acceptance": 0.5}})
    assert looking["speculation"]["plain_us"] == pytest.approx(plain["step"]["total_us"])
    by_hand = {"speculation": {"method": "ngram", "k": 3, "acceptance": 0.5}, "engine": {"async_scheduling": True}}
    assert explained(batch, 500, cluster=by_hand)["speculation"]["plain_us"] == pytest.approx(plain["step"]["total_us"])


def test_the_fuller_the_batch_the_less_speculation_gains() -> None:
    gains = [explained(batch, 500, cluster=SPECULATION)["speculation"]["speedup"] for batch in (1, 64, 256, 512)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1 > gains[-1]


def test_prompts_are_drafted_over_too() -> None:
    found = explained(prefill=500, cluster=SPECULATION)["speculation"]
    assert found["draft_us"] > 0
    assert (found["pays_from_tokens"], found["speedup"]) == (None, None)


def test_lookups_and_recordings() -> None:
    recorded = {"method": "ngram", "k": 4, "acceptance": {"recorded": "lengths.jsonl", "column": "n"}}
    found = explained(2, 100, cluster={"speculation": recorded})["speculation"]
    assert [(one["count"], one["us"], one["overhead_us"]) for one in found["passes"]] == [(1, 39.0, 39.0)]
    assert (found["tokens_per_step"], found["speedup"]) == (None, None)
    assert found["pays_from_tokens"] > 1


def test_memory_of_a_drafter_by_hand() -> None:
    memory, plain = (explained(30, 1000, cluster=cluster)["memory"] for cluster in (SPECULATION, {}))
    assert memory["drafter_bytes"] == memory["weights_bytes"] - plain["weights_bytes"] > 0
    # A layer of 33, and room for the drafts of this step and the next: 1,006 tokens are 63 blocks, 1,016 would be 64.
    assert memory["kv_bytes_per_token"] == 33 * 2 * 8 * 128 * 2
    assert memory["kv_needed_tokens"] == 30 * 63 * 16
    assert memory["kv_capacity_tokens"] < plain["kv_capacity_tokens"] * 32 / 33
    assert explained(30, 1003, cluster=SPECULATION)["memory"]["kv_needed_tokens"] == 30 * 64 * 16


@pytest.mark.parametrize(
    ("step", "cluster", "word"),
    [
        ((None, None, 9000), {}, "max_num_batched_tokens = 8,192"),
        ((100, 10, None), {"engine": {"max_num_seqs": 64}}, "max_num_seqs = 64"),
        ((1, 5000, None), {"engine": {"max_model_len": 4096}}, "max_model_len = 4,096"),
        ((None, 4000, 500), {"engine": {"max_model_len": 4096}}, "max_model_len = 4,096"),
        ((1000, 5000, None), {}, "room for 429,"),
    ],
)
def test_what_the_engine_would_not_run_is_said(step: Any, cluster: dict[str, Any], word: str) -> None:
    warnings = explained(*step, cluster=cluster)["warnings"]
    assert any(word in warning for warning in warnings), warnings


HYBRID = {
    "model_type": "minimax", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
    "intermediate_size": 512, "vocab_size": 1_000, "max_position_embeddings": 2_048,
    "layer_types": ["linear_attention", "full_attention"] * 2,
}  # fmt: skip


def test_no_more_requests_fit_than_states_are_set_aside_for() -> None:
    engine = {"engine": {"max_num_seqs": 64}}
    within = explained(64, 100, model=HYBRID, cluster=engine)
    assert within["memory"]["fits"] and within["memory"]["kv_capacity_tokens"] > 65 * 112
    assert within["memory"]["max_batch_at_context"] == within["memory"]["max_requests_with_state"] == 64
    for step in ((65, 100, None), (64, 100, 16)):
        beyond = explained(*step, model=HYBRID, cluster=engine)
        assert not beyond["memory"]["fits"]
        assert beyond["memory"]["max_context_at_batch"] == 0
        assert any("the states of no more" in text for text in beyond["warnings"])
        assert not any("the KV cache has room" in text for text in beyond["warnings"])
    plain = explained(65, 100, cluster=engine)
    assert plain["memory"]["fits"] and plain["memory"]["max_requests_with_state"] is None
    assert plain["memory"]["max_batch_at_context"] > 64


def test_what_is_approximated_in_the_model_is_said() -> None:
    noted = {**HYBRID, "layer_types": ["full_attention"] * 4, "frobnication_rank": 3}
    warnings = explained(4, 100, model=noted)["warnings"]
    assert any("were not read: frobnication_rank (check model-approximated)" in text for text in warnings)
    assert any("(check model-approximated)" in text for text in explained(1, 10, model="qwen3-next-80b-a3b", cluster={
        "parallel": {"tensor": 4}})["warnings"])  # fmt: skip


def test_pools() -> None:
    pools = {
        "hardware": None,
        "pools": [
            {"name": "new", "hardware": "h100-sxm"},
            {"name": "old", "hardware": "a100-sxm-80gb", "parallel": {"tensor": 2}},
        ],
    }
    both = scenario(cluster=pools)
    step = Step.of(None, None, None)
    first = explain(both, step, CATALOG)
    assert first["inputs"]["hardware"] == "h100-sxm" and any("--pool old" in text for text in first["warnings"])
    second = explain(both, step, CATALOG, "old")
    assert (second["inputs"]["hardware"], second["inputs"]["gpus_per_replica"]) == ("a100-sxm-80gb", 2)
    assert second["warnings"] == [] and second["step"]["communication_us"] > 0
    with pytest.raises(ScenarioError) as caught:
        explain(both, step, CATALOG, "odl")
    assert (caught.value.path, caught.value.nearest) == ("--pool", "old")


def test_a_slower_machine_is_slower_and_has_the_same_floor() -> None:
    fast, slow = explained(32, 2000), explained(32, 2000, cluster={"slowdown": 2})
    assert slow["step"]["total_us"] == pytest.approx(2 * fast["step"]["total_us"], rel=1e-4)
    assert slow["step"]["floor_us"] == fast["step"]["floor_us"]
    for operator in slow["operators"]:
        assert operator["efficiency"] is None or operator["efficiency"] <= 0.5


def test_whose_constants_are_used_is_said() -> None:
    inputs = explained(1, 10, cluster={"hardware": "h20"})["inputs"]
    assert inputs["kernel_constants_of"] == "h100-sxm"
