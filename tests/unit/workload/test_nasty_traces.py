"""Traces as they come from elsewhere, damaged as nobody draws it by chance: a message with its place, or a trace."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.workload.trace_samples import BURSTGPT, SERVEGEN

from servetwin.errors import TraceError
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.spec import TraceSpec

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
AT = "2024-05-10 00:00:0"
ROWS = [f"{AT}{second}.5,10{second},5\n" for second in range(5)]
GOOD = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
LINE = json.dumps(GOOD)
FIVE = AZURE + "".join(ROWS)
LONG = VIDUR + "".join(f"{at},{at % 997 + 1},{at * 7 % 13 + 1}\n" for at in range(150_000))


@pytest.fixture(autouse=True)
def promptly() -> Iterator[None]:
    """What waits for something that never comes fails."""

    def hangs(*_: Any) -> None:
        raise TimeoutError("reading the trace hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def read(path: Path, **options: Any) -> list[int]:
    return read_trace(TraceSpec(path=str(path), **options), Path()).prompts.tolist()


def refused(path: Path, message: str, *words: str, **options: Any) -> None:
    with pytest.raises(TraceError) as caught:
        read(path, **options)
    shown = str(caught.value)
    assert caught.value.file is not None
    assert caught.value.file.startswith(str(path))
    assert message in caught.value.message
    assert len(shown.splitlines()) < 16
    assert len(shown) < 2_500
    for word in words:
        assert word in shown, f"{word!r} is not in\n{shown}"


READ: dict[str, tuple[str | bytes, list[int]]] = {
    "CR LF": (FIVE.replace("\n", "\r\n"), [100, 101, 102, 103, 104]),
    "a BOM": (b"\xef\xbb\xbf" + FIVE.encode(), [100, 101, 102, 103, 104]),
    "one row": (AZURE + ROWS[0], [100]),
    "no line end": ((AZURE + ROWS[0]).strip(), [100]),
    "two members of gzip": (gzip.compress(AZURE.encode()) + gzip.compress(ROWS[3].encode()), [103]),
    "gzip, padded with zeros": (gzip.compress((AZURE + ROWS[1]).encode()) + bytes(100), [101]),
    "offsets from UTC": (
        AZURE + f"{AT}0+00:00,5,5\n2024-05-10 02:00:01+02:00,6,5\n2024-05-09 20:00:02-04:00,7,5\n", [5, 6, 7],
    ),
    "blank characters": (AZURE + ROWS[0] + "\v\f\x1c\x85\n" + ROWS[1], [100, 101]),
    "a key that is no text": (LINE.replace('"timestamp"', '"\\ud800": 1, "timestamp"'), [600]),
    "100,000 equal times": (VIDUR + "5.0,10,1\n" * 100_000, [10] * 100_000),
}  # fmt: skip

REFUSED: dict[str, tuple[str | bytes, str, tuple[str, ...]]] = {
    "CR alone": (FIVE.replace("\n", "\r"), "a line end is missing", ("line 1", "LF or CR LF")),
    "UTF-16": (FIVE.encode("utf-16"), "not UTF-8", ("line 1", "byte 0xff")),
    "Latin-1": (AZURE.encode() + b"2024-05-10 00:00:01,\xe9,5\n", "not UTF-8", ("line 2", "byte 0xe9")),
    "a line end in quotes": (AZURE + ROWS[0] + f'"{AT}2\n",5,5\n', "the row is no CSV", ("line 3", "quotes")),
    "NUL": (AZURE + ROWS[0] + f"{AT}1.5\0,5,5\n", "TIMESTAMP is no time", ("line 3", "\\x00")),
    "NUL before the header": ("\0" + FIVE, "no trace in a format", ("\\x00TIMESTAMP", "nearest: azure")),
    "an escape sequence": (AZURE + "\x1b[31mred,5,5\n", "TIMESTAMP is no time", ("line 2", "\\x1b[31mred")),
    "a column twice": (AZURE.replace("TIMESTAMP", "TIMESTAMP,TIMESTAMP"), "has 2 columns TIMESTAMP", ("line 1",)),
    "an optional column twice": (
        BURSTGPT.replace("Log Type\n", "Log Type,Session ID,Session ID\n"), "has 2 columns Session ID", ("line 1",),
    ),
    "a header only": (AZURE, "the trace has no rows", ()),
    "nothing": ("", "the trace is empty", ()),
    "blank lines": ("\n\n \n", "the trace is empty", ()),
    "a huge number": (AZURE + f"{AT}1,{'9' * 5000},5\n", "no number of tokens", ("line 2", "999…")),
    "a huge number in JSON": (
        LINE + "\n" + LINE.replace("600", "9" * 5000), "a number has too many digits", ("line 2",),
    ),
    "1e400": (VIDUR + "0,5,5\n1e400,5,5\n", "arrived_at is no time", ("line 3", "1e400")),
    "1e400 in JSON": (LINE.replace(": 0", ": 1e400"), "timestamp is no time", ("line 1", "inf")),
    "NaN": (VIDUR + "nan,5,5\n", "arrived_at is no time", ("line 2", "nan")),
    "NaN in JSON": (LINE.replace(": 0", ": NaN"), "NaN is no number", ("line 1",)),
    "a negative length": (VIDUR + "0,-5,5\n", "num_prefill_tokens is no number of tokens", ("line 2", "-5")),
    "no prompt": (VIDUR + "0,0,5\n", "num_prefill_tokens is no number of tokens", ("line 2", "from 1 to")),
    "no output": (VIDUR + "0,5,0\n", "num_decode_tokens is no number of tokens", ("line 2", "from 1 to")),
    "half a token": (VIDUR + "0,5.5,1\n", "num_prefill_tokens is no number of tokens", ("line 2", "5.5")),
    "digits of another script": (VIDUR + "0,٣,1\n", "num_prefill_tokens is no number of tokens", ("line 2", "٣")),
    "time that runs back": (
        AZURE + f"{AT}0,5,5\n{AT}1+02:00,5,5\n", "not in order of time", ("line 3", "7199 s before", "sort"),
    ),
    "a leap second": (AZURE + "2016-12-31 23:59:60,5,5\n", "not in the calendar", ("line 2",)),
    "the year 0": (AZURE + "0000-01-01 00:00:00,5,5\n", "not in the calendar", ("line 2",)),
    "the year 9999": (AZURE + ROWS[0] + "9999-01-01 00:00:00,5,5\n", "comes too late", ("line 3", "90 days")),
    "cells that are missing": (AZURE + f"{AT}1,5\n", "the row has 2 cells", ("line 2", "3 cells")),
    "garbage behind JSON": (f"{LINE}\n{LINE} xx\n", "Extra data, at character 79", ("line 2",)),
    "two objects in a line": (LINE + LINE, "Extra data", ("line 1",)),
    "nested JSON": (LINE + '\n{"timestamp":' + "[" * 100_000, "nested too deeply", ("line 2",)),
    "an object for a number": (LINE.replace(": 0", ': {"a": 1}'), "timestamp is no time", ("line 1", "{'a': 1}")),
    "an array": (json.dumps([GOOD, GOOD]), "no trace in a format", ("line 1", "mooncake")),
    "an object over lines": (json.dumps(GOOD, indent=1), "no trace in a format", ("line 1", "mooncake")),
    "a line of 50 MB": (AZURE + "x" * 50_000_000 + "\n", "no text file", ("line 2", "longer than 16 MiB")),
    "a first line of 50 MB": ("x" * 50_000_000, "no text file", ("line 1", "longer than 16 MiB")),
    "a line of 15 MB": (AZURE + "x" * 15_000_000 + "\n", "the row has 1 cells", ("line 2", "xxx…")),
    "gzip, cut in the middle": (
        gzip.compress(LONG.encode())[:-2_000], "the gzip file is cut off", ("after line ",),
    ),
    "gzip, of its own": (gzip.compress(gzip.compress(FIVE.encode())), "not UTF-8", ("line 1",)),
    "gzip, damaged": (gzip.compress(FIVE.encode())[:-8] + bytes(8), "the gzip file is damaged", ()),
    "gzip, and garbage": (gzip.compress(FIVE.encode()) + b"garbage", "the gzip file is damaged", ()),
    "gzip, two bytes": (b"\x1f\x8b", "the gzip file is cut off", ()),
    "zstd, cut off": (b"\x28\xb5\x2f\xfd\0\0", "cannot be read", ()),
    "Parquet, cut off": (b"PAR1" + bytes(100), "the Parquet file is damaged", ()),
    "a ZIP archive": (b"PK\x03\x04" + bytes(50), "no trace in a format", ("PK\\x03",)),
    "a web page": ("<!DOCTYPE html><html>", "no trace in a format", ("line 1", "DOCTYPE")),
}  # fmt: skip


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", READ)
def test_strange_but_good(name: str, tmp_path: Path) -> None:
    content, prompts = READ[name]
    assert read(write(tmp_path / "t", content)) == prompts


@pytest.mark.parametrize("name", REFUSED)
def test_damaged(name: str, tmp_path: Path) -> None:
    content, message, words = REFUSED[name]
    refused(write(tmp_path / "t", content), message, *words)


def test_a_column_that_a_map_names_stands_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "t", "t,a,b,a\n0,1,2,3\n")
    columns = "arrival_s=t,prompt_tokens=b,output_tokens=a"
    refused(path, "has 2 columns a", "line 1", "t,a,b,a", columns=columns)
    assert read(path, columns=columns.replace("=a", "=b")) == [2]


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    by_place = "arrival_s=0,prompt_tokens=1,output_tokens=2"
    for options in ({}, {"format": "azure"}, {"format": "servetwin"}, {"columns": by_place}):
        refused(tmp_path / "pipe", "this is a pipe, not a file", "save the trace first", **options)


@pytest.mark.parametrize("name", SERVEGEN)
def test_a_pipe_in_a_folder_does_not_hang(name: str, tmp_path: Path) -> None:
    for file, content in SERVEGEN.items():
        write(tmp_path / file, content)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    refused(tmp_path, "this is a pipe", name)


def test_devices_and_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("/dev/null", "/dev/zero"):
        refused(Path(device), "this is a device, not a file")
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        refused(Path("s"), "this is a socket, not a file")


def test_links(tmp_path: Path) -> None:
    loop, lost, folder = tmp_path / "loop", tmp_path / "lost", tmp_path / "folder"
    loop.symlink_to(loop)
    refused(loop, "Too many levels of symbolic links")
    lost.symlink_to(tmp_path / "gone")
    refused(lost, "this link leads to no file", str(tmp_path / "gone"))
    folder.mkdir()
    (folder / "itself").symlink_to(folder)
    refused(folder, "a directory, and holds no trace")
    (folder / "chunk-0-trace.csv").symlink_to(folder / "chunk-0-trace.csv")
    refused(folder, "Too many levels of symbolic links", "chunk-0-trace.csv")


@pytest.mark.parametrize("name", ["chunk-0-trace.csv", "chunk-0-dataset.json"])
def test_folders_where_files_should_be(name: str, tmp_path: Path) -> None:
    for file, content in SERVEGEN.items():
        write(tmp_path / file, content)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    refused(tmp_path, "this is a directory, not a file", name)


SHUT = """
import os, sys
import servetwin.workload.traces.servegen
from servetwin.errors import TraceError
from servetwin.workload.traces.reading import read_trace, Path
from servetwin.workload.traces.spec import TraceSpec
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    try:
        read_trace(TraceSpec(path=path), Path())
    except TraceError as error:
        print(error.file, error.message, sep=": ")
"""


def test_what_may_not_be_read() -> None:
    """As another user, for nothing is shut for the administrator."""
    with tempfile.TemporaryDirectory(prefix="servetwin-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        write(folder / "file", FIVE).chmod(0)
        for shut in ("all", "dataset"):
            (folder / shut).mkdir()
            for file, content in SERVEGEN.items():
                write(folder / shut / file, content)
        (folder / "dataset" / "chunk-12-dataset.json").chmod(0)
        (folder / "all").chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", SHUT, *(str(folder / what) for what in ("file", "dataset", "all"))],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        (folder / "all").chmod(0o755)
        assert done.stdout.splitlines() == [
            f"{folder}/file: the file cannot be read: Permission denied",
            f"{folder}/dataset/chunk-12-dataset.json: the file cannot be read: Permission denied",
            f"{folder}/all: the folder cannot be read: Permission denied",
        ]
