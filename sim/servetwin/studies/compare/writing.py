"""The files of ``compare``: compare.json and the waterfall."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servetwin.results.store import write_json
from servetwin.studies.writable import unwritable

DOCUMENT = "compare.json"
PICTURE = "waterfall.png"
RUNS = "runs"
"""The folder with the files of each run: ``NAME-SEED``."""


def write(document: Mapping[str, Any], out: Path) -> None:
    """Write the document, replacing that of an earlier comparison.

    Args:
        document: what ``build_document`` made.
        out: the folder, which is made if it does not exist.

    Raises:
        InputError: it cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        # A picture of an earlier comparison would not belong to this one.
        (out / PICTURE).unlink(missing_ok=True)
        write_json(out / DOCUMENT, document)
    except OSError as error:
        raise unwritable(error.strerror, Path(error.filename or out)) from None


def draw(document: Mapping[str, Any], out: Path) -> None:
    """Draw the picture of a document that has been written there.

    Raises:
        InputError: it cannot be written.
    """
    from servetwin.report.waterfall import draw_waterfall

    try:
        draw_waterfall(document, out / PICTURE)
    except OSError as error:
        raise unwritable(error.strerror, Path(error.filename or out)) from None
