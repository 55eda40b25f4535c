"""Scoring the simulator against measured cases: files of cases → scenarios → runs → errors.

A file has the layout of ``cases.json``: ``{"meta": …, "cases": [{id, kind, model, hardware, engine, workload,
measured, usable_for_scoring, …}]}``. ``kinds`` turns a case into scenarios, ``running`` runs them,
``scoring`` compares, ``document`` gathers what was found, ``writing`` makes files of it.
"""

from servetwin.studies.run_options import RunOptions
from servetwin.studies.validation.cases import Case, CaseFile, read_case_file
from servetwin.studies.validation.document import build_document
from servetwin.studies.validation.kinds import trials_of
from servetwin.studies.validation.plan import Plan, make_plan
from servetwin.studies.validation.running import run_plan
from servetwin.studies.validation.trial import NotYet, Point, Trial

__all__ = [
    "Case",
    "CaseFile",
    "NotYet",
    "Plan",
    "Point",
    "RunOptions",
    "Trial",
    "build_document",
    "make_plan",
    "read_case_file",
    "run_plan",
    "trials_of",
]
