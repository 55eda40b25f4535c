"""Writes the files of a run, and reads them back.

The files of two runs of the same scenario are equal byte by byte, except for the host-dependent keys of
``summary.json`` (``servetwin.results.summary.HOST_KEYS``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetwin.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SUMMARY = "summary.json"
LEDGER = "ledger.json"
REQUESTS = "requests.parquet"
TIMESERIES = "timeseries.parquet"
LINKS = "links.parquet"
SCENARIO = "scenario.yaml"
PICTURES = ("latency.png", "timeline.png", "roofline.png")
LINKS_PICTURE = "links.png"
SPECULATION_PICTURE = "speculation.png"
HAND_OVERS_PICTURE = "hand_overs.png"
TRACE = "trace.json"
FILES = (
    SCENARIO, SUMMARY, LEDGER, REQUESTS, TIMESERIES, LINKS, *PICTURES, LINKS_PICTURE, SPECULATION_PICTURE,
    HAND_OVERS_PICTURE, TRACE,
)  # fmt: skip
"""Every file that a run may write."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of ``path`` once it is complete; nothing is left of a part of it."""
    part = _part(path)
    try:
        yield part
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(part):
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """A text as one file, in UTF-8."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def clear(directory: Path) -> None:
    """Remove what an earlier run wrote there, so that a folder never mixes two runs; other files stay."""
    for name in FILES:
        for path in (directory / name, _part(directory / name)):
            path.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """One JSON document; NaN and infinity are refused, for they are no JSON."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Some batches as one file, a row group each."""
    from pyarrow import parquet

    # Dictionaries pay for what repeats; time stamps do not.
    repeats = [field.name for field in schema if str(field.type) != "double"]
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "use_dictionary": repeats}
    with replacing(path) as part, parquet.ParquetWriter(part, schema, **options) as file:
        for batch in batches:
            file.write_batch(batch)


class StoredResult:
    """A finished run, read from its directory: the same views as ``Result``.

    Args:
        directory: where the run was written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._summary = _read_json(directory / SUMMARY)

    def summary(self) -> dict[str, Any]:
        """Every metric by its key."""
        return self._summary

    @property
    def warnings(self) -> list[str]:
        """What a reader must know, in sentences."""
        return list(self._summary.get("warnings", []))

    def ledger(self) -> dict[str, Any]:
        """Where every GPU-second went."""
        return _read_json(self.directory / LEDGER)

    def requests(self) -> pd.DataFrame:
        """A row per request, as in ``requests.parquet``."""
        return _read_frame(self.directory / REQUESTS)

    def timeseries(self) -> pd.DataFrame:
        """A row per replica and interval, as in ``timeseries.parquet``."""
        return _read_frame(self.directory / TIMESERIES)

    def links(self) -> pd.DataFrame:
        """A row per link and interval, as in ``links.parquet``, which runs with a topology have."""
        return _read_frame(self.directory / LINKS)


def load(directory: str | Path) -> StoredResult:
    """A finished run, from the directory it was written to.

    Raises:
        InputError: if there is no readable run.
    """
    return StoredResult(Path(directory))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(path, error.strerror or "cannot be read") from error
    except ValueError as error:
        raise _unreadable(path, f"not a JSON document: {error}") from error
    if not isinstance(document, dict):
        raise _unreadable(path, "not a JSON object")
    return document


def _read_frame(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, f"not a Parquet file: {error}") from error
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        "this is not the result of a run",
        file=str(path),
        found=why,
        allowed=f"a directory that servetwin wrote, with {SUMMARY}, {LEDGER}, {REQUESTS} and {TIMESERIES}",
    )
