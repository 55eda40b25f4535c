"""From the description of a workload to the stream of sessions and of classes with a life of their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from servetwin.streams import Streams
from servetwin.units import seconds_to_ps
from servetwin.workload.arrivals import ClosedLoop
from servetwin.workload.base import Part
from servetwin.workload.classes import RequestClass
from servetwin.workload.contents import Answers, by_share, class_kinds, length_stream
from servetwin.workload.conversation import Group, Lane
from servetwin.workload.documents import Head, head_stream
from servetwin.workload.prefixes import Owner
from servetwin.workload.process import ArrivalProcess
from servetwin.workload.script import ForkDraws, SessionDraws
from servetwin.workload.sessions import Sessions
from servetwin.workload.stream import Clients, Starts

if TYPE_CHECKING:
    from servetwin.workload.spec import WorkloadSpec


def arrival_groups(spec: WorkloadSpec, answers: Answers, streams: Streams, base: Path) -> list[Group]:
    """The common arrivals, and those of each class that comes by itself.

    What a class has in common with others it draws from the same streams, in the order of their starts; what it has to
    itself it draws from streams of its own, which carry its name.

    Args:
        spec: the workload; it has sessions, or a class with more of its own than lengths.
        answers: the output lengths that its classes have in common.
        streams: the run's random streams.
        base: the folder that relative file names are meant from.
    """
    prompts = length_stream(spec.prompts, streams, base, "prompts")
    kinds = class_kinds(spec.classes, streams, base, prompts, answers)
    heads = _heads(spec, None, streams, base)
    sessions = None if spec.sessions is None else _session_draws(spec.sessions, spec, streams, base)
    if not spec.classes:
        return [_group(spec.arrivals, repeat(Lane(kinds[0], heads, sessions)), streams)]
    lanes = []
    for index, item in enumerate(spec.classes):
        own_heads, own_sessions = heads, sessions
        if item.prefixes is not None or item.documents is not None:
            own_heads = _heads(spec, (index, item), streams, base)
        if item.sessions is not None:
            own_sessions = _session_draws(item.sessions, spec, streams, base, (index, item.name))
        lanes.append(Lane(kinds[index], own_heads, own_sessions))
    common = [index for index, item in enumerate(spec.classes) if item.arrivals is None]
    groups = []
    if common:
        picks = by_share([lanes[i] for i in common], [spec.classes[i].share for i in common], streams)
        groups.append(_group(spec.arrivals, picks, streams))
    for index, item in enumerate(spec.classes):
        if item.arrivals is not None:
            groups.append(_group(item.arrivals, repeat(lanes[index]), streams, (index, item.name)))
    return groups


def _heads(
    spec: WorkloadSpec, numbered: tuple[int, RequestClass] | None, streams: Streams, base: Path
) -> Iterator[Head] | None:
    """What prompts start with: those that have it in common, or those of a class with something to itself.

    Such a class may take one half from the workload; it then draws from the same contents for itself.
    """
    prefixes, documents = spec.prefixes, spec.documents
    reader: Owner = ()
    prefix_owner: Owner = ()
    document_owner: Owner = ()
    place = "workload"
    if numbered is not None:
        index, item = numbered
        reader = (item.name,)
        if item.prefixes is not None:
            prefixes, prefix_owner = item.prefixes, reader
        if item.documents is not None:
            documents, document_owner, place = item.documents, reader, f"workload.classes.{index}"
    return head_stream(
        None if prefixes is None else prefixes.heads(streams, base, prefix_owner, reader),
        None if documents is None else documents.selections(streams, base, document_owner, reader, place),
    )


def starts(arrivals: ArrivalProcess, streams: Streams, item: tuple[int, str] | None = None) -> Starts:
    """When those come who arrive by a process: that of the workload, or of a class, by its place and name."""
    place, owner = ("workload", ()) if item is None else (f"workload.classes.{item[0]}", (item[1],))
    field, value = arrivals.pace
    clients = think = None
    if isinstance(arrivals, ClosedLoop):
        think = arrivals.think_time_s
        thinks = think.stream(streams.generator("workload", "client think time", *owner))
        clients = Clients(thinks, seconds_to_ps(arrivals.retry_after_s))
    return Starts(
        times=arrivals.times(streams.generator("workload", "arrivals", *owner)),
        clients=clients,
        pace=(f"{place}.arrivals.{field}", value),
        think=(f"{place}.arrivals.think_time_s", _shown(think)),
    )


def _shown(part: Part | None) -> object:
    """A distribution as a message shows it."""
    return None if part is None else getattr(part, "value", None) or part.model_dump()


def _group(
    arrivals: ArrivalProcess | None, lanes: Iterator[Lane], streams: Streams, item: tuple[int, str] | None = None
) -> Group:
    assert arrivals is not None, "validated"
    return Group(starts(arrivals, streams, item), lanes)


def _session_draws(
    sessions: Sessions, spec: WorkloadSpec, streams: Streams, base: Path, item: tuple[int, str] | None = None
) -> SessionDraws:
    place, owner = ("workload", ()) if item is None else (f"workload.classes.{item[0]}", (item[1],))
    place += ".sessions"
    turn_prompts = None
    if sessions.turn_prompts is not None:
        turn_prompts = length_stream(sessions.turn_prompts, streams, base, "turn prompts", *owner)
    forks, tools = sessions.forks, None
    if forks is not None:
        tools = forks.tool_time_s
    return SessionDraws(
        turns=length_stream(sessions.turns, streams, base, "turns", *owner),
        turn_prompts=turn_prompts,
        thinks=sessions.think_time_s.stream(streams.generator("workload", "think time", *owner)),
        forks=None if forks is None else _fork_draws(sessions, spec, streams, base, item),
        place=place,
        pauses=(
            (f"{place}.think_time_s", _shown(sessions.think_time_s)),
            (f"{place}.forks.tool_time_s", _shown(tools)),
        ),
    )


def _fork_draws(
    sessions: Sessions, spec: WorkloadSpec, streams: Streams, base: Path, item: tuple[int, str] | None
) -> ForkDraws:
    forks = sessions.forks
    assert forks is not None
    owner = () if item is None else (item[1],)
    # Answers of branches come from streams of their own: that a session forks leaves the answers of its turns alone.
    own = None if item is None else spec.classes[item[0]]
    outputs = forks.outputs or (own.outputs if own is not None else None) or spec.outputs
    bounds = (own.max_tokens if own is not None else None) or spec.max_tokens
    lengths = length_stream(outputs, streams, base, "branch outputs", *owner)
    if bounds is not None:
        most = length_stream(bounds, streams, base, "branch max tokens", *owner)
        lengths = most if spec.ignore_eos else map(min, lengths, most)
    prompts = length_stream(forks.prompts, streams, base, "branch prompts", *owner)
    return ForkDraws(
        chances=streams.uniforms("workload", "forks", *owner),
        probability=forks.probability,
        branches=length_stream(forks.branches, streams, base, "branches", *owner),
        steps=length_stream(forks.steps, streams, base, "branch steps", *owner),
        prompts=prompts,
        step_prompts=length_stream(forks.step_prompts, streams, base, "step prompts", *owner, default=prompts),
        outputs=lengths,
        tool_times=forks.tool_time_s.stream(streams.generator("workload", "tool time", *owner)),
    )
