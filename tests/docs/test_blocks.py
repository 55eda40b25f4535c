"""Every command and example of README and documentation works.

The blocks of a page are tried in order, in one empty folder. Shell blocks are run as they are written, by bash, with
the ``servetwin`` under test. Where a comment says ``shrink N``, every ``run``, ``replay`` and ``compare`` in the block
gets ``--set run.requests=N --no-figures`` in addition, since the point is that the command works; the quoted results
are checked elsewhere, at full size. In place of the public traces there are the small bundled ones, under their names.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.blocks import ROOT, SHOWN, Block, pages, read_blocks

from servetwin.catalog.find import Catalog
from servetwin.scenario.load import load_scenario, validate_mapping
from servetwin.scenario.merge import deep_merge
from servetwin.studies.check.suite import read_suite
from servetwin.studies.sweep import Design, read_sweep

TRACES = {
    "AzureLLMInferenceTrace_conv.csv": "azure_example.csv",
    "conversation_trace.jsonl": "mooncake_example.jsonl",
}
"""What the documentation tells readers to fetch, and what stands for it here."""

_PROGRAM = """#!/bin/sh
case "$1" in
  run | replay | compare) exec "{python}" -m servetwin "$@" {extra} ;;
  *) exec "{python}" -m servetwin "$@" ;;
esac
"""
_PYTEST = '#!/bin/sh\nexec "{python}" -m pytest -q -p no:cacheprovider "$@"\n'


def _with_blocks() -> list[Path]:
    return [page for page in pages() if any(block.language not in SHOWN for block in read_blocks(page))]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the traces that readers have, and nothing else; the working directory meanwhile."""
    work = tmp_path / "work"
    work.mkdir()
    for name, source in TRACES.items():
        shutil.copyfile(ROOT / "workloads" / "traces" / source, work / name)
    # Readers sit in the checkout, where the small traces lie too.
    shutil.copytree(ROOT / "workloads" / "traces", work / "workloads" / "traces")
    before = Path.cwd()
    os.chdir(work)
    yield work
    os.chdir(before)


@pytest.mark.parametrize("page", _with_blocks(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_of_a_page(page: Path, folder: Path, tmp_path: Path) -> None:
    """In order, as a reader would go through them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in read_blocks(page):
        if block.skipped or block.language in SHOWN:
            continue
        if block.file:
            target = folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.code, encoding="utf-8")
        if block.language == "bash":
            _run_shell(block, folder, tmp_path / "bin")
        elif block.language == "python":
            # Files of a reader are tried by the commands that use them.
            if not block.file:
                exec(compile(block.code, block.place, "exec"), names)
        elif block.language == "yaml":
            _validate_yaml(block, folder, tmp_path / "bin")
        else:
            assert block.file, f"{block.place}: nobody knows how to try a block of {block.language!r}"


def _run_shell(block: Block, folder: Path, programs: Path) -> None:
    programs.mkdir(exist_ok=True)
    extra = f"--no-figures --set run.requests={block.requests}" if block.requests else ""
    for name, text in (("servetwin", _PROGRAM), ("pytest", _PYTEST)):
        (programs / name).write_text(text.format(python=sys.executable, extra=extra), encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "Agg", "NO_COLOR": "1"}
    script = f"set -euo pipefail\n{block.code}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == block.exit_code, f"{block.place}\n{block.code}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, f"{block.place}\n{done.stderr}"


def _validate_yaml(block: Block, folder: Path, programs: Path) -> None:
    content = yaml.safe_load(block.code)
    if block.mark.startswith("fragment"):
        name = block.mark.removeprefix("fragment").strip() or "quickstart"
        scenario = yaml.safe_load(Catalog().scenario(name).read_text(encoding="utf-8"))
        validate_mapping(deep_merge(scenario, content), file=block.place)
        return
    assert block.file, f"{block.place}: a YAML block is a file or a fragment"
    if "scenario" in content:
        sweep = read_sweep(folder / block.file)
        Design(sweep, block.file)
    elif "jobs" in content:
        _run_workflow(block, content, folder, programs)
    elif "scenarios" in content:
        read_suite(folder / block.file)
    elif "workload" in content:
        load_scenario(str(folder / block.file))
    else:
        mine = Catalog([folder / Path(block.file).parts[0]])
        (mine.model if "layers" in content else mine.gpu)(content["name"])


def _run_workflow(block: Block, content: dict[str, Any], folder: Path, programs: Path) -> None:
    """The steps of a GitHub Actions workflow that call servetwin; the others need the network."""
    steps = [step for job in content["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps), block.place
    commands = [step["run"] for step in steps if step.get("run", "").startswith("servetwin ")]
    assert commands, f"{block.place}: a workflow that does nothing of ours"
    for command in commands:
        code = f"export GITHUB_STEP_SUMMARY={shlex.quote(str(programs / 'summary.md'))}\n{command}\n"
        _run_shell(Block(block.place, "bash", code, ""), folder, programs)
    assert (programs / "summary.md").read_text(encoding="utf-8").startswith("### ")
