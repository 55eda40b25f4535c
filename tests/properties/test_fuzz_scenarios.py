"""Damaged scenario files: an error in words, or a simulation that is ready to run; never anything else, and soon."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.properties.test_fuzz_traces import KINDS, PLACES, Mutation, mutated

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.build import build
from servetwin.scenario.load import load
from servetwin.scenario.run import run

CATALOG = Catalog()
SCENARIOS = {name: CATALOG.scenario(name).read_text(encoding="utf-8") for name in CATALOG.names("scenarios")}
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
MOST_CPU_S = 10.0

WORDS = [
    "", " ", "0", "-1", "1e999", ".nan", ".inf", "-.inf", "9" * 5000, "1_000", "0x1F", "1e9", "100000", "null", "~",
    "true", "yes", "[]", "{}", "[1, 2]", "{a: 1}", "- x", ": ", "? ", "&a ", "*a", "!!python/object:x", "!!binary aGk=",
    "|", ">", "'", '"', "#", "%", "@", "`", "\t", "\n", "\n\n---\n", "\x00", "\x1b", "\ufeff", "\u2028", "é", "名: 1",
    "2024-05-10", "12:30:45",
    "<<: {run: {seed: 3}}", "extends: quickstart\n", "cluster: {hardware: a100-80gb}\n", "run: {requests: 3}\n", "..",
    "/",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, 10**30, 10**4000, 0.5, -0.5, 1e-320, 1e308, float("nan"),
    float("inf"), "", " ", "0", "1e3", "x" * 300, "名前", "\u202e", "a\nb", "nan", "auto", "quickstart",
    "h100-sxm", "llama-3.1-8b", "/", "/dev/null", "../x.yaml", ".", [], [[]], [None], [1, 2, 3], {}, {"": 1}, {1: 2},
    {None: None}, {"a": {"b": []}},
    {"policy": "fcfs"}, {"process": "poisson"}, {"distribution": "normal"},
    {"distribution": "constant", "value": 10**9},
    {"path": "/dev/null"}, {"path": "/"}, b"\xff", {(1, 2): 3},
]  # fmt: skip
KEYS: list[Any] = [
    "",
    "x",
    "名",
    "extends",
    "name",
    "run",
    "requests",
    "seed",
    "replicas",
    1,
    None,
    True,
    1.5,
    "a.b",
    "<<",
]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree."""
    if path:
        yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from places(value, (*path, key))
    if isinstance(node, list):
        for index, value in enumerate(node):
            yield from places(value, (*path, index))


def change_tree(tree: dict[str, Any], kind: str, place: int, key: Any, value: Any) -> dict[str, Any]:
    """A tree after one change."""
    tree, value = copy.deepcopy(tree), copy.deepcopy(value)
    known = list(places(tree))
    if not known:
        return {key: value}
    *parents, last = known[place % len(known)]
    node: Any = tree
    for part in parents:
        node = node[part]
    if kind == "replace":
        node[last] = value
    elif kind == "delete":
        del node[last]
    elif kind == "wrap":
        node[last] = [node[last]]
    elif kind == "scale" and type(node[last]) in (int, float):
        # What is likely to stay valid, so that odd but possible scenarios are built too.
        node[last] = type(node[last])(node[last] * (0.1, 0.5, 2, 10)[place % 4])
    elif kind in ("scale", "negate"):
        number = isinstance(node[last], (int, float))
        node[last] = -node[last] if number else {key: node[last]}
    elif isinstance(node, dict):  # add or rename
        node[key] = node.pop(last) if kind == "rename" else value
    else:
        node.insert(0, value)
    return tree


def attempt(text: bytes, *, simulate: bool = False) -> bool:
    """Whether a scenario file can be built; what is wrong with the others is said in words."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "scenario.yaml"
        path.write_bytes(text)
        start = time.process_time()
        try:
            loaded = load(str(path), ["run.requests=5", "run.duration_s=1000"] if simulate else [], CATALOG)
            build(loaded.scenario, catalog=CATALOG)
            if simulate:
                run(loaded.scenario, catalog=CATALOG)
        except InputError as error:
            assert error.file or error.path, f"no place: {error}"
            assert len(str(error)) < 3_000
            return False
        finally:
            assert time.process_time() - start < MOST_CPU_S
    return True


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["replace", "delete", "wrap", "negate", "add", "rename", "scale", "scale", "scale"]),
        PLACES,
        st.sampled_from(KEYS),
        st.sampled_from(VALUES),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=500, deadline=None, phases=PHASES)
@given(name=st.sampled_from(sorted(SCENARIOS)), changes=CHANGES)
def test_changed_scenarios(name: str, changes: list[tuple[str, int, Any, Any]]) -> None:
    tree = yaml.safe_load(SCENARIOS[name])
    for change in changes:
        tree = change_tree(tree, *change)
    attempt(yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))


TEXTS = st.lists(
    st.builds(Mutation, st.sampled_from(KINDS), PLACES, PLACES, st.sampled_from(WORDS)), min_size=1, max_size=3
)


@settings(max_examples=500, deadline=None, phases=PHASES)
@given(name=st.sampled_from(sorted(SCENARIOS)), changes=TEXTS)
def test_damaged_files(name: str, changes: list[Mutation]) -> None:
    data = SCENARIOS[name].encode()
    for change in changes:
        data = mutated(data, change)
    attempt(data)


@settings(max_examples=60, deadline=None, phases=PHASES)
@given(name=st.sampled_from(sorted(SCENARIOS)), changes=CHANGES)
def test_what_can_be_built_runs(name: str, changes: list[tuple[str, int, Any, Any]]) -> None:
    tree = yaml.safe_load(SCENARIOS[name])
    tree.pop("run", None)
    for change in changes:
        tree = change_tree(tree, *change)
    attempt(yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"), simulate=True)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_undamaged_ones_are_fine(name: str) -> None:
    """Otherwise the tests above would show nothing."""
    assert attempt(SCENARIOS[name].encode())


def test_aliases_do_not_multiply() -> None:
    """A few lines that would unfold to billions of entries."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert not attempt("\n".join([*lines, SCENARIOS["quickstart"]]).encode())
