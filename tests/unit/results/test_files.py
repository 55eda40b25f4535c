import json
import random
import subprocess
import sys

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.unit.results.building import drafting_run, finish, meta, random_request, random_runs, record, toy_run

from servetwin.errors import InputError
from servetwin.request import COMPLETED, OUTCOMES
from servetwin.results import Recorder, load
from servetwin.results.summary import HOST_KEYS
from servetwin.units import PS_PER_MS, PS_PER_S

COLUMNS = """
    request_id session_id class pool replica prefill_replica arrival_s routed_s queued_s scheduled_s
    prefill_done_s prefill_freed_s decode_queued_s decode_reserved_s transfer_start_s transfer_end_s
    decode_scheduled_s first_token_s last_token_s prompt_tokens output_tokens hit_tokens_hbm hit_tokens_cpu
    hit_tokens_ssd hit_tokens_remote predicted_hit_tokens recomputed_tokens preemptions transfer_bytes
    drafted_tokens accepted_tokens ttft_ms tpot_ms e2e_ms outcome
""".split()  # noqa: SIM905


def mixed_result(seed=0, requests=20_000, replicas=3):
    rng = random.Random(seed)
    everybody = [random_request(rng, identity, replicas, rng.choice(OUTCOMES)) for identity in range(requests)]
    recorder = Recorder(meta(replicas))
    record(recorder, random_runs(rng, replicas, 200))
    for request in rng.sample(everybody, len(everybody)):
        recorder.finished(request)
    return finish(recorder, 10**4 * PS_PER_S), everybody


def test_requests_parquet_holds_every_request(tmp_path):
    result, everybody = mixed_result()
    result.write(tmp_path, figures=False)
    table = pq.read_table(tmp_path / "requests.parquet")
    assert table.column_names == COLUMNS
    rows = table.to_pylist()
    assert [row["request_id"] for row in rows] == list(range(len(everybody)))

    def seconds(stamp):
        return None if stamp < 0 else stamp / PS_PER_S

    for row, one in zip(rows, everybody, strict=True):
        assert row["class"] == one.class_name and row["outcome"] == one.outcome
        assert row["session_id"] == (None if one.session_id < 0 else one.session_id)
        assert row["pool"] == ("engines" if one.replica >= 0 else None)
        assert row["replica"] == (None if one.replica < 0 else one.replica)
        for name in ("arrival", "routed", "queued", "scheduled", "prefill_done", "first_token", "last_token"):
            assert row[f"{name}_s"] == seconds(getattr(one, f"{name}_ps"))
        assert row["transfer_start_s"] is None and row["transfer_bytes"] == 0
        assert (row["prompt_tokens"], row["output_tokens"]) == (one.prompt_tokens, one.output_tokens)
        assert row["hit_tokens_hbm"] == one.hit_tokens and row["predicted_hit_tokens"] is None
        first, last = one.first_token_ps, one.last_token_ps
        assert row["ttft_ms"] == (None if first < 0 else (first - one.arrival_ps) / PS_PER_MS)
        assert row["e2e_ms"] == (None if last < 0 else (last - one.arrival_ps) / PS_PER_MS)
        slow = one.outcome == COMPLETED and one.output_tokens > 1
        assert row["tpot_ms"] == ((last - first) / PS_PER_MS / (one.output_tokens - 1) if slow else None)


def test_timeseries_parquet_holds_every_replica_and_interval(tmp_path):
    result, _ = mixed_result(requests=500)
    result.write(tmp_path, figures=False)
    table = pq.read_table(tmp_path / "timeseries.parquet")
    series = result.series
    assert table.num_rows == 3 * series.intervals
    assert table["replica"].to_pylist() == [one for one in range(3) for _ in range(series.intervals)]
    assert table["k"].null_count == table.num_rows
    assert sum(table["steps"].to_pylist()) == result.segments.totals.steps
    idle = np.array(table["steps"].to_pylist()) == 0
    assert [value is None for value in table["compute_bound"].to_pylist()] == idle.tolist()
    assert set(table["pool"].to_pylist()) == {"engines"}


