"""What a scenario writes under ``speculation.acceptance``: how many of the drafted tokens stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from servetwin.acceptance.levels import Levels, NoLevelsError, most_spread, solve_levels

MOST_ENTRIES = 64
"""Most entries of ``survival``: nobody drafts more tokens."""

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
"""A number from 0 to 1."""

Spread = Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)]
"""A coefficient of variation."""

_PROPOSAL = (
    "Of the positions where no token would be accepted, the share at which drafts are made all the same; only for "
    "methods that look for matches in the text. Left out: drafts are made at every position."
)
_PERSISTENCE = (
    "How likely the continuation that stands at one position goes on at the next: matches come in runs, and a "
    "step that accepts all its drafts is more likely followed by another. 0 = every position for itself."
)
_SPREAD = (
    "Coefficient of variation between requests of the accepted tokens per draft, in steps that draft as many tokens as "
    "survival has entries; 0 = all requests are alike."
)
_SPREAD_OF_RATE = (
    "Coefficient of variation between requests of the accepted tokens per draft, in steps that draft one token; 0 = "
    "all requests are alike."
)


class Part(BaseModel):
    """Base of every way to say it: immutable, and unknown fields are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Rate(Part):
    """Every drafted token stands with one probability, whatever stood before it."""

    rate: Share = Field(description="That probability, over all steps that draft one token.")
    spread: Spread = Field(0.0, description=_SPREAD_OF_RATE)
    proposal: Share | None = Field(None, description=_PROPOSAL)

    @model_validator(mode="after")
    def _exists(self) -> Rate:
        self.levels()
        return self

    def levels(self) -> Levels:
        """How matches are drawn: the same continuation goes on until it breaks off for good."""
        try:
            return solve_levels((self.rate,), 1.0, self.spread)
        except NoLevelsError:
            # Of one token, nothing but the spread can be too much.
            raise NoLevelsError(
                f"no requests that differ by {self.spread:g} have the rate {self.rate:g} together", "spread",
                f"a spread of at most about {most_spread((self.rate,)):.2g}",
            ) from None  # fmt: skip


Entries = Annotated[
    tuple[Share, ...],
    Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Of the drafts of as many tokens as there are entries, the shares whose first 1, 2, … tokens "
        "stand. Behind the last entry every further token stands as often as the last one does, given those before it.",
    ),
]


class Beyond(Part):
    """How drafts fare from some position of the output on: very long answers often repeat themselves."""

    position: Annotated[int, Field(strict=True, ge=1)] = Field(description="That position [tokens].")
    survival: Entries
    persistence: Share = Field(0.0, description=_PERSISTENCE)

    @model_validator(mode="after")
    def _exists(self) -> Beyond:
        _check_falling(self.survival)
        self.levels()
        return self

    def levels(self) -> Levels:
        """How matches are drawn; requests do not differ there."""
        return solve_levels(self.survival, self.persistence, 0.0)


class Survival(Part):
    """How many of the drafted tokens stand, position by position."""

    survival: Entries
    spread: Spread = Field(0.0, description=_SPREAD)
    persistence: Share = Field(0.0, description=_PERSISTENCE)
    proposal: Share | None = Field(None, description=_PROPOSAL)
    beyond: Beyond | None = Field(None, description="The same for the later part of long outputs.")

    @model_validator(mode="after")
    def _exists(self) -> Survival:
        _check_falling(self.survival)
        self.levels()
        return self

    def levels(self) -> Levels:
        """How matches are drawn."""
        return solve_levels(self.survival, self.persistence, self.spread)


class Recorded(Part):
    """Accepted lengths that were recorded, replayed as they are."""

    recorded: str = Field(
        min_length=1,
        description="A file of JSON lines, plain or gzip, one for each request, relative to the scenario file. Request "
        "number i has line i, from the first again where there are too few.",
    )
    column: str = Field(
        min_length=1,
        description="The key of the list with an entry for each position of the output: how many tokens a step that "
        "begins there yields with any number of drafts, the one from verification included. Where the "
        "output is longer the list begins again.",
    )
    repeat: Annotated[int, Field(strict=True, ge=1)] = Field(
        1, description="Requests in a row that have the same line: copies of one prompt [requests]."
    )
    proposal: Share | None = Field(None, description=_PROPOSAL)


class Preset(Part):
    """What was measured on a data set or for a model."""

    preset: str = Field(min_length=1, description="Its name (servetwin list acceptance).")
    proposal: Share | None = Field(None, description=_PROPOSAL + " It replaces the preset's own.")


Resolved = Rate | Survival | Recorded
"""What is left when presets are replaced by what they stand for."""


@dataclass(frozen=True)
class ShortForms:
    """Annotation of the union: a bare number is a rate, a bare text the name of a preset."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_written_out, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        short = [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "minLength": 1}]
        return {"anyOf": [*short, handler(schema)]}


def _written_out(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"rate": value}
    if isinstance(value, dict):
        ways = [key for key in _KEYS if key in value]
        if len(ways) > 1:
            raise PydanticCustomError(
                "acceptance_twice",
                "{ways} are ways to say the same, how many of the drafted tokens stand: choose one of them",
                {"ways": " and ".join(ways)},
            )
    return {"preset": value} if isinstance(value, str) else value


def _kind(value: Any) -> str | None:
    """Which way of saying it a mapping is; one that has none of their keys is taken for the most frequent."""
    if isinstance(value, Part):
        return _TAGS[type(value)]
    if not isinstance(value, dict):
        return None
    found = (tag for key, tag in _KEYS.items() if key in value)
    return next(found, "by position")


# No tag is a field's name: messages leave out what is no field.
_TAGS: dict[type[Part], str] = {
    Survival: "by position", Rate: "at a rate", Recorded: "as recorded", Preset: "as measured",
}  # fmt: skip
_KEYS = {"survival": "by position", "rate": "at a rate", "recorded": "as recorded", "preset": "as measured"}

Acceptance = Annotated[
    Annotated[Survival, Tag("by position")]
    | Annotated[Rate, Tag("at a rate")]
    | Annotated[Recorded, Tag("as recorded")]
    | Annotated[Preset, Tag("as measured")],
    Discriminator(
        _kind,
        custom_error_type="acceptance",
        custom_error_message="acceptance is a number from 0 to 1, the name of a preset, or a mapping with survival, "
        "rate, recorded or preset",
    ),
    ShortForms(),
]
"""What a scenario writes: a number, the name of a preset, or a mapping."""


def _check_falling(survival: tuple[float, ...]) -> None:
    for place, (before, after) in enumerate(pairwise(survival), 2):
        if after > before:
            raise ValueError(
                f"survival never rises: entry {place} is {after:g}, after {before:g}; a draft whose first {place} "
                f"tokens stand is one whose first {place - 1} do"
            )
