"""The public surface is what ``__all__`` says, sorted, importable and documented."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

import servetwin

PACKAGES = ["servetwin", "servetwin.policies", "servetwin.testing"]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_complete_and_importable(name: str) -> None:
    package = importlib.import_module(name)
    assert list(package.__all__) == sorted(package.__all__)
    for member in package.__all__:
        assert getattr(package, member) is not None


def test_public_names_are_documented() -> None:
    for member in servetwin.__all__:
        if not member.startswith("__"):
            assert getattr(servetwin, member).__doc__, f"servetwin.{member} has no docstring"


def test_public_names_are_all_there_is() -> None:
    lazy = set(servetwin._HOME) | {"__version__"}
    assert lazy == set(servetwin.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Simulator'"):
        _ = servetwin.Simulator


def test_dir_shows_the_public_names() -> None:
    assert set(servetwin.__all__) <= set(dir(servetwin))


def test_the_version_is_that_of_the_package() -> None:
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == servetwin.__version__
