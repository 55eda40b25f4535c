"""Reading YAML and JSON files strictly: one mapping, no key twice, and every mistake as one clear message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from servetwin.errors import CatalogError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeyLoader(_Base):  # type: ignore[misc]
    """A safe loader that refuses a key which stands twice in a mapping."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain value", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CatalogError("there is no such file", file=str(path)) from None
    except IsADirectoryError:
        raise CatalogError("this is a directory, not a file", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise CatalogError(
            "the file is not UTF-8 text",
            file=str(path),
            path=f"byte {error.start}",
            allowed="a text file in UTF-8",
        ) from None
    except OSError as error:
        raise CatalogError(f"the file cannot be read: {error.strerror}", file=str(path)) from None


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a ``.yaml`` or ``.json`` file.

    Raises:
        CatalogError: where the file is missing, is not text, is not YAML or JSON, has a key twice, or holds
            something else than one mapping.
    """
    text = _text(path)
    try:
        if path.suffix == ".json":
            data = json.loads(text, object_pairs_hook=_unique_pairs)
        else:
            data = yaml.load(text, Loader=_UniqueKeyLoader)
    except json.JSONDecodeError as error:
        raise CatalogError(f"this is not JSON: {error.msg}", file=str(path), path=f"line {error.lineno}") from None
    except ValueError as error:
        raise CatalogError(str(error), file=str(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise CatalogError(
            f"this is not valid YAML: {problem}",
            file=str(path),
            path=f"line {mark.line + 1}" if mark else None,
        ) from None
    if not isinstance(data, dict):
        raise CatalogError(
            "the file must hold one mapping", file=str(path), found="an empty file" if data is None else data,
            allowed="lines of the form `name: value`",
        )  # fmt: skip
    for key in data:
        if not isinstance(key, str):
            raise CatalogError("field names must be text", file=str(path), found=key)
    return data


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} stands twice")
            seen.add(key)
    return result
