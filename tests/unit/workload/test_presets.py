"""The presets generate what their sources say, within stated tolerances.

The figures are quoted from the first comment of each file in ``workloads/``, where their sources stand.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.unit.workload.generated import play, shared_tokens, statistics

from servetwin.workload.stream import RequestStream

WORKLOADS = Path(__file__).parents[3] / "workloads"
REQUESTS = 20_000

#: Preset → figure → (what the source says, relative tolerance).
QUOTED: dict[str, dict[str, tuple[float, float]]] = {
    "chat": {
        "prompt.mean": (1155, 0.03), "prompt.p50": (1020, 0.02), "prompt.p90": (2734, 0.03), "prompt.cv": (0.96, 0.05),
        "output.mean": (211, 0.03), "output.p50": (129, 0.03), "output.p90": (424, 0.02), "output.p99": (601, 0.03),
        "output.cv": (0.77, 0.03), "rate": (5.53, 0.03), "gap.cv": (1.09, 0.05), "shared": (0, 0),
    },
    "code": {
        "prompt.mean": (2048, 0.03), "prompt.p50": (1469, 0.03), "prompt.p90": (5188, 0.03), "prompt.p99": (7436, 0.01),
        "prompt.cv": (0.96, 0.03), "output.mean": (27.9, 0.05), "output.p50": (13, 0.01), "output.p90": (55, 0.03),
        "output.p99": (251, 0.06), "output.cv": (2.15, 0.10), "rate": (2.57, 0.15), "gap.cv": (4.5, 0.15),
        "shared": (0, 0),
    },
    "reasoning": {
        "prompt.mean": (282, 0.05), "prompt.p50": (258, 0.02), "prompt.p90": (455, 0.03),
        "output.mean": (1139, 0.04), "output.p50": (704, 0.03), "output.p90": (1993, 0.04), "output.p99": (8598, 0.06),
        "output.cv": (1.29, 0.05), "shared": (0, 0),
    },
    "summarization": {
        "prompt.mean": (9540, 0.02), "output.mean": (170, 0.03), "output.p10": (85, 0.03), "output.p50": (151, 0.03),
        "output.p90": (277, 0.03), "shared": (0, 0),
    },
    "rag": {
        "prompt.mean": (3015, 0.03), "prompt.p50": (3126, 0.06), "prompt.p90": (3477, 0.06), "output.mean": (255, 0.03),
        "output.p50": (219, 0.05), "output.p90": (479, 0.10), "output.cv": (0.61, 0.05),
    },
    "agent": {"prompt.mean": (8596, 0.05), "output.mean": (182, 0.03), "shared": (0.59, 0.05)},
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", QUOTED)
def test_a_preset_has_the_statistics_of_its_source(
    name: str, seed: int, stream_of: Callable[..., RequestStream]
) -> None:
    content = yaml.safe_load((WORKLOADS / f"{name}.yaml").read_text())
    figures = statistics(play(stream_of(content, requests=REQUESTS, seed=seed)))
    off = {
        figure: (figures[figure], quoted)
        for figure, (quoted, tolerance) in QUOTED[name].items()
        if abs(figures[figure] - quoted) > tolerance * quoted
    }
    assert not off


def test_the_quoted_figures_stand_in_the_files() -> None:
    for name, figures in QUOTED.items():
        text = (WORKLOADS / f"{name}.yaml").read_text().replace(",", "")
        for figure, (quoted, _) in figures.items():
            shown = "59 %" if figure == "shared" and quoted else f"{quoted:g}"
            assert quoted == 0 or shown in text, f"{name}: {figure} {shown}"


def test_few_documents_make_most_of_the_retrievals(stream_of: Callable[..., RequestStream]) -> None:
    content = yaml.safe_load((WORKLOADS / "rag.yaml").read_text())
    requests = play(stream_of(content, requests=REQUESTS))
    drawn: dict[int, int] = {}
    for request in requests:
        documents = [key[1] for key, _ in request.segments if key[0] == "document"]
        assert len(set(documents)) == 6
        for document in documents:
            drawn[document] = drawn.get(document, 0) + 1
    counts = sorted(drawn.values(), reverse=True)
    share = sum(counts[: round(0.03 * 8302)]) / sum(counts)
    assert share == pytest.approx(0.60, abs=0.05), "3 % of the documents, 60 % of the retrievals (RAGCache)"


def test_agents_fork_and_join(stream_of: Callable[..., RequestStream]) -> None:
    content = yaml.safe_load((WORKLOADS / "agent.yaml").read_text())
    requests = play(stream_of(content, requests=3_000))
    kinds = [request.segments[-1][0][0] for request in requests]
    assert {"session", "branch", "request"} == set(kinds)
    assert max(shared_tokens(requests)) > 10_000
