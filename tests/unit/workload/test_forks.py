"""Agents that fork: what branches share, when they start and join, and what the engine's cache finds of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.workload.generated import followups, play

import servetwin
from servetwin.errors import ScenarioError
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]


@pytest.fixture
def agent() -> dict[str, Any]:
    """A turn of 100 → 20 tokens forks into two branches of two steps, which join in a second turn."""
    return {
        "arrivals": {"rate_per_s": 1},
        "prompts": 100,
        "outputs": 20,
        "sessions": {
            "turns": 2,
            "think_time_s": 4,
            "turn_prompts": 7,
            "forks": {
                "probability": 1,
                "branches": 2,
                "prompts": 30,
                "outputs": 5,
                "steps": 2,
                "step_prompts": 9,
                "tool_time_s": 3,
            },
        },
    }


def test_by_hand(agent: dict[str, Any], stream_of: Build) -> None:
    stream = stream_of(agent, requests=6)
    first = next(iter(stream))
    start = first.arrival_ps
    assert (first.id, first.turn, first.prompt_tokens, first.segments) == (0, 0, 100, ((("session", 0), 100),))

    one, two = followups(stream, first, start + 10)
    trunk = (("session", 0), 120)
    for branch, number in ((one, 1), (two, 3)):
        assert (branch.id, branch.turn, branch.arrival_ps) == (number, number, start + 10), "at once, no tool yet"
        assert branch.segments == (trunk, (("branch", 0, number), 30))
        assert (branch.prompt_tokens, branch.output_tokens, branch.continues) == (150, 5, True)
        assert branch.session_id == 0

    (one_more,) = followups(stream, one, start + 1000)
    assert (one_more.id, one_more.arrival_ps) == (2, start + 1000 + 3 * PS_PER_S)
    assert one_more.segments == (trunk, (("branch", 0, 1), 30 + 5 + 9))
    assert followups(stream, one_more, start + 9 * PS_PER_S) == [], "the other branch is still under way"

    (two_more,) = followups(stream, two, start + 2000)
    assert two_more.segments == (trunk, (("branch", 0, 3), 44))
    (joined,) = followups(stream, two_more, start + 8 * PS_PER_S)
    assert joined.arrival_ps == start + (9 + 4) * PS_PER_S, "think time counts from the last branch to end"
    # The history, the last answers of both branches, and the turn's own new tokens.
    assert joined.segments == ((("session", 0), 120 + 2 * 5 + 7),)
    assert (joined.id, joined.turn, joined.prompt_tokens) == (5, 5, 137)
    assert followups(stream, joined, start + 20 * PS_PER_S) == []
    assert stream.max_tokens_seen == 120 + 44 + 5


def test_every_number_of_requests_is_met(agent: dict[str, Any], stream_of: Build) -> None:
    for number in range(1, 20):
        requests = play(stream_of(agent, requests=number))
        assert sorted(request.id for request in requests) == list(range(number))


def test_forks_leave_the_turns_as_they_were(agent: dict[str, Any], stream_of: Build) -> None:
    sizes = {"distribution": "uniform", "min": 50, "max": 500}
    agent |= {"prompts": sizes, "outputs": sizes}
    agent["sessions"] |= {"turns": {"distribution": "uniform", "min": 1, "max": 6}, "turn_prompts": sizes}
    agent["sessions"]["forks"] |= {"probability": 0.5, "branches": {"distribution": "uniform", "min": 1, "max": 4}}
    forked = stream_of(agent, requests=4_000)
    agent["sessions"]["forks"] = None
    plain = stream_of(agent, requests=1_500)

    def turns(stream: RequestStream) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for request in play(stream):
            if request.segments[-1][0][0] == "session":
                found.setdefault(request.session_id, []).append((request.turn, request.output_tokens))
        return found

    a, b = turns(forked), turns(plain)
    whole = [number for number in a if number in b and number < max(b) and number < max(a)]
    assert len(whole) > 300
    for number in whole:
        assert [output for _, output in a[number]] == [output for _, output in b[number]]
    assert any(turn > index for number in whole for index, (turn, _) in enumerate(a[number])), "some have forked"


def test_the_share_of_answers_that_fork(agent: dict[str, Any], stream_of: Build) -> None:
    agent["sessions"] |= {"turns": 5}
    agent["sessions"]["forks"] |= {"probability": 0.25, "branches": 3, "steps": 1}
    del agent["sessions"]["forks"]["step_prompts"], agent["sessions"]["forks"]["tool_time_s"]
    requests = play(stream_of(agent, requests=20_000))
    trunk = [r for r in requests if r.segments[-1][0][0] == "session"]
    sessions = len({r.session_id for r in requests})
    forks = (len(requests) - len(trunk)) / 3
    chances = len(trunk) - sessions
    assert abs(forks - 0.25 * chances) < 5 * (0.1875 * chances) ** 0.5


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_lost_branch_ends_the_session_with_the_other_branches(
    lost: int, agent: dict[str, Any], stream_of: Build
) -> None:
    stream = stream_of(agent, requests=6)
    pending, seen = list(stream), []
    while pending:
        request = pending.pop(0)
        seen.append(request)
        request.outcome = "rejected" if request.id == lost else "completed"
        pending += followups(stream, request, request.arrival_ps + 5)
    assert 5 not in {request.id for request in seen}, "no turn joins what is not complete"
    assert len({request.id for request in seen}) == len(seen)


def test_a_closed_loop_goes_on_after_the_whole_session(agent: dict[str, Any], stream_of: Build) -> None:
    agent["arrivals"] = {"process": "closed-loop", "concurrency": 3}
    requests = play(stream_of(agent, requests=600))
    assert len(requests) == 600
    spans: dict[int, list[int]] = {}
    for request in requests:
        spans.setdefault(request.session_id, []).append(request.arrival_ps)
    starts = sorted(min(times) for times in spans.values())
    ends = sorted(max(times) for times in spans.values())
    for started, ended in zip(starts[3:], ends, strict=False):
        assert started > ended, "never more than three sessions"


def test_nothing_starts_after_the_end(agent: dict[str, Any], stream_of: Build) -> None:
    requests = play(stream_of(agent, duration_ps=20 * PS_PER_S))
    assert max(request.arrival_ps for request in requests) < 20 * PS_PER_S
    assert len(requests) > 30


def test_what_is_said_does_not_depend_on_the_system(agent: dict[str, Any], stream_of: Build) -> None:
    def contents(service_s: float) -> list[tuple[Any, ...]]:
        found = play(stream_of(agent, requests=300), service_s)
        return sorted((r.id, r.prompt_tokens, r.output_tokens, r.segments, r.session_id) for r in found)

    assert contents(0.1) == contents(100.0)


def test_the_cache_finds_the_trunk_in_every_branch(agent: dict[str, Any]) -> None:
    """In the engine: 160 + 33 tokens of the first turn leave 192 in the cache, for the last is never computed.

    A branch finds these twelve blocks; its second step finds the trunk and the branch: 193 + 30 + 33 − 1 = 255 tokens,
    which fill fifteen blocks. The joining turn finds the trunk alone, for the branches stand elsewhere.
    """
    agent |= {"prompts": 160, "outputs": 33, "arrivals": {"process": "bursts", "size": 1}}
    agent["sessions"]["forks"]["outputs"] = 33
    scenario = {"model": "llama-3.1-8b", "cluster": {"hardware": "h100-sxm"}, "workload": agent, "run": {"requests": 6}}
    for stepping in ("skip-ahead", "every-step", "every-operation"):
        table = servetwin.run(scenario, strict=True, run__stepping=stepping).requests().set_index("request_id")
        assert table["hit_tokens_hbm"].sort_index().tolist() == [0, 192, 240, 192, 240, 192]
        arrivals = table["arrival_s"]
        assert arrivals[1] == arrivals[3], "branches start together"
        assert arrivals[5] == pytest.approx(max(table["last_token_s"][2], table["last_token_s"][4]) + 4)


def test_too_many_parts_are_refused(agent: dict[str, Any], stream_of: Build) -> None:
    agent["sessions"]["forks"]["branches"] = 200_000
    stream = stream_of(agent, duration_ps=100 * PS_PER_S)
    with pytest.raises(ScenarioError, match="200,000 parts") as caught:
        list(stream)
    assert caught.value.path == "workload.sessions.forks.branches"
    assert len(play(stream_of(agent, requests=50))) == 50, "a bound on the requests is bound enough"
    agent["sessions"] |= {"turns": 1_000_000, "forks": None}
    with pytest.raises(ScenarioError, match="1,000,000 parts"):
        list(stream_of(agent, duration_ps=100 * PS_PER_S))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"probability": 0}, "probability"),
        ({"probability": 1.5}, "probability"),
        ({"probability": "often"}, "probability"),
        ({"branches": 0}, "branches"),
        ({"branches": None}, "branches"),
        ({"prompts": None}, "prompts"),
        ({"steps": 1}, "step_prompts has no effect"),
        ({"steps": 1, "step_prompts": None}, "tool_time_s has no effect"),
        ({"tool_time_s": -1}, "tool_time_s"),
        ({"branch": 2}, "branch"),
    ],
)
def test_mistakes_are_refused_by_name(
    change: dict[str, Any], named: str, agent: dict[str, Any], stream_of: Build
) -> None:
    agent["sessions"]["forks"] |= change
    with pytest.raises(ValueError, match=named):
        stream_of(agent, requests=1)


def test_forks_need_a_second_turn(agent: dict[str, Any], stream_of: Build) -> None:
    agent["sessions"]["turns"] = 1
    with pytest.raises(ValueError, match="forks has no effect"):
        stream_of(agent, requests=1)


def test_fixed_answers_leave_no_room_for_outputs_of_branches(agent: dict[str, Any], stream_of: Build) -> None:
    agent |= {"ignore_eos": True, "max_tokens": 5}
    del agent["outputs"]
    with pytest.raises(ValueError, match=r"forks\.outputs has no effect"):
        stream_of(agent, requests=1)
