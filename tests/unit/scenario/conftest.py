"""A small scenario to change, and the ways to load it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetwin.catalog.find import Catalog
from servetwin.scenario.load import LoadedScenario, load

BASE: dict[str, Any] = {
    "name": "small",
    "model": "llama-3.1-8b",
    "engine": {"name": "vllm", "version": "0.15"},
    "cluster": {"hardware": "h100-sxm", "replicas": 1},
    "workload": {"arrivals": {"process": "poisson", "rate_per_s": 8}, "prompts": 100, "outputs": 10},
    "run": {"requests": 20},
}


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def base() -> dict[str, Any]:
    return copy.deepcopy(BASE)


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a scenario file: a mapping, or the text itself."""

    def write_file(content: Any, name: str = "scenario.yaml") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
        return file

    return write_file


@pytest.fixture
def load_it(write: Write, catalog: Catalog) -> Callable[..., LoadedScenario]:
    """Write a scenario and load it with overrides."""

    def load_content(content: Any, *overrides: str) -> LoadedScenario:
        return load(write(content), overrides, catalog)

    return load_content
