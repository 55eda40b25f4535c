"""Which GPUs of a replica talk to each other: its tensor groups, its context groups, its pipeline stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from servetwin.specs.span import Span


def tensor_groups(gpus: int, tensor: int) -> list[range]:
    """The ranks of each tensor group of a replica with ``gpus`` ranks.

    Ranks are numbered as in vLLM: tensor ranks next to each other, then context groups, then pipeline stages.
    """
    return [range(first, first + tensor) for first in range(0, gpus, tensor)]


def context_groups(gpus: int, tensor: int, context: int) -> list[range]:
    """The ranks that share out the tokens of a prompt, ``tensor`` apart, of a replica with ``gpus`` ranks."""
    stage = tensor * context
    firsts = [start + rank for start in range(0, gpus, stage) for rank in range(tensor)]
    return [range(first, first + stage, tensor) for first in firsts]


def stage_pairs(gpus: int, stage_gpus: int) -> list[tuple[int, int]]:
    """Each rank of a replica with ``gpus`` ranks and its partner in the next stage, ``stage_gpus`` further on."""
    return [(first, first + stage_gpus) for first in range(gpus - stage_gpus)]


def tensor_span(span: Span | None, tensor: int) -> Span | None:
    """How the GPUs of the worst placed tensor group of a replica lie.

    Ranks fill the domains of the replica in order.

    >>> tensor_span(Span(16, 2, (8, 8), 450e9, 50e9, 5e-6), 8).domains
    1
    >>> tensor_span(Span(16, 2, (8, 8), 450e9, 50e9, 5e-6), 16).per_domain
    (8, 8)

    Args:
        span: how the GPUs of the replica lie; None = in one domain.
        tensor: ranks that share out each layer.

    Returns:
        the span of the group, None where ``span`` is.
    """
    if span is None:
        return None
    return _worst(span, tensor_groups(span.gpus, tensor))


def context_span(span: Span | None, tensor: int, context: int) -> Span | None:
    """How the GPUs that share out the tokens of a prompt lie: those of the same tensor rank, ``tensor`` apart.

    Args:
        span: how the GPUs of the replica lie; None = in one domain.
        tensor: ranks of a tensor group.
        context: tensor groups that share out a prompt.

    Returns:
        the span of the worst placed such group, None where ``span`` is.
    """
    if span is None:
        return None
    return _worst(span, context_groups(span.gpus, tensor, context))


def stage_span(span: Span | None, stage_gpus: int) -> Span | None:
    """How a GPU of a pipeline stage lies to its partner in the next stage, of the worst placed pair.

    Args:
        span: how the GPUs of the replica lie; None = in one domain.
        stage_gpus: GPUs of a stage: ``tensor`` times ``context``.

    Returns:
        the span of the two, None where ``span`` is, and a span of one GPU where there is one stage.
    """
    if span is None:
        return None
    return _worst(span, stage_pairs(span.gpus, stage_gpus) or [(0,)])


def _worst(span: Span, groups: Sequence[Sequence[int]]) -> Span:
    """The span of the group with the fewest GPUs, and so NICs, in a domain; among these the one in the most domains.

    All wait for the slowest: a group that had more NICs would promise a time that others cannot keep.
    """
    place = [domain for domain, count in enumerate(span.per_domain) for _ in range(count)]
    parts = [tuple(Counter(place[rank] for rank in group).values()) for group in groups]
    worst = max(parts, key=lambda part: (-min(part), len(part)))
    if len(worst) == 1:
        return Span(len(groups[0]), 1, worst, span.inside_bytes_per_s)
    return replace(span, gpus=len(groups[0]), domains=len(worst), per_domain=worst)
