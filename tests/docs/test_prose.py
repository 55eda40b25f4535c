"""Numbers that stand in sentences are still those of the program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.blocks import ROOT, read_blocks

import servetwin
from servetwin.studies.calibration import least_squares, samples

CONSTANTS = {
    "docs/how-it-works/index.md": ["{front_end.per_request} + {front_end.per_prompt_token} per prompt token"],
    "docs/how-it-works/engine.md": ["{output.per_request} · requests in the step"],
    "docs/how-it-works/physics.md": [
        "p = {roofline.power}",
        "at {roofline.element_wise} of the bandwidth",
        "1 − {roofline.expert_overlap} · (k/E)²",
        "log₂(n) · {roofline.link_latency} + ring time / {roofline.link_efficiency}",
        "memory − {memory.unavailable}",
        "overhead = {memory.overhead} + [tensor > 1] · {memory.collectives}",
    ],
}
"""Sentences that quote constants of the default calibration."""


def _page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    """Each stands in the sentence with its value in the calibration."""
    calibration: dict[str, dict[str, Any]] = yaml.safe_load(_page("hardware_profiles/calibrations/default.yaml"))
    values = {
        f"{group}.{key}": str(value).replace(" us", " µs")
        for group, part in calibration.items()
        if isinstance(part, dict)
        for key, value in part.items()
    }
    for sentence in CONSTANTS[name]:
        wanted = sentence
        for key, value in values.items():
            wanted = wanted.replace(f"{{{key}}}", value)
        assert "{" not in wanted, f"no such constant: {wanted}"
        assert wanted in _page(name)


def test_one_shape_in_three_is_held_out() -> None:
    """The page says a third, and to which errors the fit is soft."""
    page = _page("docs/kernels.md")
    part = {3: "third"}[samples._HELD_OUT]
    assert f"A {part} of the shapes" in page
    assert f"(r / {100 * least_squares._SOFT:g} %)²" in page


def test_the_readme_reads_the_quickstart() -> None:
    """What it says about the result that it quotes."""
    summary = servetwin.run("quickstart").summary()
    assert f"half of the gaps are shorter than {summary['itl_ms.p50']:.1f} ms" in _page("README.md")
    assert summary["memory_bound_share"] > 0.5
    assert summary["tpot_ms.mean"] > summary["itl_ms.p50"]


def test_steps_and_events_per_request() -> None:
    """Of the standard workload, shrunk: the figures hardly depend on its length."""
    summary = servetwin.run("bench-8b").summary()
    assert f"{summary['steps'] / summary['requests']:.0f}" in ("16", "17")
    assert f"{summary['events'] / summary['requests']:.1f}" == "3.6"
    for name in ("README.md", "docs/how-it-works/stepping.md"):
        text = " ".join(_page(name).split())
        assert "16.5" in text and "3.6 simulator events" in text


def test_sticky_sessions(tmp_path: Path) -> None:
    """The gain that the page about policies claims for its example."""
    (block,) = [block for block in read_blocks(ROOT / "docs" / "policies.md") if block.file == "sticky.py"]
    (tmp_path / "sticky.py").write_text(block.code, encoding="utf-8")
    load = ["--set", "cluster.replicas=8", "--set", "workload.arrivals.rate_per_s=6"]
    # In a process of its own, for a policy that is registered stays registered.
    command = [sys.executable, "-m", "servetwin", "run", "multi-turn", *load, "--json", "--no-figures", "--out", "x"]
    before, after = (
        json.loads(subprocess.run([*command, *router], cwd=tmp_path, capture_output=True, check=True).stdout)
        for router in ([], ["--plugin", "sticky.py", "--set", "router=sticky"])
    )
    assert before["prefix_hit_rate"] < 0.5
    assert after["prefix_hit_rate"] > 0.9
    assert after["ttft_ms.mean"] < before["ttft_ms.mean"] * 2 / 3


def test_size_of_the_azure_trace() -> None:
    """Figures about traces that are not bundled, where the traces are at hand."""
    folder = ROOT.parent / "shared" / "traces"
    if not folder.exists():
        pytest.skip(f"the traces are not here: {folder}")
    lines = (folder / "AzureLLMInferenceTrace_conv.csv").read_text(encoding="utf-8").splitlines()
    rows = sum(1 for line in lines if line.strip()) - 1
    assert f"{rows:,} requests" in _page("README.md")
    assert rows == 19_366
