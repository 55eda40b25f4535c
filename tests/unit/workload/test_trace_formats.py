"""The trace formats: what each file says, what is wrong with bad ones, and how they are told apart."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from tests.unit.workload.trace_samples import BAILIAN, BURSTGPT, FILES, ROWS, SPLITWISE, VIDUR, own_table, write
from typer.testing import CliRunner

from servetwin.cli.main import app
from servetwin.errors import ScenarioError, TraceError
from servetwin.scenario.load import load_scenario
from servetwin.scenario.run import execute
from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream
from servetwin.workload.traces import registry
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.trace import Trace, infinite_hit_rate

Build = Callable[..., RequestStream]
NAMES = sorted(FILES)
TEXTS = sorted(name for name in NAMES if name not in ("servegen", "servetwin"))


def read(path: Path, **options: Any) -> Trace:
    return read_trace(TraceSpec(path=str(path), **options), Path(), Streams(3))


def failure(path: Path, **options: Any) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(path, **options)
    assert len(str(caught.value)) < 2_000
    return caught.value


def rows(trace: Trace) -> list[tuple[float, int, int]]:
    times = [at / PS_PER_S for at in trace.times_ps]
    return list(zip(times, trace.prompts.tolist(), trace.outputs.tolist(), strict=True))


def accounted(trace: Trace) -> bool:
    counts = trace.counts
    return counts.read == len(trace) + counts.skipped + counts.failed + counts.outside and counts.requests == len(trace)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_each_format_says(name: str, tmp_path: Path) -> None:
    trace = read(write(name, tmp_path / "t"))
    assert rows(trace) == ROWS[name]
    assert accounted(trace)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_told_by_its_content_alone(name: str, tmp_path: Path) -> None:
    path = write(name, tmp_path / "t")
    known, forced = read(path), read(path, format=name)
    assert (rows(known), known.counts) == (rows(forced), forced.counts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_each_may_be_compressed(name: str, kind: str, tmp_path: Path) -> None:
    path, packed = write(name, tmp_path / "t"), tmp_path / "packed"

    def pack(source: Path, target: Path) -> None:
        data = source.read_bytes()
        target.write_bytes(gzip.compress(data) if kind == "gzip" else pa.compress(data, "zstd", asbytes=True))

    if path.is_dir():
        packed.mkdir()
        for file in path.iterdir():
            pack(file, packed / f"{file.name}.{'gz' if kind == 'gzip' else 'zst'}")
    else:
        pack(path, packed)
    assert rows(read(packed)) == rows(read(path))


@pytest.mark.parametrize("name", NAMES)
def test_the_options_hold_for_each(name: str, tmp_path: Path) -> None:
    path = write(name, tmp_path / "t")
    whole = read(path)
    seconds = [at / PS_PER_S for at in whole.times_ps]
    assert [at / PS_PER_S for at in read(path, rate_scale=4).times_ps] == pytest.approx([at / 4 for at in seconds])
    assert rows(read(path, limit=1)) == rows(whole)[:1]
    start = max(seconds[1] - 0.25, 0)
    inside = [row for row in rows(whole) if start <= row[0] < start + 2]
    cut = read(path, window_s=[start, start + 2])
    assert [(round(at + start, 9), *rest) for at, *rest in rows(cut)] == [(round(at, 9), *rest) for at, *rest in inside]
    assert len(inside) < len(whole)
    assert cut.counts.requests == len(inside)
    assert rows(read(path, sort=True, skip_bad_rows=True)) == rows(whole)


@pytest.mark.parametrize("name", TEXTS)
def test_a_bad_row_of_each_is_named_or_skipped(name: str, tmp_path: Path) -> None:
    path = write(name, tmp_path / "t")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    assert failure(path).path == "line 3"
    trace = read(path, skip_bad_rows=True)
    assert rows(trace) == ROWS[name]
    assert trace.counts.skipped == 1
    assert accounted(trace)


def replaced(text: str, old: str, new: str) -> bytes:
    assert old in text
    return text.replace(old, new).encode()


def chat(**change: Any) -> bytes:
    """The Bailian trace with another second row."""
    second = {key: value for key, value in {**BAILIAN[1], **change}.items() if value is not ...}
    return "".join(json.dumps(row) + "\n" for row in (BAILIAN[0], second, *BAILIAN[2:])).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (replaced(VIDUR, "4.314579,", "-4.3,"), "arrived_at is no time"),
        (replaced(VIDUR, "4.314579,", "nan,"), "arrived_at is no time"),
        (replaced(VIDUR, "4.314579,", "1e300,"), "arrived_at is no time"),
        (replaced(VIDUR, "4.314579,", "4_3,"), "arrived_at is no time"),
        (replaced(VIDUR, "396.0", "396.5"), "num_prefill_tokens"),
        (replaced(VIDUR, "396.0", "396."), "num_prefill_tokens"),
        (replaced(VIDUR, ",109", ",0"), "num_decode_tokens"),
        (replaced(VIDUR, ",109", ",109,1"), "4 cells"),
        (replaced(VIDUR, ",109", ',"109'), "no CSV"),
        (replaced(SPLITWISE, "2.0,1,396", "2.0,2,396"), "batch_size is not 1"),
        (replaced(SPLITWISE, "2.0,1,396", "2.0,1,-1"), "prompt_size"),
        (replaced(BURSTGPT, "45,ChatGPT,1087,0", "45,ChatGPT,0,5"), "Request tokens"),
        (replaced(BURSTGPT, "45,ChatGPT,1087,0", "45,ChatGPT,x,0"), "Request tokens"),
        (replaced(BURSTGPT, "45,ChatGPT,1087,0", "45,ChatGPT,1087,-1"), "Response tokens"),
        (replaced(BURSTGPT, "45,ChatGPT,1087,0", "x,ChatGPT,1087,5"), "Timestamp"),
        (chat(hash_ids=[5, 6, 7]), "hash_ids has 3 entries for 50 tokens"),
        (chat(hash_ids=[5, 6, 7, 2**64]), "hash_ids is no list of block ids"),
        (chat(timestamp=-1), "timestamp is no time"),
        (chat(chat_id="x"), "chat_id is out of range"),
        (chat(chat_id=...), "no chat_id"),
        (chat(parent_chat_id=-2), "parent_chat_id is out of range"),
        (chat(type=5), "type is no text"),
        (chat(turn=1.5), "turn is out of range"),
    ],
)
def test_what_is_wrong_with_a_row(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    error = failure(path)
    assert says in error.message
    assert error.path in ("line 2", "line 3")
    assert error.allowed
    assert read(path, skip_bad_rows=True).counts.skipped == 1


def test_failed_requests_of_burstgpt_are_reported(tmp_path: Path, stream_of: Build) -> None:
    """A response of 0 tokens is a failure: nothing has to be switched on to leave it out."""
    path = write("burstgpt", tmp_path / "t")
    counts = read(path).counts
    assert (counts.read, counts.failed, counts.skipped, counts.requests) == (3, 1, 0, 2)
    (remark,) = counts.remarks()
    assert "1 of 3 rows" in remark
    assert "line 3" in remark
    requests = list(stream_of({"trace": {"path": str(path)}}))
    assert [r.class_name for r in requests] == ["ChatGPT", "GPT-4"]
    path.write_text(BURSTGPT.splitlines()[0] + "\n45,ChatGPT,1087,0,1087,API log\n")
    assert "none of the 1 rows" in failure(path).message


def test_a_failed_request_of_burstgpt_need_not_have_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for cells in ("0,0", "0.0,0", "0,0.0"):
        path.write_bytes(replaced(BURSTGPT, "45,ChatGPT,1087,0", f"45,ChatGPT,{cells}"))
        counts = read(path).counts
        assert (counts.read, counts.failed, counts.skipped, counts.requests) == (3, 1, 0, 2)


def test_sessions_of_the_later_burstgpt(tmp_path: Path) -> None:
    path = tmp_path / "t"
    head = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    path.write_text(head + "0,7,1.5,GPT-4,5,5,10,API log\n1,,2,GPT-4,5,5,10,API log\n2,7.0,2,GPT-4,5,5,10,API log\n")
    assert read(path).sessions.tolist() == [7, -1, 7]
    path.write_text(head + "0,a7,1.5,GPT-4,5,5,10,API log\n")
    assert "Session ID is no number" in failure(path).message


def test_conversations_of_bailian(tmp_path: Path, stream_of: Build) -> None:
    """A session is called by its first request; a parent that never came starts none."""
    stream = stream_of({"trace": {"path": str(write("bailian", tmp_path / "t"))}})
    requests = list(stream)
    assert [r.session_id for r in requests] == [10, 10, 12, 10]
    assert [r.turn for r in requests] == [0, 1, 3, 2]
    assert [r.class_name for r in requests] == ["text", "text", "image", "text"]
    assert requests[1].segments == ((5, 16), (6, 16), (7, 16), (8, 2))
    # 12 blocks; found: 2 of the second chat (its last block is partial and new) and 4 of the last.
    assert stream.trace_block_hit_rate_infinite == 6 / 12


def test_the_azure_files_of_both_years(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(
        FILES["azure"].replace(b"30+00:00", b"300").replace(b"+00:00", b"")
    )  # seven digits and no offset, as in 2023
    assert rows(read(path)) == ROWS["azure"]


def test_a_file_of_several_formats_needs_a_word(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(
        "arrived_at,num_prefill_tokens,num_decode_tokens,TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "1,2,3,2023-11-16 18:15:46,4,5\n"
    )
    error = failure(path)
    assert "several formats" in error.message
    assert error.found == "azure, vidur"
    assert "workload.trace.format" in str(error)
    assert "num_prefill_tokens" in str(error)
    assert rows(read(path, format="azure")) == [(0, 4, 5)]
    assert rows(read(path, format="vidur")) == [(0, 2, 3)]


def test_a_file_of_no_format_is_told_what_was_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("when,in,out\n1,2,3\n")
    text = str(failure(path))
    for known in registry.formats():
        assert f"{known.name}: " in text
    assert "columns" in text
    path.write_text("arrived_at,num_prefill_tokens,num_decode\n1,2,3\n")
    assert failure(path).nearest == "vidur, but there is no column num_decode_tokens"
    folder = tmp_path / "folder"
    folder.mkdir()
    error = failure(folder)
    assert "directory" in error.message
    assert "chunk-I-trace.csv" in str(error)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_can_be_forced_and_then_has_to_fit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("when,in,out\n1,2,3\n")
    error = failure(path, format=name)
    assert error.allowed
    assert "several" not in error.message


def test_plain_csv_by_a_map(tmp_path: Path, stream_of: Build) -> None:
    path = tmp_path / "t.csv"
    path.write_text('when;who;"tokens in";out;kind\n0.5;u-1;10;5;a\n1.25;u-2;20;6;\n2;u-1;30;7;"b;c"\n')
    columns = {
        "arrival_s": "when", "prompt_tokens": "tokens in", "output_tokens": "out", "session_id": "who",
        "class_name": "kind",
    }  # fmt: skip
    requests = list(stream_of({"trace": {"path": str(path), "columns": columns}}))
    assert [(r.arrival_ps / PS_PER_S, r.prompt_tokens, r.output_tokens) for r in requests] == [
        (0, 10, 5), (0.75, 20, 6), (1.5, 30, 7),
    ]  # fmt: skip
    assert [r.session_id for r in requests] == [0, 1, 0]
    assert [r.class_name for r in requests] == ["a", "", "b;c"]
    text = ",".join(f"{field}={column}" for field, column in columns.items())
    assert TraceSpec(path="t", columns=text) == TraceSpec(path="t", columns=columns)


def test_csv_without_a_header_by_position(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("10,1700000000000,5,3\n20,1700000000500.25,6,4\n")
    trace = read(path, columns="arrival_ms=1,prompt_tokens=0,output_tokens=2,turn=3")
    assert rows(trace) == [(0, 10, 5), (0.50025, 20, 6)]
    assert trace.turns.tolist() == [3, 4]
    assert "no column 9 (output_tokens)" in failure(path, columns="arrival_s=1,prompt_tokens=0,output_tokens=9").message


def test_json_lines_by_a_map(tmp_path: Path, stream_of: Build) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"at": "2026-01-05T09:00:00Z", "in": 100, "out": 5, "user": "x", "h": [1, 2]},
        {"at": "2026-01-05T09:00:01.5Z", "in": 64, "out": 6, "user": 7, "h": [1], "kind": "code", "turn": 2},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    columns = {
        "arrival_time": "at", "prompt_tokens": "in", "output_tokens": "out", "session_id": "user",
        "class_name": "kind", "turn": "turn", "block_ids": "h", "block_tokens": 64,
    }  # fmt: skip
    stream = stream_of({"trace": {"path": str(path), "columns": columns}})
    requests = list(stream)
    assert [r.arrival_ps / PS_PER_S for r in requests] == [0, 1.5]
    assert [(r.session_id, r.turn, r.class_name) for r in requests] == [(0, 0, ""), (1, 2, "code")]
    assert requests[0].segments == ((1, 64), (2, 36))
    assert stream.trace_block_hit_rate_infinite == 1 / 3
    assert "the row has no inn" in failure(path, columns={**columns, "prompt_tokens": "inn"}).message


@pytest.mark.parametrize("text", ["in,out\n5,3\n9,2\n", '{"in": 5, "out": [7, 1, 1]}\n{"in": 9, "out": 2}\n'])
def test_a_map_without_arrivals_is_a_batch(text: str, tmp_path: Path) -> None:
    """All requests arrive at the start; a list stands for its length."""
    path, columns = tmp_path / "t", {"prompt_tokens": "in", "output_tokens": "out"}
    path.write_text(text)
    assert rows(read(path, columns=columns)) == [(0, 5, 3), (0, 9, 2)]
    path.write_text('{"in": 5, "out": []}')
    assert "out is no number of tokens" in failure(path, columns=columns).message


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_the_last_turn_that_is_believed(kind: str, tmp_path: Path) -> None:
    """The same for both: places 0 to 999,999."""
    path, columns = tmp_path / "t", "arrival_s=at,prompt_tokens=in,output_tokens=out,turn=turn"

    def write_turn(turn: int) -> None:
        row = {"at": 0, "in": 1, "out": 1, "turn": turn}
        csv = f"{','.join(row)}\n{','.join(map(str, row.values()))}\n"
        path.write_text(csv if kind == "csv" else json.dumps(row))

    write_turn(999_999)
    assert read(path, columns=columns).turns.tolist() == [999_999]
    write_turn(1_000_000)
    assert failure(path, columns=columns).allowed == "a whole number from 0 to 999,999"


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"arrival_s": "t", "arrival_ms": "t", "prompt_tokens": "a", "output_tokens": "b"}, "arrival_s and arrival_ms"),
        ({"arrival_s": "t", "prompt_tokens": 0, "output_tokens": "b"}, "all by name or all by position"),
        ({"arrival_s": "t", "prompt_tokens": "a", "output_tokens": "b", "block_ids": "h"}, "belong together"),
        ({"arrival_s": "t", "prompt_tokens": "a", "output_tokens": "b", "size": "h"}, "size"),
        ({"arrival_s": "t", "prompt_tokens": "a"}, "output_tokens"),
        ("arrival_s", "expected FIELD=COLUMN"),
        ("arrival_s=t,arrival_s=u", "expected FIELD=COLUMN"),
    ],
)
def test_a_map_that_makes_no_sense(columns: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TraceSpec(path="t", columns=columns)


def test_a_map_and_its_format_belong_together() -> None:
    with pytest.raises(ValidationError, match="needs columns"):
        TraceSpec(path="t", format="columns")
    with pytest.raises(ValidationError, match="no effect beside format azure"):
        TraceSpec(path="t", format="azure", columns="arrival_s=a,prompt_tokens=b,output_tokens=c")


def test_a_map_that_does_not_fit_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("when,tokens_in,out\n1,2,3\n")
    error = failure(path, columns="arrival_s=when,prompt_tokens=token_in,output_tokens=out")
    assert "no column 'token_in' (prompt_tokens); the nearest is 'tokens_in'" in error.message
    path.write_text('{"when": 1, "in": 2, "out": 3}\n')
    assert "by position" in failure(path, columns="arrival_s=0,prompt_tokens=1,output_tokens=2").message


def test_our_own_table_comes_back(tmp_path: Path) -> None:
    trace = read(write("servetwin", tmp_path / "t"))
    assert trace.sessions.tolist() == [4, 4, -1]
    assert [trace.class_names[number] for number in trace.classes] == ["chat", "chat", "batch"]


def test_a_run_can_be_replayed_from_its_own_results(tmp_path: Path) -> None:
    """Same arrivals, lengths, classes and sessions; and the replay's own results are a trace again."""
    scenario = load_scenario("priority-classes", ["run.requests=60"])
    first = execute(scenario, out=tmp_path / "first", figures=False).requests()
    again = load_scenario("quickstart", [])
    table = tmp_path / "first" / "requests.parquet"
    replay = again.model_copy(
        update={
            "workload": type(again.workload).model_validate({"trace": {"path": str(table)}}),
            "run": again.run.model_copy(update={"requests": None, "duration_s": None}),
        }
    )
    second = execute(replay, out=tmp_path / "second", figures=False).requests()
    for column in ("arrival_s", "prompt_tokens", "output_tokens", "class", "session_id"):
        before, after = first.sort_values("arrival_s")[column], second[column]
        assert before.isna().tolist() == after.isna().tolist()
        assert before.dropna().tolist() == after.dropna().tolist()
    assert len(read(tmp_path / "second" / "requests.parquet")) == 60


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arrival_s": None}, "no column arrival_s"),
        ({"prompt_tokens": pa.array(["a", "b", "c"])}, "prompt_tokens has no numbers"),
        ({"arrival_s": pa.array([0.5, float("nan"), 1.0])}, "arrival_s is no time"),
        ({"arrival_s": pa.array([0.5, None, 1.0])}, "arrival_s is no time"),
        ({"output_tokens": pa.array([1, 0, 1])}, "output_tokens is no number of tokens"),
        ({"prompt_tokens": pa.array([5.0, 5.5, 6.0])}, "prompt_tokens is no number of tokens"),
        ({"class": pa.array([1, 2, 1])}, "class has no text"),
        ({"class": pa.array([1, 2, 1]).dictionary_encode()}, "class has no text"),
        ({"class": pa.array([["a"], ["b"], []])}, "class has no text"),
        ({"session_id": pa.array([1.0, 2.0, 1.0])}, "session_id has no whole numbers"),
        ({"arrival_s": None, "class": None}, "no column arrival_s"),
    ],
)
def test_a_table_that_is_not_ours(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(own_table(**change))
    assert says in failure(path).message


def test_a_fraction_of_a_token_is_shown_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(own_table(prompt_tokens=pa.array([5.0, 5.5, 6.0])))
    error = failure(path)
    assert (error.path, error.found) == ("prompt_tokens, row 2", "5.5")


@pytest.mark.parametrize(
    ("change", "classes"),
    [
        ({"class": None, "session_id": None, "request_id": None}, []),
        ({"class": pa.nulls(3)}, []),
        ({"class": pa.array(["a", "b", "a"], pa.large_string())}, ["a", "a", "b"]),
        ({"class": pa.array(["a", None, "a"]).dictionary_encode()}, ["a", "a", ""]),
        ({"prompt_tokens": pa.array([374.0, 879.0, 396.0])}, ["chat", "chat", "batch"]),
    ],
)
def test_a_table_with_the_least_that_is_needed(change: dict[str, Any], classes: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(own_table(**change))
    trace = read(path)
    assert [prompt for _, prompt, _ in rows(trace)] == [374, 396, 879]
    assert [trace.class_names[number] for number in trace.classes] == classes


def test_another_table_of_a_run_is_no_trace(tmp_path: Path) -> None:
    execute(load_scenario("quickstart", ["run.requests=20"]), out=tmp_path / "out", figures=False)
    error = failure(tmp_path / "out" / "timeseries.parquet")
    assert "no column arrival_s" in error.message


def test_a_damaged_table(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    whole = own_table()
    for content in (whole[:-9], b"PAR1", whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert "damaged" in failure(path).message


def test_classes_of_the_trace_are_explained_by_name(tmp_path: Path, stream_of: Build) -> None:
    content: dict[str, Any] = {"trace": {"path": str(write("burstgpt", tmp_path / "t"))}}
    content["classes"] = [{"name": "GPT-4", "priority": 3, "slo": {"ttft_ms": 500}}]
    first, second = stream_of(content)
    assert (first.class_name, first.priority, first.deadline_ps) == ("ChatGPT", 0, -1)
    assert (second.class_name, second.priority) == ("GPT-4", 3)
    assert second.deadline_ps == second.arrival_ps + PS_PER_S // 2
    content["classes"] = [{"name": "GPT4"}]
    with pytest.raises(ScenarioError) as caught:
        stream_of(content)
    assert caught.value.nearest == "GPT-4"
    content["classes"] = [{"name": "GPT-4", "share": 2}]
    with pytest.raises(ScenarioError) as caught:
        stream_of(content)
    assert caught.value.path == "workload.classes.0.share"


def test_an_endless_cache_without_blocks(tmp_path: Path) -> None:
    assert infinite_hit_rate(read(write("vidur", tmp_path / "t"))) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--columns", "arrival_s=0"], "prompt_tokens"),
        (["--columns", "arrival_s"], "expected FIELD=COLUMN"),
        (["--format", "vidr"], "did you mean 'vidur'"),
        (["--format", "azure"], "TIMESTAMP"),
        ([], "looked for"),
    ],
)
def test_the_command_explains_itself(options: list[str], says: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,in,out\n1,2,3\n")
    done = CliRunner().invoke(app, ["replay", str(path), "--scenario", "quickstart", *options])
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output
