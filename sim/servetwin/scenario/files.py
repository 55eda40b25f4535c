"""Scenario files and what they refer to: other scenarios (``extends``), workloads, models and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import CatalogError, ScenarioError
from servetwin.paths import exists, expanded, is_folder, real
from servetwin.scenario.merge import deep_merge

_SUFFIXES = (".yaml", ".yml")
_MODEL_FILES = (".json", *_SUFFIXES)
_FILE_KEYS = ("path", "file")
"""Fields of a workload that name files."""


def read_chain(reference: str | Path, catalog: Catalog) -> tuple[Path, dict[str, Any]]:
    """A scenario file merged over what it extends, with file names that do not depend on where it lies.

    Args:
        reference: a name or a path.
        catalog: where names are looked up.

    Returns:
        The file, and its content.

    Raises:
        InputError: a file is missing or malformed, or the chain has no end.
    """
    file = _find(reference, catalog, Path())
    chain: list[dict[str, Any]] = []
    files: list[Path] = []
    current = file
    while True:
        if real(current) in [real(known) for known in files]:
            raise _cycle([*files, current])
        files.append(current)
        content = read_mapping(current, "scenario", ScenarioError)
        parent = content.pop("extends", None)
        anchor(content, current.parent)
        use_workload(content, catalog, current.parent, str(current))
        chain.append(content)
        if parent is None:
            break
        current = _find_parent(parent, catalog, current)
    merged: dict[str, Any] = {}
    for content in reversed(chain):
        # A description belongs to the scenario that gives it, and so does a name.
        merged.pop("description", None)
        merged.pop("name", None)
        merged = deep_merge(merged, content)
    return file, merged


def seen_from(folder: Path, reference: str, catalog: Catalog) -> str | Path:
    """What means from the working directory the scenario that a file in ``folder`` refers to.

    Args:
        folder: where the file lies.
        reference: a name, or a path relative to the folder.
        catalog: where names are looked up.
    """
    return folder / expanded(reference) if _is_path(reference, catalog.names("scenarios")) else reference


def use_workload(raw: dict[str, Any], catalog: Catalog, base: Path, file: str) -> None:
    """Replace the name or path of a workload by its content.

    Args:
        raw: the scenario, which is changed.
        catalog: where names are looked up.
        base: what a path is relative to.
        file: what messages call the scenario.

    Raises:
        InputError: there is no such workload, or its file is malformed.
    """
    reference = raw.get("workload")
    if not isinstance(reference, str):
        return
    if _is_path(reference, catalog.names("workloads")):
        source = base / expanded(reference)
    else:
        try:
            source = catalog.workload(reference)
        except CatalogError as error:
            error.file, error.path = file, "workload"
            raise
    content = read_mapping(source, "workload", ScenarioError)
    content.pop("name", None)
    content.pop("description", None)
    _anchor_files(content, source.parent.absolute())
    raw["workload"] = content


def _find(reference: str | Path, catalog: Catalog, base: Path) -> Path:
    known = catalog.names("scenarios")
    if isinstance(reference, Path) or _is_path(reference, known):
        path = base / expanded(reference)
        if path.parent == base and path.stem in known and not exists(path) and not path.is_symlink():
            raise ScenarioError(
                "there is no such scenario file",
                file=str(path),
                nearest=path.stem,
                hint=f"the bundled scenario is called {path.stem}",
            )
        return path
    if is_folder(base / reference) and reference not in known:
        return base / reference
    return catalog.scenario(reference)


def _is_path(reference: str, known: Sequence[str]) -> bool:
    """Whether a reference is meant as a path; what lies in a subfolder of the catalogue has a slash in its name."""
    if reference in known:
        return False
    return reference.endswith(_SUFFIXES) or "/" in reference or reference.startswith((".", "~"))


def _find_parent(parent: object, catalog: Catalog, file: Path) -> Path:
    if not isinstance(parent, str) or not parent:
        raise ScenarioError(
            "extends names one other scenario",
            file=str(file),
            path="extends",
            found=parent,
            allowed="the name of a bundled scenario, or the path of a file",
        )
    try:
        found = _find(parent, catalog, file.parent)
    except CatalogError as error:
        raise ScenarioError(
            error.message,
            file=str(file),
            path="extends",
            found=parent,
            allowed=error.allowed,
            nearest=error.nearest,
        ) from None
    if not exists(found):
        raise ScenarioError(
            "the scenario that this one extends does not exist",
            file=str(file),
            path="extends",
            found=parent,
            allowed=["a path relative to this file", *catalog.names("scenarios")],
        )
    return found


def _cycle(files: list[Path]) -> ScenarioError:
    last = real(files[-1])
    start = next(index for index, file in enumerate(files) if real(file) == last)
    return ScenarioError(
        "the scenarios extend each other in a circle",
        file=str(files[-2]),
        path="extends",
        found=" → ".join(file.name for file in files[start:]),
        allowed="a chain that ends",
    )


def anchor(content: dict[str, Any], folder: Path) -> None:
    """Make the names of files in a scenario, which are relative to ``folder``, absolute."""
    folder = folder.absolute()
    _anchor_path(content, "model", _MODEL_FILES, folder)
    cluster = content.get("cluster")
    if isinstance(cluster, dict):
        _anchor_path(cluster, "hardware", _SUFFIXES, folder)
        _anchor_speculation(cluster.get("speculation"), folder)
        topology = cluster.get("topology")
        if isinstance(topology, dict):
            _anchor_path(topology, "nic", _SUFFIXES, folder)
            _anchor_path(topology, "node", _SUFFIXES, folder)
            nodes = topology.get("node")
            if isinstance(nodes, dict):
                for gpu in nodes:
                    _anchor_path(nodes, gpu, _SUFFIXES, folder)
    pools = cluster.get("pools") if isinstance(cluster, Mapping) else None
    for pool in pools if isinstance(pools, list) else []:
        if isinstance(pool, dict):
            _anchor_path(pool, "model", _MODEL_FILES, folder)
            _anchor_path(pool, "hardware", _SUFFIXES, folder)
            _anchor_speculation(pool.get("speculation"), folder)
    _anchor_files(content.get("workload"), folder)


def _anchor_path(owner: dict[str, Any], key: str, suffixes: tuple[str, ...], folder: Path) -> None:
    """Make the name of a model or GPU absolute where it is a path."""
    name = owner.get(key)
    if isinstance(name, str) and (name.endswith(suffixes) or name.startswith((".", "~"))):
        owner[key] = str(folder / expanded(name))


def _anchor_speculation(speculation: Any, folder: Path) -> None:
    """Make the names of a drafter, of a preset and of a recording absolute where they are paths."""
    if not isinstance(speculation, dict):
        return
    _anchor_path(speculation, "model", _MODEL_FILES, folder)
    _anchor_path(speculation, "acceptance", _SUFFIXES, folder)
    acceptance = speculation.get("acceptance")
    if isinstance(acceptance, dict):
        _anchor_path(acceptance, "preset", _SUFFIXES, folder)
        recorded = acceptance.get("recorded")
        if isinstance(recorded, str):
            acceptance["recorded"] = str(folder / expanded(recorded))


def _anchor_files(workload: Any, folder: Path) -> None:
    """Make the names of traces and of files of lengths absolute."""
    if isinstance(workload, list):
        for entry in workload:
            _anchor_files(entry, folder)
    if not isinstance(workload, dict):
        return
    for key, value in workload.items():
        if key in _FILE_KEYS and isinstance(value, str):
            workload[key] = str(folder / expanded(value))
        else:
            _anchor_files(value, folder)
