"""Any valid workload: ordered arrivals, unique ids, exact counts, and segments that add up to the prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from servetwin.kernel import BOUNDARY, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request
from servetwin.streams import Streams
from servetwin.units import PS_PER_MS
from servetwin.workload.build import build_stream
from servetwin.workload.source import Source
from servetwin.workload.spec import WorkloadSpec

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
LENGTH = LENGTH | st.builds(
    lambda lows, top: {"distribution": "percentiles", "points": [[0, lows[0]], [50, lows[1]], [100, top]]},
    st.lists(st.integers(1, 300), min_size=2, max_size=2).map(sorted),
    st.integers(300, 600),
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
         "off_s": st.floats(0.1, 5), "off_rate_per_s": st.floats(0, 3),
         "phases": st.sampled_from(["fixed", "exponential"])}
    ),
    st.fixed_dictionaries(
        {"process": st.just("diurnal"), "rate_per_s": st.floats(0.5, 1e4), "swing": st.floats(0.01, 1),
         "period_s": st.floats(0.1, 1e5), "peak_s": st.floats(0, 1e6)}
    ),
    st.fixed_dictionaries(
        {"process": st.just("uniform"), "rate_per_s": st.floats(0.1, 1e6), "cv": st.floats(0.001, 0.57)}
    ),
    st.just({"rate_per_s": "inf"}),
    st.fixed_dictionaries(
        {
            "process": st.just("staged"),
            "exact_counts": st.booleans(),
            "stages": st.lists(
                st.fixed_dictionaries(
                    {"rate_per_s": st.floats(0.5, 20), "duration_s": st.floats(0.1, 4)},
                    optional={"end_rate_per_s": st.floats(0, 20)},
                ),
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
FORKS = st.fixed_dictionaries(
    {"probability": st.floats(0.01, 1), "branches": st.integers(1, 4), "prompts": LENGTH, "steps": st.integers(2, 3)},
    optional={"outputs": LENGTH, "step_prompts": LENGTH, "tool_time_s": THINK},
)
SESSIONS = st.fixed_dictionaries(
    {"turns": LENGTH.filter(lambda turns: turns != 1), "think_time_s": THINK},
    optional={"turn_prompts": LENGTH, "forks": FORKS},
)
DOCUMENTS = st.fixed_dictionaries(
    {"corpus": st.integers(5, 30), "tokens": LENGTH, "per_request": st.integers(1, 5)},
    optional={"zipf_exponent": st.floats(0, 5)},
)
CLASSES = st.fixed_dictionaries(
    {"name": st.just("a"), "slo": st.just({"ttft_ms": 10})},
    optional={"prefixes": PREFIXES, "documents": DOCUMENTS},
).flatmap(
    lambda a: st.fixed_dictionaries(
        {"name": st.just("b"), "priority": st.just(1), "outputs": st.just(3)},
        optional={"arrivals": ARRIVALS.filter(lambda process: process.get("rate_per_s") != "inf"),
                  "sessions": SESSIONS, "max_tokens": st.integers(1, 2)},
    ).map(lambda b: [a, b])
)  # fmt: skip
WORKLOAD = st.fixed_dictionaries(
    {"arrivals": ARRIVALS, "prompts": LENGTH, "outputs": LENGTH},
    optional={
        "prefixes": PREFIXES, "documents": DOCUMENTS, "sessions": SESSIONS, "classes": CLASSES,
        "max_tokens": LENGTH.filter(lambda bound: not isinstance(bound, int)),
        "max_concurrency": st.integers(1, 20),
    },
).filter(lambda content: allowed(content))  # fmt: skip


def allowed(content: dict[str, Any]) -> bool:
    """Whether the parts go together."""
    if content["arrivals"].get("rate_per_s") == "inf" and len(processes(content)) > 1:
        return False
    if content.get("max_concurrency") and unlimited(content):
        return False
    try:
        WorkloadSpec.model_validate(content)
    except ValidationError as error:
        # A bound that no answer reaches; anything else fails where it is used.
        return "no answer is longer" not in str(error)
    return True


def parts(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The workload, and its classes."""
    return [content, *content.get("classes", [])]


def processes(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [part["arrivals"] for part in parts(content) if "arrivals" in part]


def unlimited(content: dict[str, Any]) -> bool:
    """Whether the client cannot have a limit of its own."""
    return any("sessions" in part for part in parts(content)) or any(
        process.get("process") == "closed-loop" for process in processes(content)
    )


def ends(process: dict[str, Any]) -> bool:
    return process.get("process") == "staged" or (process.get("process") == "bursts" and "interval_s" not in process)


def simulate(content: dict[str, Any], requests: int, seed: int, service_ps: int, refuse: int) -> list[Request]:
    """Every request in order of arrival; one in ``refuse`` is refused, the others end after ``service_ps``."""
    env = new_environment()
    seen: list[Request] = []

    def submit(request: Request) -> None:
        assert request.arrival_ps == env.now
        seen.append(request)
        if refuse and request.id % refuse == 0:
            request.outcome = "rejected"
            finished(request, int(env.now))
        else:
            end = int(env.now) + service_ps
            call_at(env, end, priority(BOUNDARY), lambda: finished(request, end))

    spec = WorkloadSpec.model_validate(content)
    stream = build_stream(spec, Streams(seed), requests=requests, duration_ps=None, base=Path())
    source = Source(env, stream, submit)
    finished = source.finished
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
    finite = all(ends(process) for process in processes(content))
    if not finite and not (refuse and any("sessions" in part for part in parts(content))):
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
    for part in parts(content):
        if part.get("arrivals", {}).get("process") == "closed-loop":
            part["arrivals"] = {"rate_per_s": 3}

    def contents(service_ps: int) -> list[tuple[Any, ...]]:
        seen = simulate(content, 40, seed, service_ps, 0)
        return sorted((r.id, r.prompt_tokens, r.output_tokens, r.session_id, r.turn, r.class_name) for r in seen)

    assert contents(PS_PER_MS) == contents(10_000 * PS_PER_MS)


@given(WORKLOAD, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_limit_of_the_client_holds(content: dict[str, Any], seed: int) -> None:
    """Never more in flight than allowed, and the limit changes what no request is."""
    if unlimited(content):
        return
    content = {key: value for key, value in content.items() if key != "max_concurrency"}
    free = simulate(content, 30, seed, 700 * PS_PER_MS, 0)
    limited = simulate({**content, "max_concurrency": 3}, 30, seed, 700 * PS_PER_MS, 0)
    assert sorted((r.id, r.prompt_tokens, r.output_tokens, r.class_name) for r in free) == sorted(
        (r.id, r.prompt_tokens, r.output_tokens, r.class_name) for r in limited
    )
    starts = sorted(r.arrival_ps for r in limited)
    assert all(later - earlier >= 700 * PS_PER_MS for earlier, later in zip(starts, starts[3:], strict=False))
