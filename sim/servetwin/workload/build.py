"""From the description of a workload to the stream of requests that it stands for."""

from __future__ import annotations

from pathlib import Path

from servetwin.errors import ScenarioError
from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.arrivals import Bursts
from servetwin.workload.contents import Answers, contents, kind_stream, nothing
from servetwin.workload.conversation import SessionStream
from servetwin.workload.lanes import arrival_groups, starts
from servetwin.workload.limit import LimitedStream
from servetwin.workload.process import ArrivalProcess
from servetwin.workload.spec import WorkloadSpec
from servetwin.workload.stream import NO_LIMIT, OneShotStream, RequestStream
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.replay import TraceStream, class_stamp


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
    content = contents(spec.prompts, answers, spec.prefixes, spec.documents, spec.classes, streams, base)
    return OneShotStream(starts(arrivals, streams), content, limit, until_ps, _expected(arrivals, requests))


def _bound(value: int | None, path: str, smallest: float) -> int:
    if value is None:
        return NO_LIMIT
    if value < 1:
        # In picoseconds what was found is not what was written.
        raise ScenarioError(f"{path} must be above 0", path=path, allowed=f"at least {smallest:g}")
    return value


def _expected(arrivals: ArrivalProcess, requests: int | None) -> int | None:
    if isinstance(arrivals, Bursts) and arrivals.interval_s is None:
        return arrivals.size if requests is None else min(arrivals.size, requests)
    return requests
