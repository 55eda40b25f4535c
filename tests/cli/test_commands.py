"""Every command on good input."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from tests.cli.conftest import Cli

from servetwin.cli.main import app

SHARED_TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
HOST_KEYS = ("wall_s", "cpu_s", "started_at", "out")


def _without_host_keys(text: str) -> dict[str, object]:
    return {key: value for key, value in json.loads(text).items() if key not in HOST_KEYS}


def test_alone_it_prints_a_short_help_with_three_examples(cli: Cli) -> None:
    outcome = cli()
    assert outcome.code == 0
    assert outcome.out.count("\n  servetwin r") == 3
    assert len(outcome.out.splitlines()) < 15


def test_help_names_every_command(cli: Cli) -> None:
    outcome = cli("--help")
    assert outcome.code == 0
    commands = [command.name for command in app.registered_commands]
    commands += [group.typer_instance.info.name for group in app.registered_groups if group.typer_instance]
    assert len(commands) >= 9
    for command in commands:
        assert command is not None and f" {command} " in outcome.out
        assert cli(command, "--help").code == 0


def test_no_word_of_a_help_is_taken_for_markup() -> None:
    """Rich drops what stands in square brackets: a default that is written there is never seen."""

    def texts(command: Any) -> Iterator[str]:
        yield command.help or ""
        for parameter in command.params:
            yield parameter.help or ""
        for inner in getattr(command, "commands", {}).values():
            yield from texts(inner)

    every = list(texts(typer.main.get_command(app)))
    assert len(every) > 100
    for text in every:
        assert Text.from_markup(text).plain == text


def test_help_is_quick(cli: Cli) -> None:
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        cli("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Seconds are no test of a loaded machine; what is loaded is. Three times the promise catches a lost lazy import.
    assert min(spent) < 1.5


def test_help_loads_no_simulator() -> None:
    code = (
        "import sys, servetwin.cli.main; "
        "heavy = {'numpy', 'pandas', 'pydantic', 'simpy', 'matplotlib', 'pyarrow', 'yaml'} & set(sys.modules); "
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("servetwin 0.")


def test_run_writes_its_files_and_prints_a_table(cli: Cli, small: Path, tmp_path: Path) -> None:
    outcome = cli("run", small, "--no-figures")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    for word in ("small", "TTFT", "TPOT", "50 of 50", "p99", "written to runs/small-"):
        assert word in outcome.out
    (folder,) = (tmp_path / "runs").iterdir()
    assert {file.name for file in folder.iterdir()} == {
        "ledger.json", "requests.parquet", "scenario.yaml", "summary.json", "timeseries.parquet",
    }  # fmt: skip


def test_figures_and_timeline(cli: Cli, small: Path, tmp_path: Path) -> None:
    outcome = cli("run", small, "--timeline", "--out", "here", "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    for name in ("latency.png", "timeline.png", "roofline.png"):
        assert (tmp_path / "here" / name).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "here" / "trace.json").read_text())


def test_json_is_one_document_and_nothing_else(cli: Cli, small: Path, tmp_path: Path) -> None:
    outcome = cli("run", small, "--no-figures", "--json", "--out", "here")
    assert json.loads(outcome.out) == json.loads((tmp_path / "here" / "summary.json").read_text())


@pytest.mark.parametrize("hash_seed", ["0", "1234"])
def test_same_seed_same_bytes(hash_seed: str, cli: Cli, small: Path, tmp_path: Path) -> None:
    cli("run", small, "--no-figures", "--out", "one", env={"PYTHONHASHSEED": "42"})
    cli("run", small, "--no-figures", "--out", "two", env={"PYTHONHASHSEED": hash_seed})
    cli("run", "one/scenario.yaml", "--no-figures", "--out", "again", env={"PYTHONHASHSEED": hash_seed})
    for name in ("ledger.json", "requests.parquet", "scenario.yaml", "timeseries.parquet"):
        for other in ("two", "again"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / other / name).read_bytes(), name
    one, two, again = (
        _without_host_keys((tmp_path / folder / "summary.json").read_text()) for folder in ("one", "two", "again")
    )
    assert one == two == again


def test_seed_and_set(cli: Cli, small: Path) -> None:
    first = json.loads(cli("run", small, "--no-figures", "--json", "--seed", "5", "--set", "run.seed=9").out)
    assert first["seed"] == 5
    bigger = json.loads(cli("run", small, "--no-figures", "--json", "--set", "cluster.replicas=4").out)
    assert bigger["gpus"] == 4


def test_a_warning_is_seen(cli: Cli, small: Path) -> None:
    override = "cluster.engine.long_prefill_token_threshold=9000"
    assert "has no effect" in cli("run", small, "--no-figures", "--set", override).out
    outcome = cli("run", small, "--no-figures", "--json", "--set", override)
    assert any("has no effect" in warning for warning in json.loads(outcome.out)["warnings"])
    assert "has no effect" in outcome.err


def test_strict_changes_nothing(cli: Cli, small: Path) -> None:
    plain, strict = (
        _without_host_keys(cli("run", small, "--no-figures", "--json", *more).out) for more in ((), ("--strict",))
    )
    assert plain == strict


def test_a_plugin_adds_a_policy(cli: Cli, small: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        '''
from typing import ClassVar, Literal
from servetwin.policies import Kind, Policy, PolicyContext, register

@register
class Last(Policy):
    """Sends everything to the last replica.

    Source: a test.
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["last"] = "last"

    def build(self, context: PolicyContext):
        return self

    def choose(self, request, fleet):
        return fleet.all()[-1]

    def on_routed(self, request, replica): ...
    def on_finished(self, request, replica): ...
