"""``skip_if``: a condition on the swept fields, read as a small part of Python and never executed as such.

Names are the paths of the swept fields. There are comparisons (also ``in``), ``and``, ``or``, ``not``, arithmetic on
numbers, numbers, texts in quotes, ``true``, ``false``, ``null`` and lists of these; nothing else.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from servetwin.errors import ScenarioError, nearest_name

_LONGEST = 2000
_DEEPEST = 100
_NAME = "_field{}_"
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
_ALLOWED = "comparisons, and, or, not, in, + - * / // %, numbers, 'texts', true, false, null, and the swept fields"


class Condition:
    """A condition, read once and asked of many points.

    Args:
        text: as the file has it.
        fields: the paths of the swept fields.
        file: the file, for messages.
        place: where in it.

    Raises:
        ScenarioError: it is malformed, or names what is not swept.

    >>> condition = Condition("router == 'random' and run.seed > 1", ["router", "run.seed"], "sweep.yaml", "skip_if.0")
    >>> condition.holds({"router": "random", "run.seed": 2})
    True
    """

    def __init__(self, text: str, fields: Sequence[str], file: str, place: str) -> None:
        self._text, self._file, self._place = text, file, place
        self._fields = tuple(fields)
        if len(text) > _LONGEST:
            raise self._error("the condition is too long", allowed=f"at most {_LONGEST:,} characters")
        try:
            self._body = ast.parse(self._with_names(text).strip(), mode="eval").body
            self._check(self._body, _DEEPEST)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = error.msg if isinstance(error, SyntaxError) else "nested too deep"
            raise self._error(f"this is no condition: {why}", found=text, allowed=_ALLOWED) from None
        if not isinstance(self._body, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            raise self._error(
                "a condition is true or false", found=text, allowed="a comparison, for example: cluster.replicas > 4"
            )

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is true of a point.

        Args:
            values: the value of each swept field.

        Raises:
            ScenarioError: it cannot be answered: a text is compared with a number, something is divided by 0.
        """
        try:
            return bool(self._value(self._body, values))
        except (TypeError, ArithmeticError) as error:
            point = ", ".join(f"{path}={value}" for path, value in values.items())
            raise self._error(
                f"the condition cannot be answered: {error}", found=self._text, hint=f"for the point {point}"
            ) from None

    def _with_names(self, text: str) -> str:
        """The text with a plain name for each path; what stands in quotes stays."""
        # The longest first: one path may begin another.
        paths = sorted(self._fields, key=len, reverse=True)
        choices = "|".join(re.escape(path) for path in paths)
        pattern = re.compile(rf"(\"[^\"]*\"|'[^']*')|(?<![\w.])({choices})(?![\w]|\.\w)")

        def replace(match: re.Match[str]) -> str:
            return match[1] or _NAME.format(self._fields.index(match[2]))

        return pattern.sub(replace, text)

    def _check(self, node: ast.expr, levels: int) -> None:
        """Refuse whatever is not part of the language, and what has more levels, which Python could not follow."""
        if not levels:
            raise RecursionError
        match node:
            case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                inner = parts
            case ast.Compare(left=left, comparators=others, ops=signs):
                inner = [left, *others]
                if any(type(sign) not in _COMPARISONS for sign in signs):
                    raise self._error("unknown comparison", found=self._text, allowed="== != < <= > >= in, not in")
            case ast.UnaryOp(operand=operand):
                inner = [operand]
            case ast.BinOp(left=left, right=right, op=sign) if type(sign) in _ARITHMETIC:
                inner = [left, right]
            case ast.Constant(value=bool() | int() | float() | str() | None):
                inner = []
            case ast.Name() | ast.Attribute() if self._is_name(node):
                inner = []
            case _:
                raise self._error("this is not part of a condition", found=ast.unparse(node), allowed=_ALLOWED)
        for part in inner:
            self._check(part, levels - 1)

    def _is_name(self, node: ast.expr) -> bool:
        """Whether it is a swept field or a constant; raises for any other name."""
        name = ast.unparse(node)
        if name in self._names() or name.lower() in _CONSTANTS:
            return True
        if not re.fullmatch(r"[\w.]+", name):
            return False
        raise self._error(
            "a condition knows the swept fields only", found=name, allowed=self._fields,
            nearest=nearest_name(name, self._fields), hint="texts stand in quotes",
        )  # fmt: skip

    def _names(self) -> dict[str, str]:
        return {_NAME.format(index): path for index, path in enumerate(self._fields)}

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._value(part, values) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self._value(part, values) for part in parts)
            case ast.Compare(left=left, ops=signs, comparators=others):
                sides = [self._value(side, values) for side in (left, *others)]
                return all(
                    _COMPARISONS[type(sign)](one, other)
                    for sign, one, other in zip(signs, sides, sides[1:], strict=False)
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._value(operand, values)
            case ast.UnaryOp(op=sign, operand=operand):
                number = _number(self._value(operand, values))
                return -number if isinstance(sign, ast.USub) else number
            case ast.BinOp(left=left, op=sign, right=right):
                return _ARITHMETIC[type(sign)](_number(self._value(left, values)), _number(self._value(right, values)))
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self._value(part, values) for part in parts]
            case ast.Constant(value=value):
                return value
        name = ast.unparse(node)
        path = self._names().get(name)
        return values[path] if path is not None else _CONSTANTS[name.lower()]

    def _error(self, message: str, **more: Any) -> ScenarioError:
        return ScenarioError(message, file=self._file, path=self._place, **more)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"arithmetic is for numbers, and this is {value!r}")
    return value
