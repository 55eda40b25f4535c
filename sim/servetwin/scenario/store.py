"""The resolved scenario as a file, and the hash that says whether two configurations are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from servetwin.scenario.schema import Scenario

_NOT_HASHED = ("name", "description")
_NOT_HASHED_OF_RUN = ("seed", "stepping")


_OFF = {"pipeline": 1, "context": 1, "uneven_heads": False}
"""Ways to share out a model, and the values that mean that it is not shared out so."""


def as_written(scenario: Scenario) -> dict[str, Any]:
    """The fields of a scenario that were set, as a file would have them."""
    return scenario.model_dump(mode="json", exclude_unset=True, by_alias=True)


def to_mapping(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data, without what is null or empty."""
    pruned = _prune(scenario.model_dump(mode="json", by_alias=True))
    assert isinstance(pruned, dict)
    if not scenario.physics.jitter:
        # No noise is what every scenario has that does not say otherwise.
        del pruned["physics"]["jitter"]
    for pool in pruned["cluster"]["pools"]:
        _leave_out_defaults(pool)
    return pruned


def _leave_out_defaults(pool: dict[str, Any]) -> None:
    """Degrees of 1 have no effect, nor has what depends on them; a scenario of an older version is the same without."""
    parallel = pool["parallel"]
    if parallel["pipeline"] == 1:
        pool["engine"].pop("pipeline_batches")
    for name, off in _OFF.items():
        if parallel.get(name) == off:
            del parallel[name]


def to_yaml(scenario: Scenario) -> str:
    """The scenario as the text of a scenario file."""
    return yaml.safe_dump(
        to_mapping(scenario), sort_keys=False, allow_unicode=True, default_flow_style=False, width=100
    )


def config_hash(scenario: Scenario) -> str:
    """Twelve hexadecimal digits that are equal for equal configurations.

    Names, seed and stepping level are left out, for they do not belong to the configuration; files count with
    their content instead of their path.
    """
    mapping = _with_files(scenario)
    for key in _NOT_HASHED:
        mapping.pop(key, None)
    for key in _NOT_HASHED_OF_RUN:
        mapping["run"].pop(key, None)
    return _digest(mapping)[:12]


def run_hash(scenario: Scenario, *context: str) -> str:
    """Twenty hexadecimal digits that are equal for runs with the same results: names, seed and stepping level count.

    Args:
        scenario: the resolved scenario.
        context: what else the results depend on.
    """
    return _digest({"scenario": _with_files(scenario), "context": context})[:20]


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _with_files(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data, with the hash of a file's content in place of its path."""
    mapping = to_mapping(scenario)
    mapping["workload"] = _with_content(mapping["workload"])
    pools = mapping["cluster"].get("pools", ())
    drafting = [pool["speculation"] for pool in pools if "speculation" in pool]
    for speculation in drafting:
        acceptance = speculation["acceptance"]
        if "recorded" in acceptance:
            acceptance["recorded"] = _file_hash(Path(acceptance["recorded"]))
    for owner in (mapping, *pools, *drafting):
        if isinstance(owner.get("model"), dict):
            owner["model"].pop("_name_or_path", None)
        if owner.get("hardware", "").endswith((".yaml", ".yml", ".json")):
            owner["hardware"] = _file_hash(Path(owner["hardware"]))
    topology = mapping["cluster"].get("topology", {})
    for key in ("node", "nic"):
        if str(topology.get(key)).endswith((".yaml", ".yml", ".json")):
            topology[key] = _file_hash(Path(topology[key]))
    return mapping


def _prune(value: Any) -> Any:
    if isinstance(value, Mapping):
        pruned = {key: _prune(inner) for key, inner in value.items()}
        return {key: inner for key, inner in pruned.items() if inner not in (None, "", {}, [])}
    if isinstance(value, (list, tuple)):
        return [_prune(inner) for inner in value]
    return value


def _with_content(value: Any, key: str = "") -> Any:
    """A workload in which the paths of files are replaced by hashes of their content."""
    if isinstance(value, Mapping):
        return {name: _with_content(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_content(inner) for inner in value]
    if key in ("path", "file") and isinstance(value, str):
        return _file_hash(Path(value))
    return value


def _file_hash(path: Path) -> str:
    """The hash of a file's content; of a folder, that of the files in it."""
    try:
        if path.is_dir():
            parts = [f"{entry.name} {_file_hash(entry)}" for entry in sorted(path.iterdir()) if entry.is_file()]
            return hashlib.sha256("\n".join(parts).encode()).hexdigest()
        stat = path.stat()
        return _hash_as_of(path, stat.st_mtime_ns, stat.st_size)
    except OSError:
        # Whoever reads the file will say what is wrong with it.
        return str(path)


@lru_cache(maxsize=1024)
def _hash_as_of(path: Path, _modified_ns: int, _size: int) -> str:
    """The hash of a file, which the many runs of a study read once as long as it does not change."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
