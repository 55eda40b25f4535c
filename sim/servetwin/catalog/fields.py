"""Checked access to the fields of a mapping that a user or a profile wrote."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from servetwin.errors import CatalogError, nearest_name
from servetwin.units import parse_quantity

_MISSING = object()


class Fields:
    """The fields of one mapping; each is taken once, and ``done`` refuses what nobody took.

    Args:
        data: the mapping.
        file: the file it stands in, for messages.
        path: dotted path of the mapping inside the file, for messages.
    """

    def __init__(self, data: object, file: str, path: str = "") -> None:
        self.file = file
        self.path = path
        if not isinstance(data, Mapping):
            raise self.error("a mapping is expected here", found=data, allowed="fields of the form `name: value`")
        self._data = dict(data)
        self._taken: list[str] = []

    def error(self, message: str, name: str = "", **details: Any) -> CatalogError:
        """A message about field ``name`` of this mapping."""
        path = ".".join(part for part in (self.path, name) if part)
        return CatalogError(message, file=self.file, path=path or None, **details)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._data.get(name) is not None

    def names(self) -> list[str]:
        """The names of all fields, as text."""
        return [str(name) for name in self._data]

    def raw(self) -> Mapping[str, Any]:
        """All fields as they were written; looking at them takes none."""
        return self._data

    def take(self, name: str, default: Any = _MISSING) -> Any:
        """The raw value of a field."""
        self._taken.append(name)
        value = self._data.get(name)
        if value is not None:
            return value
        if default is _MISSING:
            raise self.error(f"the field {name!r} is missing")
        return default

    def integer(self, name: str, default: Any = _MISSING, least: int = 1) -> int:
        """A whole number of at least ``least``."""
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error("a whole number is expected", name, found=value, allowed=f"a whole number ≥ {least}")
        return value

    def number(self, name: str, default: Any = _MISSING, low: float = 0.0, high: float = math.inf) -> float:
        """A finite number from ``low`` to ``high``."""
        value = self.take(name, default)
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= value <= high:
            limit = f"from {low:g} to {high:g}" if math.isfinite(high) else f"≥ {low:g}"
            raise self.error("a number is expected", name, found=value, allowed=f"a finite number {limit}")
        return float(value)

    def share(self, name: str) -> float:
        """A fraction of a peak: above 0, at most 1."""
        value = self.number(name, low=0.0, high=1.0)
        if value == 0.0:
            raise self.error(
                "an efficiency of zero would take forever", name, found=value, allowed="above 0, at most 1"
            )
        return value

    def text(self, name: str, default: Any = _MISSING) -> str:
        """A piece of text that is not empty."""
        value = self.take(name, default)
        if not isinstance(value, str) or (not value.strip() and default is _MISSING):
            raise self.error("text is expected", name, found=value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise self.error("true or false is expected", name, found=value, allowed="true, false")
        return value

    def choice(self, name: str, allowed: Iterable[str], default: Any = _MISSING) -> str:
        """One of the names in ``allowed``."""
        known = list(allowed)
        value = self.take(name, default)
        if value not in known:
            raise self.error(
                "this is not one of the known names", name, found=value, allowed=known,
                nearest=nearest_name(str(value), known),
            )  # fmt: skip
        return str(value)

    def choice_of(self, name: str, allowed: Iterable[str]) -> None:
        """Refuse a field whose name is not in ``allowed``; its value is left to be taken."""
        known = list(allowed)
        if name not in known:
            raise self.error(
                "this is not one of the known names", name, found=name, allowed=known, nearest=nearest_name(name, known)
            )

    def quantity(self, name: str, dimension: str, default: Any = _MISSING) -> float:
        """A figure with its unit, in the base unit of ``dimension``."""
        value = self.take(name, default)
        try:
            return parse_quantity(value, dimension)
        except ValueError as error:
            raise self.error("a figure with its unit is expected", name, found=value, allowed=str(error)) from None

    def entries(self, name: str) -> list[Any]:
        """A list of anything; absent = empty."""
        value = self.take(name, [])
        if not isinstance(value, list):
            raise self.error("a list is expected", name, found=value)
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of text; absent = empty."""
        value = self.entries(name)
        if not all(isinstance(item, str) for item in value):
            raise self.error("a list of text is expected", name, found=value)
        return tuple(value)

    def inner(self, name: str) -> Fields:
        """The fields of a mapping inside this one."""
        return Fields(self.take(name), self.file, f"{self.path}.{name}" if self.path else name)

    def items(self, name: str) -> list[Fields]:
        """The mappings of a list that is not empty."""
        value = self.take(name)
        if not isinstance(value, list) or not value:
            raise self.error("a list that is not empty is expected", name, found=value)
        base = f"{self.path}.{name}" if self.path else name
        return [Fields(item, self.file, f"{base}.{index}") for index, item in enumerate(value)]

    def done(self) -> None:
        """Refuse the first field that was not taken."""
        for name in self._data:
            if name not in self._taken:
                raise self.error(
                    "this field is unknown", str(name), found=name, allowed=sorted(set(self._taken)),
                    nearest=nearest_name(str(name), self._taken),
                )  # fmt: skip
