"""Sessions: every turn repeats the whole history, whatever the order in which answers come."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from servetwin.request import Request
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]


@pytest.fixture
def chat() -> dict[str, Any]:
    return {
        "arrivals": {"rate_per_s": 2},
        "sessions": {
            "turns": {"distribution": "uniform", "min": 1, "max": 5},
            "think_time_s": {"distribution": "exponential", "mean": 3},
            "turn_prompts": {"distribution": "uniform", "min": 5, "max": 50},
        },
        "prompts": {"distribution": "uniform", "min": 100, "max": 900},
        "outputs": {"distribution": "uniform", "min": 10, "max": 300},
    }


def play(stream: RequestStream, seed: int = 0, lose: float = 0.0) -> list[Request]:
    """Finish requests in a random order, each after a random time; the requests in order of creation."""
    rng = random.Random(seed)
    pending, seen = list(stream), []
    seen += pending
    while pending:
        request = pending.pop(rng.randrange(len(pending)))
        if rng.random() < lose:
            request.outcome = "failed"
        for follow in stream.on_finished(request, request.arrival_ps + rng.randrange(10 * PS_PER_S)):
            pending.append(follow)
            seen.append(follow)
    return seen


def by_session(requests: list[Request]) -> dict[int, list[Request]]:
    sessions: dict[int, list[Request]] = {}
    for request in requests:
        sessions.setdefault(request.session_id, []).append(request)
    return sessions


def test_a_turn_is_the_history_and_new_tokens(chat: dict[str, Any], stream_of: Build) -> None:
    chat["prefixes"] = {"groups": 3, "tokens": {"distribution": "uniform", "min": 20, "max": 60}}
    requests = play(stream_of(chat, requests=600))
    assert len(requests) == 600
    for number, turns in by_session(requests).items():
        assert [r.turn for r in turns] == list(range(len(turns)))
        assert len({r.segments[0] for r in turns}) == 1, "a session keeps its system prompt"
        for before, after in pairwise(turns):
            new = after.prompt_tokens - before.prompt_tokens - before.output_tokens
            assert 5 <= new <= 50
            assert after.id == before.id + 1
        for turn in turns:
            (_, head), (key, history) = turn.segments
            assert key == ("session", number)
            assert head + history == turn.prompt_tokens
            assert turn.continues


def test_think_time_counts_from_the_visible_token(chat: dict[str, Any], stream_of: Build) -> None:
    chat["sessions"] = {"turns": 3, "think_time_s": 4}
    stream = stream_of(chat, requests=6)
    first = next(iter(stream))
    (second,) = stream.on_finished(first, first.arrival_ps + 7)
    assert second.arrival_ps == first.arrival_ps + 7 + 4 * PS_PER_S
    assert 100 <= second.prompt_tokens - first.prompt_tokens - first.output_tokens <= 900, "as prompts"


def test_the_number_of_requests_is_exact_and_the_last_session_is_cut(chat: dict[str, Any], stream_of: Build) -> None:
    chat["sessions"]["turns"] = 4
    stream = stream_of(chat, requests=10)
    requests = play(stream)
    assert stream.expected == 10
    assert sorted(r.id for r in requests) == list(range(10))
    assert sorted(len(turns) for turns in by_session(requests).values()) == [2, 4, 4]


def test_sessions_do_not_depend_on_how_the_system_fares(chat: dict[str, Any], stream_of: Build) -> None:
    def contents(seed: int) -> dict[int, tuple[Any, ...]]:
        return {
            r.id: (r.prompt_tokens, r.output_tokens, r.segments, r.session_id, r.turn)
            for r in play(stream_of(chat, requests=500), seed)
        }

    assert contents(1) == contents(2)


def test_a_lost_turn_ends_the_session(chat: dict[str, Any], stream_of: Build) -> None:
    chat["sessions"]["turns"] = 5
    requests = play(stream_of(chat, requests=500), lose=0.3)
    for turns in by_session(requests).values():
        lost = [r.outcome == "failed" for r in turns]
        assert not any(lost[:-1])
        assert lost[-1] or len(turns) == 5


def test_no_turn_starts_after_the_duration(chat: dict[str, Any], stream_of: Build) -> None:
    end = 60 * PS_PER_S
    requests = play(stream_of(chat, duration_ps=end))
    assert max(r.arrival_ps for r in requests) < end
    assert any(r.turn > 0 for r in requests)


def test_closed_loop_clients_hold_one_session_after_the_other(chat: dict[str, Any], stream_of: Build) -> None:
    chat["arrivals"] = {"process": "closed-loop", "concurrency": 2, "think_time_s": 1}
    chat["sessions"]["turns"] = 3
    stream = stream_of(chat, requests=20)
    active: set[int] = set()
    pending, count = list(stream), 0
    while pending:
        request = pending.pop(0)
        count += 1
        active.add(request.session_id)
        assert len(active) <= 2
        follows = stream.on_finished(request, request.arrival_ps + PS_PER_S)
        if all(follow.session_id != request.session_id for follow in follows):
            active.remove(request.session_id)
        pending += follows
    assert count == 20


def test_turns_keep_class_and_get_deadlines_of_their_own(chat: dict[str, Any], stream_of: Build) -> None:
    chat["classes"] = [{"name": "a", "slo": {"ttft_ms": 100}}, {"name": "b", "priority": 2, "outputs": 7}]
    for turns in by_session(play(stream_of(chat, requests=400))).values():
        assert len({r.class_name for r in turns}) == 1
        for r in turns:
            if r.class_name == "a":
                assert r.deadline_ps == r.arrival_ps + PS_PER_S // 10
            else:
                assert (r.deadline_ps, r.priority, r.output_tokens) == (-1, 2, 7)


def test_finished_sessions_are_forgotten(chat: dict[str, Any], stream_of: Build) -> None:
    stream = stream_of(chat, requests=300)
    play(stream)
    assert stream._live == {}  # type: ignore[attr-defined]
