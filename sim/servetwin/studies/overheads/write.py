"""Writing the constants of a family into a calibration file: that which it starts from, comments and all."""

from __future__ import annotations

import re
from collections.abc import Mapping

from servetwin.errors import InputError
from servetwin.studies.overheads.constants import CONSTANTS

SOURCE_OF = "serving"
"""How the entry of ``sources`` begins that tells where the constants come from."""

_ENTRY = re.compile(rf'^  - {{what: "?{SOURCE_OF}[^\n]*\n', re.MULTILINE)
_HEAD = re.compile(r"^name:[^\n]*\n(?:aliases:[^\n]*\n)?", re.MULTILINE)


def family_text(base: str, values: Mapping[str, float], *, name: str | None, source: str, date: str) -> str:
    """The text of a calibration file.

    Parameters
    ----------
    base : text of the file to start from
    values : the constants by name [s], or shares
    name : its new name; None keeps the old one and its aliases
    source : what they were fitted to, and how well they fit
    date : when, ``YYYY-MM-DD``

    Raises
    ------
    InputError
        where ``base`` is not laid out as the bundled files are
    """
    if "\nsources:\n" not in base or not _HEAD.search(base):
        raise InputError(
            "the calibration to start from is not laid out as the bundled ones",
            allowed="the fields name and sources, each at the start of a line, in block style",
        )
    quoted = source.replace("\\", "\\\\").replace('"', '\\"')
    names = ", ".join(constant.name for constant in CONSTANTS)
    entry = f'  - {{what: "{SOURCE_OF}: {names}", source: "{quoted}", date: {date}}}\n'
    text = _ENTRY.sub("", base).replace("\nsources:\n", f"\nsources:\n{entry}", 1)
    if name is not None:
        text = _HEAD.sub(f"name: {name}\n", text, count=1)
    for constant in CONSTANTS:
        text = _put(text, constant.name, constant.text(values[constant.name]))
    return text


def _put(text: str, name: str, value: str) -> str:
    """A text in which the field ``section.key`` has a value; what stands behind it in its line stays."""
    section, key = name.split(".")
    part = re.search(rf"^{section}:[ \t]*\n((?:[ \t]+[^\n]*\n)*)", text, re.MULTILINE)
    if part is None:
        return f"{text.rstrip()}\n\n{section}:\n  {key}: {value}\n"
    field = re.compile(rf"^(  {key}: )([^#\n]*?)([ \t]*(?:#[^\n]*)?)$", re.MULTILINE)
    lines, places = field.subn(lambda found: _aligned(found, value), part[1], count=1)
    if not places:
        lines = f"{part[1]}  {key}: {value}\n"
    return text[: part.start(1)] + lines + text[part.end(1) :]


def _aligned(found: re.Match[str], value: str) -> str:
    """A line with another value, its comment where it was if there is room."""
    rest = found[3]
    if "#" not in rest:
        return f"{found[1]}{value}"
    comment = rest.lstrip()
    room = len(found[2]) + len(rest) - len(comment) - len(value)
    return f"{found[1]}{value}{' ' * max(2, room)}{comment}"
