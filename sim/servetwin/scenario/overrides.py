"""``--set PATH=VALUE``: one field of a scenario, named by its dotted path."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from servetwin.catalog.yaml_file import MAX_DEPTH, parse_yaml
from servetwin.errors import ScenarioError, nearest_name

_LISTS = ("classes", "stages")
"""Fields that hold a list of mappings, whose entries no override makes one by one."""

_POLICIES = ("router", "admission", "scheduling", "controller", "disaggregation")
"""Fields that hold a policy."""


class Override(NamedTuple):
    """A field that is set after the file was read.

    Attributes:
        given: what the user gave, for messages: ``--set run.seed=1``, ``--seed 1``.
        path: the dotted path of the field.
        value: its new value.
    """

    given: str
    path: str
    value: Any


def parse_override(text: str) -> Override:
    """Read ``PATH=VALUE``.

    The value is YAML, so ``[1, 2]``, ``true`` and ``1e3`` mean what they mean in a file.

    Raises:
        ScenarioError: there is no ``=``, no path, or the value is not YAML.
    """
    path, separator, value = text.partition("=")
    path = path.strip()
    given = f"--set {text}"
    if not separator or not path or not all(path.split(".")):
        raise ScenarioError(
            "an override has the form PATH=VALUE",
            file=given,
            found=text,
            allowed="for example cluster.pools.0.replicas=8",
            hint=None if separator else f"the = is missing: --set {path or 'PATH'}=VALUE, without spaces",
        )
    try:
        return Override(given, path, parse_yaml(value))
    except yaml.YAMLError as error:
        why = "" if isinstance(error, yaml.MarkedYAMLError) else f": {error}"
        raise ScenarioError(f"the value of an override must be YAML{why}", file=given, path=path, found=value) from None


def apply_override(raw: dict[str, Any], override: Override) -> tuple[str | int, ...]:
    """Set a value in a scenario, and return where it now stands; missing mappings on the way are made.

    A list entry is named by its index or by its ``name``.

    Raises:
        ScenarioError: the path leads through a list entry that does not exist, or through a plain value.
    """
    parts = override.path.split(".")
    if len(parts) > MAX_DEPTH:
        raise ScenarioError(
            "no field of a scenario lies that deep", file=override.given, path=override.path, allowed="shorter paths"
        )
    node: Any = raw
    place: list[str | int] = []
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(node, list):
            index = _list_index(node, part, parts[:depth], override)
            place.append(index)
            if last:
                node[index] = override.value
            node = node[index]
        elif isinstance(node, dict):
            place.append(part)
            if last:
                node[part] = override.value
                break
            if node.get(part) is None:
                node[part] = [] if part in _LISTS else {}
            node = _opened(node, part, parts[depth + 1])
        else:
            raise ScenarioError(
                f"'{'.'.join(parts[:depth])}' is a plain value and has no fields",
                file=override.given,
                path=override.path,
                found=node,
            )
    return tuple(place)


def _opened(node: dict[str, Any], part: str, inner: str) -> Any:
    """The value of a field; a policy written as a bare name becomes a mapping, so that its fields can be set."""
    value = node[part]
    if isinstance(value, str) and part in _POLICIES and inner != "":
        node[part] = {"policy": value}
    return node[part]


def _list_index(entries: list[Any], part: str, parents: list[str], override: Override) -> int:
    names = [str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry]
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("name") == part:
            return index
    if part.isdecimal() and int(part) < len(entries):
        return int(part)
    indices = "an index from 0 to " + str(len(entries) - 1) if entries else "nothing: the list is empty"
    raise ScenarioError(
        f"'{'.'.join(parents)}' has no entry '{part}'",
        file=override.given,
        path=override.path,
        found=part,
        allowed=indices + (f", or a name: {', '.join(names)}" if names else ""),
        nearest=nearest_name(part, names),
    )
