"""What the page about parallelism says of slow GPUs, and of better hardware that makes runs longer, at a sample of its
pairs."""

from __future__ import annotations

from types import ModuleType

import pytest
import yaml
from tests.docs.blocks import ROOT
from tests.docs.test_generated import generate

from servetwin.catalog.find import Catalog
from servetwin.scenario.load import validate_mapping
from servetwin.studies.explain import explain
from servetwin.studies.step import Step

anomalies: ModuleType = generate.anomalies
PAIRS = 8


@pytest.mark.parametrize("kind", list(anomalies.BETTER))
def test_means_get_longer_in_pipelines_only(kind: str) -> None:
    found = anomalies.measure(kind, PAIRS)
    assert found.pairs == PAIRS
    if "pipeline" in kind:
        assert 0 < found.longer <= PAIRS // 2 and 0 < found.worst < 0.05
        assert found.later > 0.1
    else:
        assert found.longer == 0 and found.worst < 0 < found.gained
        assert found.later < 0.1


def test_what_the_straggler_of_the_page_costs() -> None:
    """Its scenario, explained: a decode nothing, a prompt of 4,000 tokens a fifth of its speed."""
    page = (ROOT / "docs" / "how-it-works" / "parallelism.md").read_text(encoding="utf-8")
    text = page.partition("<!-- test: file straggler.yaml -->")[2].partition("```yaml\n")[2].partition("```")[0]
    assert "costs a decode nothing" in page and "a prompt of 4,000 tokens a fifth of its speed" in page
    catalog = Catalog()
    scenario = validate_mapping(yaml.safe_load(text), catalog)
    longer = []
    for step in (Step.of(16, 1000, None), Step.of(None, None, 4000)):
        (slow,) = explain(scenario, step, catalog)["stragglers"]
        longer.append(slow["longer"])
    assert longer[0] < 0.005 and 1 - 1 / (1 + longer[1]) == pytest.approx(0.2, abs=0.02)
