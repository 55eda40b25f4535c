"""Whether results can be written, asked before anything is run."""

from __future__ import annotations

import os
from pathlib import Path

from servetwin.errors import InputError
from servetwin.paths import exists, is_folder


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to.

    Raises:
        InputError: with what is in the way.
    """
    nearest = next(one for one in (folder, *folder.absolute().parents) if exists(one))
    why = None if is_folder(nearest) else "it is a file" if nearest == folder else f"{nearest} is a file"
    if why is None and not os.access(nearest, os.W_OK):
        why = "permission denied"
    if why is not None:
        raise unwritable(why, folder)


def check_file(file: Path) -> None:
    """Refuse a file that cannot be made or written; pipes, devices and links are what the user wants.

    Raises:
        InputError: with what is in the way.
    """
    if is_folder(file):
        raise InputError("the results cannot be written there: it is a directory", file=str(file), allowed="a file")
    if not exists(file):
        check_folder(file.parent)


def unwritable(why: str | None, folder: Path) -> InputError:
    """That results cannot be written there."""
    return InputError(
        f"the results cannot be written there: {why}",
        file=str(folder),
        allowed="a directory, which is made if it does not exist",
    )
