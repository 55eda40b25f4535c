"""Every mistake of a user ends in a message of one screen, exit code 2, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Cli

BASE = "extends: quickstart\nrun: {requests: 20}\n"
SPECULATION = "cluster: {speculation: {method: eagle3, k: 2, acceptance: %s}}\n"

CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown field": (
        BASE + "cluster: {hardwre: h100-sxm}\n",
        ("case.yaml, cluster.hardwre", "found:   hardwre", "allowed: replicas, hardware", "nearest: hardware"),
    ),
    "wrong type": (
        "extends: quickstart\nrun: {requests: many}\n",
        ("case.yaml, run.requests", "found:   many", "a whole number"),
    ),
    "model that does not fit": (
        BASE + "model: llama-3.1-70b\n",
        ("case.yaml, cluster.", "parallel.tensor", "do not fit", "tensor: 2 is the smallest"),
    ),
    "unknown policy": (
        BASE + "router: {policy: least-request}\n",
        ("case.yaml, router.policy", "found:   least-request", "round-robin", "nearest: least-requests"),
    ),
    "unknown GPU": (
        BASE + "cluster: {hardware: h1000-sxm}\n",
        ("case.yaml, cluster.hardware", "found:   h1000-sxm", "h200-sxm", "nearest: h100-sxm"),
    ),
    "unknown model": (
        BASE + "model: lama-3.1-8b\n",
        ("case.yaml, model", "found:   lama-3.1-8b", "nearest: llama-3.1-8b"),
    ),
    "missing model file": (BASE + "model: ./gone/config.json\n", ("gone/config.json",)),
    "missing trace": (
        BASE + "workload: {trace: {path: gone.csv}}\n",
        ("gone.csv",),
    ),
    "negative rate": (
        BASE + "workload: {arrivals: {rate_per_s: -8}}\n",
        ("case.yaml, workload.arrivals.rate_per_s", "found:   -8", "greater than 0"),
    ),
    "zero rate": (
        BASE + "workload: {arrivals: {rate_per_s: 0}}\n",
        ("case.yaml, workload.arrivals.rate_per_s", "found:   0", "greater than 0"),
    ),
    "NaN": (
        BASE + "workload: {arrivals: {rate_per_s: .nan}}\n",
        ("case.yaml, workload.arrivals.rate_per_s", "found:   nan", "finite"),
    ),
    "infinity": (
        BASE + "cluster: {slowdown: .inf}\n",
        ("case.yaml, cluster.slowdown", "found:   inf", "finite"),
    ),
    "duplicate key": (
        "extends: quickstart\nrun: {seed: 1}\nrun: {seed: 2}\n",
        ("case.yaml, line 3", "'run' stands twice", "each key once"),
    ),
    "YAML that ends early": ("run: {seed: 1\n", ("case.yaml, line 2", "not valid YAML")),
    "empty": ("", ("case.yaml", "empty", "a scenario in YAML")),
    "a list": ("- quickstart\n", ("case.yaml", "a mapping", "found:   ['quickstart']")),
    "not built yet": (
        BASE + "cluster: {kv_tiers: [{name: cpu, capacity: 100 GiB}]}\n",
        ("case.yaml, cluster", "does not have"),
    ),
    "without effect": (
        BASE + "cluster: {engine: {scheduling: edf}}\n",
        ("case.yaml, cluster.engine.scheduling", "no effect", "found:   edf"),
    ),
    "requests that differ too much": (
        BASE + SPECULATION % "{rate: 0.8, spread: 0.5}",
        ("case.yaml, cluster.speculation.acceptance", "have the rate 0.8 together; use a spread of at most about 0.35"),
    ),
    "acceptance said twice": (
        BASE + SPECULATION % "{rate: 0.5, survival: [0.5]}",
        ("case.yaml, cluster.speculation.acceptance", "survival and rate are ways to say the same", "choose one"),
    ),
    "circle": ("extends: case.yaml\n", ("case.yaml, extends", "circle", "case.yaml → case.yaml")),
    "unknown parent": (
        "extends: quikstart\n",
        ("case.yaml, extends", "found:   quikstart", "nearest: quickstart"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_a_scenario(name: str, cli: Cli, tmp_path: Path) -> None:
    text, words = CASES[name]
    (tmp_path / "case.yaml").write_text(text)
    cli("run", "case.yaml", "--no-figures", "--out", "out").refused("error: ", *words)


@pytest.mark.parametrize("by_path", [True, False], ids=["by path", "in a catalogue"])
@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ("survival: [0.5, 0.6]", ("methods.eagle3.survival.1", "found:   0.6", "at most 0.5")),
        ("rate: 0.5, persistence: 0.1", ("methods.eagle3.persistence", "found:   0.1", "allowed: left out")),
        ("rate: 0.8, spread: 0.5", ("methods.eagle3.spread", "found:   0.5", "at most about 0.35")),
        ("rate: 0.8, sprad: 0.5", ("methods.eagle3.sprad", "found:   sprad", "nearest: spread")),
    ],
)
def test_a_mistake_in_a_preset(figures: str, words: tuple[str, ...], by_path: bool, cli: Cli, tmp_path: Path) -> None:
    """The preset's file is named, not the scenario's."""
    preset = tmp_path / "acceptance" / "mine.yaml"
    preset.parent.mkdir()
    preset.write_text(f"name: mine\nmethods: {{eagle3: {{{figures}, source: me, date: 2026-12-01}}}}\n")
    name = "./acceptance/mine.yaml" if by_path else "mine"
    (tmp_path / "case.yaml").write_text(BASE + SPECULATION % name)
    found = cli("run", "case.yaml", "--no-figures", "--out", "out", "--catalog", ".")
    found.refused("error: ", f"acceptance/mine.yaml, {words[0]}", *words[1:])
    assert "case.yaml" not in found.err and "Value error" not in found.err


def test_text_that_is_not_utf8(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_bytes(b"name: \xff\n")
    cli("run", "case.yaml").refused("case.yaml, byte 6", "not UTF-8", "0xff")


def test_a_directory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside.yaml").write_text(BASE)
    cli("run", "folder").refused("folder", "directory", "inside.yaml")
    cli("run", "./folder").refused("folder", "directory")


def test_a_missing_file_and_an_unknown_name(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(BASE)
    cli("run", "stuyd.yaml").refused("stuyd.yaml", "nearest: study.yaml")
    cli("run", "quikstart").refused("found:   quikstart", "allowed: ", "nearest: quickstart")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("run.sed=3", ("--set run.sed=3", "found:   sed", "nearest: seed")),
        ("cluster.pools.9.replicas=3", ("cluster.pools.9.replicas", "an index from 0 to 0", "engines")),
        ("run.requests=-1", ("--set run.requests=-1", "found:   -1", "at least 1")),
        ("run.requests", ("PATH=VALUE",)),
        ("workload.arrivals.rate_per_s=.nan", ("found:   nan", "finite")),
    ],
)
def test_a_mistake_in_an_override(override: str, words: tuple[str, ...], cli: Cli) -> None:
    cli("run", "quickstart", "--set", override).refused(*words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("trace",)),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,x,5\n", ("line 2", "x")),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,-3,5\n", ("line 2", "-3")),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900\n", ("line 2",)),
        (b'{"a": 1}\n', ("trace",)),
        (b"\x1f\x8b\x08\x00broken", ("trace",)),
        (b"\xff\xfe\x00", ("trace",)),
    ],
    ids=["empty", "no number", "negative", "truncated row", "wrong kind", "truncated gzip", "not text"],
)
def test_a_mistake_in_a_trace(content: bytes, words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_bytes(content)
    cli("replay", "trace.csv", "--scenario", "quickstart", "--no-figures").refused("trace.csv", *words)


def test_a_trace_that_is_missing_or_a_directory(cli: Cli, tmp_path: Path) -> None:
    cli("replay", "gone.csv", "--scenario", "quickstart").refused("gone.csv")
    (tmp_path / "folder").mkdir()
    cli("replay", "folder", "--scenario", "quickstart").refused("folder", "directory")


@pytest.mark.parametrize(
    "options",
    [
        ("--window", "9:3"),
        ("--window", "x"),
        ("--rate-scale", "0"),
        ("--rate-scale", "nan"),
        ("--limit", "0"),
        ("--format", "azur"),
    ],
)
def test_a_mistake_in_the_options_of_replay(options: tuple[str, str], cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,3,5\n")
    cli("replay", "trace.csv", "--scenario", "quickstart", *options).refused(options[1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rnu",), ("rnu", "run")),
        (("run", "--sed", "3"), ("--sed", "--seed")),
        (("run", "--seed", "x"), ("--seed", "integer")),
        (("replay",), ("trace",)),
        (("show", "model"), ("name",)),
    ],
)
def test_a_mistake_in_the_command_itself(arguments: tuple[str, ...], words: tuple[str, ...], cli: Cli) -> None:
    outcome = cli(*arguments)
    outcome.refused()
    for word in words:
        assert word.lower() in outcome.err.lower()


def test_a_negative_seed_is_an_override_like_any_other(cli: Cli) -> None:
    cli("run", "--seed", "-1").refused("run.seed", "found:   -1")


def test_unknown_kinds_and_names(cli: Cli) -> None:
    cli("list", "modles").refused("found:   modles", "allowed: hardware", "nearest: models")
    cli("show", "model", "lama-3.1-8b").refused("lama-3.1-8b", "nearest: llama-3.1-8b")
    cli("show", "policy", "fcsf").refused("fcsf", "nearest: fcfs")


def test_a_plugin_that_is_missing_or_broken(cli: Cli, tmp_path: Path) -> None:
    cli("run", "--plugin", "gone.py").refused("gone.py", "no such plug-in")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    cli("run", "--plugin", "broken.py").refused("broken.py, line 1", "nothing_of_that_name")


def test_a_catalog_that_is_missing(cli: Cli) -> None:
    cli("run", "--catalog", "gone").refused("gone")


def test_results_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cli("run", "--out", "file/run", "--no-figures").refused("file/run", "cannot be written")


def test_the_traceback_is_there_for_those_who_ask(cli: Cli) -> None:
    outcome = cli("run", "quikstart", env={"SERVETWIN_TRACEBACK": "1"})
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert "nearest: quickstart" in outcome.err


def test_a_bug_asks_to_be_reported(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "buggy.py").write_text(
        '''
from typing import ClassVar, Literal
from servetwin.policies import Kind, Policy, PolicyContext, register

@register
class Buggy(Policy):
    """Divides by zero.

    Source: a test.
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["buggy"] = "buggy"

    def build(self, context: PolicyContext):
        return 1 / 0
'''
    )
    arguments = ("run", "--plugin", "buggy.py", "--set", "router.policy=buggy", "--no-figures")
    outcome = cli(*arguments)
    outcome.refused("ZeroDivisionError", "report it", "SERVETWIN_TRACEBACK=1", code=70)
    assert "in build" in cli(*arguments, env={"SERVETWIN_TRACEBACK": "1"}).err


@pytest.mark.parametrize("arguments", [("run",), ("run", "quickstart")])
def test_a_space_instead_of_the_equals_sign(cli: Cli, arguments: tuple[str, ...]) -> None:
    cli(*arguments, "--set", "cluster.replicas", "2").refused("--set cluster.replicas", "the = is missing")


def test_a_failed_run_leaves_no_empty_folders(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "there").mkdir()
    for out in ("new/deep", "there"):
        assert cli("replay", "bad.csv", "--scenario", "quickstart", "--out", out).code == 2
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "there").is_dir(), "which the run did not make"
