"""Streams of requests: bounds, classes, prefixes, and the same requests whatever else is switched on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servetwin.request import Request
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]
Facts = Callable[[Request], tuple[Any, ...]]


def test_requests_bound_the_stream(bench: dict[str, Any], stream_of: Build) -> None:
    stream = stream_of(bench, requests=2_500)
    requests = list(stream)
    assert stream.expected == len(requests) == 2_500
    assert [r.id for r in requests] == list(range(2_500))
    assert stream.max_tokens_seen == max(r.prompt_tokens + r.output_tokens for r in requests)
    assert all(r.segments == () and not r.continues and r.deadline_ps == -1 for r in requests)


def test_duration_bounds_the_stream(bench: dict[str, Any], stream_of: Build) -> None:
    every = list(stream_of(bench, requests=2_000))
    end = every[700].arrival_ps
    stream = stream_of(bench, duration_ps=end)
    assert [r.id for r in stream] == list(range(700)), "nobody arrives at the end itself or later"
    assert stream.expected is None
    assert len(list(stream_of(bench, requests=10, duration_ps=end))) == 10


def test_more_requests_begin_with_the_same_ones(bench: dict[str, Any], stream_of: Build, facts: Facts) -> None:
    few = [facts(r) for r in stream_of(bench, requests=1_500)]
    many = [facts(r) for r in stream_of(bench, requests=5_000)]
    assert many[:1_500] == few


def test_seeds_differ(bench: dict[str, Any], stream_of: Build, facts: Facts) -> None:
    a, b = ([facts(r) for r in stream_of(bench, requests=50, seed=seed)] for seed in (0, 1))
    assert not {x[1] for x in a} & {y[1] for y in b}


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": {"distribution": "lognormal", "mean": 900, "std": 900}},
        {"outputs": 3},
        {"sampling": "top-p"},
    ],
)
def test_changing_outputs_leaves_arrivals_and_prompts_alone(
    bench: dict[str, Any], change: dict[str, Any], stream_of: Build
) -> None:
    before = [(r.arrival_ps, r.prompt_tokens) for r in stream_of(bench, requests=3_000)]
    after = [(r.arrival_ps, r.prompt_tokens) for r in stream_of({**bench, **change}, requests=3_000)]
    assert before == after


def test_changing_one_quantity_leaves_the_others_alone(bench: dict[str, Any], stream_of: Build) -> None:
    base = list(stream_of(bench, requests=2_000))

    def same(content: dict[str, Any], *fields: str) -> bool:
        other = list(stream_of(content, requests=2_000))
        return all(getattr(a, f) == getattr(b, f) for a, b in zip(base, other, strict=True) for f in fields)

    assert same({**bench, "prompts": 5}, "arrival_ps", "output_tokens")
    assert same({**bench, "arrivals": {"rate_per_s": 2}}, "prompt_tokens", "output_tokens")
    assert same({**bench, "classes": [{"name": "a"}, {"name": "b"}]}, "arrival_ps", "prompt_tokens", "output_tokens")
    with_prefix = {**bench, "prefixes": {"groups": 5, "tokens": 100}}
    assert same(with_prefix, "arrival_ps", "output_tokens")
    questions = [r.prompt_tokens - 100 for r in stream_of(with_prefix, requests=2_000)]
    assert questions == [r.prompt_tokens for r in base]


def test_lengths_are_independent_of_each_other(bench: dict[str, Any], stream_of: Build) -> None:
    requests = list(stream_of(bench, requests=20_000))
    gaps = np.diff([r.arrival_ps for r in requests], prepend=0)
    columns = [gaps, [r.prompt_tokens for r in requests], [r.output_tokens for r in requests]]
    off_diagonal = np.corrcoef(columns)[np.triu_indices(3, 1)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(20_000)


PROGRAM = """
import hashlib
from pathlib import Path
from servetwin.streams import Streams
from servetwin.workload.build import build_stream
from servetwin.workload.spec import WorkloadSpec
content = {
    "arrivals": {"process": "gamma", "rate_per_s": 3, "cv": 2},
    "prefixes": {"groups": 7, "tokens": {"distribution": "uniform", "min": 5, "max": 99}, "zipf_exponent": 1.0},
    "sessions": {"turns": {"distribution": "exponential", "mean": 3}, "think_time_s": 1},
    "prompts": {"distribution": "lognormal", "mean": 300, "std": 300},
    "outputs": {"distribution": "empirical", "values": [3, 5, 8]},
    "classes": [{"name": "a", "slo": {"ttft_ms": 5}}, {"name": "b", "share": 2, "priority": 3}],
}
stream = build_stream(WorkloadSpec.model_validate(content), Streams(5), requests=3000, duration_ps=None, base=Path())
facts = []
for request in stream:
    while request is not None:
        facts.append((request.id, request.arrival_ps, request.prompt_tokens, request.output_tokens, request.segments,
                      request.class_name, request.deadline_ps))
        request = next(iter(stream.on_finished(request, request.arrival_ps + 10**12)), None)
