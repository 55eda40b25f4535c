"""What the tutorial says of its results; that its commands work is tested with those of all pages."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from tests.docs.blocks import ROOT, Block, read_blocks
from tests.docs.test_generated import generate

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.scenario.load import load_scenario
from servetwin.studies.explain import Step, explain

PAGE = ROOT / "docs" / "tutorial.md"


def _file(name: str) -> Block:
    (block,) = [block for block in read_blocks(PAGE) if block.file == name]
    return block


@pytest.fixture
def changes(tmp_path: Any) -> list[str]:
    """The model and the GPU of the page, as overrides."""
    for name in ("my-model/config.json", "my-hardware/gpus/next-gpu.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(_file(name).code, encoding="utf-8")
    return [f"model={tmp_path / 'my-model'}", f"cluster.hardware={tmp_path / 'my-hardware' / 'gpus' / 'next-gpu.yaml'}"]


def test_the_loads_print_what_is_quoted() -> None:
    """To 1 %, as other quoted results."""
    blocks = read_blocks(PAGE)
    quoted = next(block for block in blocks[blocks.index(_file("loads.py")) :] if block.language == "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(_file("loads.py").code, "loads.py", "exec"), {})
    assert generate._alike(quoted.code, printed.getvalue())


def test_eight_h100s_or_two_of_the_next_for_the_larger_model(changes: list[str]) -> None:
    """Steps 6 and 7: four H100s are overloaded, eight are not, nor are two of the other."""
    model, gpu = (change.split("=", 1)[1] for change in changes)
    assert 13.5e9 < Catalog().model(model).parameters() < 14.5e9

    def kept(**more: Any) -> tuple[bool, bool]:
        summary = servetwin.run("quickstart", model=model, **more).summary()
        overloaded = any(warning.startswith("overloaded") for warning in summary["warnings"])
        return overloaded, all(limit["met"] for limit in summary["slo"].values())

    assert kept(cluster__replicas=4) == (True, False)
    assert kept(cluster__replicas=8) == (False, True)
    assert kept(cluster__replicas=2, cluster__hardware=gpu) == (False, True)


def test_lengths_of_the_explained_steps(changes: list[str]) -> None:
    """Step 8: 22 ms, 9 ms, under 4 ms, and the ratio of the bandwidths."""

    def milliseconds(prefill: int | None, *more: str) -> float:
        known = Catalog()
        scenario = load_scenario("quickstart", more, known)
        return float(explain(scenario, Step.of(60, 900, prefill), known)["step"]["total_us"]) / 1000

    assert f"{milliseconds(800):.0f} ms. Without it" in " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{milliseconds(None):.0f}" == "9"
    assert milliseconds(None, changes[1]) < 4
    gpu = Catalog().gpu(changes[1].split("=", 1)[1])
    assert gpu.hbm_bytes_per_s / Catalog().gpu("h100-sxm").hbm_bytes_per_s == pytest.approx(3.6, abs=0.05)


def test_size_of_the_trace() -> None:
    """Step 5 counts its requests."""
    lines = (ROOT / "workloads" / "traces" / "azure_example.csv").read_text(encoding="utf-8").splitlines()
    assert f"With {len(lines) - 1} requests" in PAGE.read_text(encoding="utf-8")
