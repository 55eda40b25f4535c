"""The folder of a sweep: ``points/<hash>.json``, the summary of each run, and the table that is made from them.

A summary ends with the checksum of itself and of the run that it is of, so that a file which was damaged, changed or
renamed is never taken for the result of a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from servetwin.errors import InputError
from servetwin.results.store import write_text

RESULTS = "results.parquet"
PICTURES = "sweep-*.png"
_POINTS = "points"
_CHECKSUM = ', "checksum": "'

T = TypeVar("T")


class Folder:
    """Where a sweep is written. A file is there whole or not at all, whenever the program ends.

    Args:
        out: the folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.table = out / RESULTS

    def prepare(self) -> None:
        """Make the folder, and clear it of what a killed sweep was writing and of pictures and table of another one.

        Summaries stay: the hash in their names says what they are of.

        Raises:
            InputError: it cannot be written.
        """

        def make() -> None:
            (self.out / _POINTS).mkdir(parents=True, exist_ok=True)
            for stale in ((self.out / _POINTS).glob(".*.part"), self.out.glob(PICTURES), [self.table]):
                for path in stale:
                    path.unlink(missing_ok=True)

        self.writing(make)

    def write_point(self, key: str, summary: str) -> None:
        """Keep the summary of a run, a JSON text.

        Raises:
            InputError: it cannot be written.
        """
        body = summary.removesuffix("}")
        self.writing(lambda: write_text(self._file(key), f'{body}{_CHECKSUM}{_digest(key, body)}"}}'))

    def read_point(self, key: str) -> dict[str, Any] | None:
        """The summary of a run; None if there is none, or what is there is not as it was written."""
        try:
            text = self._file(key).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        body, found, checksum = text.rpartition(_CHECKSUM)
        if not found or checksum != f'{_digest(key, body)}"}}':
            return None
        summary: dict[str, Any] = json.loads(f"{body}}}")
        return summary

    def writing(self, write: Callable[[], T]) -> T:
        """Do what writes files; raises ``InputError`` where that is impossible."""
        try:
            return write()
        except OSError as error:
            raise InputError(
                f"the results cannot be written: {error.strerror or error}", file=str(error.filename or self.out),
                allowed="a directory, which is made if it does not exist",
            ) from None  # fmt: skip

    def _file(self, key: str) -> Path:
        return self.out / _POINTS / f"{key}.json"


def _digest(key: str, body: str) -> str:
    return hashlib.sha256(f"{key} {body}".encode()).hexdigest()[:16]
