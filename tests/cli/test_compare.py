"""``servetwin compare``, as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Program

PLUGIN = """
from typing import ClassVar, Literal
from servetwin.policies import Kind, Policy, PolicyContext, register

@register
class Last(Policy):
    '''Sends everything to the last replica.'''
    kind: ClassVar[Kind] = "routing"
    policy: Literal["last"] = "last"
    def build(self, context: PolicyContext) -> "LastRouter":
        return LastRouter()

class LastRouter:
    def choose(self, request, fleet): return fleet.all()[-1]
    def on_routed(self, request, replica): pass
    def on_finished(self, request, replica): pass
"""


def test_tables_and_files(cli: Cli, small: Path, tmp_path: Path) -> None:
    done = cli(
        "compare", small, f"more={small}", "--set-for", "more:cluster.replicas=3", "--out", "here", "--jobs", "1"
    )
    assert done.code == 0, done.err
    for words in ("2 variants", "change against small", "more, compared with small,", "written to here"):
        assert words in done.out
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"compare.json", "waterfall.png", "runs"}


def test_each_figure_has_its_run(cli: Cli, small: Path, tmp_path: Path) -> None:
    """A folder a run, as ``run`` writes it: what its files say is what the comparison says."""
    change = ("--set-for", "more:cluster.replicas=3")
    words = ("--seed", "3", "--seeds", "2", "--timeline", "--no-figures", "--out", "o", "--jobs", "1")
    assert cli("compare", small, f"more={small}", *change, *words).code == 0
    runs = tmp_path / "o" / "runs"
    assert sorted(path.name for path in runs.iterdir()) == ["more-3", "more-4", "small-3", "small-4"]
    assert all((run / "trace.json").exists() and (run / "requests.parquet").exists() for run in runs.iterdir())
    told = json.loads((tmp_path / "o" / "compare.json").read_text())["variants"]["more"]
    summaries = [json.loads((runs / name / "summary.json").read_text()) for name in ("more-3", "more-4")]
    assert sum(one["ttft_ms.mean"] for one in summaries) / 2 == told["metrics"]["ttft_ms.mean"]
    assert summaries[0]["warnings"] == told["warnings"]
    assert json.loads(cli("run", runs / "more-4" / "scenario.yaml", "--json").out)["config_hash"] == told["config_hash"]


def test_json_is_one_document(cli: Cli, small: Path, tmp_path: Path) -> None:
    done = cli("compare", small, "--toggle", "prefix-caching", "--json", "--no-figures", "--jobs", "2", "--seeds", "2")
    assert done.err == ""
    answer = json.loads(done.out)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("compare-")
    assert sorted(path.name for path in folder.iterdir()) == ["compare.json", "runs"]
    assert json.loads((folder / "compare.json").read_text()) == answer
    assert {"baseline", "variants", "factorial"} <= set(answer)
    assert set(answer["variants"]) == {"off", "prefix-caching"}
    for entry in answer["variants"].values():
        assert {"metrics", "ledger", "gain", "cost", "net", "ci"} <= set(entry)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_policy_of_a_plugin(jobs: str, cli: Cli, small: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    words = ("compare", small, f"mine={small}", "--set-for", "mine:router=last", "--plugin", "mine.py", "--no-figures")
    done = cli(*words, "--jobs", jobs)
    assert (done.code, done.err) == (0, "")
    broken = PLUGIN.replace("return fleet.all()[-1]", "raise ValueError('no replica\\nsuits me')")
    (tmp_path / "mine.py").write_text(broken)
    cli(*words, "--jobs", jobs).refused("ValueError: no replica", "suits me", "SERVETWIN_TRACEBACK=1", code=70)


def test_quiet_prints_nothing(cli: Cli, small: Path) -> None:
    done = cli("compare", small, "--toggle", "prefix-caching", "--quiet", "--no-figures", "--jobs", "1")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_bad_input(cli: Cli, small: Path, tmp_path: Path) -> None:
    """The rest is tried without processes, in tests/unit/studies/compare."""
    (tmp_path / "file").write_text("")
    cli("compare", small, "--toggle", "prefix-cache").refused("nearest: prefix-caching")
    cli("compare", small, "--toggle", "prefix-caching", "--out", "file/inside").refused("is a file")
    assert not (tmp_path / "runs").exists()


def test_interrupted(small: Path, tmp_path: Path, started: Callable[..., Program]) -> None:
    """What was finished is kept: seeds that have gone through both variants."""
    words = (
        "compare",
        small,
        f"b={small}",
        "--seeds",
        "10000",
        "--jobs",
        "1",
        "--set",
        "run.requests=2000",
        "--out",
        "o",
    )
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import pathlib\nfrom servetwin.studies.compare import running\nwhole, ended = running.measure, []\n"
        "def measure(name, result):\n    ended.append(name)\n    pathlib.Path('ended').write_text(str(len(ended)))\n"
        "    return whole(name, result)\nrunning.measure = measure\n"
    )
    program = started(*words, "--plugin", plugin)
    ended = tmp_path / "ended"
    program.wait_until(lambda: ended.exists() and int(ended.read_text() or 0) >= 3)
    done = program.stop()
    assert done.code == 130, done.err
    assert "Traceback" not in done.err
    assert "the comparison of" in done.err
    assert "2 variants" in done.out
    assert len(json.loads((tmp_path / "o" / "compare.json").read_text())["seeds"]) >= 1
