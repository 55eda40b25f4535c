"""The scenario that ``new`` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.load import load
from servetwin.scenario.starter import write_starter


def test_it_is_valid_as_it_is(tmp_path: Path) -> None:
    name, file = write_starter(str(tmp_path / "my-study"))
    assert (name, file) == ("my-study", tmp_path / "my-study.yaml")
    loaded = load(str(file))
    assert loaded.scenario.name == "my-study"
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", ["123", "1e3", "1.5", "2024-05-10", "0x1F", "true", "null", "yes", "off", "No", "n"])
def test_a_name_that_yaml_takes_for_something_else_is_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, file = write_starter(name)
    assert load(f"./{file}").scenario.name == name


def test_so_is_every_line_that_it_leaves_out(tmp_path: Path) -> None:
    _, file = write_starter(str(tmp_path / "mine"))
    text = file.read_text(encoding="utf-8")
    told = text.replace("  # precision:", "  precision:").replace("  # engine:", "  engine:")
    told = told.replace("  #   max_num", "    max_num").replace("  #   scheduling", "    scheduling")
    assert told.count("#") == text.count("#") - 5
    file.write_text(told, encoding="utf-8")
    engine = load(str(file)).scenario.cluster.pools[0].engine
    assert (engine.max_num_batched_tokens, engine.max_num_seqs) == (8192, 256)


def test_an_existing_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("precious", encoding="utf-8")
    for reference in ("mine", "mine.yaml"):
        with pytest.raises(ScenarioError, match="not overwritten"):
            write_starter(str(tmp_path / reference))
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("reference", "complaint", "nearest"),
    [
        ("my study", "letters", "my-study"), ("", "letters", "unnamed"), ("-x", "letters", "x"),
        ("a" * 101, "at most 100", "a" * 100), ("nowhere/mine", "no such directory", None),
    ],
)  # fmt: skip
def test_names_that_cannot_be(
    reference: str, complaint: str, nearest: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match=complaint) as caught:
        write_starter(reference)
    assert caught.value.nearest == nearest
    assert list(tmp_path.iterdir()) == []
