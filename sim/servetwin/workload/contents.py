"""What requests consist of: lengths, shared prefixes and class, one request after the other.

Every quantity has a random stream of its own, so that changing one leaves all others as they were. All of
them are iterators over blocks of draws; nothing is drawn number by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path
from typing import TypeVar

import numpy as np

from servetwin.request import Request, Segment
from servetwin.streams import BLOCK, Streams
from servetwin.workload.classes import RequestClass
from servetwin.workload.documents import Documents, Head, head_stream
from servetwin.workload.draws import choices
from servetwin.workload.lengths import Length
from servetwin.workload.prefixes import Prefixes

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class Kind:
    """A class of requests, ready to draw from.

    Attributes:
        name: name of the class.
        priority: its priority.
        ttft_ps: its limit on the time to the first token [ps]; −1 = none.
        prompts: its prompt lengths (without shared prefix).
        outputs: its output lengths.
    """

    name: str
    priority: int
    ttft_ps: int
    prompts: Iterator[int]
    outputs: Iterator[int]

    def stamp(self, request: Request) -> None:
        """Make ``request`` one of this class."""
        request.class_name = self.name
        request.priority = self.priority
        if self.ttft_ps >= 0:
            request.deadline_ps = request.arrival_ps + self.ttft_ps


Content = tuple[int, int, tuple[Segment, ...], Kind | None]
"""Prompt tokens, output tokens, segments, class."""


def nothing() -> Iterator[int]:
    """Lengths of a workload whose lengths come from elsewhere."""
    return iter(())


def length_stream(
    length: Length | None, streams: Streams, base: Path, *name: str, default: Iterator[int] | None = None
) -> Iterator[int]:
    """The lengths drawn from ``length`` with the random stream ``name``; if it is None ``default``, or no lengths."""
    if length is not None:
        return length.stream(streams.generator("workload", *name), base)
    return nothing() if default is None else default


@dataclass(frozen=True, slots=True)
class Answers:
    """How long answers are, for classes that do not say it themselves.

    An answer ends with its end-of-sequence token, after a length of its own, or at ``max_tokens``, whichever comes
    first; with ``ignore_eos`` always at ``max_tokens``.

    Attributes:
        lengths: where they would end by themselves; empty with ``ignore_eos``.
        bounds: the ``max_tokens`` of one request after the other; None = no bound.
        ignore_eos: whether the end-of-sequence token is ignored.
    """

    lengths: Iterator[int]
    bounds: Iterator[int] | None
    ignore_eos: bool

    @classmethod
    def of(
        cls, outputs: Length | None, max_tokens: Length | None, ignore_eos: bool, streams: Streams, base: Path
    ) -> Answers:
        """The answers of a workload that says so."""
        bounds = None if max_tokens is None else length_stream(max_tokens, streams, base, "max tokens")
        return cls(length_stream(outputs, streams, base, "outputs"), bounds, ignore_eos)

    def stream(self, item: RequestClass | None, streams: Streams, base: Path) -> Iterator[int]:
        """The output lengths of a class, or of requests without one."""
        lengths, bounds = self.lengths, self.bounds
        if item is not None:
            lengths = length_stream(item.outputs, streams, base, "outputs", item.name, default=lengths)
            if item.max_tokens is not None:
                bounds = length_stream(item.max_tokens, streams, base, "max tokens", item.name)
        if bounds is None:
            return lengths
        return bounds if self.ignore_eos else map(min, lengths, bounds)


def class_kinds(
    classes: Sequence[RequestClass], streams: Streams, base: Path, prompts: Iterator[int], answers: Answers
) -> list[Kind]:
    """The classes, ready to draw from; a single nameless one if there are none.

    Args:
        classes: the classes.
        streams: the run's random streams.
        base: the folder that relative file names are meant from.
        prompts: the lengths of classes without prompt lengths of their own.
        answers: the output lengths that classes have in common.
    """
    if not classes:
        return [Kind("", 0, -1, prompts, answers.stream(None, streams, base))]
    return [
        Kind(
            item.name,
            item.priority,
            item.ttft_ps,
            length_stream(item.prompts, streams, base, "prompts", item.name, default=prompts),
            answers.stream(item, streams, base),
        )
        for item in classes
    ]


def by_share(items: Sequence[Item], shares: Sequence[float], streams: Streams) -> Iterator[Item]:
    """One of ``items`` after the other, drawn by ``shares``; nothing is drawn where there is one."""
    if len(items) == 1:
        return repeat(items[0])
    generator, cumulative = streams.generator("workload", "classes"), np.cumsum(shares)
    return (items[pick] for _ in count() for pick in choices(generator, BLOCK, cumulative).tolist())


def kind_stream(
    classes: Sequence[RequestClass], streams: Streams, base: Path, prompts: Iterator[int], answers: Answers
) -> Iterator[Kind]:
    """The class of one request after the other; see ``class_kinds``."""
    kinds = class_kinds(classes, streams, base, prompts, answers)
    return by_share(kinds, [item.share for item in classes], streams)


def contents(
    prompts: Length | None,
    answers: Answers,
    prefixes: Prefixes | None,
    documents: Documents | None,
    classes: Sequence[RequestClass],
    streams: Streams,
    base: Path,
) -> Iterator[Content]:
    """The contents of single requests, in the order of their ids, without end."""
    prompt_stream = length_stream(prompts, streams, base, "prompts")
    if prefixes is not None and prefixes.prompts_per_group is not None:
        assert prompts is not None, "the validation of WorkloadSpec asks for prompts"
        whole = prefixes.whole_prompts(streams, base, prompts)
        kinds = kind_stream(classes, streams, base, nothing(), answers)
        return (
            (tokens, next(kind.outputs), segments, kind) for (tokens, segments), kind in zip(whole, kinds, strict=False)
        )
    heads = head_stream(
        None if prefixes is None else prefixes.heads(streams, base),
        None if documents is None else documents.selections(streams, base),
    )
    if heads is None and not classes:
        return zip(prompt_stream, answers.stream(None, streams, base), repeat(()), repeat(None), strict=False)
    kinds = kind_stream(classes, streams, base, prompt_stream, answers)
    if heads is None:
        return ((next(kind.prompts), next(kind.outputs), (), kind) for kind in kinds)
    return _headed(kinds, heads)


def _headed(kinds: Iterator[Kind], heads: Iterator[Head]) -> Iterator[Content]:
    for number, (kind, (segments, tokens)) in enumerate(zip(kinds, heads, strict=False)):
        question = next(kind.prompts)
        yield tokens + question, next(kind.outputs), (*segments, (("request", number), question)), kind
