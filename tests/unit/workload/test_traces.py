"""Trace files, good and bad."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servetwin.errors import TraceError
from servetwin.units import PS_PER_MS, PS_PER_S
from servetwin.workload.stream import RequestStream
from servetwin.workload.traces import registry
from servetwin.workload.traces.format import Row
from servetwin.workload.traces.lines import MAX_LINE_BYTES, line_blocks
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.trace import Trace, infinite_hit_rate

Build = Callable[..., RequestStream]
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
AZURE = (
    f"{HEADER}\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:50.9951690,396,109\r\n"
    "2023-11-16 18:15:51.2225670,879,55"
)
MOONCAKE = [
    {"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1024, "output_length": 6, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [7, 1]},
    {"timestamp": 6001.5, "input_length": 1300, "output_length": 8, "hash_ids": [0, 1, 2], "type": "text"},
]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def read(path: Path, **options: Any) -> Trace:
    return read_trace(TraceSpec(path=str(path), **options), Path())


def content(trace: Trace) -> list[Any]:
    """All that a trace says."""
    columns = (trace.times_ps, trace.prompts, trace.outputs, trace.block_ids, trace.block_ends, trace.classes)
    rest = (trace.sessions, trace.turns)
    return [trace.counts, trace.class_names, *(column.tolist() for column in (*columns, *rest))]


def failure(path: Path, **options: Any) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(path, **options)
    assert caught.value.file == str(path)
    assert len(str(caught.value)) < 2_000
    return caught.value


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    path = tmp_path / "azure.csv"
    path.write_bytes(AZURE.encode())
    return path


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    return write(tmp_path / "mooncake.jsonl", MOONCAKE)


def test_azure(azure: Path) -> None:
    trace = read(azure)
    assert trace.times_ps.tolist() == [0, 4_314_579 * 1_000_000, 4_541_977 * 1_000_000]
    assert trace.prompts.tolist() == [374, 396, 879]
    assert trace.outputs.tolist() == [44, 109, 55]
    assert infinite_hit_rate(trace) is None
    assert (trace.counts.read, trace.counts.requests, trace.counts.skipped) == (3, 3, 0)


@pytest.mark.parametrize(
    ("stamp", "later_ps"),
    [
        ("2023-11-16 18:15:47", PS_PER_S),
        ("2023-11-16T18:15:46.5", PS_PER_S // 2),
        ("2023-11-16 18:15:46.000000000001", 1),
        ("2023-11-16 18:15:46.009930Z", 9_930_000_000),
        ("2023-11-16 20:15:47.25+02:00", 5 * PS_PER_S // 4),
        ("2024-01-01 18:15:46", 46 * 86_400 * PS_PER_S),
    ],
)
def test_azure_times(tmp_path: Path, stamp: str, later_ps: int) -> None:
    path = write(tmp_path / "t.csv", [HEADER, "2023-11-16 18:15:46.0000000,1,1", f"{stamp},1,1"])
    assert read(path).times_ps.tolist() == [0, later_ps]


def test_a_row_beyond_the_longest_run(tmp_path: Path) -> None:
    """The results could not hold its time; sped up, it may stay."""
    rows = [HEADER, "2024-02-28 18:15:46,1,1", "2023-02-28 18:15:46,1,1"]
    path = write(tmp_path / "t.csv", rows)
    error = failure(path, sort=True)
    assert (error.path, "365 days" in str(error.found)) == ("line 2", True)
    assert "90 simulated days" in error.message
    assert read(path, sort=True, rate_scale=5.0).times_ps.tolist() == [0, 73 * 86_400 * PS_PER_S]
    assert read(path, sort=True, limit=1).times_ps.tolist() == [0]


def test_azure_columns_are_found_by_name(tmp_path: Path) -> None:
    header = "NumImages, GeneratedTokens,TIMESTAMP ,ContextTokens"
    path = write(
        tmp_path / "t.csv", [header, '3,44,"2023-11-16 18:15:46.68",374', "", "0, 45,2023-11-16 18:15:46.68 ,375"]
    )
    trace = read(path)
    assert (trace.prompts.tolist(), trace.outputs.tolist()) == ([374, 375], [44, 45])


def test_mooncake(mooncake: Path, stream_of: Build) -> None:
    stream = stream_of({"trace": {"path": str(mooncake)}})
    requests = list(stream)
    assert [r.arrival_ps for r in requests] == [0, 3 * PS_PER_S, 3 * PS_PER_S, 60_015 * PS_PER_MS // 10]
    assert [r.prompt_tokens for r in requests] == [1300, 1024, 600, 1300]
    assert requests[0].segments == ((0, 512), (1, 512), (2, 276))
    assert requests[1].segments == ((0, 512), (1, 512))
    assert requests[2].segments == ((7, 512), (1, 88))
    assert not any(r.continues for r in requests)
    assert stream.max_tokens_seen == 1308


def test_chains_decide_what_an_endless_cache_finds(mooncake: Path, stream_of: Build) -> None:
    stream = stream_of({"trace": {"path": str(mooncake)}})
    # Rows 2 and 4 are found whole (2 + 3 blocks); block 1 of row 3 follows another block 0, so it is new.
    assert stream.trace_block_hit_rate_infinite == 5 / 10


def test_rejected_requests_count_in_the_hit_rate(mooncake: Path, stream_of: Build) -> None:
    stream = stream_of({"trace": {"path": str(mooncake)}}, requests=1)
    assert len(list(stream)) == 1
    assert stream.trace_block_hit_rate_infinite == 5 / 10


def test_public_azure_traces_read_fast(shared_traces: Path) -> None:
    for name, rows, seconds in (("conv", 19_366, 3_502), ("code", 8_819, 3_436)):
        start = time.process_time()
        trace = read(shared_traces / f"AzureLLMInferenceTrace_{name}.csv")
        assert time.process_time() - start < 0.3 * 3, "0.3 CPU-seconds asked for, here with room for a busy machine"
        assert trace.counts.requests == len(trace.times_ps) == rows
        assert trace.times_ps[-1] / PS_PER_S == pytest.approx(seconds, abs=1)


def test_public_mooncake_trace_reads_fast_and_has_the_known_hit_rate(shared_traces: Path, stream_of: Build) -> None:
    start = time.process_time()
    stream = stream_of({"trace": {"path": "mooncake_conversation_trace.jsonl.gz"}}, base=shared_traces)
    assert time.process_time() - start < 1.0 * 3, "1 CPU-second asked for, here with room for a busy machine"
    assert stream.trace_block_hit_rate_infinite == pytest.approx(0.366, abs=0.002)
    requests = list(stream)
    assert len(requests) == stream.expected == 12_031
    assert max(r.prompt_tokens for r in requests) == 126_195
    assert all(sum(tokens for _, tokens in r.segments) == r.prompt_tokens for r in requests)


@pytest.mark.parametrize("kind", ["azure", "mooncake"])
def test_gzip_and_byte_order_mark_are_seen_from_the_content(
    azure: Path, mooncake: Path, tmp_path: Path, kind: str
) -> None:
    plain = azure if kind == "azure" else mooncake
    odd = tmp_path / "trace.txt"
    odd.write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain.read_bytes() + b"\n\n"))
    assert content(read(odd)) == content(read(plain)) == content(read(odd, format=kind))


def test_options_shape_the_replay(tmp_path: Path) -> None:
    rows = [f"2023-11-16 18:15:{second:02d}.0,{second + 1},1" for second in (10, 11, 11, 13, 15, 19)]
    path = write(tmp_path / "t.csv", [HEADER, *rows])

    def seconds(**options: Any) -> list[float]:
        return [at / PS_PER_S for at in read(path, **options).times_ps]

    assert seconds() == [0, 1, 1, 3, 5, 9]
    assert seconds(rate_scale=2) == [0, 0.5, 0.5, 1.5, 2.5, 4.5]
    assert seconds(window_s="1:5") == [0, 0, 2]
    assert seconds(window_s="3:") == [0, 2, 6]
    assert seconds(window_s="1:5", rate_scale=0.5) == [0, 0, 4]
    assert seconds(limit=2) == [0, 1]
    assert seconds(window_s="1:", limit=2) == [0, 0]
    assert seconds(spread_ties=True) == [0, 1, 2, 3, 5, 9]
    counts = read(path, window_s="1:5").counts
    assert (counts.read, counts.requests, counts.outside) == (5, 3, 2), "nothing is read beyond the window"
    counts = read(path, window_s="1:5", sort=True).counts
    assert (counts.read, counts.requests, counts.outside) == (6, 3, 3)
    assert failure(path, window_s="100:").path == "workload.trace.window_s"


def test_ties_at_the_end_stay(tmp_path: Path) -> None:
    rows = [{**MOONCAKE[0], "timestamp": at} for at in (0, 0, 0, 9, 9)]
    trace = read(write(tmp_path / "t.jsonl", rows), spread_ties=True)
    assert [at / PS_PER_MS for at in trace.times_ps] == [0, 3, 6, 9, 9]


def test_rows_out_of_order_are_refused_or_sorted(tmp_path: Path) -> None:
    rows = [{**MOONCAKE[0], "timestamp": at, "output_length": n + 1} for n, at in enumerate((50, 20, 90, 20))]
    path = write(tmp_path / "t.jsonl", rows)
    error = failure(path)
    assert error.path == "line 2"
    assert "sort" in str(error)
    assert failure(path, skip_bad_rows=True).path == "line 2", "a row out of order is not a bad row"
    trace = read(path, sort=True)
    assert [at // PS_PER_MS for at in trace.times_ps] == [0, 0, 30, 70]
    assert trace.outputs.tolist() == [2, 4, 1, 3]


def test_bounds_of_the_run_hold_for_traces(azure: Path, stream_of: Build) -> None:
    content = {"trace": {"path": azure.name}, "classes": [{"name": "only", "priority": 2}]}
    stream = stream_of(content, requests=2)
    assert [(r.id, r.class_name, r.priority) for r in stream] == [(0, "only", 2), (1, "only", 2)]
    assert stream.expected == 2
    assert len(list(stream_of(content, duration_ps=4_314_579 * 1_000_000))) == 1


BAD_AZURE = [
    "2023-11-16 18:15:47,5",
    "2023-11-16 18:15:47,5,5,5",
    "2023-11-16 18:15:47,0,5",
    "2023-11-16 18:15:47,5,0",
    "2023-11-16 18:15:47,-5,5",
    "2023-11-16 18:15:47,nan,5",
    "2023-11-16 18:15:47,5,inf",
    "2023-11-16 18:15:47,5.0,5",
    "2023-11-16 18:15:47,1_0,5",
    "2023-11-16 18:15:47,١٢,5",
    "2023-11-16 18:15:47,,5",
    f"2023-11-16 18:15:47,{'9' * 5000},5",
    "2023-11-16 18:15:47,1000000001,5",
    "2023-11-31 18:15:47,5,5",
    "2023-11-16 25:15:47,5,5",
    "0000-00-00 00:00:00,5,5",
    "16.11.2023 18:15:47,5,5",
    "1700158546,5,5",
    "2023-11-16 18:15:47.1234567890123,5,5",
    ",5,5",
    "\x00\x00",
    '"2023-11-16 18:15:47,5,5',
]


@pytest.mark.parametrize("row", BAD_AZURE)
def test_a_bad_azure_row_is_named_or_skipped(tmp_path: Path, row: str) -> None:
    good = "2023-11-16 18:15:48,7,7"
    path = write(tmp_path / "t.csv", [HEADER, "2023-11-16 18:15:46,6,6", "", row, good])
    error = failure(path)
    assert error.path == "line 4"
    assert error.found is not None
    assert error.allowed
    trace = read(path, skip_bad_rows=True)
    assert trace.prompts.tolist() == [6, 7]
    counts = trace.counts
    assert (counts.read, counts.skipped, counts.requests) == (3, 1, 2)
    assert counts.first_skipped.startswith("line 4: ")


def good(**change: Any) -> dict[str, Any]:
    row = {"timestamp": 5, "input_length": 513, "output_length": 5, "hash_ids": [1, 2], **change}
    return {key: value for key, value in row.items() if value is not ...}


BAD_MOONCAKE = [
    *(good(**{key: ...}) for key in ("timestamp", "input_length", "output_length", "hash_ids")),
    *(good(timestamp=value) for value in (-1, "5", None, True, 1e300, [5])),
    *(good(input_length=value) for value in (0, -3, 5.5, 513.0, "513", None, True, 10**10)),
    *(good(output_length=value) for value in (0, -3, 5.5, "5", None, True, 10**10)),
    *(good(hash_ids=value) for value in ([], [1], [1, 2, 3], [1, -2], [1, "2"], [1, 2.0], [1, None], [True, 1])),
    *(good(hash_ids=value) for value in ("12", 7, None, {})),
    "[5, 513, 5, [1, 2]]",
    "17",
    "null",
    "{",
    '{"timestamp": 5, "input_length": 513',
    '{"timestamp": NaN, "input_length": 513, "output_length": 5, "hash_ids": [1, 2]}',
    '{"timestamp": Infinity, "input_length": 513, "output_length": 5, "hash_ids": [1, 2]}',
    '{"timestamp": -1e999, "input_length": 513, "output_length": 5, "hash_ids": [1, 2]}',
    '{"timestamp": 1e999, "input_length": 513, "output_length": 5, "hash_ids": [1, 2]}',
    '{"timestamp": 5, "input_length": ' + "9" * 5000 + ', "output_length": 5, "hash_ids": [1, 2]}',
    '{"timestamp": 5} {"timestamp": 6}',
    "[" * 100_000,
    "timestamp,input_length",
    "\x00",
]  # fmt: skip


@pytest.mark.parametrize("row", BAD_MOONCAKE, ids=lambda row: str(row)[:60])
def test_a_bad_mooncake_row_is_named_or_skipped(tmp_path: Path, row: Any) -> None:
    path = write(tmp_path / "t.jsonl", [good(timestamp=4), row, good()])
    error = failure(path)
    assert error.path == "line 2"
    assert error.allowed
    trace = read(path, skip_bad_rows=True)
    assert len(trace.times_ps) == 2
    assert (trace.counts.read, trace.counts.skipped) == (3, 1)


def test_a_bad_first_row_is_a_bad_row_not_a_wrong_kind(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [good(input_length=-1), good()])
    assert failure(path).path == "line 1"
    assert read(path, skip_bad_rows=True).counts.skipped == 1


def test_a_trace_without_usable_rows_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [good(input_length=-1), good(output_length=0)])
    error = failure(path, skip_bad_rows=True)
    assert "none of the 2 rows" in error.message
    assert "line 1" in str(error)
    assert "has no rows" in failure(write(tmp_path / "h.csv", [HEADER, ""])).message


def test_missing_empty_and_directories(tmp_path: Path, azure: Path) -> None:
    assert failure(tmp_path / "azur.csv").nearest == "azure.csv"
    assert "no such file" in failure(tmp_path / "azur.csv").message
    assert "no such file" in failure(tmp_path / "none" / "x.csv").message
    assert "directory" in failure(tmp_path).message
    for content in (b"", b"\n \r\n\n", gzip.compress(b"")):
        path = tmp_path / "empty"
        path.write_bytes(content)
        assert failure(path).message == "the trace is empty"
    assert "cannot be read" in failure(azure / "deeper").message
    assert "cannot be read" in failure(Path("a\0b")).message
    assert "cannot be read" in failure(Path("x" * 300)).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(azure: Path) -> None:
    azure.chmod(0)
    assert "Permission denied" in failure(azure).message


def test_damaged_gzip(tmp_path: Path, mooncake: Path) -> None:
    whole = gzip.compress(mooncake.read_bytes() * 50)
    path = tmp_path / "t.jsonl.gz"
    for keep in (3, 11, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:keep])
        assert "cut off" in failure(path, skip_bad_rows=True).message, keep
    path.write_bytes(whole[:-8] + b"\0" * 8)
    assert "damaged" in failure(path, sort=True).message
    path.write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    assert "damaged" in failure(path, sort=True).message


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (HEADER.encode("utf-16"), "line 1"),
        (b"PK\x03\x04\xff\xff", "line 1"),
        (gzip.compress(gzip.compress(AZURE.encode())), "line 1"),
    ],
)
def test_what_is_not_utf_8(tmp_path: Path, content: bytes, line: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    for skip in (False, True):
        error = failure(path, skip_bad_rows=skip)
        assert "UTF-8" in error.message
        assert error.path == line


def test_a_row_that_is_not_utf_8(tmp_path: Path) -> None:
    """A bad row like any other, in any block of lines; text in UTF-8 is none."""
    path = tmp_path / "t.csv"
    good = "2023-11-16 18:15:47,5,5,ä\n"
    path.write_bytes(f"{HEADER},note\n{good}".encode() + b"2023-11-16 18:15:48,5,5,\xff\n" + good.encode())
    error = failure(path)
    assert ("UTF-8" in error.message, error.path, error.found) == (True, "line 3", "byte 0xff")
    trace = read(path, skip_bad_rows=True)
    assert (trace.counts.skipped, trace.counts.requests) == (1, 2)
    assert trace.counts.first_skipped == "line 3: the row is not UTF-8 text"


@pytest.mark.parametrize(
    "content",
    [
        "hello world",
        "name: chat\nmodel: x",
        "[1, 2, 3]",
        '{"prompt": "hi"}',
        "Timestamp,Request tokens\n1,2",
        "\x00\x01",
    ],
)
def test_the_wrong_kind_of_file_is_told_what_is_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t"
    path.write_text(content)
    error = failure(path, skip_bad_rows=True)
    assert "no trace in a format" in error.message
    assert "azure" in str(error)
    assert "mooncake" in str(error)
    assert failure(path, format="azure").allowed == HEADER
    assert failure(path, format="mooncake").path == "line 1"


def test_an_endless_line_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with path.open("wb") as file:
        file.write(b"{")
        file.truncate(MAX_LINE_BYTES * 4)  # a sparse file: as good as /dev/zero
    assert "no text file" in failure(path).message


def test_lines_are_numbered_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("".join(f"{number}é\n" for number in range(1, 400_000)) + "last")
    seen = [(start + offset, line) for start, lines in line_blocks(path, "t") for offset, line in enumerate(lines)]
    assert seen == [*((number, f"{number}é") for number in range(1, 400_000)), (400_000, "last")]


def test_a_format_is_one_class_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pairs:
        name = "pairs"
        description = layout = "lines of prompt output"
        block_tokens = 0

        def recognises(self, line: str) -> bool:
            return line == "#pairs"

        def parser(self, line: str) -> tuple[Callable[[str], Row], bool]:
            return lambda text: Row(0, *map(int, text.split())), True

    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))
    registry.register(Pairs())
    with pytest.raises(ValueError, match="already"):
        registry.register(Pairs())
    path = write(tmp_path / "t", ["#pairs", "3 4", "5 6"])
    assert read(path).prompts.tolist() == [3, 5]
    assert registry.formats()[-1].name == "pairs"
    for known in registry.formats():
        assert known.description
        assert known.layout
