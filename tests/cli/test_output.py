"""Where the output goes: folders that are used again, streams that are full, closed or of few characters."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

TABLES = {"ledger.json", "requests.parquet", "scenario.yaml", "summary.json", "timeseries.parquet"}
RUN = ("run", "small.yaml", "--no-figures", "--out", "out")


def shell(tmp_path: Path, arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``servetwin`` with redirections."""
    return subprocess.run(
        f"{shlex.quote(sys.executable)} -m servetwin {arguments}",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **env},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )


def test_a_folder_never_mixes_two_runs(cli: Cli, small: Path, tmp_path: Path) -> None:
    """What the second run does not write is gone, what is not ours stays."""
    assert cli("run", small, "--timeline", "--out", "out").code == 0
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == TABLES | {"latency.png", "timeline.png", "roofline.png", "trace.json"}
    (tmp_path / "out" / "notes.txt").write_text("mine")
    (tmp_path / "out" / ".trace.json.part").write_text("left by a run that was killed")
    assert cli("run", small, "--no-figures", "--out", "out").code == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == TABLES | {"notes.txt"}


def test_a_mistake_leaves_the_last_run_alone(cli: Cli, small: Path, tmp_path: Path) -> None:
    assert cli(*RUN).code == 0
    assert cli(*RUN, "--set", "run.requests=-1").code == 2
    assert {file.name for file in (tmp_path / "out").iterdir()} == TABLES


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", ["run small.yaml --no-figures --out out", "list models", "--help", ""])
def test_a_full_output(arguments: str, small: Path, tmp_path: Path) -> None:
    done = shell(tmp_path, f"{arguments} > /dev/full")
    assert done.returncode == 2, done.stderr
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("arguments", ["run small.yaml --no-figures --out out", "--version"])
def test_a_closed_output(arguments: str, small: Path, tmp_path: Path) -> None:
    done = shell(tmp_path, f"{arguments} >&-")
    assert done.returncode == 2, done.stderr
    assert done.stderr == "error: the output cannot be written: standard output is closed\n"
    if arguments != "--version":
        assert {file.name for file in (tmp_path / "out").iterdir()} == TABLES


def test_who_prints_nothing_needs_no_output(small: Path, tmp_path: Path) -> None:
    done = shell(tmp_path, "run small.yaml --no-figures --out out --quiet >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert shell(tmp_path, "run small.yaml --no-figures --out out 2>&-").returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_of_few_characters(encoding: str, small: Path, tmp_path: Path) -> None:
    done = shell(tmp_path, "run small.yaml --no-figures --out out", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert "####" in done.stdout or encoding == "utf-8"
    assert "TTFT" in done.stdout
    assert shell(tmp_path, "run --set name=é", PYTHONIOENCODING=encoding).returncode == 2


def test_json_in_an_encoding_of_few_characters(small: Path, tmp_path: Path) -> None:
    done = shell(tmp_path, "run small.yaml --no-figures --out out --json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["completed"] == 50


def test_control_characters_are_spelled_out(cli: Cli, tmp_path: Path) -> None:
    """A file or an option must not be able to paint or move on the user's terminal."""
    (tmp_path / "case.yaml").write_text('extends: quickstart\nmodel: "\\e[31mred\\u202e"\n"\\ebad": 1\n')
    for arguments in (("case.yaml",), ("quickstart", "--set", "model=\x1b[31mred"), ("\x1b[2Jgone",)):
        outcome = cli("run", *arguments)
        outcome.refused("\\x1b")
        assert "\x1b" not in outcome.err and "\u202e" not in outcome.err


def test_an_empty_folder_name(cli: Cli) -> None:
    cli("run", "--out", "").refused("--out", "empty text")


def test_a_catalog_with_nothing_in_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cli("run", "--catalog", "empty").refused("empty", "gpus, links, models, nodes, scenarios")


@pytest.mark.parametrize(
    ("option", "value"), [("--limit", "0"), ("--rate-scale", "0"), ("--window", "5:2"), ("--format", "x")]
)
def test_a_bad_option_of_replay_is_named(option: str, value: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ok.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,3,5\n")
    outcome = cli("replay", "ok.csv", "--scenario", "quickstart", option, value)
    outcome.refused(f"where:   {option} {value}")
    assert "quickstart.yaml" not in outcome.err


def test_one_bad_value_of_a_pool_is_one_mistake(cli: Cli) -> None:
    outcome = cli("run", "quickstart", "--set", "cluster.pools.0.replicas=bad")
    outcome.refused("cluster.pools.0.replicas", "a whole number")
    assert "also wrong" not in outcome.err


def test_yaml_that_is_nested_too_deep(cli: Cli, tmp_path: Path) -> None:
    for depth in (60, 3000):
        (tmp_path / "deep.yaml").write_text("a: " + "[" * depth + "]" * depth)
        cli("run", "deep.yaml").refused("deep.yaml", "nested more than 40 deep")
    laughs = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8)
    )
    (tmp_path / "deep.yaml").write_text(laughs)
    cli("run", "deep.yaml").refused("deep.yaml", "1,000,000 values")


def test_a_long_number_is_shown_in_short(cli: Cli) -> None:
    outcome = cli("run", "quickstart", "--set", "run.requests=1e300")
    outcome.refused("found:   1e+300")
