"""From a resolved description to what the engine asks."""

from __future__ import annotations

from pathlib import Path

from servetwin.acceptance.drawn import DrawnFates, Piece
from servetwin.acceptance.levels import solve_levels
from servetwin.acceptance.recorded import RecordedFates, read_matches
from servetwin.acceptance.spec import Rate, Recorded, Resolved
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
    if isinstance(spec, Rate):
        return DrawnFates((Piece(0, solve_levels((spec.rate,), 1.0, spec.spread)),), spec.proposal, streams)
    pieces = [Piece(0, solve_levels(spec.survival, spec.persistence, spec.spread))]
    if spec.beyond is not None:
        pieces.append(Piece(spec.beyond.position, solve_levels(spec.beyond.survival, spec.beyond.persistence, 0.0)))
    return DrawnFates(tuple(pieces), spec.proposal, streams)
