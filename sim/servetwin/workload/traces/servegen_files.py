"""The two files of a ServeGen client."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from servetwin.errors import TraceError
from servetwin.workload.base import MAX_TOKENS
from servetwin.workload.traces.format import RowError
from servetwin.workload.traces.lines import check_text, line_blocks, read_bytes

Floats = np.ndarray[Any, np.dtype[np.float64]]

FAMILIES = ("Gamma", "Weibull", "")
"""What the gaps of a window may follow; nothing = exponential, stretched to the CV."""

MOST_REQUESTS = 2_000_000
"""Requests of one client in one window; more are a slip of the keyboard."""

MAX_START_S = 1e9
MAX_CV = 1e4
_DEFAULT_WIDTH_S = 600.0
"""Width of the window of a file that has one only; ServeGen's are 10 minutes."""


@dataclass(slots=True)
class Window:
    """A stretch of a client's time.

    Attributes:
        place: where it stands, for messages.
        start_s: its start [s].
        rate_per_s: recorded requests per second.
        cv: recorded coefficient of variation of the gaps; 0 = unknown, taken as 1, that of exponential gaps.
        family: one of ``FAMILIES``.
        error: what is wrong with its line.
        width_s: its length [s], to the start of the next one.
        requests: how many requests were recorded.
    """

    place: str
    start_s: float
    rate_per_s: float = 0.0
    cv: float = 0.0
    family: str = ""
    error: RowError | None = None
    width_s: float = _DEFAULT_WIDTH_S
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Lengths:
    """An empirical distribution of lengths.

    Attributes:
        values: the lengths [tokens], ascending.
        cumulative: the share of lengths up to each of them; the last one is 1.
    """

    values: np.ndarray[Any, np.dtype[np.int64]]
    cumulative: Floats


@dataclass(frozen=True, slots=True)
class Client:
    """A client of ServeGen.

    Attributes:
        name: ``chunk-I``.
        windows: its time, in order.
        starts_s: starts of the windows that have lengths [s], ascending.
        data: their prompt and output lengths.
        no_data: what to say where there are none.
    """

    name: str
    windows: list[Window]
    starts_s: list[float]
    data: list[tuple[Lengths, Lengths]]
    no_data: RowError

    def data_at(self, time_s: float) -> int:
        """Whose lengths hold at a time: the last window before it that has some, else the first; one must have some."""
        return max(bisect_right(self.starts_s, time_s) - 1, 0)


def read_client(trace: Path, shown: str) -> Client:
    """Read both files of a client.

    Args:
        trace: its trace file.
        shown: the name of the folder as the user gave it.

    Raises:
        TraceError: a file cannot be read, or its content is no client's. Single bad lines are in the windows.
    """
    name = trace.name[: trace.name.index("-trace.csv")]
    windows = _windows(trace, shown)
    file = _dataset(trace, name)
    lengths = _read_lengths(file, f"{shown}/{file.name}")
    return Client(
        name,
        windows,
        starts_s=[start for start, _, _ in lengths],
        data=[(prompts, outputs) for _, prompts, outputs in lengths],
        no_data=RowError("the client has no lengths", file.name, "a window with input_tokens and output_tokens"),
    )


def _windows(trace: Path, shown: str) -> list[Window]:
    windows = [_window(line, f"{trace.name}, line {number}") for number, line in _lines(trace, shown)]
    good = [window for window in windows if window.error is None]
    recorded = 0.0
    made = 0
    for index, window in enumerate(good):
        after = good[index + 1] if index + 1 < len(good) else None
        if after is not None and after.start_s <= window.start_s:
            raise TraceError(
                "the windows are not in order of time",
                file=shown,
                path=after.place,
                found=after.start_s,
                allowed=f"more than {window.start_s:g}",
            )
        if after is not None:
            window.width_s = after.start_s - window.start_s
        elif len(good) > 1:
            window.width_s = good[-1].start_s - good[-2].start_s
        # What rounding leaves of a request goes to the windows that follow.
        recorded += window.rate_per_s * window.width_s
        requests = round(recorded) - made
        if requests > MOST_REQUESTS:
            window.error = RowError("the window has too many requests", requests, f"at most {MOST_REQUESTS:,}")
            recorded = float(made)
            continue
        window.requests, made = requests, made + requests
    last = 0.0
    for window in windows:
        # What is wrong with a line is reported at the start of the window before it, so that time never runs back.
        if window.error is not None:
            window.start_s = last
        last = window.start_s
    return windows


