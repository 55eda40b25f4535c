"""YAML and JSON as servetwin reads them: safe, no key twice, ``1e3`` a number, every fault with its line."""

from __future__ import annotations

import json
import pickle
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from servetwin.errors import CatalogError, InputError, nearest_name
from servetwin.paths import is_folder

_FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*)$")


MAX_DEPTH = 40
"""Mappings and lists in each other beyond this are no description of anything."""

_MOST_VALUES = 1_000_000
_MOST_REMEMBERED = 100_000
"""Longer texts are parsed each time that they are read [characters]."""

_TOO_DEEP = f"mappings and lists are nested more than {MAX_DEPTH} deep"


class _DuplicateKeyError(yaml.MarkedYAMLError):
    """A key that stands twice in one mapping."""


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """YAML 1.1's plain scalars without dates, and without ``10:20`` as a number of base 60."""
    replaced = {f"tag:yaml.org,2002:{tag}" for tag in ("float", "int", "timestamp")}
    return {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in replaced]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _Loader(yaml.SafeLoader):
    """The safe loader, with the differences named above."""

    yaml_implicit_resolvers = _resolvers()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; a key may stand in it once."""
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain value", key_node.start_mark)
            # As text: ``1`` and ``"1"`` are the same key to whoever reads the file.
            if key_node.value in seen:
                raise _DuplicateKeyError(None, None, f"the key '{key_node.value}' stands twice", key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float | int:
    value = loader.construct_yaml_float(node)
    # 1e5 without a point is meant as a whole number; a field that wants a float takes one too.
    if "." not in node.value and value.is_integer():
        return int(value)
    return value


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; raises ``yaml.YAMLError``, also for numbers and nesting beyond all reason."""
    if len(text) > _MOST_REMEMBERED:
        return _parse(text)
    # A run reads the same profiles several times, and a sweep in each of its points; this is a hundred times as fast.
    return pickle.loads(_remembered(text))


@lru_cache(maxsize=256)
def _remembered(text: str) -> bytes:
    """The value of a text in a form that every reader gets a copy of its own from."""
    return pickle.dumps(_parse(text), pickle.HIGHEST_PROTOCOL)


def _parse(text: str) -> Any:
    try:
        value = yaml.load(text, Loader=_Loader)
    except RecursionError:
        raise yaml.YAMLError(_TOO_DEEP) from None
    except ValueError as error:
        # A number of more digits than Python reads, or a character that its tag does not allow.
        raise yaml.YAMLError(str(error).split(":", 1)[0]) from None
    _check_size(value, yaml.YAMLError)
    return value


def _check_size(value: Any, error: type[Exception]) -> None:
    """Refuse what is nested too deep, or has half a character or too many values, aliases counted wherever used."""
    level, number = [value], 0
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, str):
                _check_text(one, error)
            elif isinstance(one, (dict, list)):
                inner += one.values() if isinstance(one, dict) else one
                if number + len(inner) > _MOST_VALUES:
                    raise error(f"there are more than {_MOST_VALUES:,} values")
        if not inner:
            return
        number += len(inner)
        level = inner
    raise error(_TOO_DEEP)


def _check_text(text: str, error: type[Exception]) -> None:
    """Refuse half of a pair of surrogates, which an escape can write and no file can hold."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise error("an escape in a text is half of a character")


def read_mapping(file: Path, what: str, error: type[InputError] = CatalogError) -> dict[str, Any]:
    """The mapping that a YAML or ``.json`` file holds.

    Args:
        file: the file.
        what: what it should be, for messages: "scenario", "model", …
        error: the class of the errors.

    Raises:
        InputError: of that class: the file is missing, a directory, not text, empty, malformed, or no mapping.
    """
    text = _read_text(file, what, error)
    try:
        value = _parse_json(text) if file.suffix == ".json" else parse_yaml(text)
    except json.JSONDecodeError as fault:
        raise error(f"this is not JSON: {fault.msg}", file=str(file), path=f"line {fault.lineno}") from None
    except yaml.YAMLError as fault:
        raise _syntax_error(fault, file, error) from None
    except ValueError as fault:
        raise error(str(fault), file=str(file)) from None
    if value is None:
        raise error("the file is empty", file=str(file), allowed=f"a {what} in YAML")
    if not isinstance(value, dict):
        raise error(
            f"a {what} file is a mapping of fields", file=str(file), found=value, allowed="lines like 'name: value'"
        )
    for key in value:
        if not isinstance(key, str):
            raise error("field names must be text", file=str(file), found=key)
    return value


def _parse_json(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_unique_pairs)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_size(value, ValueError)
    return value


def _read_text(file: Path, what: str, error: type[InputError]) -> str:
    if is_folder(file):
        inside = sorted(entry.name for entry in file.glob("*.yaml"))
        raise error(
            f"this is a directory, not a {what} file",
            file=str(file),
            allowed=f"a {what} file" + (f"; the directory has {', '.join(inside[:5])}" if inside else ""),
        )
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        # A link that leads nowhere is there and is no help.
        neighbours = (
            [entry.name for entry in file.parent.iterdir() if entry.name != file.name and entry.exists()]
            if (file.parent.is_dir())
            else []
        )
        nearest = nearest_name(file.name, neighbours)
        raise error(
            f"there is no such {what} file",
            file=str(file),
            nearest=str(file.parent / nearest) if nearest else None,
        ) from None
    except UnicodeDecodeError as fault:
        raise error(
            f"the {what} file is not UTF-8 text",
            file=str(file),
            path=f"byte {fault.start}",
            found=f"0x{fault.object[fault.start]:02x}",
            allowed="UTF-8",
        ) from None
    except OSError as fault:
        raise error(f"the {what} file cannot be read: {fault.strerror}", file=str(file)) from None
    except ValueError as fault:
        raise error(f"this cannot be the name of a {what} file: {fault}", file=str(file)) from None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; raises ``ValueError`` for a key that stands twice."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the key '{key}' stands twice in one mapping")
        seen.add(key)
    return dict(pairs)


def _syntax_error(fault: yaml.YAMLError, file: Path, error: type[InputError]) -> InputError:
    line, problem = None, str(fault)
    if isinstance(fault, yaml.MarkedYAMLError):
        mark = fault.problem_mark or fault.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else None
        problem = fault.problem or fault.context or problem
    if isinstance(fault, yaml.reader.ReaderError):
        problem = f"a character that YAML does not allow: {fault.reason}"
    if isinstance(fault, _DuplicateKeyError):
        return error(f"{problem} in one mapping", file=str(file), path=line, allowed="each key once")
    return error(f"this is not valid YAML: {problem}", file=str(file), path=line)
