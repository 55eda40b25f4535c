"""``explain``: good input, bad input, and how long it takes."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

PARTS = ("compute_us", "memory_us", "communication_us", "overhead_us")


@pytest.mark.parametrize(
    "options",
    [(), ("--batch", "8", "--context", "4000"), ("--prefill", "2048"), ("--batch", "4", "--prefill", "512")],
    ids=" ".join,
)
def test_json_is_one_document_that_adds_up(options: tuple[str, ...], cli: Cli) -> None:
    outcome = cli("explain", "quickstart", "--json", *options)
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert {"step", "phases", "operators", "memory", "intensity"} <= set(document)
    step = document["step"]
    assert step["total_us"] == pytest.approx(sum(step[part] for part in PARTS))
    assert step["bound"] in ("compute", "memory", "communication", "overhead")
    for part in ("total_us", *PARTS):
        assert sum(operator[part] for operator in document["operators"]) == pytest.approx(step[part])


def test_the_table_names_operators_roofline_and_memory(cli: Cli) -> None:
    outcome = cli("explain", "quickstart", "--batch", "32", "--context", "2000")
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("llama-3.1-8b on 1 x h100-sxm", "attention.qkv", "all", "ridge", "weights", "14.96 GiB", "at most"):
        assert word in outcome.out


def test_models_and_hardware_by_override(cli: Cli) -> None:
    changes = (
        "--set",
        "model=llama-3.1-70b",
        "--set",
        "cluster.hardware=b200-sxm",
        "--set",
        "cluster.parallel.tensor=2",
    )
    document = json.loads(cli("explain", "quickstart", "--json", *changes).out)
    inputs = document["inputs"]
    assert (inputs["model"], inputs["hardware"], inputs["gpus_per_replica"]) == ("llama-3.1-70b", "b200-sxm", 2)
    assert document["step"]["communication_us"] > 0


def test_pools_and_files(cli: Cli, small: Path) -> None:
    assert cli("explain", small).code == 0
    outcome = cli("explain", "mixed-gpus", "--pool", "a100", "--json")
    assert json.loads(outcome.out)["inputs"]["hardware"] == "a100-sxm-80gb"
    outcome = cli("explain", "mixed-gpus", "--json")
    assert json.loads(outcome.out)["warnings"] and "--pool a100" in outcome.err


def test_it_takes_less_than_two_seconds(cli: Cli) -> None:
    spent = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert cli("explain", "quickstart").code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 2.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("scenario",)),
        (("quikstart",), ("found:   quikstart", "nearest: quickstart")),
        (("gone.yaml",), ("gone.yaml",)),
        (("quickstart", "--batch", "0"), ("--batch", "found:   0", "--prefill")),
        (("quickstart", "--batch", "-3"), ("--batch", "found:   -3", "from 0 to")),
        (("quickstart", "--batch", "many"), ("--batch", "integer")),
        (("quickstart", "--context", "0"), ("--context", "at least 1")),
        (("quickstart", "--prefill", "99999999999"), ("--prefill", "from 0 to")),
        (("mixed-gpus", "--pool", "a10"), ("--pool", "found:   a10", "allowed: h100, a100", "nearest: a100")),
        (("quickstart", "--set", "cluster.hardware=h1000-sxm"), ("found:   h1000-sxm", "nearest: h100-sxm")),
        (("quickstart", "--set", "model=llama-3.1-70b"), ("do not fit", "tensor: 2 is the smallest")),
        (("quickstart", "--batches", "3"), ("--batches",)),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: tuple[str, ...], cli: Cli) -> None:
    cli("explain", *arguments).refused(*words)
