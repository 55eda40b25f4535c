import io

import pytest
from rich.console import Console
from tests.unit.results.building import Moved, drafting_run, finish, meta, split_meta, split_run, toy_run
from tests.unit.results.test_summary import ended

from servetwin.report.tables import Bar, print_result
from servetwin.report.units import number, percent
from servetwin.results import Recorder
from servetwin.units import PS_PER_S


def printed(result, width=100):
    file = io.StringIO()
    print_result(result.summary(), result.ledger(), Console(file=file, width=width, highlight=False))
    return file.getvalue()


@pytest.fixture(scope="module")
def overloaded():
    slo = {"ttft_ms": {"p99": 500}, "itl_ms": {"p99": 30}, "goodput": {"ttft_ms": 1000, "tpot_ms": 20}}
    return toy_run(800, rate_per_s=40, seats=32, slo=slo, warmup_requests=10)


def test_the_table_says_what_a_reader_looks_for(overloaded):
    text, found = printed(overloaded), overloaded.summary()
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    for name, metric in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("ITL", "itl_ms"), ("E2E", "e2e_ms")):
        assert lines[name] == [number(found[f"{metric}.{one}"]) for one in ("mean", "p50", "p90", "p99", "max")]
    assert lines["latency"][0] == "[ms]"
    assert "800 of 800 requests completed" in text and "first 10 are warm-up" in text
    assert "llama-3.1-8b on 2 GPUs, vllm 0.15" in text
    assert lines["ttft_ms.p99"][-1] == "missed" and lines["itl_ms.p99"][-1] == "met"
    assert percent(found["slo_attainment"]) in text
    assert "compute\u00a0" in text and "hbm\u00a0" in text and "█" in text
    assert "! overloaded: the queue grew throughout" in text


def test_what_became_of_drafts_is_said_where_there_were_any(overloaded):
    """67 steps with 12 drafted tokens, 10 of which stand, and 67 with 4 and 2: 804 of 1,072, in 536 drafts."""
    lines = [line.strip() for line in printed(drafting_run()).splitlines()]
    said = {line.split("  ")[0]: " ".join(line.split("  ", 1)[1].split()) for line in lines if "  " in line}
    assert said["acceptance length"] == "2.50 tokens per request and step with drafts"
    assert said["draft acceptance"] == "75.0% of 1,072 drafted tokens"
    assert said["wasted verification"] == "10.1% of GPU time, for rejected tokens"
    assert said["drafting"] == "6.7% of GPU time"
    assert any("wasted\u00a0verification\u00a010.1%" in line for line in lines)
    for word in ("acceptance", "drafting", "verification"):
        assert word not in printed(overloaded)


def test_what_became_of_hand_overs_is_said_where_there_were_any(overloaded):
    result = split_run(300)
    text, found = printed(result), result.summary()
    lines = [line.strip() for line in text.splitlines()]
    parts = {"queue": "queue", "prefill": "prefill", "decode queue": "decode_queue", "KV transfer": "transfer",
             "decode admission": "decode_admission"}  # fmt: skip
    for name, part in parts.items():
        figures = [number(found[f"ttft_{part}_ms.{one}"]) for one in ("mean", "p50", "p90", "p99", "max")]
        assert " ".join([name, *figures]) in (" ".join(line.split()) for line in lines), name
    said = {line.split("  ")[0]: " ".join(line.split("  ", 1)[1].split()) for line in lines if "  " in line}
    assert said["split requests"] == f"{found['split_requests']} of 300"
    assert said["KV cache moved"].startswith(f"{number(found['transfer_bytes'] / 1e9)} GB")
    hidden = found["transfer_hidden_s"] / (found["transfer_hidden_s"] + found["transfer_exposed_s"])
    assert said["hidden transfer"] == f"{percent(hidden)} of its time, behind the prefill"
    assert said["stranded KV cache"].startswith(percent(found["kv_stranded_prefill"]))
    # Busy for 1, 2, 3 and 4 of 30 s.
    assert said["prefill : decode"] == "2 : 2 busy 5.0% and 11.7%; roughly advised 1 : 3"
    for word in ("split requests", "KV transfer", "hand-over gap", "decode queue", "hidden transfer"):
        assert word not in printed(overloaded)


def test_a_gap_is_no_part_of_ttft():
    lines = [" ".join(line.split()) for line in printed(split_run(300, "prefill")).splitlines()]
    words = ("TTFT", "output", "hand-over gap", "KV transfer", "TPOT")
    found = [word for line in lines for word in words if line.startswith(word)]
    assert found == ["TTFT", "output", "hand-over gap", "KV transfer", "TPOT", "output"]


def test_hand_overs_in_vain_are_said():
    recorder = Recorder(split_meta())
    for identity in range(2):
        request = ended(identity, 0, 10, 20)
        request.outcome = "failed"
        Moved(start=0, attempts=2, kept=0, freed=10).record(recorder, request)
    text = printed(finish(recorder, PS_PER_S))
    assert "of 2, 2 in vain" in text and "4 of 4 failed" in text
    assert "prefill : decode" in text and "busy 0.0% and 0.0%" in text


@pytest.mark.parametrize("width", [30, 44, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(overloaded, width):
    text = printed(overloaded, width)
    assert max(map(len, text.splitlines())) <= width
    if width >= 44:
        for key in ("ttft_ms.mean", "ttft_ms.p99", "e2e_ms.max", "total_throughput_tokens_per_s"):
            assert number(overloaded.summary()[key]) in text


def test_a_run_without_requests_shows_dashes():
    text = printed(finish(Recorder(meta()), PS_PER_S))
    assert "0 of 0 requests completed" in text and "–" in text
    assert "SLO" not in text


def test_what_did_not_complete_is_in_the_heading():
    recorder = Recorder(meta())
    recorder.finished(ended(0, 0, 10, 20))
    for identity, outcome in ((1, "rejected"), (2, "rejected"), (3, "unfinished")):
        request = ended(identity, 0, 10, 20)
        request.outcome = outcome
        recorder.finished(request)
    assert "1 of 4 requests completed in 1 simulated s: 2 rejected, 1 unfinished" in printed(finish(recorder, PS_PER_S))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (0.01234, "0.0123"), (5.678, "5.68"), (123.456, "123.5"), (98765.4, "98,765"), (3, "3")],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.mark.parametrize("width", [1, 7, 72])
def test_the_bar_is_as_wide_as_its_shares(width):
    cells = Bar([("compute", 1 / 3), ("hbm", 1 / 3), ("idle", 1 / 3)]).cells(width)
    assert sum(cells) == width and min(cells) >= width // 3 - 1
