"""Any CSV or JSON lines, by a map that says which column is what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from pydantic import Field, model_validator

from servetwin.errors import nearest_name
from servetwin.units import PS_PER_MS, PS_PER_S
from servetwin.workload.base import Count, Part
from servetwin.workload.traces import json_rows
from servetwin.workload.traces.csv_rows import Cells, check_once, split_cells, time_ps, tokens
from servetwin.workload.traces.format import MAX_TURN, NO_SESSION, Row, RowError, RowParser
from servetwin.workload.traces.iso_time import IsoClock

COLUMNS = "columns"
"""The name of this format."""

_DELIMITERS = (",", ";", "\t", "|")
_ARRIVAL_UNITS = {"arrival_s": PS_PER_S, "arrival_ms": PS_PER_MS}

Name = Annotated[str, Field(strict=True, min_length=1)]
Position = Annotated[int, Field(strict=True, ge=0, le=10_000)]
Column = Annotated[Name | Position | None, Field(default=None)]


class ColumnMap(Part):
    """Which column or key of a file is what: by name, or by position (0 = the first) in CSV without a header.

    At most one of the arrivals is given; without one all requests arrive at the start, as a batch. Sessions are
    numbered in the order in which they appear.
    """

    arrival_s: Column = Field(None, description="Arrival, in seconds.")
    arrival_ms: Column = Field(None, description="Arrival, in milliseconds.")
    arrival_time: Column = Field(None, description="Arrival, as date and time (ISO 8601).")
    prompt_tokens: Name | Position = Field(description="Prompt tokens.")
    output_tokens: Name | Position = Field(description="Output tokens; where JSON lines have a list, it is its length.")
    class_name: Column = Field(None, description="Kind of the request.")
    session_id: Column = Field(None, description="Conversation of the request, any text or number.")
    turn: Column = Field(None, description="Place in the conversation, a whole number.")
    block_ids: Name | None = Field(None, description="Ids of the prompt's blocks, a list; JSON lines only.")
    block_tokens: Count | None = Field(None, description="Tokens of such a block.")

    @model_validator(mode="after")
    def _consistent(self) -> ColumnMap:
        arrivals = [field for field in ("arrival_s", "arrival_ms", "arrival_time") if getattr(self, field) is not None]
        if len(arrivals) > 1:
            found = " and ".join(arrivals)
            raise ValueError(f"at most one of arrival_s, arrival_ms and arrival_time is given, found {found}")
        if (self.block_ids is None) != (self.block_tokens is None):
            raise ValueError("block_ids and block_tokens belong together")
        kinds = {type(column) for column in self.given().values()}
        if kinds == {str, int}:
            raise ValueError("columns are given all by name or all by position")
        return self

    @property
    def arrival(self) -> tuple[str, str | int] | None:
        """The field that gives arrivals, and its column; None = all arrive at the start."""
        return next(((f, c) for f, c in self.given().items() if f.startswith("arrival")), None)

    @property
    def by_name(self) -> bool:
        """Whether columns are given by name."""
        return type(self.prompt_tokens) is str

    def given(self) -> dict[str, str | int]:
        """The columns that are given, by field."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "block_tokens"}
        return {name: column for name, column in fields.items() if column is not None}


def parse_map(value: Any) -> Any:
    """Read ``"arrival_s=ts,prompt_tokens=in"`` as a command line gives it; digits are positions.

    Raises:
        ValueError: the text is no such list.
    """
    if not isinstance(value, str):
        return value
    fields: dict[str, str | int] = {}
    for part in value.split(","):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not field or not column or field in fields:
            raise ValueError(f"expected FIELD=COLUMN,… such as arrival_s=ts,prompt_tokens=in, found {part.strip()!r}")
        number = column.isascii() and column.isdigit() and len(column) < 10
        fields[field] = int(column) if number else column
    return fields


