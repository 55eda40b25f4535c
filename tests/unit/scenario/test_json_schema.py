"""The schemas for editors: every bundled file is valid, and slips are not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.catalog.json_schema import SCHEMAS
from servetwin.catalog.yaml_file import read_mapping
from servetwin.policies import KINDS, union
from servetwin.scenario.json_schema import scenario_schema, workload_schema

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra 'test'")

CATALOG = Catalog()
ALL: dict[str, Callable[[], dict[str, Any]]] = {
    "scenarios": scenario_schema, "workloads": workload_schema, **SCHEMAS,
}  # fmt: skip
BUNDLED = [(kind, name) for kind in ALL for name in CATALOG.names(kind)]


def content(kind: str, name: str) -> dict[str, Any]:
    data = read_mapping(CATALOG._files(kind)[name], kind)
    loaded: dict[str, Any] = json.loads(json.dumps(data))
    return loaded


def faults(kind: str, data: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(ALL[kind]())
    return [".".join(map(str, error.absolute_path)) or error.message for error in validator.iter_errors(data)]


@pytest.mark.parametrize("kind", ALL)
def test_every_schema_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(ALL[kind]())
    assert CATALOG.names(kind)


@pytest.mark.parametrize(("kind", "name"), BUNDLED, ids=lambda value: value)
def test_bundled_files_are_valid(kind: str, name: str) -> None:
    assert faults(kind, content(kind, name)) == []


SLIPS: list[tuple[str, str, tuple[str | int, ...], Any]] = [
    ("scenarios", "quickstart", ("clutser",), {}),
    ("scenarios", "quickstart", ("cluster", "hardwre"), "h100-sxm"),
    ("scenarios", "quickstart", ("cluster", "replicas"), 0),
    ("scenarios", "quickstart", ("router",), "round-robbin"),
    ("scenarios", "quickstart", ("router",), {"policy": "least-requests", "metrc": 1}),
    ("scenarios", "quickstart", ("cluster", "engine"), {"scheduling": "fcsf"}),
    ("scenarios", "quickstart", ("workload", "arrivals"), {"process": "poison", "rate_per_s": 1}),
    ("scenarios", "quickstart", ("workload", "prompts"), {"distribution": "lognormal", "men": 1}),
    ("scenarios", "quickstart", ("run", "stepping"), "skip"),
    ("scenarios", "quickstart", ("slo", "ttft_ms", "p98"), 100),
    ("scenarios", "bench-8b-4r", ("extends",), ...),
    ("scenarios", "quickstart", ("workload",), ...),
    ("workloads", "chat-poisson", ("arrivals", "rate_per_s"), -1),
    ("workloads", "chat-poisson", ("arival",), {}),
    ("hardware", "h100-sxm", ("memory", "value"), 80),
    ("hardware", "h100-sxm", ("memory", "value"), "80 GFLOPS"),
    ("hardware", "h100-sxm", ("hbm", "source"), ...),
    ("hardware", "h100-sxm", ("flops", "bf16"), ...),
    ("hardware", "h100-sxm", ("flops", "fp64"), {"value": "67 TFLOPS", "source": "x", "date": "2026-11-30"}),
    ("links", "nvlink-4", ("bandwith",), 1),
    ("storage", "ram-ddr5-2tb", ("capacity", "value"), "2 TB/s"),
    ("acceptance", "gsm8k", ("methods", "eagle3", "survival", 0), 1.2),
    ("acceptance", "gsm8k", ("methods", "ngram", "source"), ...),
    ("nodes", "hgx-h100", ("gpus", "value"), 0),
    ("nodes", "hgx-h100", ("nic",), ...),
    ("models", "llama-3.1-8b", ("layers", 0, "attention", "kind"), "flash"),
    ("models", "llama-3.1-8b", ("weights", "dtype"), "fp7"),
    ("models", "llama-3.1-8b", ("hiden",), 1),
    ("calibrations", "default", ("kernels", "h100-sxm", "products", "bf16", "memory"), 1.2),
    ("calibrations", "default", ("step", "host"), "560 furlongs"),
    ("calibrations", "default", ("step", "launch"), 1.5),
    ("calibrations", "default", ("step", "mixed"), ...),
    ("calibrations", "default", ("output",), ...),
    ("calibrations", "sglang", ("base",), ...),
]


@pytest.mark.parametrize(("kind", "name", "place", "value"), SLIPS, ids=lambda value: str(value)[:40])
def test_slips_are_marked(kind: str, name: str, place: tuple[str | int, ...], value: Any) -> None:
    data = copy.deepcopy(content(kind, name))
    inner: Any = data
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    assert faults(kind, data)


def test_what_scenarios_may_be() -> None:
    base = content("scenarios", "quickstart")
    assert faults("scenarios", {**base, "workload": "chat-poisson", "router": "random"}) == []
    assert faults("scenarios", {"extends": "quickstart", "run": {"seed": 3}}) == []
    assert faults("scenarios", {**base, "model": {"hidden_size": 64, "anything": True}}) == []
    pools = {"pools": [{"name": "a", "model": "llama-3.1-8b", "hardware": "h100-sxm"}]}
    without = {key: value for key, value in base.items() if key != "model"}
    assert faults("scenarios", {**without, "cluster": pools}) == []
    assert faults("scenarios", without)


def test_fields_have_a_meaning_and_policies_their_names() -> None:
    schema = scenario_schema()
    assert schema["properties"]["router"]["description"] == "which replica gets a request."
    cluster = schema["$defs"]["Cluster"]
    assert "Attributes" not in cluster["description"]
    assert all("description" in field for field in cluster["properties"].values())
    for kind in KINDS:
        names = schema["$defs"][f"{kind}-policy"]["anyOf"][0]["enum"]
        assert names == [policy.name() for policy in union(kind)]


def undescribed(schema: dict[str, Any], path: str) -> list[str]:
    found = []
    for name, field in schema.get("properties", {}).items():
        inner = [field, field.get("items", {}), *field.get("anyOf", [])]
        found += [fault for one in inner for fault in undescribed(one, f"{path}.{name}")]
        # The parts of a figure are described with it, and a mapping by its parts.
        if not field.get("description") and "properties" not in field and name != "value":
            found.append(f"{path}.{name}")
    return found


@pytest.mark.parametrize("kind", SCHEMAS)
def test_editors_can_show_what_every_field_means(kind: str) -> None:
    assert undescribed(SCHEMAS[kind](), kind) == []


def test_descriptions_are_those_of_the_docstrings() -> None:
    model = SCHEMAS["models"]()["properties"]
    assert model["vocab"]["description"] == "Tokens in the vocabulary."
    grouped = model["layers"]["items"]["properties"]["attention"]["anyOf"][0]
    assert grouped["description"] == "Multi-head, grouped-query or multi-query attention."
    assert grouped["properties"]["window"]["description"].endswith("itself included; null = all.")
