"""Classes that come by themselves, tenants with prefixes of their own, and bounds on answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.unit.workload.generated import play

from servetwin.request import Request
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]
CHAT = {"name": "chat", "share": 3, "outputs": 20}
BATCH = {"name": "batch", "arrivals": {"process": "bursts", "size": 4, "interval_s": 10}, "priority": 5, "prompts": 900}


def of(requests: list[Request], name: str) -> list[Request]:
    return [request for request in requests if request.class_name == name]


def what(requests: list[Request]) -> list[tuple[Any, ...]]:
    return [(r.arrival_ps, r.prompt_tokens, r.output_tokens, r.priority, r.deadline_ps) for r in requests]


def test_a_class_with_arrivals_comes_beside_the_others(bench: dict[str, Any], stream_of: Build) -> None:
    requests = list(stream_of({**bench, "classes": [CHAT, BATCH]}, requests=2_000))
    assert [r.arrival_ps for r in requests] == sorted(r.arrival_ps for r in requests)
    assert [r.id for r in requests] == list(range(2_000))
    batch, chat = of(requests, "batch"), of(requests, "chat")
    assert [r.arrival_ps for r in batch] == [10 * PS_PER_S * (number // 4) for number in range(len(batch))]
    assert {(r.prompt_tokens, r.priority) for r in batch} == {(900, 5)}
    assert {r.output_tokens for r in chat} == {20}
    span = requests[-1].arrival_ps / PS_PER_S
    assert abs(len(chat) - 8 * span) < 5 * np.sqrt(8 * span)


def test_a_class_that_comes_by_itself_leaves_the_others_as_they_were(bench: dict[str, Any], stream_of: Build) -> None:
    other = {"name": "other", "prompts": 7}
    whole = {"outputs": 50, "prompts": 500}
    alone = list(stream_of({**bench, "classes": [CHAT, other]}, duration_ps=300 * PS_PER_S))
    beside = list(stream_of({**bench, "classes": [CHAT, other, {**BATCH, **whole}]}, duration_ps=300 * PS_PER_S))
    for name in ("chat", "other"):
        assert what(of(alone, name)) == what(of(beside, name))
    assert len(of(beside, "batch")) == 120


def test_a_new_rate_of_one_class_leaves_the_others_as_they_were(bench: dict[str, Any], stream_of: Build) -> None:
    def tenants(rate: float) -> list[Request]:
        classes = [
            {"name": name, "arrivals": {"rate_per_s": each}, "prompts": bench["prompts"], "outputs": bench["outputs"],
             "prefixes": {"groups": 5, "tokens": {"distribution": "uniform", "min": 50, "max": 99}}}
            for name, each in (("a", rate), ("b", 2.0))
        ]  # fmt: skip
        return list(stream_of({"classes": classes}, duration_ps=300 * PS_PER_S))

    few, many = tenants(1.0), tenants(4.0)
    assert what(of(few, "b")) == what(of(many, "b"))
    assert [r.segments[0] for r in of(few, "b")] == [r.segments[0] for r in of(many, "b")]
    assert len(of(many, "a")) > 3 * len(of(few, "a"))
    same = min(len(of(few, "a")), 200)
    assert [r.prompt_tokens for r in of(few, "a")][:same] == [r.prompt_tokens for r in of(many, "a")][:same]


def test_tenants_share_their_prefixes_with_nobody(bench: dict[str, Any], stream_of: Build) -> None:
    """A prefix of the whole workload is everybody's; one of a class is its own."""
    own = {"name": "own", "prefixes": {"groups": 2, "tokens": 64}}
    content = {**bench, "prefixes": {"groups": 3, "tokens": 32}, "classes": [{"name": "a"}, {"name": "b"}, own]}
    requests = list(stream_of(content, requests=600))
    keys = {name: {r.segments[0] for r in of(requests, name)} for name in ("a", "b", "own")}
    assert keys["a"] == keys["b"] == {(("prefix", group), 32) for group in range(3)}
    assert keys["own"] == {(("prefix", "own", group), 64) for group in range(2)}
    for request in requests:
        assert sum(tokens for _, tokens in request.segments) == request.prompt_tokens
        assert request.segments[-1][0] == ("request", request.id)


def test_half_of_what_prompts_start_with_may_be_the_workloads(bench: dict[str, Any], stream_of: Build) -> None:
    documents = {"corpus": 4, "tokens": 10, "per_request": 2}
    content = {**bench, "prefixes": {"groups": 3, "tokens": 32}, "classes": [{"name": "a"}, {"name": "b"}]}
    content["classes"][1]["documents"] = documents
    requests = list(stream_of(content, requests=300))
    assert {r.segments[0] for r in of(requests, "a")} == {r.segments[0] for r in of(requests, "b")}
    assert {key[:2] for r in of(requests, "b") for key, _ in r.segments[1:3]} == {("document", "b")}
    assert all(len(r.segments) == 2 for r in of(requests, "a"))