'''
    )
    assert "Sends everything to the last replica." in cli("list", "policies", "--plugin", "mine.py").out
    outcome = cli("run", small, "--no-figures", "--out", "o", "--plugin", "mine.py", "--set", "router.policy=last")
    assert outcome.code == 0, outcome.err
    import pandas as pd

    assert set(pd.read_parquet(tmp_path / "o" / "requests.parquet")["replica"]) == {1}


def test_a_catalog_of_ones_own(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "scenarios"
    folder.mkdir(parents=True)
    (folder / "ours.yaml").write_text("extends: bench-8b\ndescription: Our own.\nrun: {requests: 10}\n")
    assert "Our own." in cli("list", "scenarios", "--catalog", "mine").out
    outcome = cli("run", "ours", "--catalog", "mine", "--no-figures", "--json")
    assert json.loads(outcome.out)["completed"] == 10


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("hardware", "h100-sxm"), ("models", "llama-3.1-8b"), ("model", "B parameters"), ("scenarios", "quickstart"),
        ("workloads", "chat-poisson"), ("policies", "least-requests"), ("policy", "routing:"),
        ("techniques", "keeps the KV cache of what prompts have in common"), ("acceptance", "sharegpt"),
    ],
)  # fmt: skip
def test_list(kind: str, word: str, cli: Cli) -> None:
    outcome = cli("list", kind)
    assert outcome.code == 0, outcome.err
    assert word in outcome.out
    rows = json.loads(cli("list", kind, "--json").out)
    assert all(row["name"] and "about" in row for row in rows)


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("hardware", "h100-sxm", ("h100-sxm", "hopper", "sources")),
        ("model", "meta-llama/Llama-3.1-8B-Instruct", ("llama-3.1-8b", "parameters")),
        ("scenario", "quickstart", ("# Do four H100s", "workload:")),
        ("workload", "chat-poisson", ("arrivals",)),
        ("policy", "power-of-two", ("Mitzenmacher", "metric: ", "routing policy")),
        ("calibration", "default", ("host: ", "# How near")),
        ("acceptance", "sharegpt", ("survival: ", "# Tokens per step")),
        ("technique", "tensor-parallelism", ("off:   tensor: 1", "costs: exposed_communication")),
    ],
)
def test_show(kind: str, name: str, words: tuple[str, ...], cli: Cli) -> None:
    outcome = cli("show", kind, name)
    assert outcome.code == 0, outcome.err
    for word in words:
        assert word in outcome.out
    assert json.loads(cli("show", kind, name, "--json").out)


def test_a_model_is_one_document(cli: Cli) -> None:
    document = json.loads(cli("show", "model", "llama-3.1-8b", "--json").out)
    assert document["parameters"] == sum(document["parts"].values())
    assert document["layer_groups"][0]["count"] == document["shapes"]["layers"] == 32
    assert document["file"].endswith("llama-3.1-8b.yaml")
    assert "sheet" not in document


TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
2023-11-16 18:15:52.0000000,91,0
2023-11-16 18:15:53.1000000,91,16
"""


def test_replay_takes_the_cluster_of_a_scenario_and_the_requests_of_a_trace(
    cli: Cli, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    arguments = ("replay", "trace.csv", "--scenario", "small.yaml", "--no-figures", "--json")
    cli(*arguments).refused("trace.csv", "line 5")
    outcome = cli(*arguments, "--skip-bad-rows")
    assert "1 of 5 rows of the trace were skipped" in outcome.err
    summary = json.loads(outcome.out)
    assert (summary["completed"], summary["gpus"]) == (4, 2)
    limited = json.loads(cli(*arguments, "--skip-bad-rows", "--limit", "2").out)
    assert limited["completed"] == 2
    window = json.loads(cli(*arguments, "--skip-bad-rows", "--window", "4:5").out)
    assert window["completed"] == 2
    faster = json.loads(cli(*arguments, "--skip-bad-rows", "--rate-scale", "10", "--format", "azure").out)
    assert faster["duration_s"] < summary["duration_s"] / 2


def test_replay_names_its_options_instead_of_fields(cli: Cli, small: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    header, *rows = TRACE.replace(",0\n", ",1\n").splitlines(keepends=True)
    (tmp_path / "unsorted.csv").write_text(header + "".join(reversed(rows)))
    command = ("--scenario", "small.yaml", "--no-figures")
    cli("replay", "trace.csv", *command).refused("give --skip-bad-rows to count such rows")
    unsorted = cli("replay", "unsorted.csv", *command)
    unsorted.refused("give --sort to sort the rows")
    assert "workload.trace" not in unsorted.err
    assert cli("replay", "unsorted.csv", "--sort", *command).code == 0
    (tmp_path / "in-a-file.yaml").write_text("extends: small.yaml\nworkload: {trace: {path: unsorted.csv}}\n")
    cli("run", "in-a-file.yaml", "--no-figures").refused("set workload.trace.sort to true to sort the rows")


def test_an_override_must_not_replace_the_trace(cli: Cli, small: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE.replace(",0\n", ",1\n"))
    cli("replay", "trace.csv", "--scenario", "small.yaml", "--set", "workload=chat").refused("would not be replayed")


def test_replay_is_the_same_as_a_trace_in_a_file(cli: Cli, small: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE.replace(",0\n", ",1\n"))
    cli("replay", "trace.csv", "--scenario", "small.yaml", "--no-figures", "--out", "one")
    (tmp_path / "small-trace.yaml").write_text(
        "name: small\nextends: small.yaml\nworkload: {trace: {path: trace.csv}}\nrun: {requests: null}\n"
    )
    outcome = cli("run", "small-trace.yaml", "--no-figures", "--out", "two")
    assert outcome.code == 0, outcome.err
    for name in ("scenario.yaml", "requests.parquet", "ledger.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


@pytest.mark.skipif(not SHARED_TRACES.is_dir(), reason="the public traces are not beside the repository")
def test_the_azure_conversation_trace_replays_in_full(cli: Cli) -> None:
    trace = SHARED_TRACES / "AzureLLMInferenceTrace_conv.csv"
    outcome = cli("replay", trace, "--scenario", "azure-conversation-4xh100", "--no-figures", "--json")
    summary = json.loads(outcome.out)
    outcomes = ("completed", "rejected", "failed", "cancelled", "unfinished")
    assert summary["completed"] == sum(summary[key] for key in outcomes) == 19_366


@pytest.mark.skipif(not SHARED_TRACES.is_dir(), reason="the public traces are not beside the repository")
def test_the_mooncake_conversation_trace_replays_with_its_hit_rate(cli: Cli) -> None:
    trace = SHARED_TRACES / "mooncake_conversation_trace.jsonl.gz"
    outcome = cli("replay", trace, "--scenario", "azure-conversation-4xh100", "--no-figures", "--json")
    summary = json.loads(outcome.out)
    outcomes = ("completed", "rejected", "failed", "cancelled", "unfinished")
    assert sum(summary[key] for key in outcomes) == 12_031
    assert abs(summary["trace_block_hit_rate_infinite"] - 0.366) <= 0.002


def test_ctrl_c_keeps_what_was_finished(small: Path, tmp_path: Path) -> None:
    arguments = [
        sys.executable, "-m", "servetwin", "run", "small.yaml", "--no-figures", "--out", "cut",
        "--set", "run.requests=3000000",
    ]  # fmt: skip
    with subprocess.Popen(
        arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # The directory is made just before the clock starts.
        deadline = time.monotonic() + 60
        while not (tmp_path / "cut").is_dir() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted after" in err and "of 3,000,000 requests: what was finished is in cut" in err
    assert "Traceback" not in err
    assert "TTFT" in out
    summary = json.loads((tmp_path / "cut" / "summary.json").read_text())
    assert 0 < summary["completed"] < 3_000_000


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m servetwin list models | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0
    assert done.stderr == ""
