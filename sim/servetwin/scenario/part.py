"""What the parts of a scenario have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST = 10**9
"""Beyond this a count is a slip of the keyboard."""

Count = Annotated[int, Field(ge=1, le=MOST)]


class Part(BaseModel):
    """A part of a scenario: frozen, of strict types, without unknown fields and without infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
