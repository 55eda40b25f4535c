"""Presets of acceptance: their file is read, and every mistake in it is told with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servetwin.catalog.acceptance import read_acceptance
from servetwin.errors import CatalogError

SOURCED = "source: me, date: 2026-12-01"

ONE = f"name: mine\nmethods: {{mtp: {{rate: 0.5, {SOURCED}}}}}"

MISTAKES: dict[str, tuple[str, str | None, str, Any]] = {
    "no methods": ("name: mine", None, "'methods' is missing", None),
    "an empty list": ("name: mine\nmethods: {}", "methods", "at least one method", None),
    "another name": ("name: mime\nmethods: {}", "name", "nearest: mine", "mime"),
    "no such method": (ONE.replace("mtp", "eagle9"), "methods.eagle9", "nearest: eagle", "eagle9"),
    "no date": ("name: mine\nmethods: {mtp: {rate: 0.5, source: me}}", "methods.mtp", "'date' is missing", None),
    "a slip": (ONE.replace("date", "sprad: 1, date"), "methods.mtp.sprad", "nearest: spread", "sprad"),
    "a slip beyond": (
        ONE.replace("rate: 0.5", "survival: [1], beyond: {position: 1, survival: [1], persistance: 1}"),
        "methods.mtp.beyond.persistance", "nearest: persistence", "persistance",
    ),
    "a slip at the top": (f"{ONE}\nabout: x", "about", "unknown", "about"),
}  # fmt: skip

FIGURES: dict[str, tuple[str, str, str, Any]] = {
    "nothing": ("", "", "either survival or a rate", None),
    "both": ("rate: 0.5, survival: [0.5]", "", "found:   survival and rate", "survival and rate"),
    "too high": ("rate: 5", ".rate", "from 0 to 1", 5),
    "text": ("rate: high", ".rate", "from 0 to 1", "high"),
    "no list": ("survival: 0.5", ".survival", "a list is expected", 0.5),
    "no entries": ("survival: []", ".survival", "1 to 64 entries", "0 entries"),
    "many entries": (f"survival: {[0.5] * 65}", ".survival", "1 to 64 entries", "65 entries"),
    "too high an entry": ("survival: [0.5, 1.5]", ".survival.1", "from 0 to 1", 1.5),
    "no number": ("survival: [0.5, [0.2]]", ".survival.1", "from 0 to 1", [0.2]),
    "a null": ("survival: [0.5, null]", ".survival", "the field '1' is missing", None),
    "rising": ("survival: [0.5, 0.6]", ".survival.1", "at most 0.5, the one before", 0.6),
    "persistence of a rate": ("rate: 0.5, persistence: 0.5", ".persistence", "survival instead of rate", 0.5),
    "beyond of a rate": ("rate: 0.5, beyond: {}", ".beyond", "survival instead of rate", {}),
    "spread": ("rate: 0.5, spread: -1", ".spread", "from 0 to 10", -1),
    "persistence": ("survival: [0.5], persistence: 2", ".persistence", "from 0 to 1", 2),
    "proposal": ("survival: [0.5], proposal: true", ".proposal", "from 0 to 1", True),
    "position": ("survival: [0.5], beyond: {position: 0, survival: [0.5]}", ".beyond.position", "≥ 1", 0),
    "rising beyond": (
        "survival: [0.5], beyond: {position: 9, survival: [0.5, 0.6]}", ".beyond.survival.1", "never rises", 0.6,
    ),
    "no mapping beyond": ("survival: [0.5], beyond: 9", ".beyond", "a mapping is expected", 9),
}  # fmt: skip


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text + "\n")
    return file


def refused(file: Path, path: str | None, says: str, found: Any) -> None:
    with pytest.raises(CatalogError) as caught:
        read_acceptance(file)
    error = caught.value
    assert (error.file, error.path) == (str(file), path)
    assert says in str(error)
    assert found is None or error.found == found


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    text, path, says, found = MISTAKES[name]
    refused(written(tmp_path, text), path, says, found)


@pytest.mark.parametrize("name", FIGURES)
def test_mistakes_in_figures(name: str, tmp_path: Path) -> None:
    figures, place, says, found = FIGURES[name]
    text = f"name: mine\nmethods: {{mtp: {{{figures + ', ' if figures else ''}{SOURCED}}}}}"
    refused(written(tmp_path, text), f"methods.mtp{place}", says, found)


def test_what_is_left_out_or_null_is_not_there(tmp_path: Path) -> None:
    file = written(tmp_path, f"name: mine\nmethods: {{mtp: {{survival: [1, 0.5], spread: null, {SOURCED}}}}}")
    assert read_acceptance(file) == {"mtp": {"survival": [1, 0.5]}}
    assert read_acceptance(file).file == str(file)


def test_all_that_a_method_may_have(tmp_path: Path) -> None:
    figures = {
        "survival": [0.5, 0.5], "persistence": 0.5, "spread": 0.1, "proposal": 0.2,
        "beyond": {"position": 9, "survival": [0.4], "persistence": 0.1},
    }  # fmt: skip
    mtp = json.dumps({**figures, "source": "me", "date": "2026-12-01"})
    text = f'{{"name": "mine", "aliases": ["ours"], "methods": {{"mtp": {mtp}}}}}'
    assert read_acceptance(written(tmp_path, text)) == {"mtp": figures}
