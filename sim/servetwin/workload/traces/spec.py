"""What a scenario writes under ``workload.trace``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from servetwin.workload.base import Count, Flag, NonNegative, Part
from servetwin.workload.traces.columns import COLUMNS, ColumnMap, parse_map
from servetwin.workload.traces.registry import AUTO, check_name


def _window(value: Any) -> Any:
    """Read ``"A:B"``, ``"A:"`` or ``":B"`` as a command line gives it."""
    if isinstance(value, (int, float)):
        raise ValueError("expected A:B in seconds, such as 0:600, 600: or :600")
    if not isinstance(value, str):
        return value
    start, colon, end = value.partition(":")
    if not colon:
        raise ValueError("expected A:B in seconds, such as 0:600, 600: or :600")
    try:
        return (float(start) if start.strip() else 0.0, float(end) if end.strip() else None)
    except ValueError:
        raise ValueError("expected A:B in seconds, such as 0:600, 600: or :600") from None


class TraceSpec(Part):
    """A recorded trace to replay.

    The first row of the file sets time 0; in ``servegen`` and ``servetwin`` it is the recording's own. Order of
    treatment: bad rows, sorting, ``window_s``, ``limit``, ``rate_scale``, ``spread_ties``. A row without prompt or
    output tokens is a bad row.
    """

    path: str = Field(
        min_length=1,
        description="The trace file (plain, gzip or zstd) or folder, relative to the scenario file.",
    )
    format: str = Field(AUTO, description="Name of the format; auto = see what the file contains.")
    columns: Annotated[ColumnMap, BeforeValidator(parse_map)] | None = Field(
        None,
        description="What the columns of a CSV or the keys of JSON lines are, as a mapping or 'arrival_s=ts,…'; "
        "the format is then `columns`.",
    )
    rate_scale: Annotated[float, Field(strict=True, ge=1e-6, le=1e6)] = Field(
        1.0, description="Speeds arrivals up by this factor: 2 = twice the rate."
    )
    window_s: Annotated[tuple[NonNegative, NonNegative | None], BeforeValidator(_window)] | None = Field(
        None,
        description="Replay only rows from A (included) to B (excluded) seconds of the trace's own time, "
        "as [A, B] or 'A:B'; A becomes time 0; B may be missing.",
    )
    limit: Count | None = Field(None, description="Replay at most this many rows.")
    skip_bad_rows: Flag = Field(False, description="Count and skip rows that cannot be used, instead of stopping.")
    sort: Flag = Field(False, description="Sort the rows by time, instead of stopping at one that is out of order.")
    spread_ties: Flag = Field(
        False,
        description="Spread rows with the same time stamp evenly over the time to the next one, for "
        "traces whose clock is coarse.",
    )

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: str) -> str:
        check_name(value)
        return value

    @model_validator(mode="after")
    def _columns_of_their_format(self) -> TraceSpec:
        if self.columns is not None and self.format not in (AUTO, COLUMNS):
            raise ValueError(f"columns has no effect beside format {self.format}: give one or the other")
        if self.columns is None and self.format == COLUMNS:
            raise ValueError(f"format {COLUMNS} needs columns: what the columns of the file are")
        return self

    @field_validator("window_s")
    @classmethod
    def _forward(cls, value: tuple[float, float | None] | None) -> tuple[float, float | None] | None:
        if value is not None and value[1] is not None and value[0] >= value[1]:
            raise ValueError(f"the window must end after it starts, found {value[0]:g}:{value[1]:g}")
        return value
