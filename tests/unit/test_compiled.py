"""Compiled copies of modules are imported only while they fit the sources beside them."""

from __future__ import annotations

import hashlib
import json
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from servetwin.compiled import CompiledFinder

SUFFIX = EXTENSION_SUFFIXES[0]
MODULES = ("pack.inner.first", "pack.second")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package with two modules, and a folder that says it holds their compiled copies."""
    hashes = {}
    for module in MODULES:
        source = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f'"""{module}"""\n', encoding="utf-8")
        hashes[module] = hashlib.sha256(source.read_bytes()).hexdigest()
    folder = tmp_path / "pack" / "_compiled"
    folder.mkdir()
    (folder / f"manifest{SUFFIX}.json").write_text(json.dumps(hashes), encoding="utf-8")
    return folder


def finder(folder: Path) -> CompiledFinder:
    """A finder over that package."""
    return CompiledFinder(folder, folder.parent)


def test_unchanged_sources_are_replaced_by_their_copies(folder: Path) -> None:
    """The modules of the manifest and the library behind them come from the folder, anything else from elsewhere."""
    found = finder(folder)
    for name in (*MODULES, "servetwin__mypyc"):
        spec = found.find_spec(name)
        assert spec is not None and spec.origin == str(folder / f"{name}{SUFFIX}")
    assert found.find_spec("pack.inner") is None
    assert sorted(found.modules) == sorted(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_one_edited_source_turns_all_of_them_off(folder: Path, module: str) -> None:
    """They know each other's layout, so that a mixture of old and new would crash."""
    source = folder.parent.parent.joinpath(*module.split(".")).with_suffix(".py")
    source.write_text("edited = True\n", encoding="utf-8")
    assert not finder(folder).modules
    assert all(finder(folder).find_spec(name) is None for name in (*MODULES, "servetwin__mypyc"))


def test_a_missing_source_a_broken_or_a_foreign_manifest_turn_them_off(folder: Path) -> None:
    """Nothing but speed is lost: the sources are imported instead."""
    manifest = folder / f"manifest{SUFFIX}.json"
    text = manifest.read_text(encoding="utf-8")
    for broken in (text[:20], "[]"):
        manifest.write_text(broken, encoding="utf-8")
        assert not finder(folder).modules
    manifest.write_text(text, encoding="utf-8")
    manifest.rename(folder / "manifest.cpython-38-other.so.json")
    assert not finder(folder).modules
    (folder / "manifest.cpython-38-other.so.json").rename(manifest)
    assert finder(folder).modules
    (folder.parent / "second.py").unlink()
    assert not finder(folder).modules
