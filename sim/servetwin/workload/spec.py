"""The description of a workload, and the stream of requests that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from servetwin.errors import ScenarioError
from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.arrivals import Arrivals, Bursts
from servetwin.workload.base import Count, Flag, Part
from servetwin.workload.classes import RequestClass
from servetwin.workload.contents import Answers, contents, kind_stream, nothing
from servetwin.workload.conversation import SessionStream
from servetwin.workload.documents import Documents
from servetwin.workload.lanes import arrival_groups, client_loop, shown
from servetwin.workload.lengths import Lengths
from servetwin.workload.limit import LimitedStream
from servetwin.workload.prefixes import Prefixes
from servetwin.workload.process import ArrivalProcess
from servetwin.workload.rules import check
from servetwin.workload.sessions import Sessions
from servetwin.workload.stream import NO_LIMIT, OneShotStream, RequestStream, Starts
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.replay import TraceStream, class_stamp
from servetwin.workload.traces.spec import TraceSpec


class WorkloadSpec(Part):
    """What the cluster is asked to do: a synthetic workload or a recorded trace."""

    arrivals: Arrivals | None = Field(None, description="When requests (or sessions) come.")
    max_concurrency: Count | None = Field(
        None,
        description="Most requests that the client has under way, as ``vllm bench serve --max-concurrency``: others "
        "wait at the client, and count as arrived when they are sent. null = no bound.",
    )
    prompts: Lengths | None = Field(
        None, description="Prompt tokens, not counting a shared prefix, documents or history."
    )
    outputs: Lengths | None = Field(
        None, description="Output tokens: where an answer would end by itself, with its end-of-sequence token."
    )
    max_tokens: Lengths | None = Field(None, description="Bound on the output tokens of a request; null = no bound.")
    ignore_eos: Flag = Field(
        False,
        description="Every answer has exactly ``max_tokens`` tokens, as with ``ignore_eos`` in vLLM; there are no "
        "``outputs`` then.",
    )
    prefixes: Prefixes | None = Field(None, description="What prompts have in common.")
    documents: Documents | None = Field(None, description="Retrieved documents in the prompts.")
    sessions: Sessions | None = Field(None, description="Multi-turn conversations, and agents.")
    classes: tuple[RequestClass, ...] = Field((), description="Kinds of requests that differ, or tenants.")
    sampling: Literal["greedy", "top-p"] = Field(
        "greedy", description="How tokens are chosen; top-p sorts the logits, which costs time."
    )
    trace: TraceSpec | None = Field(None, description="A recorded trace instead of arrivals and lengths.")

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself, without ``run.requests`` or ``run.duration_s``."""
        if self.trace is not None:
            return True
        processes = [item.arrivals for item in self.classes]
        if self.arrivals is not None:
            processes.append(self.arrivals)
        return all(process.finite for process in processes if process is not None)

    @property
    def in_lanes(self) -> bool:
        """Whether there is more to it than single requests that arrive by one process."""
        return self.sessions is not None or any(
            part is not None
            for item in self.classes
            for part in (item.arrivals, item.prefixes, item.documents, item.sessions)
        )

    @model_validator(mode="after")
    def _consistent(self) -> WorkloadSpec:
        check(self)
        return self


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
    if requests is None and spec.arrivals is not None and spec.arrivals.process == "all-at-once":
        raise ScenarioError(
            "all requests come at once: how many?",
            path="run.requests",
            found="only run.duration_s",
            allowed="a number of requests",
        )
    stream = _stream(spec, streams, requests, limit, until_ps, base)
    return stream if spec.max_concurrency is None else LimitedStream(stream, spec.max_concurrency, until_ps)


def _stream(
    spec: WorkloadSpec, streams: Streams, requests: int | None, limit: int, until_ps: int, base: Path
) -> RequestStream:
    answers = Answers.of(spec.outputs, spec.max_tokens, spec.ignore_eos, streams, base)
    if spec.trace is not None:
        trace = read_trace(spec.trace, base, streams)
        kinds = kind_stream(spec.classes, streams, base, nothing(), answers)
        return TraceStream(trace, class_stamp(trace, spec.classes, kinds), limit, until_ps)
    if spec.in_lanes:
        return SessionStream(arrival_groups(spec, answers, streams, base), limit, until_ps, requests)
    arrivals = spec.arrivals
    assert arrivals is not None, "validated"
    field, value = arrivals.pace
    starts = Starts(
        times=arrivals.times(streams.generator("workload", "arrivals")),
        clients=client_loop(arrivals, streams),
        limit=limit,
        until_ps=until_ps,
        expected=_expected(arrivals, requests),
        pace=(f"workload.arrivals.{field}", value),
        think=("workload.arrivals.think_time_s", shown(getattr(arrivals, "think_time_s", None))),
    )
    content = contents(spec.prompts, answers, spec.prefixes, spec.documents, spec.classes, streams, base)
    return OneShotStream(starts, content)


def _bound(value: int | None, path: str, smallest: float) -> int:
    if value is None:
        return NO_LIMIT
    if value < 1:
        raise ScenarioError(f"{path} must be above 0", path=path, found=value, allowed=f"at least {smallest:g}")
    return value


def _expected(arrivals: ArrivalProcess, requests: int | None) -> int | None:
    if isinstance(arrivals, Bursts) and arrivals.interval_s is None:
        return arrivals.size if requests is None else min(arrivals.size, requests)
    return requests
