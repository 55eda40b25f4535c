"""Every error that servetwin raises on purpose.

    ServetwinError
    ├── InputError                 the user's input is wrong: exit code 2, never a traceback
    │   ├── ScenarioError          a scenario, sweep or suite file, or an override of one of its fields
    │   │   └── FieldError         one of its fields, by itself: there is none of that name, or not with that value
    │   ├── CatalogError           an unknown or malformed model, GPU, workload, scenario or calibration
    │   ├── TraceError             a trace file that cannot be read, or one of its rows
    │   └── CapacityError          the scenario is well formed but cannot exist: weights do not fit, …
    ├── Interrupted                Ctrl-C: what was finished is kept, exit code 130
    └── InvariantError             a bug in servetwin: an account does not balance

Input errors say where the mistake is, what was found, what is allowed, and the nearest valid name.
"""

from __future__ import annotations

import difflib
import re
import signal
import unicodedata
from collections.abc import Iterable

_FEWEST_LETTERS = 3
"""A word is recognised by no fewer."""

_LONG = 10**18
"""Whole numbers from here on are not written out in messages."""


class ServetwinError(Exception):
    """Base of every error that servetwin raises on purpose."""


class InputError(ServetwinError):
    """A mistake in what the user gave.

    Args:
        message: what is wrong, in one sentence.
        file: the file it stands in, as the user named it.
        path: where in the file: a dotted field path, or ``line 12``.
        found: the offending value.
        allowed: what would be accepted, in words or as the list of names.
        nearest: the valid name closest to what was found.
        hint: what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        path: str | None = None,
        found: object = None,
        allowed: str | Iterable[str] | None = None,
        nearest: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.path = path
        self.found = found
        self.allowed = allowed if allowed is None or isinstance(allowed, str) else list(allowed)
        self.nearest = nearest
        self.hint = hint

    def __str__(self) -> str:
        lines = [printable(self.message)]
        place = ", ".join(shorten(part) for part in (self.file, self.path) if part)
        if place:
            lines.append(f"  where:   {place}")
        if self.found is not None:
            lines.append(f"  found:   {shorten(self.found)}")
        if self.allowed is not None:
            allowed = self.allowed if isinstance(self.allowed, str) else ", ".join(self.allowed)
            lines.append(f"  allowed: {shorten(allowed, 600)}")
        if self.nearest is not None:
            lines.append(f"  nearest: {shorten(self.nearest)}")
        if self.hint is not None:
            lines.append(f"  hint:    {printable(self.hint)}")
        return "\n".join(lines)


class ScenarioError(InputError):
    """A scenario, sweep or suite file, or an override of one of its fields, is wrong."""


class FieldError(ScenarioError):
    """A field that the format does not have, or a value that a field does not take, whatever else the file says."""


class CatalogError(InputError):
    """A model, GPU, workload, scenario or calibration is unknown or malformed."""


class TraceError(InputError):
    """A trace file cannot be read, or one of its rows is wrong."""


class CapacityError(InputError):
    """The scenario is well formed but impossible: weights that do not fit, no room for one request, …"""


class Interrupted(ServetwinError):
    """The user stopped the run; what was finished has been kept.

    Args:
        message: what was kept, and where.
        signal_number: the signal that stopped it.
    """

    def __init__(self, message: str, signal_number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class InvariantError(ServetwinError):
    """An account that must balance does not: a bug in servetwin, never the user's fault."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, or None when nothing is close.

    >>> nearest_name("zipf", ["groups", "tokens", "zipf_exponent"])
    'zipf_exponent'
    """
    candidates = list(known)
    return close_name(name, candidates) or _closest(name, candidates, 0.5)


def close_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs by a letter or two, has a word that ``name`` begins, or has its words, or in it.

    >>> close_name("tensor_parallel_size", ["tensor"])
    'tensor'
    >>> close_name("rate", ["trace"]) is None
    True
    """
    candidates = list(known)
    slip = _closest(name, candidates, 0.8)
    if slip is not None:
        return slip
    words = _words(name)
    alike = [one for one in candidates if _holds(words, _words(one)) or _begins(name.casefold(), _words(one))]
    return _closest(name, alike, 0.0)


def _closest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    folded = {one.casefold(): one for one in known}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[matches[0]] if matches else None


def _words(name: str) -> set[str]:
    return {word for word in re.split(r"[\W_]+", name.casefold()) if len(word) > 1}


def _holds(some: set[str], others: set[str]) -> bool:
    return bool(some) and bool(others) and (some <= others or others <= some)


def _begins(name: str, words: set[str]) -> bool:
    return len(name) >= _FEWEST_LETTERS and any(word.startswith(name) for word in words)


def shorten(value: object, limit: int = 200) -> str:
    """``value`` on one line of at most ``limit`` characters."""
    text = printable(" ".join((value if isinstance(value, str) else _repr(value)).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """``text`` with its control characters spelled out, which a terminal might obey; line ends stay.

    >>> print(printable("a" + chr(27) + "[31m"))
    a\\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(_spelled(character) for character in text)


def _spelled(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _repr(value: object) -> str:
    """``repr``, with long whole numbers in short."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LONG:
        try:
            return f"{value:.6g}"
        except OverflowError:
            return f"a number of about {round(value.bit_length() * 0.30103):,} digits"
    try:
        return repr(value)
    except ValueError:
        # Python writes no number of more than 4,300 digits.
        return f"a {type(value).__name__} with a number of too many digits"
