"""The architecture as a test: which package may import which, and where SimPy and the heavy libraries live."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "sim" / "servetwin"

BOTTOM = {"specs", "request", "records", "units", "streams", "errors", "paths"}
"""What everything may stand on."""

ALLOWED: dict[str, set[str]] = {
    "compiled": set(),
    "errors": set(),
    "units": {"errors"},
    "streams": set(),
    "paths": set(),
    "request": set(),
    "records": {"request"},
    "specs": {"units", "errors"},
    "kernel": {"units", "errors"},
    "physics": {"specs", "units", "errors"},
    "engine": {"physics", "kernel", *BOTTOM},
    "fabric": {"kernel", *BOTTOM},
    "cluster": {"engine", "fabric", "physics", "kernel", *BOTTOM},
    "catalog": {"specs", "units", "errors", "paths"},
    "workload": {"request", "streams", "units", "errors", "paths", "kernel"},
    "acceptance": {"request", "streams", "units", "errors", "paths"},
    "policies": {"request", "streams", "units", "errors"},
    "results": {"records", "request", "units", "errors"},
    "report": {"results", "units", "errors", "request", "records"},
    "scenario": {
        "catalog", "workload", "acceptance", "policies", "results", "fabric", "cluster", "engine", "physics", "kernel",
        *BOTTOM,
    },
    "studies": {
        "scenario", "report", "results", "physics", "catalog", "workload", "acceptance", "policies", *BOTTOM,
    },
    "cli": {"compiled", "studies", "report", "scenario", "results", "catalog", "policies", "errors", "units"},
    "testing": {
        "scenario", "policies", "cluster", "engine", "physics", "kernel", "results", "workload", "acceptance",
        "catalog", *BOTTOM,
    },
}  # fmt: skip

PROTOCOLS = {"servetwin.engine.protocols", "servetwin.cluster.protocols", "servetwin.physics.protocols"}
"""Modules of their own that policies and results may see, for they import nothing but the bottom."""

SIMPY_IN = ("kernel", "engine", "fabric", "cluster")
HEAVY = ("pandas", "pyarrow", "matplotlib", "scipy")
HEAVY_AT_TOP = {"report": HEAVY, "results.frames": ("pandas", "pyarrow")}
"""Modules that are themselves imported only when a result is written."""


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def layer(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def imported(path: Path, *, top_only: bool = False) -> Iterator[tuple[str, int]]:
    """Names of imported modules, and the line; ``TYPE_CHECKING`` blocks count as imports, but not as top ones."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes: list[ast.stmt] = list(tree.body) if top_only else [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            assert node.module is not None
            yield node.module, node.lineno


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_downwards(path: Path) -> None:
    own = layer(path)
    if own in ("__init__", "__main__"):
        return
    assert own in ALLOWED, f"{own} is a layer that nobody has given its place"
    for name, line in imported(path):
        if not name.startswith("servetwin.") or name in PROTOCOLS:
            continue
        target = name.split(".")[1]
        assert target == own or target in ALLOWED[own], f"{path}:{line}: {own} must not import {target}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_simpy_stays_where_the_clock_is(path: Path) -> None:
    own, relative = layer(path), str(path.relative_to(ROOT))
    for name, line in imported(path):
        if name.split(".")[0] == "simpy":
            allowed = own in SIMPY_IN or relative == "workload/source.py"
            assert allowed, f"{path}:{line}: SimPy"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_wait_until_they_are_needed(path: Path) -> None:
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    allowed = next((libraries for prefix, libraries in HEAVY_AT_TOP.items() if dotted.startswith(prefix)), ())
    for name, line in imported(path, top_only=True):
        library = name.split(".")[0]
        assert library not in HEAVY or library in allowed, f"{path}:{line}: {library} at import"


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_protocols_stand_on_the_bottom_only(name: str) -> None:
    path = ROOT.parent / Path(*name.split(".")).with_suffix(".py")
    for target, line in imported(path):
        if target.startswith("servetwin."):
            assert target.split(".")[1] in BOTTOM, f"{path}:{line}"


def test_one_module_puts_engines_together() -> None:
    users = {
        str(path.relative_to(ROOT))
        for path in modules()
        for name, _ in imported(path)
        if name == "servetwin.engine.executor" and layer(path) != "engine"
    }
    assert users == {"scenario/pool_builder.py"}


def test_the_table_has_no_cycle() -> None:
    seen: dict[str, int] = {}

    def visit(node: str) -> None:
        assert seen.get(node) != 1, f"a cycle through {node}"
        if node in seen:
            return
        seen[node] = 1
        for target in ALLOWED[node]:
            visit(target)
        seen[node] = 2

    for node in ALLOWED:
        visit(node)
