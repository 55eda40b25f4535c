"""Traces larger than their share of memory: the same requests, from a file that leaves nothing behind."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tests.unit.workload.trace_samples import FILES, VIDUR, own_table, write

from servetwin.request import Request
from servetwin.scenario.load import load_scenario
from servetwin.scenario.run import execute
from servetwin.streams import Streams
from servetwin.workload.build import build_stream
from servetwin.workload.spec import WorkloadSpec
from servetwin.workload.traces import chains, sorting, spool, table
from servetwin.workload.traces import own_table as table_format
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.trace import infinite_hit_rate

Facts = Callable[[Request], tuple[Any, ...]]

OPTIONS: list[dict[str, Any]] = [{}, {"sort": True, "spread_ties": True}, {"window_s": "0:9", "rate_scale": 3.0}]
MAPS = {
    "vidur": "arrival_s=arrived_at,prompt_tokens=num_prefill_tokens,output_tokens=num_decode_tokens",
    "bailian": "arrival_s=timestamp,prompt_tokens=input_length,output_tokens=output_length,session_id=chat_id,"
    "class_name=type,turn=turn,block_ids=hash_ids,block_tokens=16",
}


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Blocks of a value or two, none of which stays in memory."""
    for module, name, value in (
        (spool, "MEMORY_BYTES", 0), (spool, "BLOCK", 1), (table, "BLOCK", 2), (table, "PIECE", 2),
        (sorting, "RUN_ROWS", 2), (chains, "_PIECE", 2), (table_format, "_BLOCK", 2), (table_format, "_PIECE", 1),
    ):  # fmt: skip
        patch.setattr(module, name, value)


@pytest.fixture
def tiny() -> Iterator[Callable[[], Any]]:
    """A context in which everything is spilled."""

    class Tiny:
        def __enter__(self) -> None:
            self.patch = pytest.MonkeyPatch()
            shrink(self.patch)

        def __exit__(self, *fault: object) -> None:
            self.patch.undo()

    yield Tiny


def everything(spec: TraceSpec, facts: Facts) -> list[Any]:
    """All that is known of a trace and of the requests that come of it."""
    trace = read_trace(spec, Path(), Streams(3))
    stream = build_stream(WorkloadSpec(trace=spec), Streams(3), requests=None, duration_ps=None, base=Path())
    columns = (trace.block_ids, trace.block_ends, trace.classes, trace.sessions, trace.turns, trace.parents)
    return [
        trace.counts, trace.class_names, [column.tolist() for column in columns], infinite_hit_rate(trace),
        stream.trace_block_hit_rate_infinite, [facts(request) for request in stream],
    ]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", [*FILES, "columns of CSV", "columns of JSON"])
def test_what_is_spilled_comes_back(
    name: str, options: dict[str, Any], facts: Facts, tiny: Callable[[], Any], tmp_path: Path
) -> None:
    sample = {"columns of CSV": "vidur", "columns of JSON": "bailian"}.get(name, name)
    if sample != name:
        options = {**options, "columns": MAPS[sample]}
    spec = TraceSpec(path=str(write(sample, tmp_path / "t")), **options)
    assert read_trace(spec, Path(), Streams(3)).spool.file_bytes == 0
    kept = everything(spec, facts)
    with tiny():
        assert read_trace(spec, Path(), Streams(3)).spool.file_bytes > 0
        assert everything(spec, facts) == kept
        if isinstance(FILES[sample], bytes):
            packed = tmp_path / "packed"
            packed.write_bytes(gzip.compress(FILES[sample]))
            assert everything(spec.model_copy(update={"path": str(packed)}), facts) == kept


@pytest.mark.parametrize("name", FILES)
def test_the_results_are_the_same(name: str, tiny: Callable[[], Any], tmp_path: Path) -> None:
    write(name, tmp_path / "t")
    scenario = load_scenario("quickstart", ["run.requests=50"])
    workload = WorkloadSpec(trace=TraceSpec(path=str(tmp_path / "t")))
    scenario = scenario.model_copy(update={"workload": workload})
    execute(scenario, out=tmp_path / "kept")
    with tiny():
        execute(scenario, out=tmp_path / "spilled")
    for file in ("requests.parquet", "timeseries.parquet", "ledger.json"):
        assert (tmp_path / "kept" / file).read_bytes() == (tmp_path / "spilled" / file).read_bytes(), file
    kept, spilled = (json.loads((tmp_path / run / "summary.json").read_text()) for run in ("kept", "spilled"))
    for key in ("wall_s", "cpu_s", "started_at", "out"):
        del kept[key], spilled[key]
    assert kept == spilled


