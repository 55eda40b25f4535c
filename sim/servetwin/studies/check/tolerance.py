"""How far a metric may be from its baseline before the difference counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from servetwin.scenario.part import Part
from servetwin.studies.check.metrics import EITHER, Direction, direction

DEFAULT = "default"
IGNORE = "ignore"
_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


def _share(value: object) -> object:
    """``"2%"`` as the fraction 0.02; whoever writes a plain number may mean either."""
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found is None and value != 0:
        raise ValueError("a relative tolerance is a percentage of the baseline, with its sign: 2%")
    return float(found[1]) / 100 if found else 0.0


class Tolerance(Part):
    """How far a metric may be from its baseline before the difference counts.

    Attributes:
        relative: as a percentage of the baseline, ``2%``.
        absolute: in the unit of the metric. The wider of the two counts.
        direction: which change is for the worse: ``lower-is-better``, ``higher-is-better`` or ``either``; by default
            what the metric itself says.
        ignore: whether the metric is not compared at all; the word ``ignore`` stands for it.
    """

    relative: Annotated[float, BeforeValidator(_share)] = 0.01
    absolute: float = Field(default=0.0, ge=0)
    direction: Direction | None = None
    ignore: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if value == IGNORE:
            return {"ignore": True}
        if isinstance(value, Mapping) and value.get("ignore") is True and len(value) > 1:
            raise ValueError("what is ignored is not compared, so that nothing else has an effect beside ignore")
        if isinstance(value, Mapping):
            # An absolute tolerance alone is meant alone.
            return {"relative": 0, **value} if "absolute" in value and "relative" not in value else value
        return {"relative": value}


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for one metric.

    Attributes:
        relative: tolerance as a fraction of the baseline.
        absolute: tolerance in the unit of the metric.
        direction: which change is for the worse; None = neither, it is only told.
    """

    relative: float
    absolute: float
    direction: Direction | None

    def limit(self, baseline: float) -> float:
        """How far the metric may be from its baseline, in its unit."""
        return max(self.relative * abs(baseline), self.absolute)


def rule_for(key: str, tolerances: Mapping[str, Tolerance]) -> Rule | None:
    """What holds for a metric; None if it is ignored.

    A tolerance under the metric's own name comes first, then the first pattern (``*.max``) that fits, then ``default``.

    Args:
        key: the metric.
        tolerances: by name, pattern, or ``default``.
    """
    named = key in tolerances
    patterns = (pattern for pattern in tolerances if "*" in pattern and fnmatchcase(key, pattern))
    tolerance = tolerances.get(key if named else next(patterns, DEFAULT), Tolerance())
    if tolerance.ignore:
        return None
    way = tolerance.direction or direction(key)
    if way is None and named:
        # Whoever says how far a metric may go wants to hear when it has gone further, wherever to.
        way = EITHER
    return Rule(tolerance.relative, tolerance.absolute, way)
