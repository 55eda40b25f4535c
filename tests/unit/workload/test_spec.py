"""What a workload file may say, and what it must not."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from servetwin.errors import ScenarioError
from servetwin.workload.spec import WorkloadSpec
from servetwin.workload.stream import RequestStream

WORKLOADS = Path(__file__).parents[3] / "workloads"
BUNDLED = sorted(WORKLOADS.glob("*.yaml"))
Build = Callable[..., RequestStream]


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_bundled_workloads_are_valid_and_explained(path: Path, stream_of: Build) -> None:
    text = path.read_text()
    assert text.startswith("# "), "a workload starts with the question it is for"
    content = yaml.safe_load(text)
    stream = stream_of(content, requests=50, base=WORKLOADS)
    requests = list(stream)
    assert 0 < len(requests) <= 50
    assert [r.arrival_ps for r in requests] == sorted(r.arrival_ps for r in requests)
    for request in requests:
        assert request.prompt_tokens >= 1
        assert request.output_tokens >= 1
        assert not request.segments or sum(tokens for _, tokens in request.segments) == request.prompt_tokens


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_a_workload_survives_being_written_and_read(path: Path) -> None:
    spec = WorkloadSpec.model_validate(yaml.safe_load(path.read_text()))
    written = yaml.safe_dump(spec.model_dump(mode="json"))
    assert WorkloadSpec.model_validate(yaml.safe_load(written)) == spec


def test_the_example_traces_are_what_their_script_makes() -> None:
    script = runpy.run_path(str(Path(__file__).parent / "example_traces.py"))
    for name, make in script["FILES"].items():
        assert (WORKLOADS / "traces" / name).read_bytes() == make(), f"{name}: run example_traces.py"


def test_every_file_of_the_folder_is_in_provenance() -> None:
    text = (WORKLOADS / "PROVENANCE.md").read_text()
    for path in (WORKLOADS / "traces").iterdir():
        assert f"traces/{path.name}" in text


def test_the_schema_for_editors_allows_the_short_forms() -> None:
    properties = WorkloadSpec.model_json_schema()["properties"]
    assert {"type": "integer"} in properties["prompts"]["anyOf"]
    assert all("description" in field for field in properties.values())


def test_a_spec_is_frozen(bench: dict[str, Any]) -> None:
    spec = WorkloadSpec.model_validate(bench)
    with pytest.raises(ValidationError, match="frozen"):
        spec.sampling = "top-p"


CLASS = {"name": "chat"}
TRACE = {"path": "t.csv"}
PREFIXES = {"groups": 2, "tokens": 10}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"arrivals": None}, "needs arrivals"),
        ({"prompts": None}, "needs prompts"),
        ({"outputs": None}, "needs outputs"),
        ({"arrival": {"rate_per_s": 8}}, "arrival"),
        ({"sampling": "topp"}, "sampling"),
        ({"trace": TRACE}, "arrivals has no effect beside trace"),
        ({"classes": [CLASS, CLASS]}, "same name"),
        ({"classes": [{"name": ""}]}, "name"),
        ({"classes": [{"name": "a", "share": 0}]}, "share"),
        ({"classes": [{"name": "a", "share": -1}]}, "share"),
        ({"classes": [{"name": "a", "priority": 1.5}]}, "priority"),
        ({"classes": [{"name": "a", "slo": {"ttft_ms": 0}}]}, "ttft_ms"),
        ({"classes": [{"name": "a", "slo": {"tftt_ms": 5}}]}, "tftt_ms"),
        ({"classes": [{"name": "a", "prompts": 5}]}, "prompts has no effect"),
        ({"prompts": None, "classes": [{"name": "a", "prompts": 5}, {"name": "b"}]}, "needs prompts"),
        ({"prefixes": {**PREFIXES, "zipf_exponent": 1, "order": "cycled"}}, "zipf_exponent has no effect"),
        ({"prefixes": {**PREFIXES, "zipf_exponent": -1}}, "zipf_exponent"),
        ({"prefixes": {**PREFIXES, "groups": 0}}, "groups"),
        ({"prefixes": {**PREFIXES, "order": "sorted"}}, "order"),
        ({"prefixes": {**PREFIXES, "groups": 10_000, "prompts_per_group": 10_000}}, "must not exceed"),
        (
            {"prefixes": {**PREFIXES, "prompts_per_group": 2}, "sessions": {"turns": 2, "think_time_s": 1}},
            "cannot be combined with sessions",
        ),
        (
            {"prefixes": {**PREFIXES, "prompts_per_group": 2}, "classes": [CLASS, {"name": "b", "prompts": 5}]},
            "cannot be combined with class prompts",
        ),
        ({"sessions": {"turns": 2}}, "think_time_s"),
        ({"sessions": {"turns": 0, "think_time_s": 1}}, "turns"),
        ({"sessions": {"turns": 2, "think_time_s": -1}}, "think_time_s"),
    ],
)
def test_mistakes_are_refused_by_name(bench: dict[str, Any], change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        WorkloadSpec.model_validate({**bench, **change})


@pytest.mark.parametrize(
    ("trace", "named"),
    [
        ({}, "path"),
        ({"path": ""}, "path"),
        ({"path": "t", "format": "azur"}, "did you mean 'azure'"),
        ({"path": "t", "rate_scale": 0}, "rate_scale"),
        ({"path": "t", "rate_scale": float("nan")}, "rate_scale"),
        ({"path": "t", "limit": 0}, "limit"),
        ({"path": "t", "limit": 1.5}, "limit"),
        ({"path": "t", "window_s": "5"}, "A:B"),
        ({"path": "t", "window_s": "a:b"}, "A:B"),
        ({"path": "t", "window_s": "5:5"}, "must end after it starts"),
        ({"path": "t", "window_s": [9, 3]}, "must end after it starts"),
        ({"path": "t", "window_s": "-1:3"}, "window_s"),
        ({"path": "t", "window_s": "nan:3"}, "window_s"),
        ({"path": "t", "window_s": "0:inf"}, "window_s"),
        ({"path": "t", "skip_bad_rows": "yes"}, "skip_bad_rows"),
        ({"path": "t", "skip": True}, "skip"),
    ],
)
def test_mistakes_in_a_trace_are_refused_by_name(trace: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        WorkloadSpec.model_validate({"trace": trace})


def test_a_trace_takes_no_class_lengths() -> None:
    with pytest.raises(ValidationError, match="outputs of class 'a'"):
        WorkloadSpec.model_validate({"trace": TRACE, "classes": [{"name": "a", "outputs": 5}]})


@pytest.mark.parametrize(
    ("text", "window"), [("5:9", (5, 9)), ("5:", (5, None)), (":9", (0, 9)), (":", (0, None)), ([1, 2], (1, 2))]
)
def test_windows(text: Any, window: tuple[float, float | None]) -> None:
    spec = WorkloadSpec.model_validate({"trace": {"path": "t", "window_s": text}})
    assert spec.trace is not None
    assert spec.trace.window_s == window


def test_a_workload_without_an_end_needs_a_bound(bench: dict[str, Any], stream_of: Build) -> None:
    with pytest.raises(ScenarioError, match="never ends") as caught:
        stream_of(bench)
    assert caught.value.path == "run.requests"
    with pytest.raises(ScenarioError, match=r"run\.requests"):
        stream_of(bench, requests=0)
    with pytest.raises(ScenarioError, match=r"run\.duration_s"):
        stream_of(bench, duration_ps=0)


def test_a_workload_with_an_end_needs_none(bench: dict[str, Any], stream_of: Build) -> None:
    bench["arrivals"] = {"process": "bursts", "size": 5}
    assert WorkloadSpec.model_validate(bench).finite
    stream = stream_of(bench)
    assert stream.expected == 5
    assert len(list(stream)) == 5