print(len(facts), hashlib.sha256(repr(facts).encode()).hexdigest())
"""


def test_the_same_seed_gives_the_same_requests_in_every_process() -> None:
    outputs = set()
    for hash_seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert outputs.pop().startswith("3000 ")


@pytest.mark.parametrize("seed", range(3))
def test_classes_have_their_share_and_their_terms(bench: dict[str, Any], stream_of: Build, seed: int) -> None:
    bench["classes"] = [
        {"name": "chat", "share": 3, "slo": {"ttft_ms": 500}},
        {"name": "batch", "share": 1, "priority": 7, "prompts": 9_000, "outputs": 5},
    ]
    requests = list(stream_of(bench, requests=8_000, seed=seed))
    chat = [r for r in requests if r.class_name == "chat"]
    batch = [r for r in requests if r.class_name == "batch"]
    assert len(chat) + len(batch) == 8_000
    assert abs(len(chat) - 6_000) < 5 * np.sqrt(8_000 * 0.75 * 0.25)
    assert all(r.deadline_ps == r.arrival_ps + PS_PER_S // 2 and r.priority == 0 for r in chat)
    assert all(r.deadline_ps == -1 and r.priority == 7 for r in batch)
    assert {(r.prompt_tokens, r.output_tokens) for r in batch} == {(9_000, 5)}
    assert max(r.prompt_tokens for r in chat) <= 1_500


def test_a_class_has_draws_of_its_own(bench: dict[str, Any], stream_of: Build) -> None:
    lengths = {"distribution": "uniform", "min": 1, "max": 1000}
    bench["prompts"] = None
    first = {**bench, "classes": [{"name": "a", "prompts": lengths}, {"name": "b", "prompts": lengths}]}
    second = {**bench, "classes": [{"name": "a", "prompts": 5}, {"name": "b", "prompts": lengths}]}
    before, after = (
        [r.prompt_tokens for r in stream_of(content, requests=500) if r.class_name == "b"]
        for content in (first, second)
    )
    assert before == after


def test_prefix_groups_are_said_in_segments(bench: dict[str, Any], stream_of: Build) -> None:
    tokens = {"distribution": "uniform", "min": 10, "max": 500}
    bench["prefixes"] = {"groups": 4, "tokens": tokens}
    requests = list(stream_of(bench, requests=1_000))
    lengths: dict[Any, set[int]] = {}
    for request in requests:
        (key, prefix), (own, question) = request.segments
        assert prefix + question == request.prompt_tokens
        assert 50 <= question <= 1_500
        assert own == ("request", request.id)
        lengths.setdefault(key, set()).add(prefix)
    assert len(lengths) == 4
    assert all(len(found) == 1 for found in lengths.values()), "a group has one prefix"


@pytest.mark.parametrize(("exponent", "seed"), [(0.0, 0), (1.0, 1), (1.5, 2)])
def test_groups_follow_zipf(bench: dict[str, Any], stream_of: Build, exponent: float, seed: int) -> None:
    number, groups = 20_000, 6
    bench["prefixes"] = {"groups": groups, "tokens": 10, "zipf_exponent": exponent}
    found = Counter(r.segments[0][0][1] for r in stream_of(bench, requests=number, seed=seed))
    weights = np.arange(1, groups + 1) ** -exponent
    for group, share in enumerate(weights / weights.sum()):
        assert abs(found[group] - number * share) < 5 * np.sqrt(number * share * (1 - share))


def test_recurring_prompts_are_cycled(bench: dict[str, Any], stream_of: Build) -> None:
    bench["prefixes"] = {"groups": 10, "tokens": 100, "prompts_per_group": 10, "order": "cycled"}
    requests = list(stream_of(bench, requests=350))
    prompts = [(r.prompt_tokens, r.segments) for r in requests]
    assert len(set(prompts)) == 100
    assert prompts[100:] == prompts[:-100]
    assert [r.segments[0][0][1] for r in requests[:12]] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert Counter(p[1][0] for p in set(prompts)).most_common()[-1][1] == 10
    assert len({r.output_tokens for r in requests}) > 100, "answers are drawn anew"


def test_recurring_prompts_at_random_cover_all(bench: dict[str, Any], stream_of: Build) -> None:
    bench["prefixes"] = {"groups": 3, "tokens": 100, "prompts_per_group": 4, "zipf_exponent": 1}
    bench["classes"] = [{"name": "a"}, {"name": "b"}]
    requests = list(stream_of(bench, requests=6_000))
    found = Counter(r.segments for r in requests)
    assert len(found) == 12
    weights = {group: 1 / (group + 1) / (1 + 1 / 2 + 1 / 3) for group in range(3)}
    for segments, seen in found.items():
        share = weights[segments[0][0][1]] / 4
        assert abs(seen - 6_000 * share) < 5 * np.sqrt(6_000 * share)
    assert {r.class_name for r in requests} == {"a", "b"}


def test_a_closed_loop_goes_on_until_the_bound(bench: dict[str, Any], stream_of: Build) -> None:
    bench["arrivals"] = {"process": "closed-loop", "concurrency": 3, "think_time_s": 2}
    stream = stream_of(bench, requests=5)
    first = list(stream)
    assert [r.arrival_ps for r in first] == [0, 0, 0]
    (fourth,) = stream.on_finished(first[1], 7 * PS_PER_S)
    assert (fourth.id, fourth.arrival_ps) == (3, 9 * PS_PER_S)
    assert stream.on_finished(first[0], 8 * PS_PER_S)
    assert not stream.on_finished(fourth, 11 * PS_PER_S), "five requests were asked for"


def test_a_refused_client_waits_before_it_comes_back(bench: dict[str, Any], stream_of: Build) -> None:
    bench["arrivals"] = {"process": "closed-loop", "concurrency": 1, "retry_after_s": 3}
    stream = stream_of(bench, requests=5)
    (first,) = stream
    first.outcome = "rejected"
    (second,) = stream.on_finished(first, 10)
    assert second.arrival_ps == 10 + 3 * PS_PER_S


def test_a_closed_loop_sends_the_same_requests_at_any_concurrency(bench: dict[str, Any], stream_of: Build) -> None:
    def play(clients: int) -> list[tuple[int, int, int]]:
        content = {**bench, "arrivals": {"process": "closed-loop", "concurrency": clients}}
        stream = stream_of(content, requests=40)
        pending = list(stream)
        done = []
        while pending:
            request = pending.pop(0)
            done.append((request.id, request.prompt_tokens, request.output_tokens))
            pending += stream.on_finished(request, request.arrival_ps + 5)
        return sorted(done)

    assert play(1) == play(7)
    assert [number for number, _, _ in play(3)] == list(range(40))


def test_open_streams_have_no_follow_ups(bench: dict[str, Any], stream_of: Build) -> None:
    stream = stream_of(bench, requests=5)
    assert not any(stream.on_finished(r, r.arrival_ps + 1) for r in stream)


def test_files_of_lengths_are_found_from_the_base(bench: dict[str, Any], stream_of: Build, tmp_path: Path) -> None:
    (tmp_path / "lengths.txt").write_text("11\n13\n")
    bench["outputs"] = {"distribution": "empirical", "file": "lengths.txt"}
    assert {r.output_tokens for r in stream_of(bench, requests=100, base=tmp_path)} == {11, 13}
