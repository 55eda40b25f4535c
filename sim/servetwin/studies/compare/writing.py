"""The files of ``compare``: compare.json and the waterfall."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servetwin.errors import InputError
from servetwin.paths import exists, is_folder
from servetwin.results.store import write_json

DOCUMENT = "compare.json"
PICTURE = "waterfall.png"


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is run.

    Raises:
        InputError: with what is in the way.
    """
    nearest = next(folder for folder in (out, *out.absolute().parents) if exists(folder))
    why = None if is_folder(nearest) else "it is a file" if nearest == out else f"{nearest} is a file"
    if why is None and not os.access(nearest, os.W_OK):
        why = "permission denied"
    if why is not None:
        raise _unwritable(why, out)


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
        raise _unwritable(error.strerror, Path(error.filename or out)) from None


def draw(document: Mapping[str, Any], out: Path) -> None:
    """Draw the picture of a document that has been written there.

    Raises:
        InputError: it cannot be written.
    """
    from servetwin.report.waterfall import draw_waterfall

    try:
        draw_waterfall(document, out / PICTURE)
    except OSError as error:
        raise _unwritable(error.strerror, Path(error.filename or out)) from None


def _unwritable(why: str | None, out: Path) -> InputError:
    return InputError(
        f"the results cannot be written there: {why}",
        file=str(out),
        allowed="a directory, which is made if it does not exist",
    )
