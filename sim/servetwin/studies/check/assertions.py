"""Assertions about the metrics of a run: ``ttft_ms.p99 <= 500``, ``completed == requests``, ``0.2 < kv_use_max < 0.9``.

An assertion compares sums, differences, products and quotients of metrics and numbers. It is read against the list of
metrics that a run will have, so that a misspelt one is found before anything runs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from servetwin.errors import InputError, ScenarioError, nearest_name

Term = Callable[[Mapping[str, float | None]], float | None]
"""The value of a part of an assertion in one run; None where a metric is undefined, or something is divided by 0."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_MEANT = {"=": "==", "=<": "<=", "=>": ">=", "≤": "<=", "≥": ">=", "<>": "!="}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?P<percent>\s*%)?"
    r"|(?P<key>[A-Za-z_][\w.+-]*)|(?P<sign><=|>=|==|!=|=<|=>|<>|[-+*/()<>=≤≥])|(?P<other>\S))"
)
_ALLOWED = "metrics and numbers with + - * / ( ), compared by <= >= < > == !="
_DEEPEST = 40
_LONGEST = 1000


class Check(NamedTuple):
    """What an assertion comes to in one run.

    Attributes:
        holds: whether it holds; it does not where a metric in it is undefined.
        margin: by how much, negative where it does not hold; −inf where it is undefined.
        values: the metrics in it.
    """

    holds: bool
    margin: float
    values: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion that has been read.

    Attributes:
        text: as it was written.
        keys: the metrics in it.
        terms: what is compared.
        signs: by what, each between two terms.
    """

    text: str
    keys: tuple[str, ...]
    terms: tuple[Term, ...]
    signs: tuple[str, ...]

    def check(self, metrics: Mapping[str, float | None]) -> Check:
        """Hold it against the metrics of a run."""
        sides = [term(metrics) for term in self.terms]
        holds, margin = True, float("inf")
        for sign, left, right in zip(self.signs, sides, sides[1:], strict=False):
            if left is None or right is None:
                holds, margin = False, float("-inf")
                break
            holds = holds and _COMPARISONS[sign](left, right)
            margin = min(margin, _margin(sign, left, right))
        return Check(holds, margin, {key: metrics[key] for key in self.keys})


def _margin(sign: str, left: float, right: float) -> float:
    """How far a comparison is from the other answer."""
    if sign in ("<", "<="):
        return right - left
    if sign in (">", ">="):
        return left - right
    return abs(left - right) * (1 if sign == "!=" else -1)


def read_assertion(text: str, known: Collection[str], file: str, path: str) -> Assertion:
    """Read an assertion.

    Args:
        text: the assertion.
        known: the metrics that there are.
        file: the file that it stands in, for messages.
        path: where in the file.

    Raises:
        ScenarioError: it is malformed, or names an unknown metric.

    >>> wait = read_assertion("ttft_ms.p99 <= 2 * ttft_ms.p50", ["ttft_ms.p50", "ttft_ms.p99"], "suite.yaml", "assert")
    >>> wait.check({"ttft_ms.p50": 100.0, "ttft_ms.p99": 250.0}).margin
    -50.0
    """
    return _Reader(text, known, file, path).assertion()


class _Reader:
    """Reads one assertion from left to right."""

    def __init__(self, text: str, known: Collection[str], file: str, path: str) -> None:
        self._text, self._known, self._file, self._path = text, known, file, path
        self._at = 0
        self._depth = 0
        self._keys: dict[str, None] = {}

    def assertion(self) -> Assertion:
        """The whole of it."""
        if len(self._text) > _LONGEST:
            raise self._error("the assertion is too long", found=self._text, allowed=f"at most {_LONGEST:,} characters")
        terms, signs = [self._sum()], []
        while (sign := self._sign()) in _COMPARISONS or sign in _MEANT:
            if sign in _MEANT:
                raise self._error("this is no comparison", found=sign, nearest=_MEANT[sign])
            self._next()
            signs.append(sign)
            terms.append(self._sum())
        rest = self._text[self._at :].strip()
        if rest:
            joined = rest.split()[0].lower() in ("and", "or", "&", "&&")
            hint = "two conditions are two assertions" if joined else None
            raise self._error("something is left over after the assertion", found=rest, hint=hint)
        if not signs:
            raise self._error("an assertion compares something", found=self._text)
        if not self._keys:
            raise self._error("an assertion without a metric says nothing about a run", found=self._text)
        return Assertion(self._text, tuple(self._keys), tuple(terms), tuple(signs))

    def _sum(self) -> Term:
        left = self._product()
        while (sign := self._sign()) in ("+", "-"):
            self._next()
            left = _joined(operator.add if sign == "+" else operator.sub, left, self._product())
        return left

    def _product(self) -> Term:
        left = self._factor()
        while (sign := self._sign()) in ("*", "/"):
            self._next()
            left = _joined(operator.mul if sign == "*" else operator.truediv, left, self._factor())
        return left

    def _factor(self) -> Term:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            raise self._error("a metric or a number is missing at the end", found=self._text)
        if token["number"]:
            self._at = token.end()
            return _constant(float(token["number"]) / (100 if token["percent"] else 1))
        if token["key"]:
            return self._metric(token["key"], token.start("key"))
        if self._depth > _DEEPEST:
            raise self._error(f"brackets and signs are nested more than {_DEEPEST} deep", found=self._text)
        if token["sign"] not in ("(", "-"):
            raise self._error("a metric or a number is missing", found=self._text[token.start() :].strip())
        self._at = token.end()
        self._depth += 1
        if token["sign"] == "-":
            inner = _joined(operator.sub, _constant(0.0), self._factor())
        else:
            inner = self._sum()
            if self._sign() != ")":
                raise self._error("a bracket is not closed", found=self._text)
            self._next()
        self._depth -= 1
        return inner

    def _metric(self, text: str, start: int) -> Term:
        """The longest known metric at this place: names of classes may have signs in them."""
        ends = [found.start() for found in re.finditer(r"[-+]", text)] + [len(text)]
        key = next((text[:end] for end in reversed(ends) if text[:end] in self._known), None)
        if key is None:
            found = text if text.startswith("classes.") else text[: ends[0]]
            near = nearest_name(found, self._known)
            raise self._error(
                "a run has no such metric", found=found, nearest=near,
                allowed=_families(self._known) if near is None else _relatives(near, self._known),
            )  # fmt: skip
        self._at = start + len(key)
        self._keys[key] = None
        return lambda metrics: metrics[key]

    def _sign(self) -> str:
        token = _TOKEN.match(self._text, self._at)
        return (token["sign"] or "") if token else ""

    def _next(self) -> None:
        token = _TOKEN.match(self._text, self._at)
        assert token is not None
        self._at = token.end()

    def _error(
        self, message: str, *, found: str, allowed: str = _ALLOWED, nearest: str | None = None, hint: str | None = None
    ) -> InputError:
        return ScenarioError(
            message, file=self._file, path=self._path, found=found, allowed=allowed, nearest=nearest, hint=hint
        )


def _relatives(key: str, known: Collection[str]) -> str:
    """A metric and what belongs to the same family."""
    family = key.rpartition(".")[0]
    return ", ".join(one for one in known if one.rpartition(".")[0] == family)


def _families(known: Collection[str]) -> str:
    """The families of metrics."""
    return ", ".join(dict.fromkeys(f"{one.rpartition('.')[0]}.*" if "." in one else one for one in known))


def _constant(value: float) -> Term:
    return lambda _: value


def _joined(how: Callable[[float, float], float], left: Term, right: Term) -> Term:
    def value(metrics: Mapping[str, float | None]) -> float | None:
        one, other = left(metrics), right(metrics)
        if one is None or other is None:
            return None
        try:
            return how(one, other)
        except (ZeroDivisionError, OverflowError):
            return None

    return value
