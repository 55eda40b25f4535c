"""What many requests read from their fates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from servetwin.acceptance.build import build_fates
from servetwin.acceptance.drawn import DrawnFates
from servetwin.acceptance.reading import read_fate
from servetwin.acceptance.recorded import RecordedFates
from servetwin.acceptance.resolve import resolve_acceptance
from servetwin.acceptance.spec import Acceptance
from servetwin.catalog import Catalog
from servetwin.request import Fate, Request
from servetwin.streams import Streams

ROOT = Path(__file__).resolve().parents[3]
CATALOG = Catalog()
WRITTEN: TypeAdapter[Any] = TypeAdapter(Acceptance)


def fates_of(written: Any, method: str = "eagle3", seed: int = 0, base: Path = Path()) -> DrawnFates | RecordedFates:
    """The fates that a scenario gets for what it writes."""
    spec = resolve_acceptance(WRITTEN.validate_python(written), method, CATALOG.acceptance)
    return build_fates(spec, Streams(seed), base)


def request(id: int, tokens: int) -> Request:
    """A request of which nothing counts but its output."""
    return Request(id, 0, 100, tokens)


def survival_of(fates: Iterable[Fate], drafts: int, start: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The share of drafts whose first 1, 2, … tokens stand, over all steps."""
    accepted = [step.accepted for fate in fates for step in read_fate(fate, drafts, start)]
    counts = np.bincount(accepted, minlength=drafts + 1)
    return np.asarray(counts[::-1].cumsum()[::-1][1:] / counts.sum(), np.float64)


def tokens_per_step(fates: Sequence[Fate], drafts: int, start: int = 0) -> tuple[float, list[float]]:
    """Output tokens per step: of all together, and of each."""
    tokens = [len(fate.matches) - start for fate in fates]
    steps = [_steps(fate.matches, drafts, start) for fate in fates]
    return sum(tokens) / sum(steps), [one / many for one, many in zip(tokens, steps, strict=True)]


def _steps(matches: bytes, drafts: int, start: int) -> int:
    """As many as ``read_fate`` has, several times as fast."""
    position = start
    steps = 0
    while position < len(matches):
        position += min(matches[position], drafts) + 1
        steps += 1
    return steps
