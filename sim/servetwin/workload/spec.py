"""The description of a workload, and the stream of requests that it stands for."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from servetwin.errors import ScenarioError
from servetwin.streams import Streams
from servetwin.units import PS_PER_S, seconds_to_ps
from servetwin.workload.arrivals import ArrivalProcess, Arrivals, Bursts, ClosedLoop
from servetwin.workload.base import Part
from servetwin.workload.classes import RequestClass
from servetwin.workload.contents import contents, kind_stream, length_stream, nothing
from servetwin.workload.conversation import SessionDraws, SessionStream
from servetwin.workload.lengths import Lengths
from servetwin.workload.prefixes import Prefixes
from servetwin.workload.sessions import Sessions
from servetwin.workload.stream import NO_LIMIT, Clients, OneShotStream, RequestStream, Starts, TraceStream
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.trace import read_trace


class WorkloadSpec(Part):
    """What the cluster is asked to do: a synthetic workload or a recorded trace."""

    arrivals: Arrivals | None = Field(None, description="When requests (or sessions) come.")
    prompts: Lengths | None = Field(None, description="Prompt tokens, not counting a shared prefix or history.")
    outputs: Lengths | None = Field(None, description="Output tokens.")
    prefixes: Prefixes | None = Field(None, description="What prompts have in common.")
    sessions: Sessions | None = Field(None, description="Multi-turn conversations.")
    classes: tuple[RequestClass, ...] = Field((), description="Kinds of requests that differ.")
    sampling: Literal["greedy", "top-p"] = Field(
        "greedy", description="How tokens are chosen; top-p sorts the logits, which costs time."
    )
    trace: TraceSpec | None = Field(None, description="A recorded trace instead of arrivals and lengths.")

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself, without ``run.requests`` or ``run.duration_s``."""
        return self.trace is not None or (self.arrivals is not None and self.arrivals.finite)

    @model_validator(mode="after")
    def _complete(self) -> WorkloadSpec:
        names = [item.name for item in self.classes]
        if len(set(names)) < len(names):
            raise ValueError(f"two classes have the same name: {', '.join(names)}")
        if self.trace is not None:
            self._check_trace()
            return self
        if self.arrivals is None:
            raise ValueError("a workload needs arrivals (or a trace)")
        for part in ("prompts", "outputs"):
            given = [getattr(item, part) is not None for item in self.classes]
            if getattr(self, part) is None and not (given and all(given)):
                raise ValueError(f"a workload needs {part} (or a trace, or {part} in every class)")
            if getattr(self, part) is not None and given and all(given):
                raise ValueError(f"{part} has no effect: every class has {part} of its own")
        self._check_recurring_prompts()
        return self

    def _check_trace(self) -> None:
        for part in ("arrivals", "prompts", "outputs", "prefixes", "sessions"):
            if getattr(self, part) is not None:
                raise ValueError(f"{part} has no effect beside trace: give one or the other")
        for item in self.classes:
            if item.prompts is not None or item.outputs is not None:
                raise ValueError(f"the lengths of class {item.name!r} have no effect beside trace")

    def _check_recurring_prompts(self) -> None:
        if self.prefixes is None or self.prefixes.prompts_per_group is None:
            return
        if self.sessions is not None:
            raise ValueError("prefixes.prompts_per_group (prompts that recur) cannot be combined with sessions")
        if any(item.prompts is not None for item in self.classes):
            raise ValueError("prefixes.prompts_per_group (prompts that recur) cannot be combined with class prompts")


def build_stream(
    spec: WorkloadSpec, streams: Streams, *, requests: int | None, duration_ps: int | None, base: Path
) -> RequestStream:
    """The requests of a workload.

    Args:
        spec: the workload.
        streams: the run's random streams.
        requests: most requests; None = no bound.
        duration_ps: no request arrives then or later [ps]; None = no bound.
        base: the folder that file names in the workload are meant from.

    Raises:
        ScenarioError: nothing would ever end the stream, or a bound is not positive.
        TraceError: a file that the workload names cannot be read.
    """
    limit = _bound(requests, "run.requests", 1)
    until_ps = _bound(duration_ps, "run.duration_s", 1 / PS_PER_S)
    if requests is None and duration_ps is None and not spec.finite:
        raise ScenarioError(
            "this workload never ends",
            path="run.requests",
            found="neither run.requests nor run.duration_s",
            allowed="at least one of run.requests and run.duration_s",
        )
    if spec.trace is not None:
        trace = read_trace(spec.trace, base)
        kinds = kind_stream(spec.classes, streams, base, nothing(), nothing()) if spec.classes else None
        return TraceStream(trace, kinds, limit, until_ps)
    arrivals = spec.arrivals
    assert arrivals is not None, "validated"
    times = arrivals.times(streams.generator("workload", "arrivals"))
    clients = None
    if isinstance(arrivals, ClosedLoop):
        thinks = arrivals.think_time_s.stream(streams.generator("workload", "client think time"))
        clients = Clients(thinks, seconds_to_ps(arrivals.retry_after_s))
    field, value = arrivals.pace
    starts = Starts(
        times,
        clients,
        limit,
        until_ps,
        _expected(arrivals, spec.sessions is not None, requests),
        pace=(f"workload.arrivals.{field}", value),
        think=("workload.arrivals.think_time_s", _shown(getattr(arrivals, "think_time_s", None))),
    )
    if spec.sessions is not None:
        return SessionStream(starts, _session_draws(spec, spec.sessions, streams, base))
    content = contents(spec.prompts, spec.outputs, spec.prefixes, spec.classes, streams, base)
    return OneShotStream(starts, content)


def _bound(value: int | None, path: str, smallest: float) -> int:
    if value is None:
        return NO_LIMIT
    if value < 1:
        raise ScenarioError(f"{path} must be above 0", path=path, found=value, allowed=f"at least {smallest:g}")
    return value


def _expected(arrivals: ArrivalProcess, sessions: bool, requests: int | None) -> int | None:
    if isinstance(arrivals, Bursts) and arrivals.interval_s is None and not sessions:
        return arrivals.size if requests is None else min(arrivals.size, requests)
    return requests


def _session_draws(spec: WorkloadSpec, sessions: Sessions, streams: Streams, base: Path) -> SessionDraws:
    prompts = length_stream(spec.prompts, streams, base, "prompts", default=nothing())
    outputs = length_stream(spec.outputs, streams, base, "outputs", default=nothing())
    turn_prompts = None
    if sessions.turn_prompts is not None:
        turn_prompts = length_stream(sessions.turn_prompts, streams, base, "turn prompts", default=repeat(1))
    return SessionDraws(
        kinds=kind_stream(spec.classes, streams, base, prompts, outputs),
        turns=length_stream(sessions.turns, streams, base, "turns", default=repeat(1)),
        turn_prompts=turn_prompts,
        thinks=sessions.think_time_s.stream(streams.generator("workload", "think time")),
        heads=spec.prefixes.heads(streams, base) if spec.prefixes is not None else None,
        pause=("workload.sessions.think_time_s", _shown(sessions.think_time_s)),
    )


def _shown(part: Part | None) -> object:
    """A distribution as a message shows it."""
    return None if part is None else getattr(part, "value", None) or part.model_dump()
