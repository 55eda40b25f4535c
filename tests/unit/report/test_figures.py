import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib import image
from matplotlib.figure import Figure
from tests.unit.results.building import (
    LINK_BYTES_PER_TOKEN,
    Moved,
    Run,
    Step,
    drafting_run,
    finish,
    linked_run,
    meta,
    record,
    split_meta,
    split_run,
    toy_run,
    work,
)  # fmt: skip
from tests.unit.results.test_summary import ended

from servetwin.report.data import TimelineData, coarser, latency_data, timeline_data
from servetwin.report.figures import draw
from servetwin.report.hand_over_data import HandOverData, hand_over_data
from servetwin.report.hand_overs import _draw_transfers
from servetwin.report.latency import _crossed
from servetwin.report.link_data import LinkLoad, busiest
from servetwin.report.links import _draw_kind, intervals
from servetwin.report.over_time import mean_line
from servetwin.report.roofline import buckets
from servetwin.report.style import label_numbers, label_shares
from servetwin.request import COMPLETED
from servetwin.results import Recorder, load
from servetwin.results.links import LinkUse
from servetwin.units import PS_PER_MS, PS_PER_S


@pytest.fixture(scope="module")
def run():
    return toy_run(300, replicas=2, slo={"ttft_ms": {"p99": 20}, "tpot_ms": {"p99": 500}, "goodput": {"ttft_ms": 30}})


def colours(path):
    """How many different colours a picture has, and its size."""
    pixels = image.imread(path)
    packed = (pixels[..., :3] * 255).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    return len(np.unique(packed)), pixels.shape


def test_a_run_draws_three_pictures(run, tmp_path):
    files = run.write(tmp_path)[-3:]
    assert [path.name for path in files] == ["latency.png", "timeline.png", "roofline.png"]
    for path in files:
        number, (height, width, _) = colours(path)
        assert number > 100 and width >= 1200 and height >= 700


