"""Mistakes in a workload as a user meets them: where, what was found, what is allowed, what is near."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from servetwin.catalog.find import Catalog
from servetwin.errors import ScenarioError
from servetwin.scenario.load import load

FORKS = "workload.classes.agent.sessions.forks"


@pytest.mark.parametrize(
    ("scenario", "change", "path", "nearest"),
    [
        ("chat", "workload.max_concurrency=0", "workload.max_concurrency", None),
        ("chat", "workload.max_concurency=5", "workload.max_concurency", "max_concurrency"),
        ("chat", "workload.max_tokens=-1", "workload.max_tokens", None),
        ("chat", "workload.ignore_eos=maybe", "workload.ignore_eos", None),
        ("chat", "workload.ignore_eos=true", "workload", None),
        ("chat", "workload.arrivals={process: diurnl, rate_per_s: 3}", "workload.arrivals.process", "diurnal"),
        ("chat", "workload.arrivals={process: diurnal, rate_per_s: 3, swing: 2}", "workload.arrivals.swing", None),
        ("chat", "workload.arrivals={process: uniform, rate_per_s: 3, cv: 1}", "workload.arrivals.cv", None),
        ("chat", "workload.arrivals={process: all-at-once, rate: 3}", "workload.arrivals.rate", None),
        ("chat", "workload.outputs={distribution: percentiles, points: [[0, 3]]}", "workload.outputs.points", None),
        ("chat", "workload.outputs={distribution: percentile}", "workload.outputs.distribution", "percentiles"),
        ("rag", "workload.documents.corpus=0", "workload.documents.corpus", None),
        ("rag", "workload.documents.order=popular", "workload.documents.order", "popularity"),
        ("rag", "workload.documents.per_request=9000", "workload.documents", None),
        ("rag", "workload.documents.zipf_exp=1", "workload.documents.zipf_exp", "zipf_exponent"),
        ("agent", f"{FORKS}.probability=0", "workload.classes.0.sessions.forks.probability", None),
        ("agent", f"{FORKS}.brances=2", "workload.classes.0.sessions.forks.brances", "branches"),
        ("agent", "workload.max_concurrency=4", "workload", None),
        ("agent", "workload.classes.call.slo={ttft: 5}", "workload.classes.1.slo.ttft", "ttft_ms"),
        ("agent", "workload.classes.call.arrivals={rate_per_s: 3}", "workload.classes.1", None),
        ("agent", "workload.classes.agent.arrivals={rate_per_s: inf}", "workload.classes.0", None),
    ],
)
def test_mistakes_name_their_place(scenario: str, change: str, path: str, nearest: str | None) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(scenario, [change], Catalog())
    assert (caught.value.path, caught.value.nearest) == (path, nearest)


def test_the_command_says_so_and_leaves_with_2(tmp_path: Path) -> None:
    arguments = ["run", "chat", "--set", "workload.max_concurrency=0", "--out", str(tmp_path / "out"), "--no-figures"]
    done = subprocess.run([sys.executable, "-m", "servetwin", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "workload.max_concurrency" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("scenario", ["chat", "code", "rag", "agent", "reasoning", "summarization"])
def test_a_trace_takes_the_place_of_a_preset(scenario: str, tmp_path: Path) -> None:
    extra = {"workload": {"trace": {"path": str(tmp_path / "t.csv")}}}
    loaded = load(scenario, [], Catalog(), extra=extra).scenario
    assert loaded.workload.trace is not None
    assert loaded.workload.documents is None
    assert all(item.sessions is None for item in loaded.workload.classes)
