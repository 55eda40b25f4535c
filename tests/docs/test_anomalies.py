"""What the page about parallelism says of better hardware that makes runs longer, at a sample of its pairs."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.docs.test_generated import generate

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
