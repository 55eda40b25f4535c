"""``new``, ``schema``, and the kinds of ``list`` and ``show``: good input and bad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

KINDS = ("scenario", "workload", "suite", "hardware", "model", "node", "link", "storage", "calibration", "acceptance")


def test_a_new_scenario_runs_as_it_is(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("new", "my-study")
    assert (outcome.code, outcome.err) == (0, "")
    assert "servetwin run my-study.yaml" in outcome.out
    assert (tmp_path / "my-study.yaml").read_text(encoding="utf-8").startswith("# What is this scenario")
    run = cli("run", "my-study.yaml", "--no-figures", "--json", "--set", "run.requests=30")
    assert (run.code, json.loads(run.out)["name"]) == (0, "my-study")


def test_new_never_overwrites(cli: Cli, tmp_path: Path) -> None:
    assert json.loads(cli("new", "mine.yml", "--json").out) == {"name": "mine", "file": "mine.yml"}
    (tmp_path / "mine.yml").write_text("precious", encoding="utf-8")
    cli("new", "mine.yml").refused("not overwritten", "found:   mine.yml")
    assert (tmp_path / "mine.yml").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("name",)),
        (("my study",), ("NAME", "found:   my study", "nearest: my-study")),
        (("nowhere/mine",), ("no such directory", "nowhere")),
        (("",), ("NAME", "letters")),
    ],
)
def test_bad_names(arguments: tuple[str, ...], words: tuple[str, ...], cli: Cli) -> None:
    cli("new", *arguments).refused(*words)


@pytest.mark.parametrize("kind", KINDS)
def test_schema(kind: str, cli: Cli) -> None:
    outcome = cli("schema", kind)
    assert (outcome.code, outcome.err) == (0, "")
    schema = json.loads(outcome.out)
    assert schema["$schema"].startswith("https://json-schema.org/") and schema["properties"]
    plural = kind if kind in ("hardware", "storage", "acceptance") else f"{kind}s"
    assert cli("schema", plural).out == outcome.out


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("scenrio", ("KIND", "found:   scenrio", "nearest: scenario")),
        ("policies", ("KIND", "policies are no files", "nearest: scenarios")),
        ("techniques", ("KIND", "techniques are no files")),
        ("", ("KIND", "allowed: hardware")),
    ],
)
def test_bad_kinds(kind: str, words: tuple[str, ...], cli: Cli) -> None:
    cli("schema", kind).refused(*words)


def test_without_a_kind_the_kinds_are_listed(cli: Cli) -> None:
    outcome = cli("list")
    assert (outcome.code, outcome.err) == (0, "")
    rows = {row["name"]: row for row in json.loads(cli("list", "--json").out)}
    for kind in (
        "hardware",
        "models",
        "scenarios",
        "workloads",
        "policies",
        "techniques",
        "calibrations",
        "nodes",
        "links",
        "storage",
        "acceptance",
    ):
        assert kind in outcome.out
        assert rows[kind]["count"] == len(json.loads(cli("list", kind, "--json").out))


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("gpu", "NVIDIA H100 PCIe", ("h100-pcie", "79.65 GiB", "2 TB/s", "756 TFLOP/s", "2026-11-30")),
        ("nodes", "dgx-h100", ("hgx-h100", "8 x h100-sxm", "ib-ndr-400", "50 GB/s")),
        ("link", "NVLink5", ("nvlink-5", "900 GB/s")),
        ("storage", "nvme", ("nvme-gen4-3.84tb", "3.84 TB", "100 µs")),
    ],
)
def test_hardware_in_human_units(kind: str, name: str, words: tuple[str, ...], cli: Cli) -> None:
    outcome = cli("show", kind, name)
    assert (outcome.code, outcome.err) == (0, "")
    for word in words:
        assert word in outcome.out
    assert json.loads(cli("show", kind, name, "--json").out)["sources"]


@pytest.mark.parametrize(
    ("kind", "name", "nearest"),
    [("node", "hgx-h1000", "hgx-h100"), ("link", "nvlink-6", "nvlink-"), ("storage", "ram-ddr5-3tb", "ram-ddr5-2tb")],
)
def test_unknown_hardware(kind: str, name: str, nearest: str, cli: Cli) -> None:
    cli("show", kind, name).refused(f"found:   {name}", f"nearest: {nearest}")
