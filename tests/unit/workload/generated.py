"""What a workload generates, as numbers: requests played to an end by a system without delay, and their statistics."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from servetwin.request import Request
from servetwin.units import PS_PER_S
from servetwin.workload.stream import RequestStream


def followups(stream: RequestStream, request: Request, visible_ps: int) -> list[Request]:
    """All that follows from the end of ``request``."""
    return list(stream.on_finished(request, visible_ps))


def play(stream: RequestStream, service_s: float = 1.0) -> list[Request]:
    """Every request in order of arrival; each ends ``service_s`` seconds after it."""
    order, seen = count(), []
    upcoming = iter(stream)
    waiting = next(upcoming, None)
    events: list[tuple[int, int, Request, bool]] = []
    while waiting is not None or events:
        if waiting is not None and (not events or waiting.arrival_ps <= events[0][0]):
            heappush(events, (waiting.arrival_ps, next(order), waiting, True))
            waiting = next(upcoming, None)
            continue
        now, _, request, arrives = heappop(events)
        if arrives:
            seen.append(request)
            heappush(events, (now + round(service_s * PS_PER_S), next(order), request, False))
        else:
            request.outcome = "completed"
            for following in followups(stream, request, now):
                following.arrival_ps = max(following.arrival_ps, now + 1)
                heappush(events, (following.arrival_ps, next(order), following, True))
    return seen


def shared_tokens(requests: list[Request]) -> list[int]:
    """Of each prompt, the tokens that an endless cache has seen before as a prefix, token by token."""
    known: dict[Any, int] = {}
    found = []
    for request in requests:
        shared, path, whole = 0, (), True
        last = len(request.segments) - 1
        for index, (key, tokens) in enumerate(request.segments):
            start = path
            path = (*path, (key, tokens))
            if whole:
                before = min(known.get((start, key), 0), tokens)
                shared += before
                whole = before == tokens
            said = tokens + (request.output_tokens if index == last and request.continues else 0)
            known[(start, key)] = max(known.get((start, key), 0), said)
        found.append(min(shared, request.prompt_tokens - 1))
    return found


def statistics(requests: list[Request]) -> dict[str, float]:
    """Means, variation and percentiles of the lengths, the sharing ratio, rate and variation of the gaps."""
    figures = {}
    for name in ("prompt", "output"):
        lengths = np.array([getattr(request, f"{name}_tokens") for request in requests], dtype=float)
        figures[f"{name}.mean"] = float(lengths.mean())
        figures[f"{name}.cv"] = float(lengths.std() / lengths.mean())
        for percentile in (10, 50, 90, 99):
            figures[f"{name}.p{percentile}"] = float(np.percentile(lengths, percentile))
    gaps = np.diff([request.arrival_ps / PS_PER_S for request in requests])
    figures["rate"] = float(1 / gaps.mean())
    figures["gap.cv"] = float(gaps.std() / gaps.mean())
    figures["shared"] = sum(shared_tokens(requests)) / sum(request.prompt_tokens for request in requests)
    return figures