def _lines(path: Path, shown: str) -> Iterator[tuple[int, str]]:
    for start, lines in line_blocks(path, f"{shown}/{path.name}", lenient=True):
        for number, line in enumerate(lines, start):
            if line.strip():
                yield number, line.strip()


def _window(line: str, place: str) -> Window:
    window = Window(place, 0.0)
    try:
        check_text(line)
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 6:
            raise RowError(f"the row has {len(cells)} cells", line, "6: start, rate, CV, family and two parameters")
        window.start_s = _number(cells[0], "the start of the window", MAX_START_S)
        window.rate_per_s = _number(cells[1], "the rate", MOST_REQUESTS)
        window.cv = _number(cells[2], "the CV", MAX_CV)
        window.family = cells[3]
        if window.family not in FAMILIES:
            raise RowError("unknown family of gaps", window.family, "Gamma, Weibull, or nothing")
    except RowError as error:
        window.error = error
    return window


def _number(text: str, what: str, most: float) -> float:
    try:
        value = float(text) if len(text) <= 40 and "_" not in text and text.isascii() else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise RowError(f"{what} is out of range", text, f"a number from 0 to {most:g}")
    return value


def _read_lengths(file: Path, place: str) -> list[tuple[float, Lengths, Lengths]]:
    """The windows that have lengths, in order: start [s], prompts, outputs."""
    try:
        content = json.loads(read_bytes(file, place))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"the file is no JSON: {error}", file=place) from None
    if type(content) is not dict:
        raise TraceError("the file is no JSON object", file=place, allowed='{"0": {"input_tokens": "{…}", …}, …}')
    windows: list[tuple[float, Lengths, Lengths]] = []
    for key, fields in content.items():
        start_s = _start(key, place)
        prompts, outputs = (_lengths(fields, name, key, place) for name in ("input_tokens", "output_tokens"))
        if prompts is not None and outputs is not None:
            windows.append((start_s, prompts, outputs))
    return sorted(windows, key=lambda window: window[0])


def _dataset(trace: Path, client: str) -> Path:
    names = [f"{client}-dataset.json{ending}" for ending in ("", ".gz", ".zst")]
    return next((path for name in names if (path := trace.with_name(name)).exists()), trace.with_name(names[0]))


def _start(key: str, place: str) -> float:
    try:
        return _number(key, "the start of the window", MAX_START_S)
    except RowError as error:
        raise TraceError(error.message, file=place, path=key, found=key, allowed=error.allowed) from None


def _lengths(fields: object, name: str, key: str, place: str) -> Lengths | None:
    """The distribution of a field; None if it is empty."""
    where = f"{key}.{name}"
    text = fields.get(name) if isinstance(fields, dict) else None
    if type(text) is not str:
        raise TraceError(
            f"the window has no distribution of {name}", file=place, path=where, found=text, allowed="{value: share, …}"
        )
    body = text.strip().removeprefix("{").removesuffix("}").strip()
    if not body:
        return None
    try:
        pairs = [pair.split(":") for pair in body.split(",")]
        values = np.array([float(value) for value, _ in pairs])
        shares = np.array([float(share) for _, share in pairs])
        good = bool(np.all(np.isfinite(values)) and np.all(np.abs(values) <= MAX_TOKENS) and np.all(shares >= 0))
        total = float(shares.sum())
    except ValueError:
        good, total = False, 0.0
    if not (good and 0 < total <= 1e9):
        raise TraceError(
            f"{name} is no distribution",
            file=place,
            path=where,
            found=text,
            allowed="{value: share, …}, no share below 0",
        )
    order = np.argsort(values, kind="stable")
    tokens = np.maximum(np.rint(values[order]), 1).astype(np.int64)
    cumulative = np.cumsum(shares[order]) / total
    cumulative[-1] = 1.0
    return Lengths(tokens, cumulative)