def test_what_became_of_drafts_is_in_the_files(tmp_path):
    """67 steps with K = 3 and 12 drafted tokens, 10 of which stand; 67 with K = 1, 4 and 2; 66 without."""
    drafting_run(2).write(tmp_path, figures=False)
    table = pq.read_table(tmp_path / "timeseries.parquet").filter(pc.field("replica") == 0).to_pydict()
    ks = [k for k, end in zip(table["k"], table["end_s"], strict=True) if end <= 0.67]
    assert set(ks) == {3.0} and table["k"][-1] == 0.0 and None not in table["k"]
    assert sum(table["drafted_tokens"]) == 67 * 16 and sum(table["accepted_tokens"]) == 67 * 12
    requests = pq.read_table(tmp_path / "requests.parquet").filter(pc.field("replica") == 0).to_pydict()
    assert requests["drafted_tokens"] == [268] * 4 and requests["accepted_tokens"] == [201] * 4
    summary = json.loads((tmp_path / "summary.json").read_text())
    # 4 and 5 requests, 2 of which have their last draft accepted: 134 · 9 drafts in all.
    assert summary["acceptance_rate_per_position"] == [67 * (9 + 4) / 1206, 67 * 9 / 1206, 67 * 4 / 1206]


def test_frames_equal_what_is_read_back(tmp_path):
    result, _ = mixed_result(requests=300)
    result.write(tmp_path, figures=False)
    stored = load(tmp_path)
    assert stored.requests().equals(result.requests())
    assert stored.timeseries().equals(result.timeseries())
    assert stored.summary() == result.summary()
    assert stored.ledger() == result.ledger()
    assert stored.warnings == result.warnings
    assert len(result.requests()) == 300 and list(result.requests().columns) == COLUMNS


def test_the_same_run_gives_the_same_bytes_whatever_was_recorded_first(tmp_path):
    """Requests of one instant may be recorded in any order; host keys are all that may differ."""
    for place, seed in enumerate((1, 2)):
        result = toy_run(200, replicas=2)
        recorder = Recorder(meta(2))
        record(recorder, random_runs(random.Random(9), 2, 50))
        rng = random.Random(5)
        requests = [random_request(rng, identity, 2) for identity in range(500)]
        random.Random(seed).shuffle(requests)
        for request in requests:
            recorder.finished(request)
        result = finish(recorder, 10**3 * PS_PER_S)
        result.set_host(wall_s=seed, cpu_s=seed, started_at=str(seed))
        result.write(tmp_path / str(place), figures=False)
    for name in ("requests.parquet", "timeseries.parquet", "ledger.json"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes(), name
    first, second = (json.loads((tmp_path / str(place) / "summary.json").read_text()) for place in range(2))
    assert {key for key in first if first[key] != second[key]} == set(HOST_KEYS)


def test_writing_twice_replaces_and_says_where(tmp_path):
    result = toy_run(30)
    written = result.write(tmp_path / "deep" / "run", figures=False)
    assert written == result.write(tmp_path / "deep" / "run", figures=False)
    assert sorted(path.name for path in written) == [
        "ledger.json",
        "requests.parquet",
        "summary.json",
        "timeseries.parquet",
    ]
    assert json.loads(written[0].read_text())["out"] == str(tmp_path / "deep" / "run")


def test_painters_can_be_given(tmp_path):
    called = []

    def painter(result, folder):
        called.append((result, folder))
        return [folder / "mine.png"]

    result = toy_run(30)
    assert result.write(tmp_path, figures=painter)[-1] == tmp_path / "mine.png"
    assert called == [(result, tmp_path)]


def test_an_empty_run_can_be_written_and_read(tmp_path):
    result = finish(Recorder(meta()), PS_PER_S)
    result.write(tmp_path, figures=False)
    assert len(load(tmp_path).requests()) == 0
    assert list(load(tmp_path).requests().columns) == COLUMNS


def test_what_is_no_run_is_refused_with_its_path(tmp_path):
    with pytest.raises(InputError, match="not the result of a run") as caught:
        load(tmp_path)
    assert caught.value.file == str(tmp_path / "summary.json")
    for text in ("{", "[]"):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(InputError, match="not the result of a run"):
            load(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "requests.parquet").write_text("no parquet")
    with pytest.raises(InputError, match="not the result of a run"):
        load(tmp_path).requests()
    with pytest.raises(InputError, match="not the result of a run"):
        load(tmp_path).timeseries()


def test_writing_without_figures_imports_neither_pandas_nor_matplotlib(tmp_path):
    """They cost a second of start-up."""
    code = (
        "import sys; from tests.unit.results.building import toy_run\n"
        f"toy_run(1, slo={{'goodput': {{'ttft_ms': 500}}}}).write({str(tmp_path)!r}, figures=False)\n"
        "assert 'pyarrow' in sys.modules\n"
        "print([name for name in ('pandas', 'matplotlib', 'scipy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert (tmp_path / "requests.parquet").exists()


def test_recording_does_not_import_pyarrow():
    code = "import sys, servetwin.results; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
