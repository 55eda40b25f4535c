"""``servetwin compare``, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.conftest import Cli


def test_tables_and_files(cli: Cli, small: Path, tmp_path: Path) -> None:
    done = cli(
        "compare", small, f"more={small}", "--set-for", "more:cluster.replicas=3", "--out", "here", "--jobs", "1"
    )
    assert done.code == 0, done.err
    for words in ("2 variants", "change against small", "more, compared with small,", "written to here"):
        assert words in done.out
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"compare.json", "waterfall.png"}


def test_json_is_one_document(cli: Cli, small: Path, tmp_path: Path) -> None:
    done = cli("compare", small, "--toggle", "prefix-caching", "--json", "--no-figures", "--jobs", "2", "--seeds", "2")
    assert done.err == ""
    answer = json.loads(done.out)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("compare-")
    assert [path.name for path in folder.iterdir()] == ["compare.json"]
    assert json.loads((folder / "compare.json").read_text()) == answer
    assert {"baseline", "variants", "factorial"} <= set(answer)
    assert set(answer["variants"]) == {"off", "prefix-caching"}
    for entry in answer["variants"].values():
        assert {"metrics", "ledger", "gain", "cost", "net", "ci"} <= set(entry)


def test_quiet_prints_nothing(cli: Cli, small: Path) -> None:
    done = cli("compare", small, "--toggle", "prefix-caching", "--quiet", "--no-figures", "--jobs", "1")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_bad_input(cli: Cli, small: Path, tmp_path: Path) -> None:
    """The rest is tried without processes, in tests/unit/studies/compare."""
    (tmp_path / "file").write_text("")
    cli("compare", small, "--toggle", "prefix-cache").refused("nearest: prefix-caching")
    cli("compare", small, "--toggle", "prefix-caching", "--out", "file/inside").refused("is a file")
    assert not (tmp_path / "runs").exists()


def test_interrupted(small: Path, tmp_path: Path) -> None:
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
    process = subprocess.Popen(
        [sys.executable, "-m", "servetwin", *map(str, words), "--plugin", str(plugin)],
        cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    ended = tmp_path / "ended"
    deadline = time.monotonic() + 90
    while not (ended.exists() and int(ended.read_text() or 0) >= 3):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "the comparison of" in err
    assert "2 variants" in out
    assert len(json.loads((tmp_path / "o" / "compare.json").read_text())["seeds"]) >= 1
