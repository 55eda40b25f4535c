"""What a scenario may write, and what is said about mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError
from tests.unit.acceptance.reading_back import CATALOG, WRITTEN

from servetwin.acceptance.build import build_fates
from servetwin.acceptance.resolve import resolve_acceptance
from servetwin.acceptance.spec import Acceptance, Preset, Rate, Recorded, Survival
from servetwin.errors import CatalogError, FieldError
from servetwin.scenario.messages import explain


class Holder(BaseModel):
    """A scenario with nothing but an acceptance."""

    model_config = ConfigDict(extra="forbid")
    acceptance: Acceptance


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.7, Rate(rate=0.7)), (1, Rate(rate=1.0)), ({"rate": 0.7, "spread": 0.2}, Rate(rate=0.7, spread=0.2)),
        ("gsm8k", Preset(preset="gsm8k")), ({"survival": [0.5, 0.25]}, Survival(survival=(0.5, 0.25))),
        ({"recorded": "a.jsonl", "column": "n"}, Recorded(recorded="a.jsonl", column="n")),
    ],
)  # fmt: skip
def test_forms(written: Any, meant: Any) -> None:
    """What is read is read the same when written out."""
    spec = WRITTEN.validate_python(written)
    assert spec == meant
    assert WRITTEN.validate_python(spec.model_dump()) == spec
    assert WRITTEN.validate_python(spec) == spec


@pytest.mark.parametrize(
    ("written", "path", "says"),
    [
        (1.5, "acceptance", "out of range"),
        (True, "acceptance", "a number from 0 to 1, the name of a preset, or a mapping"),
        ([0.5], "acceptance", "a number from 0 to 1, the name of a preset, or a mapping"),
        ("", "acceptance", "at least 1 character"),
        ({}, "acceptance.survival", "missing"),
        ({"survival": []}, "acceptance.survival", "too few entries"),
        ({"survival": [0.5, 0.6]}, "acceptance", "entry 2 is 0.6, after 0.5"),
        ({"survival": [0.5, 1.6]}, "acceptance.survival.1", "out of range"),
        ({"survival": 0.5}, "acceptance.survival", "wrong type"),
        ({"survival": [0.5], "spread": -1}, "acceptance.spread", "out of range"),
        ({"survival": [0.5], "spread": 9}, "acceptance", "smaller spread"),
        ({"survival": [0.5], "persistence": 2}, "acceptance.persistence", "out of range"),
        (
            {"survival": [0.5], "beyond": {"position": 0, "survival": [0.5]}},
            "acceptance.beyond.position",
            "out of range",
        ),
        ({"rate": "0.7"}, "acceptance.rate", "wrong type"),
        ({"rate": 0.8, "spread": 0.5}, "acceptance", "have the rate 0.8 together; use a spread of at most about 0.35"),
        ({"rate": 0.5, "survival": [0.5]}, "acceptance", "survival and rate are ways to say the same"),
        ({"rate": 0.5, "preset": "gsm8k"}, "acceptance", "rate and preset are ways to say the same"),
        ({"rate": 0.7, "persistence": 0.5}, "acceptance.persistence", "unknown field"),
        ({"recorded": "a.jsonl"}, "acceptance.column", "missing"),
        ({"recorded": "a.jsonl", "column": "n", "spread": 1}, "acceptance.spread", "unknown field"),
    ],
)
def test_mistakes(written: Any, path: str, says: str) -> None:
    """Each with its place, in the words of the program."""
    raw = {"acceptance": written}
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate(raw)
    mistakes = explain(caught.value, Holder, raw)
    found = {".".join(map(str, mistake.path)): mistake for mistake in mistakes}
    assert path in found
    assert says in found[path].message


def test_the_nearest_field_is_named() -> None:
    raw = {"acceptance": {"survivl": [0.5]}}
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate(raw)
    unknown = next(mistake for mistake in explain(caught.value, Holder, raw) if mistake.message == "unknown field")
    assert unknown.nearest == "survival"


def test_the_field_of_another_form_is_not_offered() -> None:
    raw = {"acceptance": {"rate": 0.5, "persistence": 0.5}}
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate(raw)
    unknown = next(mistake for mistake in explain(caught.value, Holder, raw) if mistake.message == "unknown field")
    assert "persistence" not in (unknown.allowed or ()) and unknown.nearest != "persistence"


def test_presets_may_say_as_much_as_scenarios() -> None:
    from servetwin.acceptance.spec import MOST_ENTRIES
    from servetwin.catalog import acceptance
    from servetwin.scenario.draft_methods import METHODS
    from servetwin.specs.drafter import METHOD_NAMES

    assert acceptance.MOST_ENTRIES == MOST_ENTRIES
    assert tuple(METHODS) == METHOD_NAMES
    for spread in (acceptance.MOST_SPREAD, acceptance.MOST_SPREAD * 1.001):
        with pytest.raises(ValidationError, match="differ by" if spread == acceptance.MOST_SPREAD else "less than"):
            Rate(rate=0.5, spread=spread)


def test_the_spread_of_a_rate_says_what_it_is_of() -> None:
    assert "steps that draft one token" in str(Rate.model_fields["spread"].description)


def test_editors_know_all_forms() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra 'test'")
    validator = jsonschema.Draft202012Validator(Holder.model_json_schema())
    for written in (0.7, "gsm8k", {"survival": [0.5]}, {"rate": 0.5}, {"recorded": "a", "column": "b"}):
        assert validator.is_valid({"acceptance": written})
    for written in (1.5, True, {"survivl": [0.5]}, {"rate": 0.5, "persistence": 1}):
        assert not validator.is_valid({"acceptance": written})


def resolved(written: Any, method: str) -> Any:
    return resolve_acceptance(
        WRITTEN.validate_python(written), method, CATALOG.acceptance, "pool.acceptance",
        always_drafts=method not in ("ngram", "suffix"),
    )  # fmt: skip


def test_presets_are_what_their_files_say() -> None:
    spec = resolved("gsm8k", "eagle3")
    assert spec.model_dump(exclude_defaults=True)["survival"] == tuple(
        CATALOG.acceptance("gsm8k")["eagle3"]["survival"]
    )
    assert spec.persistence == CATALOG.acceptance("gsm8k")["eagle3"]["persistence"]
    assert resolved({"preset": "gsm8k", "proposal": 0.2}, "ngram").proposal == 0.2
    assert resolved(0.5, "medusa") == Rate(rate=0.5)


@pytest.mark.parametrize("name", CATALOG.names("acceptance"))
def test_every_preset_can_be_used(name: str, tmp_path: Any) -> None:
    from servetwin.request import Request
    from servetwin.streams import Streams

    for method in CATALOG.acceptance(name):
        spec = resolved(name, method)
        assert len(build_fates(spec, Streams(0), tmp_path).of(Request(0, 0, 1, 50)).matches) == 50


def test_a_preset_without_the_method() -> None:
    with pytest.raises(FieldError, match="gsm8k has no acceptance of this method") as caught:
        resolved("gsm8k", "mtp")
    error = caught.value
    assert (error.path, error.found, error.allowed) == ("pool.acceptance", "mtp", ["eagle3", "ngram"])


def test_an_unknown_preset() -> None:
    with pytest.raises(CatalogError, match="no acceptance of that name") as caught:
        resolved("gms8k", "eagle3")
    assert (caught.value.path, caught.value.nearest) == ("pool.acceptance", "gsm8k")


def test_proposals_are_for_methods_that_look_for_matches() -> None:
    for written in ({"rate": 0.5, "proposal": 0.1}, {"preset": "gsm8k", "proposal": 0.1}):
        with pytest.raises(FieldError, match="eagle3 always drafts") as caught:
            resolved(written, "eagle3")
        assert caught.value.path == "pool.acceptance.proposal"
    assert resolved({"rate": 0.5, "proposal": 0.1}, "suffix").proposal == 0.1


@pytest.mark.parametrize(
    ("text", "says", "path"),
    [
        ("{rate: 0.5, spread: 0.9}", "differ by 0.9 have the rate 0.5 together", ".spread"),
        ("{survival: [0.5], spread: 9}", "differ by 9 have this survival together", ".spread"),
        (
            "{survival: [0.79, 0.7, 0.68, 0.67, 0.64, 0.64, 0.58], persistence: 0.98}", "too few drafts end",
            ".persistence",
        ),
        (
            "{survival: [0.5], beyond: {position: 9, survival: [0.967, 0.543], persistence: 0.9}}",
            "too few drafts end", ".beyond.persistence",
        ),
    ],
)  # fmt: skip
def test_presets_whose_figures_do_not_go_together(text: str, says: str, path: str, tmp_path: Any) -> None:
    """It is their file that is wrong, whatever the scenario says."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\nmethods: {{mtp: {text[:-1]}, source: me, date: now}}}}\n")
    with pytest.raises(CatalogError, match=says) as caught:
        resolved(str(file), "mtp")
    error = caught.value
    assert (error.file, error.path) == (str(file), f"methods.mtp{path}")
    assert isinstance(error.found, float | int) and error.allowed


def test_a_preset_whose_file_is_wrong_or_missing_is_blamed_alone(tmp_path: Any) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    with pytest.raises(CatalogError, match="'methods' is missing") as caught:
        resolved(str(tmp_path / "mine.yaml"), "mtp")
    assert (caught.value.file, caught.value.path) == (str(tmp_path / "mine.yaml"), None)
    with pytest.raises(CatalogError, match="no such acceptance file") as caught:
        resolved(str(tmp_path / "none.yaml"), "mtp")
    assert caught.value.path is None
