"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import servetwin
import servetwin.policies
import servetwin.scenario


def _modules() -> list[str]:
    names = ["servetwin"]
    for package in (servetwin.policies, servetwin.scenario):
        names += [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return names


@pytest.mark.parametrize("name", _modules())
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert outcome.failed == 0


@pytest.mark.parametrize("name", [n for n in _modules() if n.startswith("servetwin.policies.") and n.count(".") == 3])
def test_every_policy_has_a_runnable_example(name: str) -> None:
    if name.split(".")[2] in ("scheduling", "routing", "admission", "speculation", "disaggregation"):
        tests = doctest.DocTestFinder().find(importlib.import_module(name))
        assert sum(len(test.examples) for test in tests) > 1
