"""Baselines: what the scenarios of a suite came to when somebody last looked at it and found it good.

A baseline is small and stable, made to be read in a review: a file a scenario, ``DIR/SUITE/NAME.json``, in it the
version, the hash of the resolved scenario, the seeds, and a line a metric with one value a seed. Figures have six
digits, so that a rebuilt library which rounds another way changes none of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import InputError, ScenarioError
from servetwin.paths import exists
from servetwin.results.store import write_text

FORMAT = 1
_DIGITS = 6
_LARGEST = 1e100

Row = tuple[float | None, ...]
"""The values of a metric, one a seed; None = undefined."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a scenario of a suite came to.

    Attributes:
        name: the name of the entry in the suite.
        version: the version of servetwin that ran it.
        config_hash: the hash of the resolved scenario.
        seeds: the seed of each run.
        metrics: by key, the values in the order of the seeds.
    """

    name: str
    version: str
    config_hash: str
    seeds: tuple[int, ...]
    metrics: dict[str, Row]

    def by_seed(self, key: str) -> dict[int, float | None]:
        """The values of a metric by seed."""
        return dict(zip(self.seeds, self.metrics[key], strict=True))


def rounded(value: float | None) -> float | None:
    """A value as a baseline keeps it; counts stay whole.

    >>> rounded(1234.56789), rounded(123456789)
    (1234.57, 123456789)
    """
    return value if value is None or isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def path_of(folder: Path, suite: str, name: str) -> Path:
    """Where the baseline of an entry lies."""
    return folder / suite / f"{name}.json"


def find_baseline(folder: Path, suite: str, name: str, wanted: str) -> Baseline:
    """Read the baseline of an entry.

    Args:
        folder: the folder of baselines.
        suite: the name of the suite.
        name: the name of the entry.
        wanted: what the user would give to make it, for messages.

    Raises:
        ScenarioError: there is none, or it is malformed.
    """
    file = path_of(folder, suite, name)
    if not exists(file):
        known = sorted(path.stem for path in file.parent.glob("*.json"))
        raise ScenarioError(
            f"there is no baseline of {name}", file=str(file),
            found=f"baselines of {', '.join(known)}" if known else None,
            hint=f"run {wanted} to make one, look at the file and commit it; or say compare: false to do without",
        )  # fmt: skip
    return _read(file, name)


def _read(file: Path, name: str) -> Baseline:
    raw = read_mapping(file, "baseline", ScenarioError)
    if raw.get("format") != FORMAT:
        raise _malformed(file, "format", raw.get("format"), f"the number {FORMAT}")
    for key, kind, words in (
        ("name", str, "text"), ("version", str, "text"), ("config_hash", str, "text"),
        ("seeds", list, "a list of whole numbers"), ("metrics", dict, "a mapping of metrics"),
    ):  # fmt: skip
        if not isinstance(raw.get(key), kind):
            raise _malformed(file, key, raw.get(key), words)
    if raw["name"] != name:
        raise _malformed(file, "name", raw["name"], f"{name}, as the file is called")
    seeds = raw["seeds"]
    if not seeds or not all(type(seed) is int for seed in seeds) or len(set(seeds)) != len(seeds):
        raise _malformed(file, "seeds", seeds, "whole numbers, each once")
    for key, row in raw["metrics"].items():
        if not isinstance(row, list) or len(row) != len(seeds) or not all(_is_value(value) for value in row):
            raise _malformed(file, f"metrics.{key}", row, f"a list of {len(seeds)} numbers, one for each seed, or null")
    metrics = {key: tuple(row) for key, row in raw["metrics"].items()}
    return Baseline(name, raw["version"], raw["config_hash"], tuple(seeds), metrics)


def _is_value(value: object) -> bool:
    """Whether it is undefined or a number with whose differences and quotients one can reckon."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value is None
    return value == 0 or 1 / _LARGEST < abs(value) < _LARGEST


def _malformed(file: Path, path: str, found: object, allowed: str) -> InputError:
    return ScenarioError(
        "the baseline is malformed", file=str(file), path=path, found=found, allowed=allowed,
        hint="baselines are written by servetwin check --update-baseline",
    )  # fmt: skip


def text_of(baseline: Baseline) -> str:
    """A baseline as its file holds it: a line for each metric, so that a difference of two files can be read."""
    head: Mapping[str, Any] = {
        "format": FORMAT, "name": baseline.name, "version": baseline.version, "config_hash": baseline.config_hash,
        "seeds": list(baseline.seeds),
    }  # fmt: skip
    lines = [f"  {json.dumps(key)}: {_compact(value)}," for key, value in head.items()]
    rows = [f"    {json.dumps(key)}: {_compact(list(row))}" for key, row in baseline.metrics.items()]
    return "\n".join(["{", *lines, '  "metrics": {', ",\n".join(rows), "  }", "}", ""])


def _compact(value: Sequence[Any] | Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def write_baseline(folder: Path, suite: str, baseline: Baseline) -> bool:
    """Write a baseline; returns whether that changed anything.

    Raises:
        InputError: it cannot be written.
    """
    file, text = path_of(folder, suite, baseline.name), text_of(baseline)
    try:
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the baseline cannot be written: {getattr(error, 'strerror', None) or error}", file=str(file)
        ) from None
    return True