def rows_of(kind: str, count: int) -> bytes:
    """A long trace, the last rows of which come first where it may be so."""
    if kind == "csv":
        return "".join([VIDUR.splitlines()[0], *(f"\n{at / 4},{at % 900 + 1},7" for at in range(count))]).encode()
    if kind == "csv, last row first":
        return "".join(
            [VIDUR.splitlines()[0], *(f"\n{at / 4},{at % 900 + 1},7" for at in reversed(range(count)))]
        ).encode()
    if kind == "parquet":
        stream = io.BytesIO()
        times = pa.array([float(at) for at in reversed(range(count))])
        numbers = pa.array([at % 900 + 1 for at in range(count)], pa.int64())
        own = pa.table({"arrival_s": times, "prompt_tokens": numbers, "output_tokens": numbers})
        parquet.write_table(own, stream, row_group_size=2_000)
        return stream.getvalue()
    line = '{{"chat_id":{0},"parent_chat_id":{1},"timestamp":{0},"input_length":960,"output_length":3,"hash_ids":{2}}}'
    rows = (line.format(at, at - 1 if at % 8 else -1, list(range(at % 64, at % 64 + 60))) for at in range(count))
    return "\n".join(rows).encode()


@pytest.mark.parametrize(
    ("kind", "few", "many", "in_columns"),
    [("csv", 2_000, 6_000, 16), ("csv, last row first", 2_000, 6_000, 44), ("parquet", 2_000, 6_000, 52),
     ("bailian", 200, 600, 16 + 8 + 8 + 60 * 8)],
)  # fmt: skip
def test_memory_does_not_grow_with_the_trace(
    kind: str, few: int, many: int, in_columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows take less than a third of what they would take in columns [B]."""
    for module, name, value in (
        (spool, "MEMORY_BYTES", 1 << 12), (spool, "BLOCK", 128), (table, "BLOCK", 128), (table, "PIECE", 8),
        (sorting, "RUN_ROWS", 2_000), (chains, "_PIECE", 1 << 10),
        (table_format, "_BLOCK", 2_000), (table_format, "_PIECE", 8),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr("servetwin.workload.traces.lines.CHUNK_BYTES", 1 << 12)

    def peak(count: int) -> int:
        path = tmp_path / str(count)
        path.write_bytes(rows_of(kind, count))
        workload = WorkloadSpec(trace=TraceSpec(path=str(path), sort=kind == "csv, last row first"))
        tracemalloc.start()
        stream = build_stream(workload, Streams(0), requests=None, duration_ps=None, base=Path())
        requests = sum(1 for _ in stream)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert requests == count
        return used

    peak(many)  # what is imported and kept at the first use does not count
    assert (peak(many) - peak(few)) / (many - few) < in_columns / 3


REPLAY = """
import sys
from servetwin.workload.traces import spool
spool.MEMORY_BYTES, spool.BLOCK = 0, 100
{before}
from servetwin.cli.main import main
sys.exit(main())
"""


def replay(before: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Replay a trace with a temporary file, in a program of its own whose temporary files lie in ``folder/tmp``."""
    (folder / "t.csv").write_bytes(rows_of("csv", 5_000))
    (folder / "tmp").mkdir()
    return subprocess.run(
        [sys.executable, "-c", REPLAY.format(before=before), "replay", "t.csv", "--scenario", "quickstart"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))"
CTRL_C = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from servetwin.workload.traces import reading
named = reading._check_not_empty
def check(trace, spec):
    assert trace.spool.file_bytes > 0
    os.kill(os.getpid(), signal.SIGINT)
    named(trace, spec)
reading._check_not_empty = check
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
@pytest.mark.parametrize(("before", "code", "word"), [(FULL_DISK, 2, "TMPDIR"), (CTRL_C, 130, "interrupted")])
def test_nothing_is_left_behind(before: str, code: int, word: str, tmp_path: Path) -> None:
    done = replay(before, tmp_path)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_row_groups_with_broken_rows_name_the_row_of_the_file(tiny: Callable[[], Any], tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(own_table(prompt_tokens=pa.array([374, 0, 396], pa.int64())))
    spec = TraceSpec(path=str(path), skip_bad_rows=True)
    with tiny():
        trace = read_trace(spec, Path())
    assert trace.counts.first_skipped == "row 2: prompt_tokens is no number of tokens"
    assert trace.prompts.tolist() == [374, 396]
