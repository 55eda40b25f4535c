"""YAML as servetwin reads it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from servetwin.catalog.yaml_file import parse_yaml, read_mapping
from servetwin.errors import ScenarioError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e5", 100_000),
        ("1e-3", 0.001),
        ("2.5e3", 2500.0),
        ("10:20", "10:20"),
        ("2026-11-29", "2026-11-29"),
        ("010", "010"),
        ("1_000", 1000),
        ("-3", -3),
        (".5", 0.5),
        (".inf", math.inf),
        ("true", True),
        ("off", False),
        ("nan", "nan"),
        ("[1, 2]", [1, 2]),
        ("", None),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    parsed = parse_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(parse_yaml(".nan"))


def _error(tmp_path: Path, content: bytes | str) -> ScenarioError:
    file = tmp_path / "file.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ScenarioError) as caught:
        read_mapping(file, "scenario", ScenarioError)
    assert caught.value.file == str(file)
    return caught.value


@pytest.mark.parametrize("name", ["file.yaml", "file.json"])
def test_half_of_a_character_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"name": ["a\\ud800"]}')
    with pytest.raises(ScenarioError, match="half of a character"):
        read_mapping(tmp_path / name, "scenario", ScenarioError)


def test_a_duplicate_key_is_refused_with_its_line_at_any_depth(tmp_path: Path) -> None:
    error = _error(tmp_path, "run:\n  seed: 1\n  requests: 5\n  seed: 2\n")
    assert "'seed' stands twice" in error.message
    assert error.path == "line 4, column 3"


def test_duplicate_keys_that_are_no_strings_are_refused_too(tmp_path: Path) -> None:
    assert "'1' stands twice" in _error(tmp_path, "1: a\n1: b\n").message


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    error = _error(tmp_path, "name: a\nrun: [1, 2\ncluster: 3\n")
    assert "not valid YAML" in error.message
    assert error.path is not None and error.path.startswith("line 3")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("- a\n- b\n", "mapping"),
        ("just text", "mapping"),
        ("a: \x01", "does not allow"),
        ("a: !!python/object:os.system {}\n", "not valid YAML"),
        ("a: *nowhere\n", "not valid YAML"),
        ("? [a]\n: b\n", "plain value"),
        ("1: a\n", "must be text"),
        ("a: 1\n---\nb: 2\n", "not valid YAML"),
    ],
)
def test_what_is_no_mapping(tmp_path: Path, content: str, message: str) -> None:
    assert message in _error(tmp_path, content).message


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    error = _error(tmp_path, b"name: \xff\xfe")
    assert "not UTF-8" in error.message
    assert error.path == "byte 6"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: a\n")
    assert read_mapping(file, "scenario", ScenarioError) == {"name": "a"}


def test_a_directory_lists_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("name: a")
    with pytest.raises(ScenarioError, match="directory") as caught:
        read_mapping(tmp_path, "scenario", ScenarioError)
    assert "one.yaml" in str(caught.value.allowed)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "quick.yaml").write_text("name: a")
    with pytest.raises(ScenarioError, match="no such") as caught:
        read_mapping(tmp_path / "qiuck.yaml", "scenario", ScenarioError)
    assert caught.value.nearest == str(tmp_path / "quick.yaml")


def test_readers_of_one_text_have_copies_of_their_own() -> None:
    first = parse_yaml("fields: [1, {a: 2}]")
    first["fields"][1]["a"] = 3
    assert parse_yaml("fields: [1, {a: 2}]") == {"fields": [1, {"a": 2}]}
