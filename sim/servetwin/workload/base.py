"""What every part of a workload's description shares: strict numbers and a frozen base class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

MAX_TOKENS = 1_000_000_000
"""No length beyond this is believed; it is far above any context window and keeps arithmetic in range."""

Count = Annotated[int, Field(strict=True, ge=1, le=MAX_TOKENS)]
"""A whole number, at least 1."""

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
"""A finite number above 0."""

NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
"""A finite number, 0 or more."""

Flag = Annotated[bool, Field(strict=True)]
"""``true`` or ``false``, nothing that merely looks like it."""


class Part(BaseModel):
    """Base of every part of a workload: immutable, and unknown fields are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class BareNumber:
    """Annotation of a union of distributions: a bare number stands for the constant distribution.

    Attributes:
        kind: what the JSON Schema calls such a number, ``integer`` or ``number``.
    """

    kind: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_constant, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": self.kind}, handler(schema)]}


def _constant(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"distribution": "constant", "value": value}
    return value


def check_bounds(low: float | None, high: float | None) -> None:
    """Refuse ``min`` above ``max``.

    Raises:
        ValueError: with both bounds in the message.
    """
    if low is not None and high is not None and low > high:
        raise ValueError(f"min ({low:g}) must not be above max ({high:g})")
