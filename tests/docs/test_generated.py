"""The generated parts of the documentation are what the code says now."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.blocks import ROOT, pages

sys.path.insert(0, str(ROOT / "scripts"))
generate: ModuleType = importlib.import_module("generate_docs")
schema: ModuleType = importlib.import_module("docs_schema")

_WITH_PARTS = [page for page in pages() if "<!-- generated:" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", _WITH_PARTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_parts_are_current(page: Path) -> None:
    """References to the letter, quoted results to 1 %; ``scripts/docs update`` writes them again."""
    assert list(generate.stale(page)) == [], f"run scripts/docs update, and review the diff of {page.name}"


def test_every_part_stands_somewhere() -> None:
    """No reference was lost in an edit."""
    text = "".join(page.read_text(encoding="utf-8") for page in _WITH_PARTS)
    assert [name for name in generate.PARTS if f"<!-- generated: {name} -->" not in text] == []


def test_every_picture_is_there_and_shown() -> None:
    """What is shown exists, and what exists is drawn by the generator and shown."""
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    drawn = {path.name for path in (ROOT / "docs" / "images").iterdir()}
    assert drawn == set(generate.IMAGES)
    assert [name for name in drawn if f"images/{name})" not in text] == []


def test_quoted_results_may_differ_by_noise_only() -> None:
    """1 % in numbers, nothing in words."""
    assert generate._alike("TTFT 100.0 ms, 5,000 requests", "TTFT 100.9 ms, 5,001 requests")
    assert not generate._alike("TTFT 100.0 ms", "TTFT 102.0 ms")
    assert not generate._alike("TTFT 100.0 ms", "TPOT 100.0 ms")
    assert not generate._alike("met", "missed")


def test_an_outdated_part_is_found(tmp_path: Path) -> None:
    """The check can fail, and writing mends what it finds."""
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: hardware -->\nold\n<!-- end of generated part -->\n", encoding="utf-8")
    assert list(generate.stale(page)) == ["hardware"]
    page.write_text(generate.renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
    assert list(generate.stale(page)) == []


def test_docstrings_are_read() -> None:
    """Text and fields of a docstring, with continued lines."""
    text = "A thing.\n\nMore.\n\nAttributes:\n    one: the first\n        of two.\n    two: the second.\n"
    assert schema.docstring_fields(text) == ("A thing.\n\nMore.", {"one": "the first of two.", "two": "the second."})
