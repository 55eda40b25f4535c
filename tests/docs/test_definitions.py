"""The page about results names every key, column, bucket and outcome that a run writes, and no other."""

from __future__ import annotations

import re
from functools import cache

import pytest
import yaml
from tests.docs.blocks import ROOT

import servetwin
from servetwin.errors import ScenarioError
from servetwin.records import LEDGER_BUCKETS
from servetwin.request import OUTCOMES
from servetwin.results.summary import STATISTICS
from servetwin.scenario.unbuilt import UNBUILT


@cache
def _result() -> servetwin.Result:
    return servetwin.run("quickstart", run__requests=1000)


@cache
def _section(title: str) -> str:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def _first_cells(title: str) -> set[str]:
    """The names in the first column of the tables of a section, ``X.*`` written out."""
    rows = [line.split("|")[1] for line in _section(title).splitlines() if line.startswith("| `")]
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    wild = {name for name in names if name.endswith(".*")}
    return (names - wild) | {name[:-1] + statistic for name in wild for statistic in STATISTICS}


def test_summary_keys() -> None:
    """All of them, and only them."""
    assert _first_cells("`summary.json`") == set(_result().summary())


def test_request_columns() -> None:
    """All of them, and only them."""
    assert _first_cells("`requests.parquet`") == set(_result().requests().columns)


def test_timeseries_columns() -> None:
    """Each is named."""
    text = _section("`timeseries.parquet`")
    assert [name for name in _result().timeseries().columns if f"`{name}`" not in text] == []


def test_ledger_buckets_and_outcomes() -> None:
    """All buckets, and only they; every outcome."""
    assert _first_cells("`ledger.json`") == set(LEDGER_BUCKETS)
    assert [name for name in OUTCOMES if f"`{name}`" not in _section("`requests.parquet`")] == []


def test_limits_name_what_is_refused() -> None:
    """Each option that this version refuses is on the page that says so."""
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert [option.path for option in UNBUILT if option.path.rsplit(".", 1)[-1] not in text] == []


@pytest.mark.parametrize(
    "option",
    [
        "control: {planner: x}",
        "cluster: {hardware: h100-sxm, parallel: {data: 2}}",
        "cluster: {hardware: h100-sxm, kv_tiers: {cpu: 1}}",
    ],
)
def test_limits_are_errors(option: str) -> None:
    """What the README calls refused is refused."""
    overrides = {f"{part}": value for part, value in yaml.safe_load(option).items()}
    with pytest.raises(ScenarioError, match="does not have"):
        servetwin.run("quickstart", **overrides)
