"""Messages show what the user gave without doing what it says."""

from __future__ import annotations

import pytest

from servetwin.errors import InputError, printable, shorten


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12345, "12345"),
        (True, "True"),
        (10**30, "1e+30"),
        (10**400, "a number of about 400 digits"),
        ([10**5000], "a list with a number of too many digits"),
        ("a\x1b[31m\tb\n c", "a\\x1b[31m b c"),
        ("\u202e\udcff ä…", "\\u202e\\udcff ä…"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_shortened(value: object, shown: str) -> None:
    assert shorten(value) == shown


def test_every_part_of_a_message_is_printable() -> None:
    bad = "\x1b]0;\x07"
    error = InputError(bad, file=bad, path=bad, found=bad, allowed=[bad], nearest=bad, hint=bad)
    assert "\x1b" not in str(error) and "\x07" not in str(error)
    assert len(str(error).splitlines()) == 6
    assert printable("two\nlines") == "two\nlines"
