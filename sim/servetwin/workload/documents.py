"""Retrieved documents in front of a question (retrieval-augmented generation), and what else a prompt starts with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from servetwin.errors import ScenarioError
from servetwin.request import Segment
from servetwin.streams import Streams
from servetwin.workload.base import Part
from servetwin.workload.draws import zipf_indices
from servetwin.workload.lengths import ConstantLength, Lengths
from servetwin.workload.prefixes import Owner, ZipfExponent

Head = tuple[tuple[Segment, ...], int]
"""What a prompt starts with: its segments, and their tokens altogether."""

MAX_CORPUS = 1_000_000
MAX_DOCUMENTS = 1_000
"""Most documents of one prompt."""


class Documents(Part):
    """Documents between the shared prefix, if any, and the question that ``prompts`` draws.

    Every request (with sessions: every session, once) gets some documents of a corpus, none of them twice. A prefix
    cache can use a document again only where all that stands before it is the same too: the system prompt and the
    same documents in the same order, then as far as the two prompts agree.
    """

    corpus: Annotated[int, Field(strict=True, ge=1, le=MAX_CORPUS)] = Field(description="Number of documents.")
    tokens: Lengths = Field(description="Length of a document, drawn once for each.")
    per_request: Lengths = Field(description="Documents of a request; never more than the corpus has.")
    zipf_exponent: ZipfExponent = Field(
        0.0, description="Document k is chosen with a probability proportional to 1/k^exponent; 0 = all alike."
    )
    order: Literal["retrieved", "popularity"] = Field(
        "retrieved",
        description="retrieved: as they are drawn; popularity: the most popular first, so that prompts share more.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Documents:
        if isinstance(self.per_request, ConstantLength):
            most = min(self.corpus, MAX_DOCUMENTS)
            if self.per_request.value > most:
                raise ValueError(f"per_request is {self.per_request.value}, but a request has at most {most} of them")
        if self.per_request.only == 1 and self.order == "popularity":
            raise ValueError("order has no effect: every request has one document")
        return self

    def selections(
        self, streams: Streams, base: Path, owner: Owner = (), reader: Owner = (), place: str = "workload"
    ) -> Iterator[tuple[Segment, ...]]:
        """The documents of one request after the other.

        Args:
            streams, base, owner, reader: as in ``Prefixes.heads``.
            place: the part of the workload that says ``documents``, for messages.

        Raises:
            ScenarioError: a request would have too many documents.
        """
        lengths = self.tokens.stream(streams.generator("workload", "document tokens", *owner), base)
        corpus = [(("document", *owner, k), tokens) for k, tokens in zip(range(self.corpus), lengths, strict=False)]
        counts = self.per_request.stream(streams.generator("workload", "documents", *reader), base)
        picks = zipf_indices(streams.generator("workload", "document", *reader), self.corpus, self.zipf_exponent)
        for count in counts:
            count = min(count, self.corpus)
            if count > MAX_DOCUMENTS:
                raise ScenarioError(
                    f"a request would have {count:,} documents",
                    path=f"{place}.documents.per_request",
                    found=count,
                    allowed=f"at most {MAX_DOCUMENTS:,}",
                )
            chosen = _distinct(picks, count, self.corpus)
            if self.order == "popularity":
                chosen.sort()
            yield tuple([corpus[k] for k in chosen])


def _distinct(picks: Iterator[int], count: int, size: int) -> list[int]:
    """``count`` different indices below ``size`` from ``picks``, in the order drawn.

    Where the popular ones leave the others hardly a chance, the rest is filled up by popularity.
    """
    chosen: dict[int, None] = {}
    tries = 100 * count
    while len(chosen) < count and tries:
        chosen[next(picks)] = None
        tries -= 1
    # The scan passes at most ``count`` chosen ones.
    for index in range(size):
        if len(chosen) == count:
            break
        chosen[index] = None
    return list(chosen)


def head_stream(
    prefixes: Iterator[Segment] | None, documents: Iterator[tuple[Segment, ...]] | None
) -> Iterator[Head] | None:
    """What one prompt after the other starts with, of a shared prefix and documents; None if with nothing in common."""
    if documents is None:
        return None if prefixes is None else (((head,), head[1]) for head in prefixes)
    if prefixes is None:
        return ((chosen, _tokens(chosen)) for chosen in documents)
    both = zip(prefixes, documents, strict=False)
    return (((head, *chosen), head[1] + _tokens(chosen)) for head, chosen in both)


def _tokens(segments: tuple[Segment, ...]) -> int:
    return sum([tokens for _, tokens in segments])
