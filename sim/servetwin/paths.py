"""Names of files as users give them, which may be anything: too long, circular, of a home that nobody has.

``pathlib`` raises for such names; these functions answer, and whoever reads the file says what is wrong with it.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder of that name.

    >>> is_folder("a" * 5000)
    False
    """
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: str | Path) -> bool:
    """Whether there is something of that name, and not only a link to it."""
    return os.path.exists(path)  # noqa: PTH110


def expanded(path: str | Path) -> Path:
    """The path with the home of the user for ``~``; that of somebody whom nobody knows stays.

    >>> str(expanded("~nobody-knows-me/x.yaml"))
    '~nobody-knows-me/x.yaml'
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def real(path: Path) -> str:
    """The file behind all links; where they go in a circle, one of them."""
    return os.path.realpath(path)


def names_beside(path: Path) -> list[str]:
    """The names in the folder that the path lies in; none where it cannot be listed.

    >>> names_beside(Path("no-such-folder/x.yaml"))
    []
    """
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):  # ValueError: a name that holds a NUL character
        return []
