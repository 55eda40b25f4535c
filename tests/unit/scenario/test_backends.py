"""Who prices the steps of a scenario: the roofline, or measured operators, with what they say about themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.physics.fake_tables import FakeTables

import servetwin
from servetwin.catalog import Catalog
from servetwin.errors import CatalogError, ScenarioError
from servetwin.physics.tables import TableStepTime
from servetwin.scenario import prices, resolve
from servetwin.scenario.build import build
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import to_yaml
from servetwin.studies.explain import explain
from servetwin.studies.step import Step

TABLES = {"physics": {"backend": "tables"}}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> FakeTables:
    """The package is installed, and small."""
    fake = FakeTables(without=["all_reduce"])
    monkeypatch.setattr(prices, "open_database", lambda gpu, engine: fake)
    monkeypatch.setattr(resolve, "check_available", lambda gpu: None)
    return fake


def test_the_package_is_missing(
    base: dict[str, Any], load_it: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import PackageNotFoundError

    from servetwin.physics import aiconfigurator

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(aiconfigurator.metadata, "version", missing)
    with pytest.raises(ScenarioError, match="not installed") as caught:
        load_it(deep_merge(base, TABLES))
    assert caught.value.path == "physics.backend"
    assert caught.value.file is not None
    assert 'pip install "servetwin[tables]"' in str(caught.value)


def test_a_gpu_without_measurements(
    base: dict[str, Any], load_it: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from servetwin.physics import aiconfigurator

    monkeypatch.setattr(aiconfigurator.metadata, "version", lambda name: aiconfigurator.VERSION)
    with pytest.raises(CatalogError, match="no measured operators for this GPU"):
        load_it(deep_merge(base, deep_merge(TABLES, {"cluster": {"hardware": "l4"}})))


def test_a_run_says_what_is_not_measured(base: dict[str, Any], tables: FakeTables) -> None:
    given = deep_merge(base, deep_merge(TABLES, {"cluster": {"parallel": {"tensor": 2}}}))
    scenario = validate_mapping(given)
    assert isinstance(build(scenario).prices[0], TableStepTime)
    warnings = servetwin.run(scenario).summary()["warnings"]
    assert [text for text in warnings if "the roofline prices all-reduce (no all_reduce)" in text]
    assert "backend: tables" in to_yaml(scenario)
    assert not [text for text in servetwin.run(base).summary()["warnings"] if "measure" in text]


def test_tables_repeat_and_differ_from_the_roofline(base: dict[str, Any], tables: FakeTables) -> None:
    one, two = (servetwin.run(deep_merge(base, TABLES)) for _ in range(2))
    assert one.requests().equals(two.requests())
    assert not one.requests().equals(servetwin.run(base).requests())


def test_a_slower_cluster_is_slower_by_the_factor(base: dict[str, Any], tables: FakeTables) -> None:
    given = deep_merge(base, TABLES)
    plain, slow = (
        build(validate_mapping(deep_merge(given, {"cluster": {"slowdown": factor}}))).prices[0] for factor in (1.0, 2.5)
    )
    shape = Step.of(16, 500, None).shape(plain.windows, ())
    assert slow.price(shape).total_ps == pytest.approx(2.5 * plain.price(shape).total_ps, rel=1e-4)


def test_explain_says_where_prices_come_from(base: dict[str, Any], tables: FakeTables) -> None:
    catalog = Catalog()
    scenario = validate_mapping(deep_merge(base, deep_merge(TABLES, {"cluster": {"parallel": {"tensor": 2}}})))
    document = explain(scenario, Step.of(32, 500, None), catalog)
    found = {operator["name"]: operator["provenance"] for operator in document["operators"]}
    assert found["attention.qkv"] == "table"
    assert found["attention.decode"] == "interpolated"
    assert found["all-reduce"] == "fallback"
    assert found["host"] == "roofline"
    assert document["inputs"]["backend"] == "tables"
    assert any("all-reduce (no all_reduce)" in text for text in document["warnings"])
    plain = explain(validate_mapping(base), Step.of(32, 500, None), catalog)
    assert {operator["provenance"] for operator in plain["operators"]} == {"roofline"}


@pytest.mark.parametrize("value", [-0.1, 1.5, "much", float("nan")])
def test_wrong_jitter(value: object, base: dict[str, Any], load_it: Callable[..., Any]) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_it(deep_merge(base, {"physics": {"jitter": value}}))
    assert caught.value.path == "physics.jitter"


def test_jitter_belongs_to_the_configuration(base: dict[str, Any]) -> None:
    noisy = validate_mapping(deep_merge(base, {"physics": {"jitter": 0.05}}))
    assert "jitter: 0.05" in to_yaml(noisy)
    assert "jitter" not in to_yaml(validate_mapping(base))
