"""Which matrices of a model are meant by a list of names, names with wildcards, and regular expressions.

Expressions come from files that anybody may have written, and Python's matcher goes back and forth: an expression that
could keep it busy for longer than anyone waits is refused.
"""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable, Iterable

from servetwin.catalog.fields import Fields
from servetwin.catalog.hf_modules import Module

Named = Callable[[Module], bool]

_LONGEST = 400
"""Characters of an expression."""

_MOST = 4
"""Repetitions of wildcards and groups, and groups of alternatives: each multiplies the ways to match a name."""

_MOST_CHEAP = 12
"""Repetitions in all: those of one digit or letter find little to repeat in a name."""

_LONGEST_S = 5.0
"""Time for all names of a model [s]: an expression with few ways to match needs milliseconds."""

_TAIL = re.compile(r"(?<!\\)\.\*\$?$")
"""An end that matches whatever is left."""

_HINT = "list the names, or use * in them"

_REPEAT = re.compile(r"[*+?]|\{\d*,?\d*\}")


def matcher(entries: Iterable[str], fields: Fields, key: str) -> Named:
    """Whether a matrix is meant by any of some names, names with wildcards, or regular expressions (``re:``).

    Args:
        entries: the names.
        fields: where they stand, for messages.
        key: under which key they stand there.

    Raises:
        CatalogError: where an expression could take too long.
    """
    plain: set[tuple[str, ...]] = set()
    patterns: list[re.Pattern[str]] = []
    for entry in entries:
        if entry.startswith("re:"):
            pattern = entry.removeprefix("re:")
            _check(pattern, fields, key)
            patterns.append(_compiled(pattern))
        elif "*" in entry or "?" in entry:
            # The name of a block means all that is in it.
            patterns += [_compiled(fnmatch.translate(text)) for text in (entry, f"{entry}.*")]
        else:
            words = entry.strip(".").split(".")
            plain.add(tuple(words[words.index("layers") :] if "layers" in words else words))

    spent_s = 0.0

    def means(module: Module) -> bool:
        nonlocal spent_s
        if plain and any(words in plain for words in module.pieces()):
            return True
        if not patterns:
            return False
        start_s = time.perf_counter()
        for name in module.names:
            if any(pattern.match(name) for pattern in patterns):
                return True
            if spent_s + time.perf_counter() - start_s > _LONGEST_S:
                raise fields.error(f"the names here took longer to look up than {_LONGEST_S:g} s", key, hint=_HINT)
        spent_s += time.perf_counter() - start_s
        return False

    return means


def _check(pattern: str, fields: Fields, key: str) -> None:
    """Refuse an expression that is long, or repeats what repeats, or has many ways to match."""
    why = f"it has {len(pattern):,} characters" if len(pattern) > _LONGEST else _ways(pattern)
    if why:
        raise fields.error(
            f"this regular expression could take too long: {why}", key, found=f"re:{pattern[:80]}",
            allowed=f"at most {_LONGEST} characters, and {_MOST} repeated wildcards and groups of alternatives, none "
            "of them inside a repeated group", hint=_HINT,
        )  # fmt: skip


def _ways(pattern: str) -> str:
    """What makes the ways to match an expression too many; empty where nothing does."""
    if re.search(r"\(\?[a-zA-Z]*x", pattern):
        return "it is verbose, so that its parts cannot be told apart here"
    # Of each open group, whether it has a repetition or alternatives in it; the first is the whole expression.
    many, alternatives = [False], [False]
    wild = cheap = groups = position = 0
    pattern = _TAIL.sub("", pattern)
    while position < len(pattern):
        letter, closed = pattern[position], False
        position += 1
        if letter == "\\":
            # Of the classes of characters, that of the digits alone is rare in names.
            letter = "." if pattern[position : position + 1] in tuple("wWSDsBb") else "\\"
            position += 1
        elif letter == "[":
            position = _after_class(pattern, position)
        elif letter == "(":
            many.append(False)
            alternatives.append(False)
            # What follows as in (?: or (?! is no repetition.
            position += pattern.startswith("?", position)
            continue
        elif letter == "|":
            # Alternatives of the whole expression are tried one after the other, and multiply nothing.
            groups += not alternatives[-1] and len(many) > 1
            many[-1] = alternatives[-1] = True
            continue
        elif letter == ")" and len(many) > 1:
            alternatives.pop()
            closed = many.pop()
            many[-1] = many[-1] or closed
        repeat = _REPEAT.match(pattern, position)
        if repeat:
            # What occurs once or not at all is not repeated.
            if closed and repeat[0] != "?":
                return "it repeats a group in which something repeats, or that has alternatives"
            wild += letter in ".[)"
            cheap += letter not in ".[)"
            many[-1] = True
            position = repeat.end()
            # Lazy and possessive repetitions have a second letter.
            position += pattern.startswith(("?", "+"), position)
    if wild + groups > _MOST:
        return f"it has {wild} repeated wildcards and {groups} groups of alternatives"
    return f"it has {wild + cheap} repetitions" if wild + cheap > _MOST_CHEAP else ""


def _after_class(pattern: str, position: int) -> int:
    """The place after a class of characters that starts before ``position``; a bracket that comes first is in it."""
    position += pattern.startswith("^", position)
    position += pattern.startswith("]", position)
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError):
        # A broken pattern means itself.
        return re.compile(re.escape(pattern))
