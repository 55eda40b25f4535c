"""Prompts that share their beginning (system prompts, examples, documents) or recur as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from servetwin.request import Segment
from servetwin.streams import BLOCK, Streams
from servetwin.workload.base import Part
from servetwin.workload.draws import zipf_indices
from servetwin.workload.lengths import Length, Lengths

MAX_PROMPTS = 10_000_000


Owner = tuple[str, ...]
"""The name of a class, or nothing."""

ZipfExponent = Annotated[float, Field(strict=True, ge=0, le=100)]
"""Exponent of a Zipf distribution; 0 = uniform."""


class Prefixes(Part):
    """Groups of requests with a common prefix, in front of the tokens that ``prompts`` draws.

    With ``prompts_per_group`` there are only ``groups × prompts_per_group`` different prompts in all, each of
    them prefix plus one question, and requests repeat them, as load generators with a small data set do.
    """

    groups: Annotated[int, Field(strict=True, ge=1, le=MAX_PROMPTS)] = Field(description="Number of groups.")
    tokens: Lengths = Field(description="Length of the prefix, drawn once for each group.")
    zipf_exponent: ZipfExponent = Field(
        0.0, description="Group k is chosen with a probability proportional to 1/k^exponent; 0 = all alike."
    )
    prompts_per_group: Annotated[int, Field(strict=True, ge=1, le=MAX_PROMPTS)] | None = Field(
        None, description="Different whole prompts in each group; null = every question is new."
    )
    order: Literal["random", "cycled"] = Field(
        "random",
        description="random: a group by its popularity, a prompt of it uniformly; cycled: group 1, 2, … "
        "in turn, and the next prompt of each group in the next round.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Prefixes:
        if self.order == "cycled" and self.zipf_exponent > 0:
            raise ValueError("zipf_exponent has no effect with order: cycled")
        if self.groups * (self.prompts_per_group or 1) > MAX_PROMPTS:
            raise ValueError(f"groups × prompts_per_group must not exceed {MAX_PROMPTS:,}")
        return self

    def heads(self, streams: Streams, base: Path, owner: Owner = (), reader: Owner = ()) -> Iterator[Segment]:
        """The shared prefix of one request after the other.

        Args:
            streams: the run's random streams.
            base: the folder that relative file names are meant from.
            owner: the class whose prefixes these are, which nobody else has; nothing = those of the workload.
            reader: the class whose requests these are; nothing = whoever comes.
        """
        segments = self._groups(streams, base, owner)
        return (segments[group] for group in self._picks(streams, reader))

    def whole_prompts(
        self, streams: Streams, base: Path, questions: Length
    ) -> Iterator[tuple[int, tuple[Segment, ...]]]:
        """``(prompt tokens, segments)`` of one request after the other, of the prompts that recur."""
        heads = self._groups(streams, base)
        per_group = self.prompts_per_group or 1
        lengths = questions.stream(streams.generator("workload", "prompts"), base)
        total = self.groups * per_group
        prompts: list[tuple[int, tuple[Segment, ...]]] = []
        for number, question in zip(range(total), lengths, strict=False):
            head = heads[number % self.groups]
            prompts.append((head[1] + question, (head, (("prompt", number), question))))
        if self.order == "cycled":
            return (prompts[number % total] for number in count())
        rows = _uniform_indices(streams.generator("workload", "prompt of group"), per_group)
        groups = self._picks(streams)
        return (prompts[group + self.groups * row] for group, row in zip(groups, rows, strict=False))

    def _groups(self, streams: Streams, base: Path, owner: Owner = ()) -> list[Segment]:
        lengths = self.tokens.stream(streams.generator("workload", "prefix tokens", *owner), base)
        return [(("prefix", *owner, group), tokens) for group, tokens in zip(range(self.groups), lengths, strict=False)]

    def _picks(self, streams: Streams, reader: Owner = ()) -> Iterator[int]:
        """The group of one request after the other."""
        if self.order == "cycled":
            return (number % self.groups for number in count())
        return zipf_indices(streams.generator("workload", "prefix group", *reader), self.groups, self.zipf_exponent)


def _uniform_indices(generator: np.random.Generator, size: int) -> Iterator[int]:
    return (index for _ in count() for index in generator.integers(0, size, BLOCK).tolist())