class ColumnsFormat:
    """A file whose columns a map explains.

    Args:
        columns: the map.
    """

    name = COLUMNS
    description = "Any CSV or JSON lines, explained by workload.trace.columns"
    layout = "CSV or JSON lines, with columns: {arrival_s: …, prompt_tokens: …, output_tokens: …}"

    def __init__(self, columns: ColumnMap) -> None:
        self._map = columns
        self.block_tokens = columns.block_tokens or 0

    def recognises(self, line: str) -> bool:
        """Never by itself: the map has to be given."""
        return False

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The row parser, for JSON lines if the first line begins an object, else for CSV."""
        if line.lstrip().startswith("{"):
            return self._json(), False
        if self._map.block_ids is not None:
            raise RowError("block_ids can only be read from JSON lines", line, "JSON lines, or no block_ids")
        return self._csv(line)

    def _csv(self, line: str) -> tuple[RowParser, bool]:
        given = self._map.given()
        delimiter = max(_DELIMITERS, key=lambda mark: len(split_cells(line, mark)))
        first = split_cells(line, delimiter)
        places: dict[str, int] = {}
        for field, column in given.items():
            if isinstance(column, int):
                places[field] = column
            elif column in first:
                check_once(column, first)
                places[field] = first.index(column)
            else:
                near = nearest_name(column, first)
                close = f"; the nearest is {near!r}" if near else ""
                raise RowError(f"the header has no column {column!r} ({field}){close}", line, ", ".join(first))
        if max(places.values()) >= len(first):
            field = max(places, key=lambda name: places[name])
            raise RowError(f"there is no column {places[field]} ({field})", line, f"0 to {len(first) - 1}")
        width, row = len(first), self._cells_parser(places)

        def parse(line: str) -> Row:
            cells = split_cells(line, delimiter)
            if len(cells) != width:
                raise RowError(f"the row has {len(cells)} cells", line, f"{width} cells, as in the first line")
            return row(cells)

        return parse, self._map.by_name

    def _cells_parser(self, places: dict[str, int]) -> Callable[[Cells], Row]:
        arrival = self._map.arrival
        at = None if arrival is None else places[arrival[0]]
        prompt, output = places["prompt_tokens"], places["output_tokens"]
        kind, session_at, turn_at = (places.get(name) for name in ("class_name", "session_id", "turn"))
        clock = _at_the_start if arrival is None else _clock(arrival[0], str(arrival[1]))
        sessions = _Numbers()

        def row(cells: Cells) -> Row:
            return Row(
                clock("" if at is None else cells[at]),
                tokens(cells[prompt], str(self._map.prompt_tokens)),
                tokens(cells[output], str(self._map.output_tokens)),
                class_name="" if kind is None else cells[kind],
                session=NO_SESSION if session_at is None else sessions.of(cells[session_at]),
                turn=0 if turn_at is None else _turn(cells[turn_at]),
            )

        return row

    def _json(self) -> RowParser:
        given = {field: str(column) for field, column in self._map.given().items()}
        if not self._map.by_name:
            raise RowError("JSON lines have no columns by position", self._map.prompt_tokens, "names of keys")
        field = "" if self._map.arrival is None else self._map.arrival[0]
        arrival = given.get(field, "")
        time = _json_clock(field, arrival)
        sessions = _Numbers()
        kind, session, turn, blocks = (given.get(n, "") for n in ("class_name", "session_id", "turn", "block_ids"))
        required = tuple(key for key in (arrival, given["prompt_tokens"], given["output_tokens"], blocks) if key)

        def parse(line: str) -> Row:
            row = json_rows.parse_object(line, self.layout)
            json_rows.require(row, required, line, f"an object with {', '.join(required)}")
            prompt = json_rows.count(row, given["prompt_tokens"])
            return Row(
                time(row),
                prompt,
                json_rows.count_or_length(row, given["output_tokens"]),
                json_rows.block_ids(row, blocks, prompt, self.block_tokens) if blocks else (),
                json_rows.text(row, kind) if kind else "",
                sessions.of(_label(row, session)) if session else NO_SESSION,
                turn=json_rows.integer(row, turn, 0, MAX_TURN - 1, 0) if turn else 0,
            )  # fmt: skip

        return parse


class _Numbers:
    """Numbers for names, in the order in which they appear."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of a name; −1 for none."""
        return self._known.setdefault(name, len(self._known)) if name else NO_SESSION


def _clock(field: str, column: str) -> Callable[[str], int]:
    if field == "arrival_time":
        return IsoClock(column)
    return partial(time_ps, column=column, unit_ps=_ARRIVAL_UNITS[field])


def _at_the_start(cell: str) -> int:
    del cell
    return 0


def _json_clock(field: str, key: str) -> Callable[[json_rows.Object], int]:
    """What reads the arrival of an object [ps]."""
    if not field:
        return lambda row: 0
    if field == "arrival_time":
        clock = IsoClock(key)
        return lambda row: clock(json_rows.text(row, key))
    return lambda row: json_rows.time_ps(row, key, unit_ps=_ARRIVAL_UNITS[field])


def _turn(cell: str) -> int:
    if not (cell.isascii() and cell.isdigit() and len(cell) < 20 and int(cell) < MAX_TURN):
        raise RowError("the turn is no whole number", cell, f"a whole number from 0 to {MAX_TURN - 1:,}")
    return int(cell)


def _label(row: json_rows.Object, key: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if type(value) is int and abs(value) < 10**18:
        return str(value)
    if type(value) is not str:
        raise RowError(f"{key} is no name of a session", value, "text or a whole number")
    return value
