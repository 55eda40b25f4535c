"""Trace readers under arbitrary content: either a trace that adds up or a ``TraceError`` that names the place."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from servetwin.errors import TraceError
from servetwin.workload.traces.format import Row
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.registry import formats
from servetwin.workload.traces.replay import block_segments
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.trace import Trace, infinite_hit_rate

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def read(content: bytes, **options: Any) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(content)
        return read_trace(TraceSpec(path="trace", **options), Path(folder))


def check(content: bytes, **options: Any) -> Trace | None:
    """Whatever the content is, the answer is a consistent trace or an error with a place in it."""
    try:
        trace = read(content, **options)
    except TraceError as error:
        assert error.file == "trace"
        assert len(str(error)) < 2_000
        return None
    counts = trace.counts
    assert len(trace.times_ps) == len(trace.prompts) == len(trace.outputs) == counts.requests > 0
    assert counts.read == counts.requests + counts.skipped + counts.failed + counts.outside
    assert trace.times_ps.tolist() == sorted(trace.times_ps)
    assert trace.times_ps[0] >= 0
    assert min(trace.prompts) >= 1
    assert min(trace.outputs) >= 1
    return trace


OPTIONS = st.fixed_dictionaries(
    {"skip_bad_rows": st.booleans(), "sort": st.booleans(), "spread_ties": st.booleans()},
    optional={
        "limit": st.integers(1, 5),
        "window_s": st.sampled_from(["0:10", "5:", ":1"]),
        "format": st.sampled_from(["auto", *(known.name for known in formats())]),
        "rate_scale": st.sampled_from([0.1, 3.0]),
    },
)


@given(st.binary(max_size=400), OPTIONS)
@example(b"\x1f\x8b", {"skip_bad_rows": True, "sort": False, "spread_ties": False})
@settings(deadline=None)
def test_any_bytes(content: bytes, options: dict[str, Any]) -> None:
    check(content, **options)
    check(gzip.compress(content), **options)


CELL = st.one_of(
    st.integers(-3, 2_000).map(str),
    st.floats().map(str),
    st.text(max_size=6),
    st.datetimes().map(lambda moment: moment.isoformat(" ")),
    st.sampled_from(
        ["", "nan", "1e3", "2023-11-16 18:15:46.6805900", "2023-02-30 00:00:00", "0001-01-01 00:00:00+23:00"]
    ),
)


@given(st.lists(st.lists(CELL, max_size=4).map(",".join), max_size=6), OPTIONS)
@settings(deadline=None)
def test_any_azure_rows(rows: list[str], options: dict[str, Any]) -> None:
    check("\r\n".join([HEADER, *rows]).encode("utf-8", "surrogatepass"), **options)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
VALUE = st.one_of(st.integers(-1, 600), st.lists(st.integers(-1, 5), max_size=2), JSON)
KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
OBJECT = st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, VALUE))


@given(st.lists(OBJECT | JSON, max_size=6), OPTIONS)
@settings(deadline=None)
def test_any_mooncake_rows(rows: list[Any], options: dict[str, Any]) -> None:
    check("\n".join(map(json.dumps, rows)).encode(), **options)


@st.composite
def good_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for at in draw(st.lists(st.integers(0, 50), min_size=1, max_size=12)):
        ids = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
        last = draw(st.integers(1, 512))
        length = 512 * (len(ids) - 1) + last
        rows.append({"timestamp": at * 1000, "input_length": length, "output_length": 1, "hash_ids": ids})
    return rows


@given(good_rows(), st.data())
@settings(max_examples=60, deadline=None)
def test_good_rows_survive_among_bad_ones(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    lines = [json.dumps(row) for row in rows]
    bad = data.draw(st.lists(st.tuples(st.integers(1, len(lines)), st.sampled_from(["{", "x", "[]"])), max_size=4))
    for place, text in bad:
        lines.insert(place, text)
    trace = check("\n".join(lines).encode(), skip_bad_rows=True, sort=True)
    assert trace is not None
    assert trace.counts.skipped == len(bad)
    expected = sorted(rows, key=lambda row: row["timestamp"])
    blocks = [trace.blocks(index) for index in range(len(trace))]
    assert blocks == [tuple(row["hash_ids"]) for row in expected]
    for ids, tokens in zip(blocks, trace.prompts, strict=True):
        segments = block_segments(ids, tokens, 512)
        assert sum(part for _, part in segments) == tokens
        assert all(0 < part <= 512 for _, part in segments)


@given(good_rows())
@settings(deadline=None)
def test_the_endless_cache_is_a_set_of_prefixes(rows: list[dict[str, Any]]) -> None:
    trace = Trace(512)
    for row in rows:
        trace.add(Row(0, row["input_length"], 1, tuple(row["hash_ids"])))
    seen: set[tuple[int, ...]] = set()
    found = total = 0
    for index in range(len(trace)):
        ids = trace.blocks(index)
        prefixes = [ids[: end + 1] for end in range(len(ids))]
        found += sum(prefix in seen for prefix in prefixes)
        total += len(ids)
        seen.update(prefixes)
    assert infinite_hit_rate(trace) == found / total
