"""Whatever stands in a scenario, it is either valid or explained: no other exception ever."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.files import read_chain
from servetwin.scenario.load import validate_mapping

ODD: list[Any] = [
    None, 0, -1, 1.5, True, "", "x", [], {}, [3], {"a": 1}, float("nan"), float("inf"), 10**30, {1: 2}, [[]],
    "a.json", "../x.yaml", [{"name": 1}], [{}], {"policy": None}, {"policy": []}, {"trace": 3},
]  # fmt: skip


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _places(value, (*path, key))
    if isinstance(node, list):
        for index, value in enumerate(node):
            yield from _places(value, (*path, index))


@pytest.mark.filterwarnings("ignore::servetwin.scenario.load.ScenarioWarning")
@pytest.mark.parametrize("name", ["priority-classes", "mixed-gpus", "shared-prefix", "multi-turn"])
def test_odd_values_anywhere(name: str) -> None:
    catalog = Catalog()
    raw = read_chain(name, catalog)[1]
    raw |= {"admission": {"policy": "max-requests", "requests": 10}, "physics": {"backend": "roofline", "jitter": 0}}
    refused = 0
    for path in _places(raw):
        for odd in ODD:
            changed = copy.deepcopy(raw)
            node = changed
            for part in path[:-1]:
                node = node[part]
            node[path[-1]] = copy.deepcopy(odd)
            try:
                validate_mapping(changed, catalog)
            except InputError as error:
                refused += 1
                assert error.path or error.file, f"{path} = {odd!r}: {error}"
                assert len(str(error).splitlines()) <= 8
    assert refused > 500


@pytest.mark.parametrize("name", ["priority-classes", "mixed-gpus"])
def test_every_misspelt_field_is_refused_with_its_path(name: str) -> None:
    catalog = Catalog()
    raw = read_chain(name, catalog)[1]
    for path in _places(raw):
        if isinstance(path[-1], int):
            continue
        changed = copy.deepcopy(raw)
        node = changed
        for part in path[:-1]:
            node = node[part]
        node[f"{path[-1]}x"] = node[path[-1]]
        with pytest.raises(InputError) as caught:
            validate_mapping(changed, catalog)
        wanted = ".".join(str(part) for part in (*path[:-1], f"{path[-1]}x"))
        assert caught.value.path == wanted
        assert caught.value.nearest == path[-1], wanted
