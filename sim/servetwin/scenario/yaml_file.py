"""YAML as servetwin reads it: safe, duplicate keys refused, ``1e3`` a number, every fault with its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from servetwin.errors import ScenarioError, nearest_name

_FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*)$")


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
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                # Booleans and numbers as keys are mistakes here: `on:` is true, `1:` a number.
                key = key_node.value
            if key in seen:
                raise _DuplicateKeyError(None, None, f"the key '{key}' stands twice", key_node.start_mark)
            seen.add(key)
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
    """The value of a YAML text; raises ``yaml.YAMLError``."""
    return yaml.load(text, Loader=_Loader)


def read_mapping(file: Path, what: str) -> dict[str, Any]:
    """The mapping that a YAML file holds.

    Args:
        file: the file.
        what: what it should be, for messages: "scenario", "workload", …

    Raises:
        ScenarioError: it is missing, a directory, not text, empty, not YAML, or not a mapping.
    """
    text = read_text(file, what)
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        raise _syntax_error(error, file) from None
    if value is None:
        raise ScenarioError("the file is empty", file=str(file), allowed=f"a {what} in YAML")
    if not isinstance(value, dict):
        raise ScenarioError(
            f"a {what} file is a mapping of fields",
            file=str(file),
            found=value,
            allowed="lines like 'name: value'",
        )
    return value


def read_text(file: Path, what: str) -> str:
    """The text of a file, as UTF-8; raises ``ScenarioError``."""
    if file.is_dir():
        inside = sorted(entry.name for entry in file.glob("*.yaml"))
        raise ScenarioError(
            f"this is a directory, not a {what} file",
            file=str(file),
            allowed=f"a {what} file" + (f"; the directory has {', '.join(inside[:5])}" if inside else ""),
        )
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        parent = file.parent
        neighbours = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
        nearest = nearest_name(file.name, neighbours)
        raise ScenarioError(
            f"there is no such {what} file",
            file=str(file),
            nearest=str(parent / nearest) if nearest else None,
        ) from None
    except UnicodeDecodeError as error:
        raise ScenarioError(
            f"the {what} file is not UTF-8 text",
            file=str(file),
            path=f"byte {error.start}",
            found=f"0x{error.object[error.start]:02x}",
            allowed="UTF-8",
        ) from None
    except OSError as error:
        raise ScenarioError(f"the {what} file cannot be read: {error.strerror}", file=str(file)) from None


def _syntax_error(error: yaml.YAMLError, file: Path) -> ScenarioError:
    line, problem = None, str(error)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else None
        problem = error.problem or error.context or problem
    if isinstance(error, yaml.reader.ReaderError):
        problem = f"a character that YAML does not allow: {error.reason}"
    if isinstance(error, _DuplicateKeyError):
        return ScenarioError(f"{problem} in one mapping", file=str(file), path=line, allowed="each key once")
    return ScenarioError(f"this is not valid YAML: {problem}", file=str(file), path=line)
