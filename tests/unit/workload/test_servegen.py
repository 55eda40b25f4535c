"""ServeGen clients: the traffic that is drawn has the rate, CV and lengths that were recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.workload.trace_samples import SERVEGEN, write

from servetwin.errors import TraceError
from servetwin.scenario.load import load
from servetwin.scenario.store import config_hash
from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.servegen_draws import gap_shape
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.trace import Trace

Build = Callable[..., RequestStream]
WITHIN = 0.03


def read(path: Path, seed: int = 0, **options: Any) -> Trace:
    return read_trace(TraceSpec(path=str(path), **options), Path(), Streams(seed))


def failure(path: Path, **options: Any) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(path, **options)
    assert len(str(caught.value)) < 2_000
    return caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write("servegen", tmp_path / "clients")


def columns(trace: Trace, client: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals [s], prompts and outputs of a client."""
    chosen = np.array(trace.classes) == trace.class_names.index(client)
    times = np.array(trace.times_ps, np.float64)[chosen] / PS_PER_S
    return times, np.array(trace.prompts)[chosen], np.array(trace.outputs)[chosen]


def recorded(file: Path) -> list[tuple[float, float, float]]:
    """Start [s], rate [1/s] and CV of a client's windows."""
    cells = [line.split(",") for line in file.read_text().split()]
    return [(float(start), float(rate), float(cv)) for start, rate, cv, *_ in cells]


def mean_length(fields: dict[str, str], name: str) -> float | None:
    body = fields[name].strip("{}")
    pairs = [tuple(map(float, pair.split(":"))) for pair in body.split(",")] if body else []
    return sum(value * share for value, share in pairs) / sum(share for _, share in pairs) if pairs else None


def check_client(folder: Path, trace: Trace, client: str) -> None:
    """Rate and CV window by window, mean lengths over the whole time, within 3 %."""
    times, prompts, outputs = columns(trace, client)
    windows = recorded(folder / f"{client}-trace.csv")
    width = windows[1][0] - windows[0][0]
    for start, rate, cv in windows:
        inside = times[(times >= start) & (times < start + width)]
        assert len(inside) == pytest.approx(rate * width, rel=WITHIN), f"{client}, window {start:g}"
        gaps = np.diff(inside)
        if len(gaps) > 1:
            assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=WITHIN), f"{client}, window {start:g}"
    assert len(times) == pytest.approx(sum(rate for _, rate, _ in windows) * width, rel=WITHIN)
    data = {float(key): fields for key, fields in json.loads((folder / f"{client}-dataset.json").read_text()).items()}
    for name, lengths in (("input_tokens", prompts), ("output_tokens", outputs)):
        means = {start: mean for start, fields in data.items() if (mean := mean_length(fields, name)) is not None}
        at = [max((start for start in means if start <= time), default=min(means)) for time in times.tolist()]
        assert lengths.mean() == pytest.approx(np.mean([means[start] for start in at]), rel=WITHIN), f"{client}: {name}"


@pytest.mark.parametrize("seed", range(3))
def test_clients_are_reproduced(folder: Path, seed: int) -> None:
    trace = read(folder, seed)
    assert len(trace) == 30 + 60 + 15 + 15
    assert set(trace.class_names) == {"", "chunk-0", "chunk-12"}
    for client in ("chunk-0", "chunk-12"):
        check_client(folder, trace, client)


def test_public_clients_are_reproduced(shared_traces: Path) -> None:
    folder = shared_traces / "servegen" / "deepseek-r1"
    if not folder.is_dir():
        pytest.skip(f"the ServeGen clients are not at {folder}")
    trace = read(folder)
    assert len(trace) == trace.counts.read == 140_762
    clients = [file.name.removesuffix("-trace.csv") for file in folder.glob("*-trace.csv")]
    assert len(clients) == 8
    for client in clients:
        check_client(folder, trace, client)


def test_lengths_are_the_recorded_ones(folder: Path) -> None:
    """90 requests share {10: 1/2, 20: 1/4, 40: 1/4}; an empty window takes the lengths of the one before."""
    _, prompts, outputs = columns(read(folder), "chunk-0")
    values, counts = np.unique(prompts, return_counts=True)
    assert values.tolist() == [10, 20, 40]
    assert counts.tolist() == pytest.approx([45, 22.5, 22.5], abs=1)
    assert set(outputs.tolist()) == {5}


def test_time_is_that_of_the_recording(folder: Path) -> None:
    """A window of the replay is a time of the recorded day, whatever comes first in it."""
    later = read(folder, window_s="120:")
    assert len(later) == 60
    assert later.counts.outside == 60
    assert 0 <= later.times_ps[0] < 2 * PS_PER_S


def test_the_seed_decides_about_the_order_only(folder: Path, stream_of: Build) -> None:
    first, same, other = read(folder), read(folder), read(folder, 1)
    assert first.times_ps.tolist() == same.times_ps.tolist()
    assert first.prompts.tolist() == same.prompts.tolist()
    assert first.times_ps.tolist() != other.times_ps.tolist()
    assert sum(first.prompts) == pytest.approx(sum(other.prompts), rel=WITHIN)
    requests = list(stream_of({"trace": {"path": str(folder)}}, seed=1))
    assert [r.arrival_ps for r in requests] == other.times_ps.tolist()
    assert {r.class_name for r in requests} == {"chunk-0", "chunk-12"}


