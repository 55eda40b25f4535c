"""Figures of hardware profiles: a value with its unit, who says so, and when it was looked up."""

from __future__ import annotations

from servetwin.catalog.fields import Fields
from servetwin.specs import Source


class Figures:
    """Reads the figures of one profile and keeps where each comes from.

    A figure is a mapping ``{value, source, date}``; its value is text with a unit, or a number where the unit stands in
    the name of the figure.
    """

    def __init__(self) -> None:
        self._sources: list[Source] = []

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of all figures that were read, in that order."""
        return tuple(self._sources)

    def add(self, figure: str, shown: str, fields: Fields) -> None:
        """Keep the ``source`` and ``date`` of ``fields`` for a figure that is read elsewhere, a table say."""
        self._sources.append(Source(figure, shown, fields.text("source"), str(fields.take("date"))))

    def required(self, parent: Fields, name: str, dimension: str | None) -> float:
        """A figure that a profile must give, in the base unit of ``dimension`` (None: a plain number).

        Raises:
            CatalogError: it is missing, not above zero, or lacks its unit, source or date.
        """
        inner = parent.inner(name)
        value = inner.quantity("value", dimension) if dimension else inner.number("value")
        if value <= 0:
            raise inner.error("a figure above zero is expected", "value", found=inner.take("value"))
        self.add(f"{parent.path}.{name}" if parent.path else name, str(inner.take("value")), inner)
        inner.done()
        return value

    def optional(self, parent: Fields, name: str, dimension: str | None) -> float | None:
        """A figure that may be missing or null: None then."""
        if parent.has(name):
            return self.required(parent, name, dimension)
        parent.take(name, None)
        return None
