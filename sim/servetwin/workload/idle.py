"""Options of a workload that do nothing where they stand, because of what stands beside them.

What can never be meant is refused when the workload is read (``rules``). These here may come of a study that varies
something else, such as the number of groups down to one, and are named in a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from servetwin.workload.arrivals import Bursts, ClosedLoop
from servetwin.workload.base import Part
from servetwin.workload.lengths import Clipped, EmpiricalLength
from servetwin.workload.rates import OnOff
from servetwin.workload.times import ClippedDuration

if TYPE_CHECKING:
    from servetwin.workload.classes import RequestClass
    from servetwin.workload.documents import Documents
    from servetwin.workload.prefixes import Prefixes
    from servetwin.workload.process import ArrivalProcess
    from servetwin.workload.sessions import Sessions
    from servetwin.workload.spec import WorkloadSpec


class IdleOption(NamedTuple):
    """An option without effect.

    Attributes:
        path: where it stands: a dotted path, from ``workload`` on.
        reason: why it does nothing.
    """

    path: str
    reason: str


def idle_options(spec: WorkloadSpec, requests: int | None) -> Iterator[IdleOption]:
    """The options of a workload that do nothing.

    Args:
        spec: the workload.
        requests: most requests of the run; None = no bound.
    """
    yield from _distributions(spec, "workload")
    yield from _shared(spec, "workload", requests)
    for index, item in enumerate(spec.classes):
        yield from _shared(item, f"workload.classes.{index}", requests)
    yield from _classes(spec)
    most = _most(spec, requests)
    if spec.max_concurrency is not None and most is not None and spec.max_concurrency >= most:
        yield IdleOption("workload.max_concurrency", f"there are no more than {most:,} requests in all")


def _shared(part: WorkloadSpec | RequestClass, place: str, requests: int | None) -> Iterator[IdleOption]:
    """What the workload says for all classes, and a class for itself."""
    if part.arrivals is not None:
        yield from _arrivals(part.arrivals, f"{place}.arrivals", requests)
    if part.prefixes is not None:
        yield from _prefixes(part.prefixes, f"{place}.prefixes")
    if part.documents is not None:
        yield from _documents(part.documents, f"{place}.documents")
    if part.sessions is not None:
        yield from _sessions(part.sessions, f"{place}.sessions")


def _arrivals(process: ArrivalProcess, place: str, requests: int | None) -> Iterator[IdleOption]:
    if isinstance(process, ClosedLoop):
        if process.concurrency == 1 and process.ramp_s:
            yield IdleOption(f"{place}.ramp_s", "there is one client, which starts at once")
        if requests is not None and process.concurrency >= requests and _given(process, "think_time_s"):
            yield IdleOption(
                f"{place}.think_time_s",
                f"none of the {process.concurrency:,} clients has a second of {requests:,} requests",
            )
    elif isinstance(process, Bursts) and process.interval_s is not None:
        if requests is not None and process.size >= requests:
            yield IdleOption(f"{place}.interval_s", f"the first burst has all {requests:,} requests")
    elif isinstance(process, OnOff) and process.off_rate_per_s == process.rate_per_s:
        for field in ("on_s", "off_s", "phases"):
            if _given(process, field):
                yield IdleOption(f"{place}.{field}", "the rate is the same on and off")


def _prefixes(prefixes: Prefixes, place: str) -> Iterator[IdleOption]:
    if prefixes.groups > 1:
        return
    if prefixes.zipf_exponent:
        yield IdleOption(f"{place}.zipf_exponent", "there is one group")
    if prefixes.order == "cycled" and prefixes.prompts_per_group in (None, 1):
        yield IdleOption(f"{place}.order", "there is one group, and one prompt in it or always a new one")


def _documents(documents: Documents, place: str) -> Iterator[IdleOption]:
    least = documents.per_request.shortest
    if documents.corpus == 1:
        if documents.zipf_exponent:
            yield IdleOption(f"{place}.zipf_exponent", "there is one document")
        if documents.order != "retrieved":
            yield IdleOption(f"{place}.order", "there is one document")
        if documents.per_request.only != 1:
            yield IdleOption(f"{place}.per_request", "there is one document, which every request has")
    elif least >= documents.corpus and documents.order == "popularity" and documents.zipf_exponent:
        yield IdleOption(f"{place}.zipf_exponent", "every request has all documents, in the order of their popularity")


def _sessions(sessions: Sessions, place: str) -> Iterator[IdleOption]:
    if sessions.turns.longest != 1:
        return
    fields = ("think_time_s", *(["turn_prompts"] if sessions.turn_prompts is not None else ()))
    for field in fields:
        yield IdleOption(f"{place}.{field}", "every session has one turn")


def _classes(spec: WorkloadSpec) -> Iterator[IdleOption]:
    sharing = [(index, item) for index, item in enumerate(spec.classes) if item.arrivals is None]
    if len(sharing) == 1 and sharing[0][1].share != 1.0:
        others = "others have arrivals of their own" if len(spec.classes) > 1 else "there are no others"
        yield IdleOption(
            f"workload.classes.{sharing[0][0]}.share", f"one class has all of the common arrivals: {others}"
        )
    priorities = {item.priority for item in spec.classes}
    if len(priorities) == 1 and priorities != {0}:
        yield IdleOption("workload.classes.0.priority", "all requests have the same")


def _distributions(part: Part, place: str) -> Iterator[IdleOption]:
    """Bounds of what never varies, and weights of what there is one of, anywhere in a part of a workload."""
    if isinstance(part, (Clipped, ClippedDuration)) and part.fixed is not None:
        for field in ("min", "max"):
            # A bound that moves the only value is the one that counts.
            if _given(part, field) and getattr(part, field) != part.only:
                yield IdleOption(f"{place}.{field}", f"std is 0, so every value is {part.only:,}")
    elif isinstance(part, EmpiricalLength) and part.weights and part.only is not None:
        yield IdleOption(f"{place}.weights", f"every value is {part.only:,}")
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Part):
            yield from _distributions(value, f"{place}.{name}")
        elif isinstance(value, tuple):
            for index, entry in enumerate(value):
                if isinstance(entry, Part):
                    yield from _distributions(entry, f"{place}.{name}.{index}")


def _given(part: Part, field: str) -> bool:
    """Whether a field says something else than it would say unwritten."""
    default: object = type(part).model_fields[field].default
    return bool(getattr(part, field) != default)


def _most(spec: WorkloadSpec, requests: int | None) -> int | None:
    """Most requests that can come, where that is known without drawing any."""
    bounds = [requests] if requests is not None else []
    if isinstance(spec.arrivals, Bursts) and spec.arrivals.finite and not spec.in_lanes:
        bounds.append(spec.arrivals.size)
    return min(bounds, default=None)
