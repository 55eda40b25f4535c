"""What a GPU profile leaves out is null in the results, never an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from servetwin.catalog import Catalog
from servetwin.report.tables import print_result
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.run import execute

GPUS = Path(__file__).resolve().parents[3] / "hardware_profiles" / "gpus"
COST = ("cost_usd", "cost_per_million_output_tokens")


def run(pools: list[dict[str, Any]], catalog: Catalog) -> dict[str, Any]:
    scenario = validate_mapping(
        {
            "name": "tiny",
            "model": "qwen3-0.6b",
            "cluster": {"pools": [{"name": f"pool-{index}", **pool} for index, pool in enumerate(pools)]},
            "workload": {"arrivals": {"rate_per_s": 50}, "prompts": 50, "outputs": 5},
            "run": {"requests": 20},
        },
        catalog,
    )
    result = execute(scenario, catalog=catalog)
    print_result(result.summary(), result.ledger(), Console(quiet=True))
    return result.summary()


@pytest.fixture
def mine(tmp_path: Path) -> Catalog:
    """A catalogue with an H100 of unknown power and price."""
    (tmp_path / "gpus").mkdir()
    data = yaml.safe_load((GPUS / "h100-sxm.yaml").read_text(encoding="utf-8"))
    del data["tdp"]
    data |= {"name": "mystery", "aliases": [], "price_per_hour_usd": None}
    (tmp_path / "gpus" / "mystery.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return Catalog([tmp_path])


def test_without_price_and_power(mine: Catalog) -> None:
    summary = run([{"hardware": "mystery"}], mine)
    assert summary["completed"] == 20
    assert [key for key in summary if ("cost" in key or "energy" in key) and summary[key] is not None] == []
    assert set(COST) <= set(summary)
    assert any("extrapolation" in warning for warning in summary["warnings"])


def test_one_pool_without_a_price_leaves_the_whole_cost_undefined(mine: Catalog) -> None:
    summary = run([{"hardware": "mystery"}, {"hardware": "h100-sxm"}], mine)
    assert all(summary[key] is None for key in COST)
    known = run([{"hardware": "h100-sxm"}], mine)
    assert all(known[key] > 0 for key in COST)
    assert not any("extrapolation" in warning for warning in known["warnings"])
