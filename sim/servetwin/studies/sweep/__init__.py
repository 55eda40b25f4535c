"""Sweeps: a scenario at many points, one table.

``file`` is what the user writes, ``design`` the values of the fields at each point, ``expressions`` what ``skip_if``
means; ``points`` makes runs of them, ``running`` runs them, ``folder`` and ``table`` keep what came out, ``plots``
chooses the pictures.
"""

from servetwin.studies.sweep.design import Design
from servetwin.studies.sweep.file import SweepFile, read_sweep
from servetwin.studies.sweep.folder import Folder
from servetwin.studies.sweep.points import Plan, Point, Source, make_plan
from servetwin.studies.sweep.running import Outcome, run_sweep

__all__ = [
    "Design",
    "Folder",
    "Outcome",
    "Plan",
    "Point",
    "Source",
    "SweepFile",
    "make_plan",
    "read_sweep",
    "run_sweep",
]
