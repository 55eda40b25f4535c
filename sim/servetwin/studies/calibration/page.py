"""The residuals inside a page of documentation."""

from __future__ import annotations

import re
from pathlib import Path

from servetwin.errors import InputError

BEGIN, END = "<!-- residuals of kernels: written by servetwin calibrate kernels -->", "<!-- end of residuals -->"
_PART = re.compile(rf"({re.escape(BEGIN)}\n).*?({re.escape(END)})", re.DOTALL)


def put_into_page(path: Path, table: str) -> None:
    """Write a table into a page, in place of the one between ``BEGIN`` and ``END``; a new page holds only that.

    Raises:
        InputError: where the page exists and has no such place, or cannot be read or written.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
        renewed, places = _PART.subn(lambda found: f"{found.group(1)}\n{table}\n\n{found.group(2)}", text)
        if not places:
            raise InputError("this page has no place for the residuals", file=str(path), allowed=f"{BEGIN} … {END}")
        path.write_text(renewed, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("this page cannot be written", file=str(path), found=str(error)) from None
