"""Shared by the workload's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servetwin.request import Request
from servetwin.streams import Streams
from servetwin.workload.build import build_stream
from servetwin.workload.spec import WorkloadSpec
from servetwin.workload.stream import RequestStream

ROOT = Path(__file__).parents[3]
BENCH: dict[str, Any] = {
    "arrivals": {"rate_per_s": 8},
    "prompts": {"distribution": "normal", "mean": 500, "std": 150, "min": 50, "max": 1500},
    "outputs": {"distribution": "normal", "mean": 250, "std": 80, "min": 20, "max": 800},
}


@pytest.fixture
def bench() -> dict[str, Any]:
    """The standard speed workload."""
    return {key: dict(value) for key, value in BENCH.items()}


@pytest.fixture
def stream_of(tmp_path: Path) -> Callable[..., RequestStream]:
    """Builds the stream of a workload given as a mapping."""

    def build(
        content: dict[str, Any],
        *,
        requests: int | None = None,
        duration_ps: int | None = None,
        seed: int = 0,
        base: Path | None = None,
    ) -> RequestStream:
        spec = WorkloadSpec.model_validate(content)
        return build_stream(spec, Streams(seed), requests=requests, duration_ps=duration_ps, base=base or tmp_path)

    return build


@pytest.fixture
def facts() -> Callable[[Request], tuple[Any, ...]]:
    """What the workload has decided about a request."""
    return lambda r: (
        r.id, r.arrival_ps, r.prompt_tokens, r.output_tokens, r.segments, r.continues, r.session_id, r.turn,
        r.class_name, r.priority, r.deadline_ps,
    )  # fmt: skip


@pytest.fixture
def shared_traces() -> Path:
    """The folder of public traces beside the repository."""
    folder = ROOT.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(f"the public traces are not at {folder}")
    return folder