def test_pictures_of_the_same_run_have_the_same_bytes(run, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        draw(run, tmp_path / name)
    for name in ("latency.png", "timeline.png", "roofline.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_stored_run_draws_what_it_kept(run, tmp_path):
    run.write(tmp_path, figures=False)
    assert [path.name for path in draw(load(tmp_path), tmp_path)] == ["latency.png", "timeline.png"]


def test_a_run_with_a_network_draws_its_links_too(tmp_path):
    result = linked_run()
    assert [path.name for path in result.write(tmp_path)[-4:]] == [
        "latency.png", "timeline.png", "roofline.png", "links.png",
    ]  # fmt: skip
    number, (height, width, _) = colours(tmp_path / "links.png")
    assert number > 100 and width >= 1200 and height >= 400
    assert [path.name for path in draw(load(tmp_path), tmp_path)] == ["latency.png", "timeline.png", "links.png"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_run_with_speculation_draws_it_too(tmp_path, replicas):
    result = drafting_run(replicas)
    assert [path.name for path in result.write(tmp_path)[-4:]] == result.pictures()
    assert result.pictures() == ["latency.png", "timeline.png", "roofline.png", "speculation.png"]
    number, (height, width, _) = colours(tmp_path / "speculation.png")
    assert number > 100 and width >= 1200 and height >= 700
    drawn = (tmp_path / "speculation.png").read_bytes()
    assert draw(load(tmp_path), tmp_path)[-1].name == "speculation.png"
    assert (tmp_path / "speculation.png").read_bytes() == drawn


def test_a_run_without_speculation_removes_the_picture_of_another(tmp_path):
    drafting_run().write(tmp_path)
    toy_run(20).write(tmp_path)
    assert not (tmp_path / "speculation.png").exists()


def test_runs_of_versions_without_speculation_can_still_be_drawn(tmp_path):
    toy_run(20).write(tmp_path, figures=False)
    path = tmp_path / "timeseries.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["drafted_tokens", "accepted_tokens"]), path)
    assert [file.name for file in draw(load(tmp_path), tmp_path)] == ["latency.png", "timeline.png"]


@pytest.mark.parametrize("first_token", ["decode", "prefill"])
def test_a_run_with_hand_overs_draws_them_too(tmp_path, first_token):
    result = split_run(first_token=first_token)
    assert [path.name for path in result.write(tmp_path)[-4:]] == result.pictures()
    assert result.pictures() == ["latency.png", "timeline.png", "roofline.png", "hand_overs.png"]
    number, (height, width, _) = colours(tmp_path / "hand_overs.png")
    assert number > 100 and width >= 1200 and height >= 700
    drawn = (tmp_path / "hand_overs.png").read_bytes()
    assert draw(load(tmp_path), tmp_path)[-1].name == "hand_overs.png"
    assert (tmp_path / "hand_overs.png").read_bytes() == drawn
    toy_run(20).write(tmp_path)
    assert not (tmp_path / "hand_overs.png").exists()


def test_runs_of_versions_without_hand_overs_can_still_be_drawn(tmp_path):
    toy_run(20).write(tmp_path, figures=False)
    summary = json.loads((tmp_path / "summary.json").read_text())
    (tmp_path / "summary.json").write_text(json.dumps({k: v for k, v in summary.items() if k != "split_requests"}))
    assert [file.name for file in draw(load(tmp_path), tmp_path)] == ["latency.png", "timeline.png"]


@pytest.mark.parametrize("warmup", [0, 30])
@pytest.mark.parametrize("first_token", ["decode", "prefill"])
def test_what_is_drawn_of_hand_overs(tmp_path, first_token, warmup):
    """The parts that the summary has, of the split requests; the gap follows the prefill, not its token."""
    result = split_run(200, first_token, warmup_requests=warmup)
    result.write(tmp_path, figures=False)
    frame, summary = result.requests(), result.summary()
    counts = (frame["arrival_s"].rank(method="first") > warmup) & (frame["outcome"] == COMPLETED)
    split = frame[counts & frame["prefill_replica"].notna()]
    for data in (hand_over_data(result), hand_over_data(load(tmp_path))):
        assert data.by_prefill == (first_token == "prefill")
        until = split["decode_scheduled_s"] if data.by_prefill else split["first_token_s"]
        whole = sum(data.parts_ms.values())
        assert whole == pytest.approx(1000 * (until - split["arrival_s"]).to_numpy(), rel=1e-9)
        assert np.array_equal(data.ttft_ms, split["ttft_ms"])
        key = "gap_transfer_ms" if data.by_prefill else "ttft_transfer_ms"
        share = 1 if data.by_prefill else len(split) / counts.sum()
        assert data.parts_ms["transfer"].mean() * share == pytest.approx(summary[f"{key}.mean"])
        assert data.took_ms.mean() == pytest.approx(summary["transfer_ms.mean"])
        assert len(data.moved_bytes) == frame["transfer_end_s"].notna().sum()
        assert (data.exposed_ms <= data.took_ms).all() and data.exposed_ms.min() >= 0


@pytest.mark.parametrize(
    ("sizes_mb", "took_ms", "alone", "scale", "unit"),
    [
        ([100, 200], [1, 2], 1e11, "linear", "ms"),
        ([100, 200], [1, 0], None, "linear", "ms"),
        ([20, 4500], [1, 90], 1e11, "log", "ms"),
        ([20, 4500], [0, 90], 1e11, "linear", "ms"),
        ([100], [30_000], 1e9, "linear", "s"),
    ],
)
def test_the_axes_of_transfers(sizes_mb, took_ms, alone, scale, unit):
    took = np.array(took_ms, float)
    axes = Figure().subplots()
    _draw_transfers(axes, HandOverData(False, {}, took, 1e6 * np.array(sizes_mb), took, took), alone)
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylabel()) == (scale, scale, unit)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == "exposed, all of it" and len(labels) == 1 + (alone is not None)
    if alone is not None:
        # The line leads to the time that the largest takes alone.
        line = axes.get_lines()[-1].get_ydata()
        assert line[-1] == pytest.approx(1e6 * max(sizes_mb) / alone * (1 if unit == "s" else 1000))


def test_hand_overs_without_an_end_are_drawn_as_such(tmp_path):
    """Nothing completed, and nothing was transferred."""
    recorder = Recorder(split_meta())
    request = ended(0, 0, 10, 20)
    request.outcome, request.first_token_ps, request.last_token_ps = "unfinished", -1, -1
    Moved(kept=10 * PS_PER_MS).record(recorder, request)
    (*_, last) = draw(finish(recorder, PS_PER_S), tmp_path)
    assert last.name == "hand_overs.png" and colours(last)[0] > 5


def test_what_is_drawn_of_speculation():
    """200 steps of 10 ms with K = 3, 1 and 0, joined to 10 intervals of 200 ms: 67 steps, 67 steps, 66 steps.

    Of 4 requests, 10 of 12 tokens stand with K = 3 and 2 of 4 with K = 1.
    """
    data = coarser(timeline_data(drafting_run(), ("k", "running", "drafted_tokens", "accepted_tokens")), 10)
    assert data.columns["k"][0] == pytest.approx([3, 3, 3, (7 * 3 + 13) / 20, 1, 1, 14 / 20, 0, 0, 0])
    assert data.columns["drafted_tokens"][0].tolist() == [240, 240, 240, 7 * 12 + 13 * 4, 80, 80, 56, 0, 0, 0]
    assert data.columns["accepted_tokens"][0].tolist() == [200, 200, 200, 7 * 10 + 13 * 2, 40, 40, 28, 0, 0, 0]
    assert data.columns["running"][0] == pytest.approx([4] * 10)


def test_a_band_leaves_out_replicas_that_have_no_value():
    """Two of three replicas have speculation, and neither chose anything in the last interval."""
    axes = Figure().subplots()
    values = np.array([[3.0, 1.0, np.nan], [np.nan] * 3, [1.0, np.nan, np.nan]])
    mean_line(axes, TimelineData(np.arange(4.0), {}), values, "k", "mean")
    band, line = (patch.get_data() for patch in axes.patches)
    assert np.array_equal(band.values, [3, 1, np.nan], equal_nan=True)
    assert np.array_equal(band.baseline, [1, 1, np.nan], equal_nan=True)
    assert np.array_equal(line.values, [2, 1, np.nan], equal_nan=True)


def test_links_that_carried_nothing_are_drawn_as_such(tmp_path):
    result = toy_run(20, network={"links": [LinkUse("node0/gpu0/nic-out", 10**9, (), ())]})
    result.write(tmp_path)
    assert busiest(result) == busiest(load(tmp_path)) == []
    assert (tmp_path / "links.png").exists() and result.summary()["links"] == {}


def test_what_is_drawn_of_links(tmp_path):
    """In memory and read back: the shares, and their means over other intervals."""
    result = linked_run()
    result.write(tmp_path, figures=False)
    for loads in (busiest(result), busiest(load(tmp_path))):
        port, nic = loads
        assert (port.name, port.bytes_per_s, port.kind) == ("node0/gpu0/link-out", 1e9, "link")
        assert (nic.name, nic.bytes_per_s, nic.kind) == ("node0/gpu0/nic-out", 1e11, "nic")
        sent = port.carried * port.bytes_per_s
        assert sent == pytest.approx(LINK_BYTES_PER_TOKEN * result.segments.totals.tokens)
        assert nic.carried == pytest.approx(0.1)
        assert nic.mean(np.array([0, 2, 2.5, 4]), nic.transfers) == pytest.approx([0, 0.1, 0.1 / 3])
        whole = np.array([0.0, result.series.horizon_ps / PS_PER_S])
        assert port.mean(whole, port.collectives)[0] == pytest.approx(result.summary()["links"]["link"]["mean"])


def test_links_that_carry_the_same_are_drawn_once():
    """At most eight, each kind in turn; the others of a class are counted."""

    def one(name, rate):
        return LinkUse(name, 10**9, (PS_PER_S, 2 * PS_PER_S), (rate, 0))

    ports = [one(f"node0/gpu{gpu}/link-out", 10**8 * (gpu // 2 + 1)) for gpu in range(16)]
    loads = busiest(toy_run(40, network={"links": [*ports, one("rack0/spine-up", 5)]}))
    assert [load.name for load in loads] == [
        *(f"node0/gpu{gpu}/link-out" for gpu in range(14, 0, -2)),
        "rack0/spine-up",
    ]
    assert [load.alike for load in loads[:2]] == [["node0/gpu15/link-out"], ["node0/gpu13/link-out"]]


@pytest.mark.parametrize(
    ("end_s", "edges_s"),
    [(3.0, [0, 1, 2, 3]), (3.4, [0, 1, 2, 3.4]), (3.6, [0, 1, 2, 3, 3.6]), (1.2, [0, 1.2]), (0.3, [0, 0.3])],
)
def test_what_little_is_left_at_the_end_is_no_interval_of_its_own(end_s, edges_s):
    assert intervals(end_s, 1.0) == pytest.approx(edges_s)


def test_links_of_a_kind_have_one_scale_whose_ticks_all_differ():
    """A NIC that hardly does anything has a scale to read as well."""
    edges, figure = np.array([0.0, 1.0]), Figure()

    def load(name, share):
        return LinkLoad(name, 1e9, edges[:1], edges[1:], np.array([share / 4]), np.array([share]))

    panels = figure.subplots(1, 3, squeeze=False).ravel().tolist()
    _draw_kind(panels, [load("node0/gpu0/nic-out", 4e-4), load("node0/gpu0/nic-in", 1e-4)], edges)
    assert panels[0].get_ylim() == panels[1].get_ylim() and panels[0].get_ylim()[1] > 5e-4
    assert [axes.axison for axes in panels] == [True, True, False]
    figure.draw_without_rendering()
    ticks = [label.get_text() for label in panels[1].get_yticklabels()]
    assert len(ticks) > 2 and len(set(ticks)) == len(ticks)


@pytest.mark.parametrize(("share", "shown"), [(0, "0%"), (0.003, "0.3%"), (0.06, "6%"), (0.125, "12.5%"), (1, "100%")])
def test_ticks_of_shares_have_no_more_digits_than_they_need(share, shown):
    axes = Figure().subplots()
    label_shares(axes.yaxis)
    label_numbers(axes.xaxis)
    assert axes.yaxis.get_major_formatter()(share) == shown
    assert axes.xaxis.get_major_formatter()(12500.5) == "12,500.5"


@pytest.mark.parametrize("warmup", [0, 30])
def test_a_stored_run_has_the_same_data_to_draw(tmp_path, warmup):
    result = toy_run(100, replicas=2, warmup_requests=warmup)
    result.write(tmp_path, figures=False)
    here, stored = latency_data(result).samples, latency_data(load(tmp_path)).samples
    for name in here:
        assert np.array_equal(here[name], stored[name])
        assert len(here[name]) == 100 - warmup
    mine, read = timeline_data(result), timeline_data(load(tmp_path))
    assert np.array_equal(mine.edges_s, read.edges_s)
    for name, values in mine.columns.items():
        assert np.array_equal(values, read.columns[name], equal_nan=True), name


def odd_runs():
    empty = Recorder(meta())
    yield "empty", empty, PS_PER_S
    single = Recorder(meta(slo={"e2e_ms": {"p99": 5}}))
    single.finished(ended(0, 0, 10, 10, output=1))
    record(single, [Run(Step(0, 0, 10 * PS_PER_MS, 10, prefill=100, tokens=100, weight=0, decodes=0))])
    yield "one token", single, PS_PER_S
    rejected = Recorder(meta())
    request = ended(0, 0, 10, 20)
    request.outcome, request.replica = "rejected", -1
    rejected.finished(request)
    yield "all rejected", rejected, PS_PER_S
    equal = Recorder(meta())
    for place in range(5):
        equal.finished(ended(place, 0, 10, 20))
    yield "all equal", equal, 20 * PS_PER_MS
    wide = Recorder(meta(slo={"ttft_ms": {"p50": 1, "p99": 10**6}}))
    for place in range(200):
        wide.finished(ended(place, 0, 1 + 10 * place * place, 2 + 20 * place * place, output=2))
    yield "over five decades", wide, 10**3 * PS_PER_S


@pytest.mark.parametrize(("recorder", "end"), [pytest.param(*one[1:], id=one[0]) for one in odd_runs()])
def test_odd_runs_are_drawn_without_a_warning(recorder, end, tmp_path):
    for path in draw(finish(recorder, end), tmp_path):
        assert colours(path)[0] > 5


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize(
    ("value", "limit", "left"),
    [(70, 80, True), (70, 65, False), (70, 99, False), (70, 200, False), (5, 7, False), (70, 71, True)],
)
def test_a_label_avoids_the_line_of_a_limit(value, limit, left, logarithmic):
    axes = Figure().subplots()
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(1, 10)
        value, limit = 10 ** (value / 100), 10 ** (limit / 100)
    else:
        axes.set_xlim(0, 100)
    assert _crossed(axes, "p99  21.8 ms", value, [limit]) is left
    assert not _crossed(axes, "p99  21.8 ms", value, [])


def test_a_label_between_two_limits_stays_where_it_is():
    axes = Figure().subplots()
    axes.set_xlim(0, 100)
    assert not _crossed(axes, "p99  21.8 ms", 70, [65, 75])


def test_joining_intervals_keeps_counts_and_time_averages(run):
    fine = timeline_data(run)
    coarse = coarser(fine, 37)
    assert len(coarse.edges_s) <= 38 and coarse.edges_s[-1] == fine.edges_s[-1]
    for name in ("arrivals", "completed", "prefill_tokens", "output_tokens"):
        assert coarse.columns[name].sum() == fine.columns[name].sum()
    for name in ("running", "waiting", "kv_use", "utilisation"):
        averages = [(data.columns[name] * np.diff(data.edges_s)).sum() for data in (coarse, fine)]
        assert averages[0] == pytest.approx(averages[1], rel=1e-12)
    assert coarser(fine, 10**6) is fine


def test_drafts_have_rows_of_logits_in_the_roofline():
    """Three requests with two drafts each, two of which stand: nine tokens, nine rows, five tokens yielded."""
    recorder = Recorder(meta())
    step = Step(0, 0, PS_PER_MS, 0, 3, 9, 0, 5, 3, 300, 900, drafted=6, accepted=2)
    record(recorder, [Run(step)])
    (disc,) = buckets(finish(recorder, PS_PER_S), 0)
    flops, moved = work(9, 9, 300, 900)
    assert disc.intensity == pytest.approx(flops / moved) and disc.seconds == 0.001


def test_roofline_buckets_hold_all_steps_at_their_place(run):
    found = buckets(run, 0)
    assert sum(disc.seconds for disc in found) == pytest.approx(sum(run.segments.totals.busy_ps) / PS_PER_S)
    done = sum(disc.achieved * disc.seconds for disc in found)
    exact = 0.0
    for chunk in run.segments.store:
        names = ("count", "tokens", "emitted", "context", "attended", "decodes")
        for count, tokens, rows, context, attended, decodes in zip(
            *(chunk[name].tolist() for name in names), strict=True
        ):
            exact += sum(work(tokens, rows, context + decodes * j, attended + decodes * j)[0] for j in range(count))
    assert done == pytest.approx(exact, rel=1e-3)
    assert {disc.mixed for disc in found} == {False, True}
    for disc in found:
        pool = run.meta.pools[0]
        assert disc.achieved <= min(pool.peak_flops, disc.intensity * pool.peak_bytes_per_s)


def test_roofline_of_a_single_step_is_worked_out_by_hand():
    recorder = Recorder(meta())
    step = Step(0, 0, 10 * PS_PER_MS, 0, tokens=4, decodes=4, emitted=4, context=1000, attended=1000)
    record(recorder, [Run(step)])
    (disc,) = buckets(finish(recorder, PS_PER_S), 0)
    flops, moved = work(4, 4, 1000, 1000)
    assert (disc.mixed, disc.seconds) == (False, 0.01)
    assert disc.intensity == pytest.approx(flops / moved) and disc.achieved == pytest.approx(flops / 0.01)
