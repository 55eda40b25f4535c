"""Recorded accepted lengths, replayed as they are; and what is wrong with files."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.acceptance.reading_back import fates_of, request

from servetwin.errors import TraceError
from servetwin.streams import Streams
from servetwin.workload.build import build_stream
from servetwin.workload.spec import WorkloadSpec

ROWS: list[Any] = [
    {"id": "a", "prompt_tokens": 9, "output_tokens": 4, "lens": [3, 2, 1, 1]},
    {"id": "b", "prompt_tokens": 9, "output_tokens": 3, "lens": [1, 1, 400], "other": [1]},
]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)


@pytest.mark.parametrize("packed", [False, True])
def test_requests_have_lines(packed: bool, tmp_path: Path) -> None:
    """From the first line again where there are too few, and from the first position of a line likewise."""
    data = LINES.encode()
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(data) if packed else data)
    fates = fates_of({"recorded": "a.jsonl", "column": "lens"}, base=tmp_path)
    assert fates.of(request(0, 4)).matches == bytes([2, 1, 0, 0])
    assert fates.of(request(0, 2)).matches == bytes([2, 1])
    assert fates.of(request(2, 10)).matches == bytes([2, 1, 0, 0, 2, 1, 0, 0, 2, 1])
    assert fates.of(request(3, 3)).matches == bytes([0, 0, 254])
    assert fates.of(request(3, 3)).proposed is None


@pytest.mark.parametrize("column", ["lens", "output_tokens"])
def test_a_workload_with_the_lengths_of_the_file_replays_it(column: str, tmp_path: Path) -> None:
    """A trace without arrivals takes them from the lists, or from what the file says of outputs."""
    (tmp_path / "a.jsonl").write_text(LINES)
    columns = {"prompt_tokens": "prompt_tokens", "output_tokens": column}
    workload = WorkloadSpec.model_validate({"trace": {"path": "a.jsonl", "columns": columns}})
    requests = list(build_stream(workload, Streams(0), requests=None, duration_ps=None, base=tmp_path))
    fates = fates_of({"recorded": "a.jsonl", "column": "lens"}, base=tmp_path)
    for one, row in zip(requests, ROWS, strict=True):
        assert (one.arrival_ps, one.output_tokens) == (0, len(row["lens"]))
        assert [min(length - 1, 254) for length in row["lens"]] == list(fates.of(one).matches)


def test_proposals_beside_a_recording(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"n": [1] * 900 + [3] * 100}))
    written = {"recorded": "a.jsonl", "column": "n", "proposal": 0.3}
    fates = fates_of(written, "ngram", base=tmp_path)
    fate = fates.of(request(4, 1000))
    assert fate.proposed is not None
    assert fate.proposed[900:] == bytes([254]) * 100
    share = sum(p > 0 for p in fate.proposed[:900]) / 900
    assert share == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 900))
    fates.of(request(9, 500))
    assert fates.of(request(4, 1000)).proposed == fate.proposed
    assert fates.of(request(5, 1000)).proposed != fate.proposed


def test_copies_of_a_prompt_have_one_line(tmp_path: Path) -> None:
    """Matches and proposals alike, for as many requests in a row as the scenario says."""
    (tmp_path / "a.jsonl").write_text(LINES)
    written = {"recorded": "a.jsonl", "column": "lens", "repeat": 3, "proposal": 0.5}
    fates = fates_of(written, "ngram", base=tmp_path)
    found = [fates.of(request(id, 60)) for id in range(7)]
    assert [fate.matches[:3] for fate in found] == [bytes([2, 1, 0])] * 3 + [bytes([0, 0, 254])] * 3 + [
        bytes([2, 1, 0])
    ]
    assert found[0].proposed == found[1].proposed == found[2].proposed
    assert found[3].proposed == found[5].proposed
    assert found[0].proposed != found[6].proposed


def failure(text: str | bytes, tmp_path: Path, column: str = "lens") -> TraceError:
    (tmp_path / "a.jsonl").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(TraceError) as caught:
        fates_of({"recorded": "a.jsonl", "column": column}, base=tmp_path)
    assert caught.value.file == "a.jsonl"
    return caught.value


@pytest.mark.parametrize(
    ("text", "says", "path"),
    [
        ("", "empty", None),
        ("\n\n", "empty", None),
        (LINES + "{", "no JSON", "line 3"),
        (LINES + "[1]", "no JSON object", "line 3"),
        (LINES + '{"id": 1}', "no list lens", "line 3"),
        (LINES + '{"lens": []}', "lens is empty", "line 3"),
        (LINES + '{"lens": [1, 0]}', "entry 1 of lens", "line 3"),
        (LINES + '{"lens": [1, 2.5]}', "entry 1 of lens", "line 3"),
        (LINES + '{"lens": [true]}', "entry 0 of lens", "line 3"),
        ("[" * 100_000, "no JSON", "line 1"),
        (b"\xff\xfe", "not UTF-8", "line 1"),
        (gzip.compress(LINES.encode())[:-9], "gzip file is damaged", None),
        (gzip.compress(LINES.encode())[:20] + b"xxxxxxxxxxxxxxxxxxxxxxxxx", "gzip file is damaged", None),
    ],
    ids=lambda value: str(value)[-30:],
)
def test_bad_files(text: str | bytes, says: str, path: str | None, tmp_path: Path) -> None:
    error = failure(text, tmp_path)
    assert says in error.message
    assert error.path == path
    assert len(str(error)) < 2_000


def test_a_wrong_column_shows_the_lists_that_there_are(tmp_path: Path) -> None:
    error = failure(LINES.splitlines()[1], tmp_path, "len")
    assert (error.path, error.allowed, error.nearest) == ("line 1", ["lens", "other"], "lens")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lens.jsonl").mkdir()
    for name, says in (("lns.jsonl", "no such file"), ("lens.jsonl", "directory"), ("\0", "cannot be read")):
        with pytest.raises(TraceError, match=says) as caught:
            fates_of({"recorded": name, "column": "lens"}, base=tmp_path)
        assert caught.value.file == name
        assert caught.value.nearest == ("lens.jsonl" if name == "lns.jsonl" else None)