def test_sessions_of_a_class_beside_single_requests(bench: dict[str, Any], stream_of: Build) -> None:
    talks = {"name": "talks", "sessions": {"turns": 3, "think_time_s": 2}}
    requests = play(stream_of({**bench, "classes": [talks, {"name": "asks"}]}, requests=900))
    assert len(requests) == 900
    assert {r.session_id for r in of(requests, "asks")} == {-1}
    sessions = {r.session_id for r in of(requests, "talks")}
    assert len(of(requests, "talks")) == pytest.approx(3 * len(sessions), abs=2)
    assert len(of(requests, "talks")) > 2 * len(of(requests, "asks")), "a start is three requests"


def test_a_class_may_be_a_closed_loop(bench: dict[str, Any], stream_of: Build) -> None:
    loop = {"name": "loop", "arrivals": {"process": "closed-loop", "concurrency": 3, "think_time_s": 1}}
    requests = play(stream_of({**bench, "classes": [{"name": "open"}, loop]}, requests=2_000), service_s=2.0)
    own = of(requests, "loop")
    assert [r.arrival_ps for r in own] == [3 * PS_PER_S * (number // 3) for number in range(len(own))]
    assert len(requests) == 2_000
    assert len(of(requests, "open")) > 1_500


def test_a_limit_holds_all_classes(bench: dict[str, Any], stream_of: Build) -> None:
    content = {**bench, "classes": [CHAT, BATCH], "max_concurrency": 2}
    requests = play(stream_of(content, requests=100), service_s=1.0)
    assert len(requests) == 100
    assert requests[-1].arrival_ps == pytest.approx(49 * PS_PER_S, abs=PS_PER_S / 1000), "two each second"


def test_an_answer_ends_by_itself_or_at_its_bound(bench: dict[str, Any], stream_of: Build) -> None:
    free = [r.output_tokens for r in stream_of(bench, requests=500)]
    bound = [r.output_tokens for r in stream_of({**bench, "max_tokens": 250}, requests=500)]
    assert bound == [min(length, 250) for length in free]
    assert 100 < bound.count(250) < 400


def test_bounds_may_differ_by_request_and_class(bench: dict[str, Any], stream_of: Build) -> None:
    bounds = {"distribution": "uniform", "min": 100, "max": 300}
    content = {**bench, "max_tokens": bounds, "classes": [{"name": "a"}, {"name": "b", "max_tokens": 20}]}
    requests = list(stream_of(content, requests=500))
    assert {r.output_tokens for r in of(requests, "b")} == {20}
    assert max(r.output_tokens for r in of(requests, "a")) <= 300
    free = {**bench, "classes": [{"name": "a"}, {"name": "b"}]}
    lengths = [r.output_tokens for r in stream_of(free, requests=500)]
    assert all(r.output_tokens <= length for r, length in zip(requests, lengths, strict=True))


def test_without_end_of_sequence_every_answer_is_full(bench: dict[str, Any], stream_of: Build) -> None:
    del bench["outputs"]
    content = {**bench, "ignore_eos": True, "max_tokens": {"distribution": "uniform", "min": 10, "max": 30}}
    lengths = {r.output_tokens for r in stream_of(content, requests=500)}
    assert lengths == set(range(10, 31))


LONGEST = [
    40,
    {"distribution": "uniform", "min": 1, "max": 40},
    {"distribution": "lognormal", "mean": 9, "std": 50, "max": 40},
    {"distribution": "empirical", "values": [40, 7]},
    {"distribution": "percentiles", "points": [[0, 1], [100, 40]]},
]


@pytest.mark.parametrize("outputs", LONGEST)
def test_a_bound_that_no_answer_reaches_is_refused(outputs: Any, bench: dict[str, Any], stream_of: Build) -> None:
    """The longest answer has 40 tokens: a bound of 40 changes nothing, one of 39 does."""
    content = {**bench, "outputs": outputs}
    with pytest.raises(ValueError, match="max_tokens has no effect: it is 40, and no answer is longer than 40 tokens"):
        stream_of({**content, "max_tokens": 40}, requests=1)
    assert max(r.output_tokens for r in stream_of({**content, "max_tokens": 39}, requests=200)) == 39


def test_a_bound_counts_where_any_answer_reaches_it(bench: dict[str, Any], stream_of: Build) -> None:
    """Of the classes without a bound of their own, and of branches."""
    content, forks = {**bench, "outputs": 40}, {"probability": 1.0, "branches": 2, "prompts": 5, "steps": 1}
    long = {"name": "long", "outputs": 60}
    refused: list[dict[str, Any]] = [
        {"max_tokens": 50, "classes": [{"name": "a"}, {**long, "max_tokens": 55}]},
        {"classes": [{"name": "a", "max_tokens": 50}, long]},
        {"max_tokens": 50, "sessions": {**SESSIONS, "forks": {**forks, "outputs": 50}}},
    ]
    for change in refused:
        with pytest.raises(ValueError, match=r"max_tokens( of class 'a')? has no effect: it is 50"):
            stream_of({**content, **change}, requests=1)
    taken: list[dict[str, Any]] = [
        {"max_tokens": 50, "classes": [{"name": "a"}, long]},
        {"max_tokens": 50, "sessions": {**SESSIONS, "forks": {**forks, "outputs": 51}}},
        {"max_tokens": 50, "outputs": {"distribution": "exponential", "mean": 9}},
    ]
    for change in taken:
        assert max(r.output_tokens for r in play(stream_of({**content, **change}, requests=2_000))) == 50


A = {"name": "a", "arrivals": {"rate_per_s": 1}}
SESSIONS = {"turns": 2, "think_time_s": 1}
RECURRING = {"groups": 2, "tokens": 5, "prompts_per_group": 2}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"classes": [{**A, "share": 2}]}, "share has no effect"),
        ({"classes": [A]}, "arrivals has no effect"),
        ({"arrivals": None, "classes": [A, {"name": "b"}]}, "needs arrivals"),
        ({"classes": [{"name": "a", "arrivals": {"rate_per_s": "inf"}}, {"name": "b"}]}, "all-at-once"),
        ({"arrivals": {"rate_per_s": "inf"}, "classes": [A, {"name": "b"}]}, "'a' would never come"),
        ({"classes": [{"name": "a", "prefixes": RECURRING}, {"name": "b"}]}, "whole workload"),
        ({"prefixes": RECURRING, "classes": [A, {"name": "b"}]}, "cannot be combined with class arrivals"),
        ({"prefixes": RECURRING, "documents": {"corpus": 3, "tokens": 5, "per_request": 1}}, "documents"),
        ({"sessions": SESSIONS, "classes": [{"name": "a", "sessions": SESSIONS}]}, "sessions has no effect"),
        ({"classes": [{"name": "a", "slo": {}}]}, "slo needs a limit"),
        ({"classes": [{"name": "a", "slo": {"tpot_ms": 0}}]}, "tpot_ms"),
        ({"classes": [{"name": "a", "slo": {"e2e_ms": "5"}}]}, "e2e_ms"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_concurrency": 2.5}, "max_concurrency"),
        ({"max_concurrency": True}, "max_concurrency"),
        ({"max_concurrency": 2, "sessions": SESSIONS}, "cannot be combined with sessions"),
        ({"max_concurrency": 2, "classes": [{"name": "a", "sessions": SESSIONS}]}, "cannot be combined with sessions"),
        (
            {"max_concurrency": 2, "arrivals": {"process": "closed-loop", "concurrency": 2}},
            "cannot be combined with process: closed-loop",
        ),
        ({"ignore_eos": True}, "outputs has no effect with ignore_eos"),
        ({"ignore_eos": True, "outputs": None}, "needs max_tokens with ignore_eos"),
        ({"ignore_eos": True, "outputs": None, "max_tokens": 5, "classes": [CHAT]}, "outputs has no effect"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 9, "classes": [{"name": "a", "max_tokens": 5}]}, "max_tokens has no effect"),
    ],
)
def test_mistakes_are_refused_by_name(
    bench: dict[str, Any], change: dict[str, Any], named: str, stream_of: Build
) -> None:
    with pytest.raises(ValueError, match=named):
        stream_of({**bench, **change}, requests=1)


