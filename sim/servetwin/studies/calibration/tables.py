"""Tables of measured kernels: which files a folder holds, and their rows, checked."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from servetwin.errors import InputError

GEMM, DECODE, PREFILL, MOE = "gemm", "decode_attention", "prefill_attention", "moe"
_Number = TypeVar("_Number", int, float)

KINDS = (GEMM, DECODE, PREFILL, MOE)
"""Tables of one GPU each: ``kernels_KIND_GPU.csv``."""

ALL_REDUCE_FILE = "kernels_allreduce_intranode.csv"
COLLECTIVES_FILE = "kernels_collectives_other.csv"
"""The tables of all GPUs."""

LIBRARIES = ("vllm", "graph")
"""What the library column of an all-reduce must contain: the all-reduce of vLLM in a captured graph."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        file: where it stands.
        line: its line there, from 1.
        cells: by column.
    """

    file: Path
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """The text of a column."""
        value = self.cells.get(column)
        if not value:
            raise self.error("this column is missing or empty", column, found=sorted(self.cells))
        return value

    def count(self, column: str) -> int:
        """A whole number from 1."""
        return self._number(column, int, "a whole number ≥ 1")

    def seconds(self) -> float:
        """The time of the column ``latency_us`` [s]."""
        return self._number("latency_us", float, "a time above zero, in microseconds") * 1e-6

    def error(self, message: str, column: str, found: object, allowed: str | Iterable[str] | None = None) -> InputError:
        """A message about a column of this row."""
        place = f"line {self.line}, {column}"
        return InputError(message, file=str(self.file), path=place, found=found, allowed=allowed)

    def _number(self, column: str, kind: Callable[[str], _Number], allowed: str) -> _Number:
        text = self.text(column)
        try:
            value = kind(text)
        except ValueError:
            raise self.error("a number is expected", column, text, allowed) from None
        if not (math.isfinite(value) and value > 0):
            raise self.error("a number is expected", column, text, allowed)
        return value


def gpus_in(folder: Path) -> dict[str, list[str]]:
    """The kinds of tables that a folder holds, by the name of the GPU in the names of the files.

    Raises:
        InputError: it is no folder, or holds none.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", file=str(folder))
    found: dict[str, list[str]] = {}
    for kind in KINDS:
        for path in sorted(folder.glob(f"kernels_{kind}_*.csv")):
            found.setdefault(path.stem.removeprefix(f"kernels_{kind}_"), []).append(kind)
    if not found:
        raise InputError(
            "there is no table of kernels in this folder", file=str(folder),
            allowed=[f"kernels_{kind}_GPU.csv" for kind in KINDS],
        )  # fmt: skip
    return dict(sorted(found.items()))


def rows(folder: Path, kind: str, gpu: str) -> Iterator[Row]:
    """The rows of the table of one kind and GPU."""
    yield from _read(folder / f"kernels_{kind}_{gpu}.csv")


def all_reduce_rows(folder: Path, gpu: str) -> list[Row]:
    """The all-reduces of a GPU in a captured graph; none where the folder has no such table."""
    rows = _of_gpu(folder / ALL_REDUCE_FILE, gpu)
    return [row for row in rows if all(word in row.text("library") for word in LIBRARIES)]


def all_gather_rows(folder: Path, gpu: str) -> list[Row]:
    """The all-gathers of a GPU, by what every GPU holds in the end; none where the folder has no such table."""
    return [row for row in _of_gpu(folder / COLLECTIVES_FILE, gpu) if row.text("op") == "all_gather"]


def reduce_scatter_rows(folder: Path, gpu: str) -> list[Row]:
    """The reduce-scatters of a GPU, by what every GPU begins with; none where the folder has no such table."""
    return [row for row in _of_gpu(folder / COLLECTIVES_FILE, gpu) if row.text("op") == "reduce_scatter"]


def _of_gpu(path: Path, gpu: str) -> list[Row]:
    return [row for row in _read(path) if row.text("gpu") == gpu] if path.exists() else []


def _read(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line, cells in enumerate(csv.DictReader(file), start=2):
                yield Row(path, line, {str(name): str(value) for name, value in cells.items()})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("this table cannot be read", file=str(path), found=str(error)) from None
