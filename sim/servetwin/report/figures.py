"""The pictures of a run."""

from __future__ import annotations

from pathlib import Path

from servetwin.report.data import AnyResult
from servetwin.report.hand_over_data import hands_over
from servetwin.report.hand_overs import draw_hand_overs
from servetwin.report.latency import draw_latency
from servetwin.report.link_data import has_links
from servetwin.report.links import draw_links
from servetwin.report.roofline import draw_roofline
from servetwin.report.speculation import draw_speculation, speculates
from servetwin.report.timeline import draw_timeline
from servetwin.results import Result
from servetwin.results.store import HAND_OVERS_PICTURE, LINKS_PICTURE, PICTURES, SPECULATION_PICTURE

LATENCY, TIMELINE, ROOFLINE = PICTURES


def draw(result: AnyResult, directory: Path) -> list[Path]:
    """Draw ``latency.png``, ``timeline.png`` and ``roofline.png`` into ``directory``; returns the files.

    A run with a network has ``links.png`` too, one with speculation ``speculation.png``, and one that hands requests
    over ``hand_overs.png``. A run that was read back has kept no steps, so it has no roofline and no curve of
    inter-token gaps.
    """
    files = [directory / LATENCY, directory / TIMELINE]
    draw_latency(result, files[0])
    draw_timeline(result, files[1])
    if isinstance(result, Result):
        files.append(directory / ROOFLINE)
        draw_roofline(result, files[2])
    if has_links(result):
        files.append(directory / LINKS_PICTURE)
        draw_links(result, files[-1])
    if speculates(result):
        files.append(directory / SPECULATION_PICTURE)
        draw_speculation(result, files[-1])
    if hands_over(result):
        files.append(directory / HAND_OVERS_PICTURE)
        draw_hand_overs(result, files[-1])
    return files