@pytest.mark.parametrize("part", ["documents", "sessions", "prefixes", "max_tokens"])
def test_a_trace_brings_these_itself(part: str, stream_of: Build) -> None:
    values = {"documents": {"corpus": 3, "tokens": 5, "per_request": 1}, "sessions": SESSIONS, "max_tokens": 5}
    value = values.get(part, {"groups": 1, "tokens": 5})
    with pytest.raises(ValueError, match=f"{part} has no effect beside trace"):
        stream_of({"trace": {"path": "t"}, part: value})
    with pytest.raises(ValueError, match=f"{part} of class 'a' has no effect beside trace"):
        stream_of({"trace": {"path": "t"}, "classes": [{"name": "a", part: value}]})


def test_equal_tenants_draw_different_numbers(bench: dict[str, Any], stream_of: Build) -> None:
    """Each quantity of each class, and of the workload, has a random stream of its own."""
    sizes = {"distribution": "uniform", "min": 1, "max": 1_000_000}
    tenant = {
        "arrivals": {"rate_per_s": 1}, "prompts": sizes, "outputs": {**sizes, "min": 999_999}, "max_tokens": sizes,
        "prefixes": {"groups": 1, "tokens": sizes}, "documents": {"corpus": 1, "tokens": sizes, "per_request": 1},
    }  # fmt: skip
    content = {**tenant, "classes": [{"name": "common"}, {"name": "a", **tenant}, {"name": "b", **tenant}]}
    requests = list(stream_of(content, requests=300))
    found = [of(requests, name) for name in ("common", "a", "b")]
    numbers = {
        "arrivals": [[r.arrival_ps for r in own[:20]] for own in found],
        "bounds": [[r.output_tokens for r in own[:20]] for own in found],
        "prompts": [[r.segments[-1][1] for r in own[:20]] for own in found],
        "prefixes": [own[0].segments[0][1] for own in found],
        "documents": [own[0].segments[1][1] for own in found],
    }
    for quantity, values in numbers.items():
        assert values[0] != values[1] != values[2] != values[0], quantity
