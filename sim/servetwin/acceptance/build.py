"""From a resolved description to what the engine asks."""

from __future__ import annotations

from pathlib import Path

from servetwin.acceptance.drawn import DrawnFates, Piece
from servetwin.acceptance.recorded import RecordedFates, read_matches
from servetwin.acceptance.spec import Recorded, Resolved, Survival
from servetwin.streams import Streams


def build_fates(spec: Resolved, streams: Streams, base: Path) -> DrawnFates | RecordedFates:
    """What knows how drafts fare; one for all replicas and pools that have the same acceptance.

    Args:
        spec: the acceptance, without presets.
        streams: the run's random streams; the one called ``acceptance`` is used.
        base: the folder that a relative path is meant from.

    Raises:
        TraceError: a recording cannot be read.
    """
    if isinstance(spec, Recorded):
        return RecordedFates(read_matches(spec, base), spec.proposal, streams, spec.repeat)
    pieces = [Piece(0, spec.levels())]
    if isinstance(spec, Survival) and spec.beyond is not None:
        pieces.append(Piece(spec.beyond.position, spec.beyond.levels()))
    return DrawnFates(tuple(pieces), spec.proposal, streams)
