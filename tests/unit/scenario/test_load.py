"""Reading scenarios: chains, file names, overrides, and whom a mistake is blamed on."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, CatalogError, InputError, ScenarioError, TraceError
from servetwin.scenario.build import build
from servetwin.scenario.engine_settings import captured
from servetwin.scenario.load import LoadedScenario, ScenarioWarning, load, load_scenario, validate_mapping
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import config_hash, to_yaml

Load = Callable[..., LoadedScenario]


def _fails(load_it: Load, content: Any, *overrides: str, kind: type[InputError] = ScenarioError) -> InputError:
    with pytest.raises(kind) as caught:
        load_it(content, *overrides)
    return caught.value


def test_a_name_defaults_to_that_of_the_file(write: Any, base: dict[str, Any], catalog: Catalog) -> None:
    del base["name"]
    assert load(write(base, "my-study.yaml"), catalog=catalog).scenario.name == "my-study"


def test_extends_merges_over_a_bundled_scenario(load_it: Load) -> None:
    scenario = load_it({"extends": "bench-8b", "run": {"requests": 7}}).scenario
    assert scenario.run.requests == 7
    assert scenario.workload.arrivals is not None and scenario.workload.arrivals.rate_per_s == 8  # type: ignore[union-attr]
    assert scenario.name == "scenario"
    assert scenario.description == ""


def test_extends_by_path_is_relative_to_the_file_that_says_it(write: Any, base: dict[str, Any]) -> None:
    write(base, "bases/a.yaml")
    write({"extends": "../bases/a.yaml", "run": {"seed": 4}}, "middle/b.yaml")
    file = write({"extends": "middle/b.yaml", "cluster": {"replicas": 3}})
    scenario = load(file).scenario
    assert (scenario.run.seed, scenario.cluster.pools[0].replicas, scenario.run.requests) == (4, 3, 20)


@pytest.mark.parametrize(
    "files",
    [
        {"scenario.yaml": "scenario.yaml"},
        {"scenario.yaml": "b.yaml", "b.yaml": "./scenario.yaml"},
        {"scenario.yaml": "b.yaml", "b.yaml": "c.yaml", "c.yaml": "b.yaml"},
    ],
)
def test_a_circle_of_extends_is_found(files: dict[str, str], write: Any) -> None:
    for name, parent in files.items():
        write({"extends": parent}, name)
    with pytest.raises(ScenarioError, match="in a circle") as caught:
        load(write({"extends": files["scenario.yaml"]}, "scenario.yaml"))
    assert "→" in str(caught.value.found)


def test_an_unknown_parent_names_the_nearest(load_it: Load) -> None:
    error = _fails(load_it, {"extends": "bench-8"})
    assert (error.path, error.nearest) == ("extends", "bench-8b")
    assert _fails(load_it, {"extends": "gone.yaml"}).path == "extends"
    assert _fails(load_it, {"extends": ["a", "b"]}).path == "extends"


def test_paths_in_files_are_relative_to_the_file(write: Any, base: dict[str, Any], tmp_path: Path) -> None:
    config = json.loads((Path(__file__).parent / "tiny_config.json").read_text())
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text(json.dumps(config))
    (tmp_path / "lengths.txt").write_text("5\n7\n")
    base["model"] = "../models/config.json"
    base["workload"]["prompts"] = {"distribution": "empirical", "file": "../lengths.txt"}
    scenario = load(write(base, "deep/scenario.yaml")).scenario
    assert isinstance(scenario.model, dict), "the content of a file stands in the resolved scenario"
    assert scenario.workload.prompts.file == str(tmp_path / "deep" / ".." / "lengths.txt")  # type: ignore[union-attr]
    servetwin.run(scenario)


@pytest.mark.parametrize("per_pool", [False, True])
def test_recordings_and_presets_are_relative_to_the_file(
    per_pool: bool, write: Any, base: dict[str, Any], tmp_path: Path
) -> None:
    """A recording is always a file, a preset where its name is a path."""
    (tmp_path / "lengths.jsonl").write_text('{"n": [2, 1, 3, 1]}\n')
    preset = "name: mine\nmethods: {eagle3: {survival: [0.5], source: me, date: 2026-12-01}}\n"
    (tmp_path / "mine.yaml").write_text(preset)
    for acceptance in ({"recorded": "../lengths.jsonl", "column": "n"}, "../mine.yaml", {"preset": "../mine.yaml"}):
        content = json.loads(json.dumps(base))
        owner = content.setdefault("cluster", {})
        if per_pool:
            owner.setdefault("pools", [{}])
            owner = owner["pools"][0]
        owner["speculation"] = {"method": "eagle3", "k": 2, "acceptance": acceptance}
        result = servetwin.run(load(write(content, "deep/scenario.yaml")).scenario)
        assert result.summary()["spec_decode_num_accepted_tokens"] > 0
    acceptance = {"recorded": "lengths.jsonl", "column": "n"}
    owner["speculation"]["acceptance"] = acceptance
    with pytest.raises(TraceError, match="no such file") as caught:
        servetwin.run(load(write(content, "deep/scenario.yaml")).scenario)
    assert caught.value.file == str(tmp_path / "deep" / "lengths.jsonl")


def test_what_lies_in_a_subfolder_of_a_catalogue_is_found_by_its_name(tmp_path: Path, base: dict[str, Any]) -> None:
    for kind, content in (("workloads", base["workload"]), ("scenarios", {**base, "workload": "team/mine"})):
        file = tmp_path / kind / "team" / "mine.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content))
    catalog = Catalog([tmp_path])
    assert "team/mine" in catalog.names("scenarios")
    assert load("team/mine", catalog=catalog).scenario.workload.arrivals is not None


def test_a_workload_by_name_and_by_path(write: Any, base: dict[str, Any]) -> None:
    base["workload"] = "chat-poisson"
    assert load(write(base)).scenario.workload.prompts is not None
    write({"arrivals": {"rate_per_s": 2}, "prompts": 10, "outputs": 20}, "w/load.yaml")
    base["workload"] = "w/load.yaml"
    assert load(write(base)).scenario.workload.outputs.value == 20  # type: ignore[union-attr]
    base["workload"] = "chat-poison"
    with pytest.raises(CatalogError) as caught:
        load(write(base))
    assert caught.value.path == "workload"
    assert caught.value.nearest == "chat-poisson"


def test_a_workload_by_name_can_be_changed_by_later_overrides(load_it: Load, base: dict[str, Any]) -> None:
    classes = "workload.classes=[{name: a, prompts: 7}, {name: b}]"
    loaded = load_it(base, "workload=chat", "workload.arrivals.rate_per_s=3", classes)
    preset = load_it(base, "workload=chat").scenario.workload
    changed = loaded.scenario.workload
    assert changed.outputs == preset.outputs
    assert [entry.name for entry in changed.classes] == ["a", "b"]
    assert changed.arrivals is not None and changed.arrivals.rate_per_s == 3  # type: ignore[union-attr]
    assert loaded.warnings == ()


def test_an_unknown_workload_is_blamed_on_its_override(load_it: Load, base: dict[str, Any]) -> None:
    error = _fails(load_it, base, "workload=chatt", "workload.prompts=3", kind=CatalogError)
    assert (error.file, error.path, error.nearest) == ("--set workload=chatt", "workload", "chat")


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("workload.prompts=3", "workload=chat"),
        ("run.seed=3", "run.seed=4"),
        ("cluster.engine.block_size=32", "cluster.engine={max_num_seqs: 9}"),
    ],
)
def test_an_override_that_a_later_one_replaces_is_a_warning(
    first: str, later: str, load_it: Load, base: dict[str, Any]
) -> None:
    (warning,) = load_it(base, first, later).warnings
    assert warning == f"--set {first} has no effect: --set {later} comes later (check overridden-later)"
    assert load_it(base, later, "run.requests=9").warnings == ()


def test_overrides_reach_every_field(load_it: Load, base: dict[str, Any]) -> None:
    scenario = load_it(
        base,
        "cluster.pools.0.replicas=8",
        "cluster.pools.engines.engine.max_num_seqs=64",
        "router=least-requests",
        "run.seed=5",
        "workload.arrivals.rate_per_s=1e1",
        "slo.ttft_ms.p99=500",
    ).scenario
    pool = scenario.cluster.pools[0]
    assert (pool.replicas, pool.engine.max_num_seqs, scenario.router.policy) == (8, 64, "least-requests")
    assert (scenario.run.seed, scenario.workload.arrivals.rate_per_s) == (5, 10)  # type: ignore[union-attr]
    assert scenario.slo.ttft_ms is not None and scenario.slo.ttft_ms.p99 == 500


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("cluster.pool.0.replicas=3", "pools"),
        ("run.sed=3", "seed"),
        ("routr.policy=random", "router"),
        ("cluster.pools.enginez.replicas=3", "engines"),
        ("cluster.engine.max_num_seq=3", "max_num_seqs"),
        ("router.policy=round-robbin", "round-robin"),
    ],
)
def test_a_mistaken_override_is_blamed_and_the_nearest_named(
    override: str, nearest: str, load_it: Load, base: dict[str, Any]
) -> None:
    error = _fails(load_it, base, override)
    assert error.file == f"--set {override}"
    assert error.nearest == nearest


def test_a_mistake_of_the_file_is_not_blamed_on_an_override(load_it: Load, base: dict[str, Any]) -> None:
    base["run"]["sed"] = 3
    assert str(_fails(load_it, base, "run.seed=3").file).endswith("scenario.yaml")


@pytest.mark.parametrize(
    ("part", "path", "found", "nearest"),
    [
        ({"cluster": {"hardwre": "h100-sxm"}}, "cluster.hardwre", "hardwre", "hardware"),
        ({"cluster": {"hardware": "h10-sxm"}}, "cluster.hardware", "h10-sxm", "h100-sxm"),
        ({"model": "lama-3.1-8b"}, "model", "lama-3.1-8b", "llama-3.1-8b"),
        ({"router": {"policy": "least-request"}}, "router.policy", "least-request", "least-requests"),
        ({"router": "randon"}, "router", "randon", "random"),
        ({"router": {"policy": "power-of-two", "metrik": "x"}}, "router.metrik", "metrik", "metric"),
        ({"router": {"policy": "power-of-two", "metric": "token"}}, "router.metric", "token", "tokens"),
        ({"cluster": {"engine": {"scheduling": "fcf"}}}, "cluster.engine.scheduling", "fcf", "fcfs"),
        ({"run": {"stepping": "skip-ahed"}}, "run.stepping", "skip-ahed", "skip-ahead"),
        ({"workload": {"arrivals": {"process": "poison"}}}, "workload.arrivals.process", "poison", "poisson"),
        ({"physics": {"calibration": "defautl"}}, "physics.calibration", "defautl", "default"),
        ({"slo": {"ttft_ms": {"p98": 5}}}, "slo.ttft_ms.p98", "p98", "p99"),
        ({"cluster": {"precision": {"weights": "fp7"}}}, "cluster.precision.weights", "fp7", "fp8"),
    ],
)
def test_names_are_explained(
    part: dict[str, Any], path: str, found: str, nearest: str, load_it: Load, base: dict[str, Any]
) -> None:
    error = _fails(load_it, deep_merge(base, part), kind=InputError)
    assert (error.path, error.found, error.nearest) == (path, found, nearest)
    assert str(error.file).endswith("scenario.yaml")
    assert error.allowed


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"run": {"requests": "many"}}, "run.requests"),
        ({"run": {"requests": 2.5}}, "run.requests"),
        ({"run": {"requests": 0}}, "run.requests"),
        ({"run": {"requests": True}}, "run.requests"),
        ({"run": {"seed": -1}}, "run.seed"),
        ({"run": {"duration_s": float("inf")}}, "run.duration_s"),
        ({"cluster": {"slowdown": 0}}, "cluster.slowdown"),
        ({"cluster": {"slowdown": float("nan")}}, "cluster.slowdown"),
        ({"cluster": {"replicas": 0}}, "cluster.replicas"),
        ({"cluster": {"replicas": 10**9}}, "cluster.replicas"),
        ({"cluster": {"pools": []}}, "cluster.pools"),
        ({"cluster": {"pools": [3]}}, "cluster.pools.0"),
        ({"cluster": 5}, "cluster"),
        ({"cluster": {"engine": {"prefix_caching": "yes please"}}}, "cluster.engine.prefix_caching"),
        ({"cluster": {"engine": {"gpu_memory_utilization": 1.2}}}, "cluster.engine.gpu_memory_utilization"),
        ({"cluster": {"engine": {"watermark": 1}}}, "cluster.engine.watermark"),
        ({"cluster": {"engine": {"num_gpu_blocks_override": 1}}}, "cluster.engine.num_gpu_blocks_override"),
        ({"cluster": {"engine": {"max_model_len": "long"}}}, "cluster.engine.max_model_len"),
        ({"workload": {"arrivals": {"rate_per_s": 0}}}, "workload.arrivals.rate_per_s"),
        ({"workload": {"arrivals": {"rate_per_s": -3}}}, "workload.arrivals.rate_per_s"),
        ({"workload": {"arrivals": {"rate_per_s": float("nan")}}}, "workload.arrivals.rate_per_s"),
        ({"workload": {"arrivals": {"rate_per_s": float("inf")}}}, "workload.arrivals.rate_per_s"),
        ({"workload": {"arrivals": {"rate_per_s": "8"}}}, "workload.arrivals.rate_per_s"),
        ({"workload": {"outputs": 0}}, "workload.outputs"),
        ({"engine": {"version": 0.15}}, "engine.version"),
        ({"engine": {"version": "newest"}}, "engine.version"),
        ({"name": "a/b"}, "name"),
        ({"admission": {"policy": "max-requests", "requests": 0}}, "admission.requests"),
        ({"admission": {"policy": "max-requests"}}, "admission.requests"),
        ({"slo": {"goodput": {"ttft_ms": -1}}}, "slo.goodput.ttft_ms"),
    ],
)
def test_values_are_checked(part: dict[str, Any], path: str, load_it: Load, base: dict[str, Any]) -> None:
    content = to_text(deep_merge(base, part))
    error = _fails(load_it, content)
    assert error.path == path
    assert str(error.file).endswith("scenario.yaml")


def to_text(content: dict[str, Any]) -> str:
    """YAML with the infinities that safe_dump writes as ``.inf`` and ``.nan``."""
    import yaml

    return yaml.safe_dump(content)


def test_several_mistakes_are_told_at_once(load_it: Load, base: dict[str, Any]) -> None:
    base |= {"routerr": 1, "run": {"requests": "x", "sed": 1}}
    error = _fails(load_it, base)
    assert error.hint is not None and "run.sed" in error.hint and "routerr" in error.hint
    assert len(str(error).splitlines()) <= 6


@pytest.mark.parametrize("missing", ["model", "cluster", "workload"])
def test_what_must_be_given(missing: str, load_it: Load, base: dict[str, Any]) -> None:
    del base[missing]
    error = _fails(load_it, base)
    assert error.path == missing
    assert "missing" in error.message


def test_hardware_must_be_given(load_it: Load, base: dict[str, Any]) -> None:
    del base["cluster"]["hardware"]
    error = _fails(load_it, base)
    assert error.path == "cluster.hardware"
    assert "h100-sxm" in str(error.allowed)


def test_a_model_that_does_not_fit_says_how_many_gpus_would(load_it: Load, base: dict[str, Any]) -> None:
    base["model"] = "llama-3.1-70b"
    error = _fails(load_it, base, kind=CapacityError)
    assert error.path == "cluster.parallel.tensor"
    assert error.hint is not None and "tensor: 2" in error.hint
    assert load_it(base, "cluster.parallel.tensor=4").scenario.cluster.pools[0].parallel.tensor == 4


def test_heads_must_divide(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["parallel"] = {"tensor": 3}
    error = _fails(load_it, base, kind=CapacityError)
    assert error.path == "cluster.parallel.tensor"


def test_one_request_must_fit(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"] |= {"hardware": "l40s", "engine": {"gpu_memory_utilization": 0.5}}
    error = _fails(load_it, base, kind=CapacityError)
    assert error.path == "cluster.engine.max_model_len"
    shorter = load_it(base, "cluster.engine.max_model_len=auto").scenario.cluster.pools[0].engine
    assert isinstance(shorter.max_model_len, int) and shorter.max_model_len < 131_072


def test_longer_than_the_model_can_is_refused(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {"max_model_len": 200_000}
    assert "131072" in str(_fails(load_it, base).allowed)


def test_the_budget_must_serve_every_seat(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {"max_num_batched_tokens": 100, "max_num_seqs": 200}
    assert _fails(load_it, base).path == "cluster.engine.max_num_batched_tokens"
    base["cluster"]["engine"] = {"max_num_batched_tokens": 100}
    assert load_it(base).scenario.cluster.pools[0].engine.max_num_seqs == 100


def test_without_chunking_the_longest_prompt_must_fit_into_a_step(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {"chunked_prefill": False, "max_num_batched_tokens": 8192}
    assert "131072" in str(_fails(load_it, base).allowed)
    base["cluster"]["engine"] = {"chunked_prefill": False}
    assert load_it(base).scenario.cluster.pools[0].engine.max_num_batched_tokens == 131_072


def test_a_warm_up_must_leave_something(load_it: Load, base: dict[str, Any]) -> None:
    base["run"] = {"requests": 20, "warmup_requests": 20}
    assert _fails(load_it, base).path == "run.warmup_requests"


def test_two_pools_of_one_name_are_refused(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["pools"] = [{"name": "a"}, {"name": "a"}]
    assert _fails(load_it, base).path == "cluster.pools.1.name"


def test_a_missing_trace_is_found_when_it_is_read(load_it: Load, base: dict[str, Any]) -> None:
    base["workload"] = {"trace": {"path": "gone.csv"}}
    with pytest.raises(TraceError):
        servetwin.run(load_it(base).scenario)


def test_a_mapping_is_as_good_as_a_file(base: dict[str, Any]) -> None:
    scenario = validate_mapping(base)
    assert scenario.cluster.pools[0].replicas == 1
    with pytest.raises(ScenarioError) as caught:
        validate_mapping({**base, "nam": 3})
    assert (caught.value.file, caught.value.nearest) == ("the scenario", "name")


def test_the_public_function_warns_of_an_ineffective_override() -> None:
    with pytest.warns(ScenarioWarning, match="no effect"):
        load_scenario("bench-8b", ["cluster.engine.long_prefill_token_threshold=9000"])


def test_bundled_scenarios_load_without_warnings_and_say_their_question() -> None:
    catalog = Catalog()
    for name in catalog.names("scenarios"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded = load(name, catalog=catalog)
        assert loaded.warnings == ()
        assert loaded.scenario.name == name
        assert loaded.scenario.description
        head = loaded.file.read_text().splitlines()[0]
        assert head.startswith("# ") and "?" in loaded.file.read_text().split("name:")[0]


@pytest.mark.parametrize("name", ["quickstart", "mixed-gpus", "priority-classes", "multi-turn", "shared-prefix"])
def test_a_resolved_scenario_resolves_to_itself(name: str, write: Any) -> None:
    text = to_yaml(load(name).scenario)
    again = load(write(text))
    assert to_yaml(again.scenario) == text
    assert again.warnings == ()


def _own_gpu(folder: Path) -> Path:
    """A GPU profile outside the catalogue, under a name that the catalogue does not have."""
    folder.mkdir(parents=True)
    profile = Path(Catalog().describe("hardware", "h100-sxm")["file"]).read_text()
    file = folder / "mine.yaml"
    file.write_text(profile.replace("name: h100-sxm", "name: my-gpu", 1))
    return file


def test_the_path_of_a_gpu_holds_in_the_resolved_scenario(
    write: Any, base: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = _own_gpu(tmp_path / "gpus")
    base["cluster"]["hardware"] = "../gpus/mine.yaml"
    from_file = load(write(base, "deep/scenario.yaml")).scenario
    monkeypatch.chdir(tmp_path)
    base["cluster"]["hardware"] = "h100-sxm"
    from_override = load(write(base), ["cluster.hardware=gpus/mine.yaml"]).scenario
    assert from_override.cluster.pools[0].hardware == str(gpu)
    assert config_hash(from_file) == config_hash(from_override), "the content counts, not the path"
    for scenario in (from_file, from_override):
        again = load(write(to_yaml(scenario), "elsewhere/again.yaml")).scenario
        assert again == scenario
        assert build(again).recorder.meta.pools[0].hardware == "my-gpu"


@pytest.mark.parametrize(
    ("file", "given", "name"),
    [
        ("tiny/config.json", None, "tiny"),
        ("tiny/config.json", "org/Tiny-1B", "Tiny-1B"),
        ("tiny/config.json", "/data/checkpoints/7", "tiny"),
        ("my-tiny.json", "org/Tiny-1B", "my-tiny"),
    ],
)
def test_a_model_in_a_file_is_called_by_its_name(
    write: Any, base: dict[str, Any], tmp_path: Path, file: str, given: str | None, name: str
) -> None:
    config = json.loads((Path(__file__).parent / "tiny_config.json").read_text())
    target = tmp_path / file
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({**config, "_name_or_path": given}))
    result = servetwin.run(load(write(base), [f"model={target}"]).scenario)
    assert result.summary()["model"] == name


def test_hints_name_fields_as_they_are_written(write: Any, base: dict[str, Any]) -> None:
    base["model"] = "llama-3.1-70b"
    with pytest.raises(InputError, match=r"cluster\.parallel\.tensor: 2 is the smallest"):
        load(write(base))
    base |= {"model": "llama-3.1-8b", "cluster": {"hardware": "l40s"}}
    with pytest.raises(InputError) as caught:
        load(write(base), ["cluster.engine.max_model_len=131072", "cluster.engine.gpu_memory_utilization=0.6"])
    assert str(caught.value.hint).startswith(
        "set cluster.engine.max_model_len, use more GPUs (cluster.parallel.tensor)"
    )
    assert "cluster.precision.kv_cache: fp8" in str(caught.value.hint)


@pytest.mark.parametrize("field", ["model", "cluster.hardware", "physics.calibration"])
@pytest.mark.parametrize("suffix", [".yaml", ""])
@pytest.mark.parametrize("name", ["~nobody-knows-me/x", "a\0b", "x" * 5_000, "./" + "y/" * 3_000, " "])
def test_names_that_no_file_can_have(name: str, suffix: str, field: str, load_it: Load, base: dict[str, Any]) -> None:
    changed = base
    *parents, last = field.split(".")
    for parent in parents:
        changed = changed.setdefault(parent, {})
    changed[last] = name + suffix
    with pytest.raises(InputError):
        load_it(base)


@pytest.mark.parametrize("name", ["~nobody-knows-me/x.yaml", "x" * 5_000, "y/" * 3_000, "z" * 5_000 + ".yaml"])
def test_scenarios_that_no_file_can_be(name: str, catalog: Catalog) -> None:
    with pytest.raises(InputError):
        load(name, catalog=catalog)


def test_links_in_a_circle(tmp_path: Path, catalog: Catalog) -> None:
    link = tmp_path / "loop.yaml"
    link.symlink_to(link)
    with pytest.raises(ScenarioError, match="cannot be read"):
        load(link, catalog=catalog)


def test_a_bundled_scenario_with_an_ending(tmp_path: Path, monkeypatch: Any, catalog: Catalog) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match="no such scenario file") as caught:
        load("chat.yaml", catalog=catalog)
    assert (caught.value.nearest, caught.value.hint) == ("chat", "the bundled scenario is called chat")
    Path("mine.yaml").write_text("extends: chat\n")
    with pytest.raises(CatalogError) as missing:
        load("mine", catalog=catalog)
    assert missing.value.hint == "there is a file mine.yaml here: write mine.yaml"


@pytest.mark.parametrize(
    ("changes", "path", "given", "allowed"),
    [
        (["cluster.replicas='4'"], "cluster.replicas", 0, "a whole number, without quotes"),
        (["run.duration_s=1ms"], "run.duration_s", 0, "a number, in digits: the name of the field has the unit"),
        (["cluster.engine.gpu_memory_utilization=90%"], "cluster.engine.gpu_memory_utilization", 0, "are fractions"),
        (["workload.prompts=1k"], "workload.prompts", 0, "a number, or a mapping of fields: distribution"),
        (["cluster.engine.max_model_len=max"], "cluster.engine.max_model_len", 0, "a whole number, or auto"),
        (["cluster.engine.async_scheduling=maybe"], "cluster.engine.async_scheduling", 0, "true or false, or auto"),
        (
            ["cluster.engine.max_num_batched_tokens=2000000"],
            "cluster.engine.max_num_batched_tokens",
            0,
            "which leaves no room",
        ),
        (["cluster.engine.max_num_seqs=9000"], "cluster.engine.max_num_seqs", 0, "at most 8192, or a larger max_num_"),
        (["cluster.engine.block_size=1000000000"], "cluster.engine.block_size", 0, "engines have 16"),
        (["workload.classes.a.share=3"], "workload.classes.a.share", 0, "the list is empty"),
        (["admission.limit=4"], "admission.policy", 0, "max-queue"),
        (["extends=chat"], "extends", 0, "as the argument of the command"),
        (
            ["workload.outputs=5", "workload.max_tokens=9", "workload.prompts=3"],
            "workload",
            1,
            None,
        ),
        (
            ["workload.prompts={distribution: percentiles, points: [[0, 1, 2], [100, 3]]}"],
            "workload.prompts.points.0",
            0,
            "at most 2",
        ),
    ],
)
def test_what_is_wrong_and_which_override_did_it(
    changes: list[str], path: str, given: int, allowed: str | None, catalog: Catalog
) -> None:
    with pytest.raises(InputError) as caught:
        load("quickstart", changes, catalog)
    assert caught.value.path == path
    assert caught.value.file == f"--set {changes[given]}"
    if allowed is not None:
        assert allowed in str(caught.value.allowed)


def test_a_field_of_a_text_that_stands_for_a_mapping(base: dict[str, Any], load_it: Load) -> None:
    base["workload"] = {"trace": {"path": "x.csv", "columns": "arival_s=t,prompt_tokens=p,output_tokens=o"}}
    error = _fails(load_it, base)
    assert (error.path, error.found, error.nearest) == ("workload.trace.columns", "arival_s", "arrival_s")


def test_graphs_above_the_token_budget_are_left_out(catalog: Catalog) -> None:
    large = load("quickstart", ["cluster.engine.max_cudagraph_capture_size=1000000000", "run.requests=5"], catalog)
    budget = large.scenario.cluster.pools[0].engine.max_num_batched_tokens
    simulation = build(large.scenario, catalog=catalog)
    assert any("max_cudagraph_capture_size has no effect above 8,192" in text for text in simulation.remarks)
    assert captured(large.scenario.cluster.pools[0])[-1] == budget == 8_192
