"""Any valid workload: ordered arrivals, unique ids, exact counts, and segments that add up to the prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.kernel import BOUNDARY, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request
from servetwin.streams import Streams
from servetwin.units import PS_PER_MS
from servetwin.workload.source import Source
from servetwin.workload.spec import WorkloadSpec, build_stream

LENGTH = st.one_of(
    st.integers(1, 900),
    st.fixed_dictionaries(
        {"distribution": st.just("normal"), "mean": st.integers(1, 500), "std": st.floats(0, 300)},
        optional={"max": st.integers(1, 700)},
    ),
    st.fixed_dictionaries(
        {"distribution": st.just("lognormal"), "mean": st.integers(1, 500), "std": st.floats(0, 3000)}
    ),
    st.fixed_dictionaries({"distribution": st.just("exponential"), "mean": st.floats(0.1, 500)}),
    st.integers(1, 50).flatmap(
        lambda low: st.fixed_dictionaries(
            {"distribution": st.just("uniform"), "min": st.just(low), "max": st.integers(low, 60)}
        )
    ),
)
THINK = st.one_of(st.just(0), st.floats(0, 3), st.just({"distribution": "exponential", "mean": 1}))
ARRIVALS = st.one_of(
    st.fixed_dictionaries({"rate_per_s": st.floats(0.1, 1e6)}),
    st.fixed_dictionaries({"process": st.just("gamma"), "rate_per_s": st.floats(0.1, 99), "cv": st.floats(0.01, 9)}),
    st.fixed_dictionaries({"process": st.just("constant"), "rate_per_s": st.floats(0.1, 1e9)}),
    st.fixed_dictionaries(
        {"process": st.just("bursts"), "size": st.integers(1, 9)}, optional={"interval_s": st.floats(0.1, 9)}
    ),
    st.fixed_dictionaries(
        {"process": st.just("on-off"), "rate_per_s": st.floats(1, 50), "on_s": st.floats(0.1, 5),
         "off_s": st.floats(0.1, 5), "off_rate_per_s": st.floats(0, 3)}
    ),
    st.fixed_dictionaries(
        {
            "process": st.just("staged"),
            "exact_counts": st.booleans(),
            "stages": st.lists(
                st.fixed_dictionaries({"rate_per_s": st.floats(0.5, 20), "duration_s": st.floats(0.1, 4)}),
                min_size=1, max_size=3,
            ),
        }
    ),
    st.fixed_dictionaries(
        {"process": st.just("closed-loop"), "concurrency": st.integers(1, 9), "think_time_s": THINK,
         "ramp_s": st.floats(0, 2)}
    ),
)  # fmt: skip
PREFIXES = st.fixed_dictionaries(
    {"groups": st.integers(1, 9), "tokens": LENGTH}, optional={"zipf_exponent": st.floats(0, 5)}
)
SESSIONS = st.fixed_dictionaries({"turns": LENGTH, "think_time_s": THINK}, optional={"turn_prompts": LENGTH})
CLASSES = st.just([{"name": "a", "slo": {"ttft_ms": 10}}, {"name": "b", "share": 0.5, "priority": 1, "outputs": 3}])
WORKLOAD = st.fixed_dictionaries(
    {"arrivals": ARRIVALS, "prompts": LENGTH, "outputs": LENGTH},
    optional={"prefixes": PREFIXES, "sessions": SESSIONS, "classes": CLASSES},
)


def simulate(content: dict[str, Any], requests: int, seed: int, service_ps: int, refuse: int) -> list[Request]:
    """Every request in order of arrival; one in ``refuse`` is refused, the others end after ``service_ps``."""
    env = new_environment()
    seen: list[Request] = []

    def submit(request: Request) -> None:
        assert request.arrival_ps == env.now
        seen.append(request)
        if refuse and request.id % refuse == 0:
            request.outcome = "rejected"
            source.finished(request, int(env.now))
        else:
            end = int(env.now) + service_ps
            call_at(env, end, priority(BOUNDARY), lambda: source.finished(request, end))

    spec = WorkloadSpec.model_validate(content)
    stream = build_stream(spec, Streams(seed), requests=requests, duration_ps=None, base=Path())
    source = Source(env, stream, submit)
    env.run()
    assert source.exhausted
    if seen:
        assert stream.max_tokens_seen == max(r.prompt_tokens + r.output_tokens for r in seen)
    return seen


@given(WORKLOAD, st.integers(1, 60), st.integers(0, 5), st.integers(1, 2000), st.sampled_from([0, 0, 3]))
@settings(max_examples=150, deadline=None)
def test_any_workload_adds_up(content: dict[str, Any], requests: int, seed: int, service_ms: int, refuse: int) -> None:
    seen = simulate(content, requests, seed, service_ms * PS_PER_MS, refuse)
    ids = [r.id for r in seen]
    assert len(set(ids)) == len(ids) <= requests
    assert all(0 <= number < requests for number in ids)
    finite = content["arrivals"].get("process") == "staged" or (
        content["arrivals"].get("process") == "bursts" and "interval_s" not in content["arrivals"]
    )
    if not finite and not (refuse and "sessions" in content):
        assert len(ids) == requests
    for request in seen:
        assert request.prompt_tokens >= 1
        assert request.output_tokens >= 1
        if request.segments:
            assert sum(tokens for _, tokens in request.segments) == request.prompt_tokens
            assert all(tokens >= 1 for _, tokens in request.segments)
        assert (request.deadline_ps >= request.arrival_ps) == (request.class_name == "a")


@given(WORKLOAD, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_open_workloads_are_the_same_on_a_slow_and_a_fast_system(content: dict[str, Any], seed: int) -> None:
    if content["arrivals"].get("process") == "closed-loop":
        content = {**content, "arrivals": {"rate_per_s": 3}}

    def contents(service_ps: int) -> list[tuple[Any, ...]]:
        seen = simulate(content, 40, seed, service_ps, 0)
        return sorted((r.id, r.prompt_tokens, r.output_tokens, r.session_id, r.turn, r.class_name) for r in seen)

    assert contents(PS_PER_MS) == contents(10_000 * PS_PER_MS)
