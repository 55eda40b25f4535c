"""What the parts of a workload must not say together: options without effect, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from servetwin.workload.lengths import Length
from servetwin.workload.sessions import Sessions

if TYPE_CHECKING:
    from servetwin.workload.spec import WorkloadSpec

SHARED = ("arrivals", "prompts", "outputs", "max_tokens", "prefixes", "documents", "sessions")
"""What the workload may say for all classes, and each class for itself."""

BESIDE_TRACE = (*SHARED, "ignore_eos")
"""What a trace brings itself, or cannot have."""


def check(spec: WorkloadSpec) -> None:
    """Refuse a workload that lacks something, or says something that has no effect.

    Raises:
        ValueError: with the names of the fields.
    """
    names = [item.name for item in spec.classes]
    if len(set(names)) < len(names):
        raise ValueError(f"two classes have the same name: {', '.join(names)}")
    if spec.trace is not None:
        _check_trace(spec)
        return
    _check_answers(spec)
    _check_complete(spec)
    _check_recurring_prompts(spec)
    _check_concurrency(spec)


def _check_trace(spec: WorkloadSpec) -> None:
    for part in BESIDE_TRACE:
        if getattr(spec, part):
            raise ValueError(f"{part} has no effect beside trace: give one or the other")
    for item in spec.classes:
        for part in SHARED:
            if getattr(item, part) is not None:
                raise ValueError(f"{part} of class {item.name!r} has no effect beside trace")


def _check_answers(spec: WorkloadSpec) -> None:
    if not spec.ignore_eos:
        _check_bounds(spec)
        return
    if spec.outputs is not None or any(item.outputs is not None for item in spec.classes):
        raise ValueError("outputs has no effect with ignore_eos: every answer has max_tokens tokens")
    if any(sessions.forks is not None and sessions.forks.outputs is not None for sessions in _all_sessions(spec)):
        raise ValueError("forks.outputs has no effect with ignore_eos: every answer has max_tokens tokens")


def _check_bounds(spec: WorkloadSpec) -> None:
    """Refuse a ``max_tokens`` that no answer can reach."""
    forks = [sessions.forks.outputs for sessions in _all_sessions(spec) if sessions.forks is not None]
    unbound = [item.outputs or spec.outputs for item in spec.classes if item.max_tokens is None]
    if not spec.classes or any(outputs is None for outputs in forks):
        unbound.append(spec.outputs)
    _check_bound("max_tokens", spec.max_tokens, [*unbound, *forks])
    for item in spec.classes:
        own = item.sessions.forks.outputs if item.sessions is not None and item.sessions.forks is not None else None
        _check_bound(f"max_tokens of class {item.name!r}", item.max_tokens, [item.outputs or spec.outputs, own])


def _check_bound(name: str, bound: Length | None, answers: Sequence[Length | None]) -> None:
    longest = [answer.longest for answer in answers if answer is not None]
    if bound is None or not longest or None in longest:
        return
    most = max(length for length in longest if length is not None)
    least = "" if bound.only is not None else "at least "
    if bound.shortest >= most:
        raise ValueError(
            f"{name} has no effect: it is {least}{bound.shortest:,}, and no answer is longer than {most:,} tokens"
        )


def _check_complete(spec: WorkloadSpec) -> None:
    if spec.arrivals is None and not (spec.classes and all(item.arrivals is not None for item in spec.classes)):
        raise ValueError("a workload needs arrivals (or a trace, or arrivals in every class)")
    for part in ("prompts", "max_tokens" if spec.ignore_eos else "outputs"):
        given = [getattr(item, part) is not None for item in spec.classes]
        if getattr(spec, part) is None and not (given and all(given)):
            why = " with ignore_eos" if part == "max_tokens" else ""
            raise ValueError(f"a workload needs {part}{why} (or a trace, or {part} in every class)")
    if spec.arrivals is not None and spec.arrivals.process == "all-at-once":
        for item in spec.classes:
            if item.arrivals is not None:
                raise ValueError(f"class {item.name!r} would never come: all-at-once leaves it no requests")
    for part in SHARED:
        given = [getattr(item, part) is not None for item in spec.classes]
        if getattr(spec, part) is not None and given and all(given):
            raise ValueError(f"{part} has no effect: every class has {part} of its own")


def _check_recurring_prompts(spec: WorkloadSpec) -> None:
    if spec.prefixes is None or spec.prefixes.prompts_per_group is None:
        return
    recurring = "prefixes.prompts_per_group (prompts that recur) cannot be combined with"
    for part in ("sessions", "documents"):
        if getattr(spec, part) is not None:
            raise ValueError(f"{recurring} {part}")
    for part in ("prompts", "arrivals", "prefixes", "documents", "sessions"):
        if any(getattr(item, part) is not None for item in spec.classes):
            raise ValueError(f"{recurring} class {part}")


def _check_concurrency(spec: WorkloadSpec) -> None:
    if spec.max_concurrency is None:
        return
    if any(True for _ in _all_sessions(spec)):
        raise ValueError(
            "max_concurrency cannot be combined with sessions: with process: closed-loop the clients hold one each"
        )
    processes = [spec.arrivals, *(item.arrivals for item in spec.classes)]
    if any(process is not None and process.process == "closed-loop" for process in processes):
        raise ValueError("max_concurrency cannot be combined with process: closed-loop, which has concurrency")


def _all_sessions(spec: WorkloadSpec) -> Iterator[Sessions]:
    for sessions in (spec.sessions, *(item.sessions for item in spec.classes)):
        if sessions is not None:
            yield sessions