@pytest.mark.parametrize("family", ["Gamma", "Weibull", ""])
@pytest.mark.parametrize("cv", [0.05, 0.7, 1.0, 3.0, 9.0])
def test_gaps_have_the_cv(family: str, cv: float) -> None:
    gaps = gap_shape(family, cv, 200, np.random.default_rng(1))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1)
    assert gaps.std() == pytest.approx(cv, rel=1e-6)


def test_gaps_without_a_cv_are_exponential_and_few_gaps_have_the_cv_they_can() -> None:
    assert gap_shape("", 0, 500, np.random.default_rng(1)).std() == pytest.approx(1)
    # Five gaps have at most √4: one of them is all the time.
    assert gap_shape("Gamma", 7, 5, np.random.default_rng(1)).std() == pytest.approx(2, rel=1e-3)
    assert gap_shape("Gamma", 7, 1, np.random.default_rng(1)).tolist() == [1]
    assert gap_shape("Gamma", 7, 0, np.random.default_rng(1)).tolist() == []
    assert gap_shape("Gamma", 1e-320, 5, np.random.default_rng(1)) == pytest.approx(np.ones(5))


@pytest.mark.parametrize("family", ["Gamma", "Weibull"])
def test_gaps_follow_their_family(family: str) -> None:
    """Half of all gaps are below the median: of Weibull with shape 2, Γ(1.5)⁻¹·√ln 2; of Gamma with shape 4, 0.918."""
    cv, median = (0.5, 0.918) if family == "Gamma" else (0.5227, 0.8326 / 0.8862)
    gaps = gap_shape(family, cv, 4001, np.random.default_rng(2))
    assert float(np.median(gaps)) == pytest.approx(median, rel=0.02)


def change(folder: Path, file: str, old: str, new: str) -> None:
    assert old in SERVEGEN[file]
    (folder / file).write_text(SERVEGEN[file].replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("120,1.0", "120,nan", "the rate is out of range"),
        ("120,1.0", "120,1e9", "the rate is out of range"),
        ("120,1.0", "120,1e6", "too many requests"),
        ("120,1.0", "-1,1.0", "the start of the window is out of range"),
        ("0.8,Weibull", "x,Weibull", "the CV is out of range"),
        ("Weibull", "Pareto", "unknown family"),
        (",1.07", "", "5 cells"),
    ],
)
def test_a_bad_window_is_named_or_skipped(folder: Path, old: str, new: str, says: str) -> None:
    change(folder, "chunk-0-trace.csv", old, new)
    error = failure(folder)
    assert says in error.message
    assert error.path == "chunk-0-trace.csv, line 3"
    trace = read(folder, skip_bad_rows=True)
    assert (trace.counts.skipped, len(trace)) == (1, 60)
    assert trace.counts.read == len(trace) + 1


def test_windows_out_of_order(folder: Path) -> None:
    change(folder, "chunk-0-trace.csv", "120,1.0", "60,1.0")
    assert "not in order" in failure(folder, skip_bad_rows=True).message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("{10: 0.5", "{ten: 0.5", "input_tokens is no distribution"),
        ("{10: 0.5", "{10: -0.5", "input_tokens is no distribution"),
        ("{10: 0.5", "{10", "input_tokens is no distribution"),
        ("{10: 0.5", "{1e12: 0.5", "input_tokens is no distribution"),
        ("{5: 1.0}", "{5: 0}", "output_tokens is no distribution"),
        ('"120"', '"soon"', "the start of the window"),
        ("input_tokens", "inputs", "no distribution of input_tokens"),
        ("}", "", "no JSON"),
    ],
)
def test_a_bad_data_file(folder: Path, old: str, new: str, says: str) -> None:
    change(folder, "chunk-0-dataset.json", old, new)
    error = failure(folder, skip_bad_rows=True)
    assert says in error.message
    assert "chunk-0-dataset.json" in str(error.file)


def test_a_client_without_lengths_or_without_its_file(folder: Path) -> None:
    (folder / "chunk-12-dataset.json").write_text('{"0": {"input_tokens": "{}", "output_tokens": "{}"}}')
    assert "no lengths" in failure(folder).message
    counts = read(folder, skip_bad_rows=True).counts
    assert (counts.read, counts.skipped, counts.requests) == (120, 30, 90)
    (folder / "chunk-12-dataset.json").unlink()
    assert "no such file" in failure(folder).message


def test_a_quiet_folder(tmp_path: Path) -> None:
    path = tmp_path / "quiet"
    path.mkdir()
    (path / "chunk-3-trace.csv").write_text("0,0,0,,0,0\n600,0,0,,0,0\n")
    (path / "chunk-3-dataset.json").write_text(SERVEGEN["chunk-12-dataset.json"])
    assert failure(path).message == "the trace has no rows"


def test_parts_of_requests_go_to_the_next_window(tmp_path: Path) -> None:
    """0.4 requests a window are two in five windows."""
    path = tmp_path / "slow"
    path.mkdir()
    (path / "chunk-3-trace.csv").write_text("".join(f"{at},0.04,1,Gamma,1,25\n" for at in range(0, 50, 10)))
    (path / "chunk-3-dataset.json").write_text(SERVEGEN["chunk-12-dataset.json"])
    assert len(read(path)) == 2


def test_the_hash_of_a_configuration_follows_the_files_of_the_folder(folder: Path) -> None:
    fields = {"workload": {"trace": {"path": str(folder)}}}
    scenario = load("quickstart", extra=fields).scenario
    before = config_hash(scenario)
    assert config_hash(scenario) == before
    change(folder, "chunk-12-trace.csv", "2.5,Gamma", "2.4,Gamma")
    assert config_hash(scenario) != before
