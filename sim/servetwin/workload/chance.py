"""Whether random numbers decide about a workload; where none do, another seed is the same run."""

from __future__ import annotations

from collections.abc import Iterator

from servetwin.paths import is_folder
from servetwin.workload.arrivals import AllAtOnce, Bursts, ClosedLoop, ConstantRate
from servetwin.workload.base import Part
from servetwin.workload.documents import Documents
from servetwin.workload.lengths import Length
from servetwin.workload.prefixes import Prefixes
from servetwin.workload.process import ArrivalProcess
from servetwin.workload.sessions import Forks
from servetwin.workload.spec import WorkloadSpec
from servetwin.workload.times import Duration
from servetwin.workload.traces.spec import TraceSpec

_REGULAR = (AllAtOnce, Bursts, ClosedLoop, ConstantRate)
"""Processes that draw nothing for themselves."""


def is_random(spec: WorkloadSpec) -> bool:
    """Whether two seeds may give different requests."""
    sharing = [item for item in spec.classes if item.arrivals is None]
    return len(sharing) > 1 or any(_draws(part) for part in _parts(spec))


def _draws(part: Part) -> bool:
    if isinstance(part, Length | Duration):
        return part.only is None
    if isinstance(part, ArrivalProcess):
        return not isinstance(part, _REGULAR)
    if isinstance(part, Prefixes):
        return part.order == "random" and (part.groups > 1 or (part.prompts_per_group or 1) > 1)
    if isinstance(part, Documents):
        return part.corpus > 1
    if isinstance(part, Forks):
        return part.probability < 1
    if isinstance(part, TraceSpec):
        # A folder is a recording of ServeGen, which tells how to draw requests.
        return is_folder(part.path) or part.format == "servegen"
    return False


def _parts(part: Part) -> Iterator[Part]:
    """A part of a workload and all that it consists of."""
    yield part
    for name in type(part).model_fields:
        value = getattr(part, name)
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, Part):
                yield from _parts(entry)
