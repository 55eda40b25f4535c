"""What must hold of every comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.studies.compare.small import CLIENTS, SCENARIO, SESSIONS, answer, plan, run, write

import servetwin
from servetwin.errors import InputError, ScenarioError
from servetwin.records import LEDGER_BUCKETS
from servetwin.results.summary import HOST_KEYS
from servetwin.studies.compare.document import build_document
from servetwin.studies.compare.same_requests import check_same_requests
from servetwin.studies.statistics import batch_means, mean_interval
from servetwin.studies.techniques import TECHNIQUES
from servetwin.studies.writable import check_folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("scenarios"))


@pytest.fixture(scope="module")
def three(small: str) -> dict[str, Any]:
    return answer(
        f"a={small}", f"b={small}", f"c={small}",
        changes_for=["b:cluster.engine.prefix_caching=false", "c:cluster.replicas=3", "c:router.policy=round-robin"],
    )  # fmt: skip


def entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    factorial = document["factorial"]
    return [
        *document["variants"].values(), *factorial.get("techniques", {}).values(),
        *factorial.get("interactions", {}).values(),
    ]  # fmt: skip


def test_gpu_seconds_differ_by_the_sum_of_their_buckets(three: dict[str, Any]) -> None:
    for entry in three["variants"].values():
        assert set(entry["ledger"]) == set(LEDGER_BUCKETS)
        assert isclose(sum(entry["ledger"].values()), entry["metrics"]["gpu_seconds"], rel_tol=1e-12)
        total = sum(entry["ledger_difference"].values())
        assert isclose(total, entry["gain"]["gpu_seconds"], rel_tol=1e-9, abs_tol=1e-12)
    assert three["variants"]["c"]["gain"]["gpu_seconds"] > 1


def test_net_is_what_is_saved_less_its_cost(three: dict[str, Any]) -> None:
    for entry in entries(three):
        net = entry["net"]
        assert isclose(net["gpu_seconds"], net["saved_gpu_seconds"] - net["cost_gpu_seconds"], abs_tol=1e-12)
        assert isclose(net["cost_gpu_seconds"], sum(entry["cost"].values()), abs_tol=1e-12)
        in_use = sum(change for bucket, change in entry["ledger_difference"].items() if bucket not in ("idle", "down"))
        assert isclose(net["gpu_seconds"], -in_use, rel_tol=1e-9, abs_tol=1e-12)
        assert isclose(entry["gain"]["gpu_seconds_in_use"], in_use, rel_tol=1e-9, abs_tol=1e-12)


def test_the_baseline_beside_itself_is_zero(three: dict[str, Any]) -> None:
    baseline = three["variants"]["a"]
    assert three["baseline"] == "a"
    assert set(baseline["cost"].values()) == {0}
    assert {value for value in baseline["gain"].values() if value is not None} == {0}
    assert baseline["net"]["gpu_seconds"] == 0
    assert all(interval == {"estimate": 0, "low": 0, "high": 0} for interval in baseline["ci"].values())


def test_metrics_are_those_of_the_run(three: dict[str, Any], small: str) -> None:
    summary = servetwin.run(small, cluster__engine__prefix_caching=False).summary()
    metrics = three["variants"]["b"]["metrics"]
    for key, value in summary.items():
        if (
            key in HOST_KEYS
            or key in ("seed", "energy_method", "acceptance_rate_per_position")
            or isinstance(value, (str, bool, list, dict))
        ):
            assert key not in metrics
        else:
            assert metrics[key] == value, key
    assert three["variants"]["b"]["config_hash"] == summary["config_hash"]


def test_intervals_pair_the_requests(small: str, three: dict[str, Any]) -> None:
    frames = [servetwin.run(small, cluster__engine__prefix_caching=on).requests() for on in (True, False)]
    ttft = [frame.sort_values("arrival_s")["ttft_ms"].to_numpy() for frame in frames]
    wanted = batch_means(ttft[1] - ttft[0])
    found = three["variants"]["b"]["ci"]["ttft_ms.mean"]
    assert (found["estimate"], found["low"], found["high"]) == pytest.approx(tuple(wanted), rel=1e-6)
    assert found["estimate"] == pytest.approx(three["variants"]["b"]["gain"]["ttft_ms.mean"])


def test_the_order_of_variants_changes_no_digit(three: dict[str, Any], small: str) -> None:
    other = answer(
        f"c={small}", f"b={small}", f"a={small}", baseline="a",
        changes_for=["c:router.policy=round-robin", "c:cluster.replicas=3", "b:cluster.engine.prefix_caching=false"],
    )  # fmt: skip
    for name in "abc":
        mine, yours = three["variants"][name], other["variants"][name]
        for part in ("metrics", "ledger", "ledger_difference", "gain", "cost", "net", "ci"):
            assert mine[part] == yours[part], (name, part)
    assert {three["sentences"][name] for name in "bc"} == {other["sentences"][name] for name in "bc"}


@pytest.mark.parametrize("seeds", [1, 3])
def test_exchanging_baseline_and_variant_changes_the_sign(small: str, seeds: int) -> None:
    named = (f"a={small}", f"b={small}")
    changes = ["b:cluster.engine.prefix_caching=false"]
    there, back = (answer(*named, changes_for=changes, baseline=name, seeds=seeds) for name in "ab")
    forth, return_ = there["variants"]["b"], back["variants"]["a"]
    for key, interval in forth["ci"].items():
        assert interval["estimate"] == -return_["ci"][key]["estimate"]
        if interval["low"] is not None:
            assert interval["low"] == -return_["ci"][key]["high"]
    assert forth["net"]["gpu_seconds"] == -return_["net"]["gpu_seconds"]


WITH = {
    "speculation": SCENARIO.replace(
        "parallel:", "speculation: {method: eagle3, k: 3, acceptance: sharegpt, controller: goodput}, parallel:"
    ),
    "disaggregation": SCENARIO.replace("replicas: 2", "pools: [{name: p, role: prefill}, {name: d, role: decode}]"),
}
"""Scenarios that have a technique for which there is no usual way."""


def test_without_a_technique_its_cost_is_exactly_zero(tmp_path: Path) -> None:
    """Whatever else is on; and with it, what it costs is there to be seen."""
    priced = [technique for technique in TECHNIQUES.values() if technique.costs]
    assert priced
    for technique in priced:
        document = answer(
            write(tmp_path, WITH.get(technique.name, SCENARIO)), techniques=[technique.name, "prefix-caching"]
        )
        for entry in document["variants"].values():
            for bucket in technique.costs:
                assert (entry["ledger"][bucket] == 0) == (technique.name not in entry["techniques"])
        effect = document["factorial"]["techniques"]
        assert sum(effect[technique.name]["cost"][bucket] for bucket in technique.costs) > 0
        assert (effect[technique.name]["cost"]["transfer_wait"] == 0) == ("transfer_wait" not in technique.costs)


def test_effects_and_interactions_by_hand(small: str) -> None:
    document = answer(small, techniques=["prefix-caching", "tensor-parallelism"])
    y = {name: entry["metrics"]["ttft_ms.mean"] for name, entry in document["variants"].items()}
    both, caching, tensor, off = (
        y[name] for name in ("prefix-caching+tensor-parallelism", "prefix-caching", "tensor-parallelism", "off")
    )
    factorial = document["factorial"]
    assert factorial["design"] == "all combinations"
    effects = {name: entry["gain"]["ttft_ms.mean"] for name, entry in factorial["techniques"].items()}
    assert effects["prefix-caching"] == pytest.approx((both + caching - tensor - off) / 2)
    assert effects["tensor-parallelism"] == pytest.approx((both + tensor - caching - off) / 2)
    (name, pair), = factorial["interactions"].items()  # fmt: skip
    assert name == "prefix-caching x tensor-parallelism"
    assert pair["gain"]["ttft_ms.mean"] == pytest.approx((both + off - caching - tensor) / 2)
    assert factorial["techniques"]["prefix-caching"]["net"]["reference_gpu_seconds"] == pytest.approx(
        sum(document["variants"][name]["metrics"]["gpu_seconds_in_use"] for name in ("off", "tensor-parallelism")) / 2
    )


def test_the_effect_of_what_does_nothing_is_zero(small: str) -> None:
    """No rounding is left of latencies that are the same with and without it."""
    document = answer(small, techniques=["prefix-caching", "chunked-prefill", "tensor-parallelism"])
    nothing = document["factorial"]["techniques"]["chunked-prefill"]
    assert set(nothing["ci"]["tpot_ms.mean"].values()) == {0}
    assert set(nothing["ledger_difference"].values()) == {0}
    assert "leaves mean TTFT and mean TPOT where they were" in document["sentences"]["chunked-prefill"]


def test_one_by_one_compares_with_all_off(small: str) -> None:
    document = answer(small, techniques=["prefix-caching", "tensor-parallelism"], one_by_one=True)
    assert list(document["variants"]) == ["off", "prefix-caching", "tensor-parallelism"]
    assert document["factorial"]["design"] == "one by one"
    assert document["factorial"]["interactions"] == {}
    for name, entry in document["factorial"]["techniques"].items():
        for part in ("gain", "net", "ci"):
            assert entry[part] == document["variants"][name][part]


def test_several_seeds_are_paired_by_seed(small: str) -> None:
    named = (f"a={small}", f"b={small}")
    document = answer(*named, changes_for=["b:cluster.engine.prefix_caching=false"], seed=5, seeds=3)
    assert (document["seeds"], document["paired"]) == ([5, 6, 7], "by seed")
    runs = [
        [servetwin.run(small, run__seed=seed, cluster__engine__prefix_caching=on).summary() for on in (True, False)]
        for seed in (5, 6, 7)
    ]
    for key in ("ttft_ms.p99", "gpu_seconds", "output_throughput_tokens_per_s"):
        wanted = mean_interval([off[key] - on[key] for on, off in runs])
        entry = document["variants"]["b"]
        assert tuple(entry["ci"][key].values()) == pytest.approx(tuple(wanted))
        assert entry["gain"][key] == pytest.approx(wanted.estimate)
        assert entry["metrics"][key] == pytest.approx(np.mean([off[key] for _, off in runs]))
    assert "gpu_seconds_in_use" in document["variants"]["b"]["ci"]


def test_the_number_of_processes_changes_nothing(small: str) -> None:
    variants = plan(small, techniques=["prefix-caching"])
    one, two = (build_document(variants, run(variants, seeds=2, jobs=jobs)) for jobs in (1, 2))
    assert json.dumps(one) == json.dumps(two)


@pytest.mark.parametrize("text", [SESSIONS, CLIENTS])
def test_arrivals_that_depend_on_the_system_are_said(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, text)
    document = answer(f"a={file}", f"b={file}", changes_for=["b:cluster.slowdown=1.5"])
    assert document["requests"]["arrivals"] == "by system"
    assert any("depend on how the system fares" in note for note in document["notes"])
    interval = document["variants"]["b"]["ci"]["e2e_ms.mean"]
    assert interval["estimate"] == pytest.approx(document["variants"]["b"]["gain"]["e2e_ms.mean"])
    assert interval["low"] > 0


def test_a_request_that_only_one_variant_completes_makes_no_pair(small: str) -> None:
    document = answer(
        f"a={small}", f"b={small}", changes=["cluster.replicas=1", "workload.arrivals.rate_per_s=500"],
        changes_for=["b:admission={policy: max-requests, requests: 5}"],
    )  # fmt: skip
    entry = document["variants"]["b"]
    assert entry["metrics"]["rejected"] > 0
    assert entry["ci"]["ttft_ms.mean"]["high"] < 0
    assert entry["ci"]["ttft_ms.mean"]["estimate"] != pytest.approx(entry["gain"]["ttft_ms.mean"])


@pytest.mark.parametrize("column", ["arrival_ps", "prompt_tokens", "output_tokens"])
def test_requests_that_differ_are_found(small: str, column: str) -> None:
    (baseline, other), = run(plan(f"a={small}", f"b={small}")).seeds  # fmt: skip
    assert check_same_requests(baseline, other, reacts=False) == []
    changed = other.columns[column].copy()
    changed[7] += 1
    other = replace(other, columns={**other.columns, column: changed})
    with pytest.raises(ScenarioError, match=f"{column} of request 7 differs"):
        check_same_requests(baseline, other, reacts=False)
    notes = check_same_requests(baseline, other, reacts=True)
    assert bool(notes) == (column != "arrival_ps")
    fewer = replace(baseline, columns={name: values[:-1] for name, values in baseline.columns.items()})
    with pytest.raises(ScenarioError, match="the number of requests differs"):
        check_same_requests(baseline, fewer, reacts=False)
    assert "came in one of" in check_same_requests(baseline, fewer, reacts=True)[0]


def test_undefined_metrics_stay_undefined(tmp_path: Path) -> None:
    file = write(tmp_path, SCENARIO.replace("mean: 40, std: 30, min: 2, max: 200", "mean: 1, std: 0.1, min: 1, max: 1"))
    document = answer(f"a={file}", f"b={file}", changes_for=["b:cluster.replicas=1"])
    entry = document["variants"]["b"]
    assert entry["metrics"]["tpot_ms.mean"] is None
    assert entry["gain"]["tpot_ms.mean"] is None
    assert "tpot_ms.mean" not in entry["ci"]
    assert "TPOT" not in document["sentences"]["b"]
    json.dumps(document, allow_nan=False)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    check_folder(tmp_path / "new" / "folder")
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(InputError, match="is a file"):
            check_folder(out)
    assert not (tmp_path / "new").exists()


def test_requests_that_only_one_variant_completes_are_said(tmp_path: Path) -> None:
    file = write(tmp_path)
    (note,) = answer(
        file, f"short={file}", changes_for=["short:cluster.engine.max_model_len=1000"]
    )["notes"][:1]  # fmt: skip
    assert "were completed in one of small and short only" in note
    assert not any("in one of" in one for one in answer(file, f"b={file}")["notes"])


def test_a_name_that_is_too_long_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no scenario of that name"):
        plan(write(tmp_path), f"b={'x' * 300}")


def test_a_mistake_that_shows_only_in_a_run_names_variant_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise InputError("the simulated time goes beyond all bounds", path="run")

    monkeypatch.setattr("servetwin.studies.compare.running.execute", fail)
    file = write(tmp_path)
    with pytest.raises(InputError, match="small with seed 0: the simulated time"):
        run(plan(file, f"b={file}"))
