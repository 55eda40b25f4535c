"""Retrieved documents: what is drawn, and what of it a prefix cache could use again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.unit.workload.generated import play, shared_tokens

from servetwin.errors import ScenarioError
from servetwin.request import Segment
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]


def rag(bench: dict[str, Any], **documents: Any) -> dict[str, Any]:
    return {**bench, "documents": {"corpus": 50, "tokens": 100, "per_request": 3, **documents}}


def documents_of(segments: tuple[Segment, ...]) -> list[int]:
    return [key[1] for key, _ in segments if key[0] == "document"]


def test_a_prompt_is_system_prompt_documents_and_question(bench: dict[str, Any], stream_of: Build) -> None:
    content = rag(bench, tokens={"distribution": "uniform", "min": 20, "max": 90})
    content["prefixes"] = {"groups": 2, "tokens": 40}
    requests = list(stream_of(content, requests=400))
    lengths: dict[Any, int] = {}
    plain = [r.prompt_tokens for r in stream_of(bench, requests=400)]
    for request, question in zip(requests, plain, strict=True):
        head, *documents, last = request.segments
        assert head in {(("prefix", 0), 40), (("prefix", 1), 40)}
        assert len({key for key, _ in documents}) == 3, "never the same document twice"
        assert last == (("request", request.id), question), "documents leave the questions as they were"
        assert request.prompt_tokens == sum(tokens for _, tokens in request.segments)
        for key, tokens in documents:
            assert lengths.setdefault(key, tokens) == tokens, "a document has one length"
    assert len(set(lengths.values())) > 20


def test_popular_documents_come_more_often(bench: dict[str, Any], stream_of: Build) -> None:
    """One document a request: no exclusion blurs the Zipf probabilities."""
    number = 20_000
    requests = stream_of(rag(bench, per_request=1, zipf_exponent=1.0), requests=number)
    counts = Counter(document for r in requests for document in documents_of(r.segments))
    weights = 1 / np.arange(1, 51)
    for document, chance in enumerate(weights / weights.sum()):
        assert abs(counts[document] - number * chance) < 5 * np.sqrt(number * chance)


def test_the_popular_first_share_more(bench: dict[str, Any], stream_of: Build) -> None:
    retrieved = rag(bench, corpus=8, zipf_exponent=1.0)
    sorted_ = rag(bench, corpus=8, zipf_exponent=1.0, order="popularity")
    a, b = play(stream_of(retrieved, requests=500)), play(stream_of(sorted_, requests=500))
    for first, second in zip(a, b, strict=True):
        assert sorted(documents_of(first.segments)) == documents_of(second.segments), "the same documents"
    assert sum(shared_tokens(b)) > 1.05 * sum(shared_tokens(a))


def test_a_document_is_shared_only_behind_the_same_beginning(bench: dict[str, Any], stream_of: Build) -> None:
    """By hand, token by token: what an endless cache finds of each prompt is its longest known row of documents."""
    requests = play(stream_of(rag(bench, corpus=3, per_request=2), requests=40))
    known: set[tuple[int, ...]] = set()
    for request, shared in zip(requests, shared_tokens(requests), strict=True):
        first, second = documents_of(request.segments)
        expected = 200 if (first, second) in known else 100 if (first,) in known else 0
        assert shared == expected
        known |= {(first,), (first, second)}


def test_a_session_keeps_its_documents(bench: dict[str, Any], stream_of: Build) -> None:
    content = {**rag(bench), "sessions": {"turns": 3, "think_time_s": 1}}
    sessions: dict[int, set[tuple[int, ...]]] = {}
    for request in play(stream_of(content, requests=300)):
        sessions.setdefault(request.session_id, set()).add(tuple(documents_of(request.segments)))
    assert all(len(found) == 1 for found in sessions.values())
    assert len({next(iter(found)) for found in sessions.values()}) > 50


@pytest.mark.parametrize("exponent", [0.0, 1.0, 30.0, 100.0])
def test_asking_for_all_documents_ends(exponent: float, bench: dict[str, Any], stream_of: Build) -> None:
    """However unpopular the last ones are."""
    content = rag(bench, corpus=40, per_request={"distribution": "uniform", "min": 40, "max": 90})
    content["documents"]["zipf_exponent"] = exponent
    for request in stream_of(content, requests=20):
        assert sorted(documents_of(request.segments)) == list(range(40))


def test_more_documents_than_a_prompt_can_hold(bench: dict[str, Any], stream_of: Build) -> None:
    content = rag(bench, corpus=5_000, per_request={"distribution": "uniform", "min": 1_001, "max": 1_001})
    documents = content["documents"]
    places = {
        "workload.documents.per_request": content,
        "workload.classes.1.documents.per_request": {
            **bench,
            "classes": [{"name": "a", "share": 1e-9}, {"name": "b", "documents": documents}],
        },
    }
    for place, workload in places.items():
        with pytest.raises(ScenarioError, match="1,001 documents") as caught:
            list(stream_of(workload, requests=1))
        assert caught.value.path == place


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"corpus": 0}, "corpus"),
        ({"corpus": 2_000_000}, "corpus"),
        ({"tokens": 0}, "tokens"),
        ({"per_request": 51}, "at most 50"),
        ({"per_request": 0}, "per_request"),
        ({"corpus": 5_000, "per_request": 1_001}, "at most 1000"),
        ({"zipf_exponent": -1}, "zipf_exponent"),
        ({"order": "random"}, "order"),
        ({"order": "popularity", "per_request": 1}, "order has no effect"),
        ({"k": 3}, "k"),
    ],
)
def test_mistakes_are_refused_by_name(
    change: dict[str, Any], named: str, bench: dict[str, Any], stream_of: Build
) -> None:
    with pytest.raises(ValueError, match=named):
        stream_of(rag(bench, **change), requests=1)
