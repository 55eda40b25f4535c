"""What requests consist of: lengths, shared prefixes and class, one request after the other.

Every quantity has a random stream of its own, so that changing one leaves all others as they were. All of
them are iterators over blocks of draws; nothing is drawn number by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path

import numpy as np

from servetwin.request import Request, Segment
from servetwin.streams import BLOCK, Streams
from servetwin.workload.classes import RequestClass
from servetwin.workload.draws import choices
from servetwin.workload.lengths import Length
from servetwin.workload.prefixes import Prefixes


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
    length: Length | None, streams: Streams, base: Path, *name: str, default: Iterator[int]
) -> Iterator[int]:
    """The lengths drawn from ``length`` with the random stream ``name``; ``default`` if it is None."""
    return default if length is None else length.stream(streams.generator("workload", *name), base)


def kind_stream(
    classes: Sequence[RequestClass],
    streams: Streams,
    base: Path,
    prompts: Iterator[int],
    outputs: Iterator[int],
) -> Iterator[Kind]:
    """The class of one request after the other; a nameless one if there are no classes.

    Args:
        classes: the classes.
        streams: the run's random streams.
        base: the folder that relative file names are meant from.
        prompts: the lengths of classes without prompt lengths of their own.
        outputs: the lengths of classes without output lengths of their own.
    """
    if not classes:
        return repeat(Kind("", 0, -1, prompts, outputs))
    kinds = [
        Kind(
            item.name,
            item.priority,
            item.ttft_ps,
            length_stream(item.prompts, streams, base, "prompts", item.name, default=prompts),
            length_stream(item.outputs, streams, base, "outputs", item.name, default=outputs),
        )
        for item in classes
    ]
    cumulative = np.cumsum([item.share for item in classes])
    generator = streams.generator("workload", "classes")
    return (kinds[pick] for _ in count() for pick in choices(generator, BLOCK, cumulative).tolist())


def contents(
    prompts: Length | None,
    outputs: Length | None,
    prefixes: Prefixes | None,
    classes: Sequence[RequestClass],
    streams: Streams,
    base: Path,
) -> Iterator[Content]:
    """The contents of single requests, in the order of their ids, without end."""
    prompt_stream = length_stream(prompts, streams, base, "prompts", default=nothing())
    output_stream = length_stream(outputs, streams, base, "outputs", default=nothing())
    if prefixes is not None and prefixes.prompts_per_group is not None:
        assert prompts is not None, "the validation of WorkloadSpec asks for prompts"
        whole = prefixes.whole_prompts(streams, base, prompts)
        kinds = kind_stream(classes, streams, base, nothing(), output_stream)
        return (
            (tokens, next(kind.outputs), segments, kind) for (tokens, segments), kind in zip(whole, kinds, strict=False)
        )
    if prefixes is None and not classes:
        return zip(prompt_stream, output_stream, repeat(()), repeat(None), strict=False)
    kinds = kind_stream(classes, streams, base, prompt_stream, output_stream)
    if prefixes is None:
        return ((next(kind.prompts), next(kind.outputs), (), kind) for kind in kinds)
    return _prefixed(kinds, prefixes.heads(streams, base))


def _prefixed(kinds: Iterator[Kind], heads: Iterator[Segment]) -> Iterator[Content]:
    for number, (kind, head) in enumerate(zip(kinds, heads, strict=False)):
        question = next(kind.prompts)
        yield head[1] + question, next(kind.outputs), (head, (("request", number), question)), kind
