"""What the README promises about installing, and what the CI makes of it."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, pages, read_blocks

from servetwin.catalog.find import Catalog

RUN = "python3 -m venv .venv && . .venv/bin/activate && pip install . && servetwin run"
TEST = 'python3 -m venv .venv && . .venv/bin/activate && pip install -e ".[test]" && pytest'


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_readme_has_the_two_commands_to_the_letter() -> None:
    """Scripts look for them."""
    commands = [block.code.strip() for block in read_blocks(ROOT / "README.md") if block.language == "bash"]
    assert commands[:2] == [RUN, TEST]


def test_ci_installs_and_tests_as_the_readme_says() -> None:
    """The same installation and the same command, and what the installed program is for."""
    text = _read(".ci/run")
    assert 'pip install --quiet -e ".[test]"' in text
    assert re.search(r"^pytest\b", text, re.MULTILINE)
    assert "set -euo pipefail" in text
    assert "servetwin" in text and "run --out results" in text


@pytest.mark.parametrize(
    "name", [".ci/run", *(f"scripts/{name}" for name in ("accuracy", "check", "docs", "lint", "test"))]
)
def test_scripts_are_executable_bash(name: str) -> None:
    """A newcomer types their names."""
    assert _read(name).startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in _read(name)
    assert os.access(ROOT / name, os.X_OK)


def test_named_files_exist() -> None:
    """Links of README and CONTRIBUTING lead somewhere; those inside the documentation are checked by its build."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", _read(name)):
            assert (ROOT / target).exists(), f"{name}: {target}"


def test_skipped_blocks_say_why() -> None:
    """Nothing is left out silently."""
    for page in pages():
        for block in read_blocks(page):
            if block.skipped:
                assert len(block.mark.removeprefix("skip, ")) > 10, block.place


def test_extras_of_the_readme_exist() -> None:
    """Every extra that README or CONTRIBUTING names."""
    project = tomllib.loads(_read("pyproject.toml"))["project"]
    named = re.findall(r"pip install[^\n]*\.\[(\w+)\]", _read("README.md") + _read("CONTRIBUTING.md"))
    assert named
    assert set(named) <= set(project["optional-dependencies"])


def test_licence_is_complete() -> None:
    """The full text, not a reference to it."""
    text = _read("LICENSE")
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert Path(ROOT / "LICENSE").stat().st_size > 11_000


def test_the_readme_counts_what_is_bundled() -> None:
    """Models and GPUs."""
    catalog = Catalog()
    assert "more than fifty by name" in _read("README.md") and len(catalog.names("models")) > 50
    assert "| twenty, from the A10" in _read("README.md") and len(catalog.names("hardware")) == 20
