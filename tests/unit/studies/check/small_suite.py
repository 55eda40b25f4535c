"""A suite that takes no time, and a check of it in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from servetwin.catalog.find import Catalog
from servetwin.studies.check.document import build_document, update_baselines
from servetwin.studies.check.plan import Plan, Request, make_plan
from servetwin.studies.check.running import run_plan
from servetwin.studies.run_options import RunOptions

SCENARIO = """
model: llama-3.1-8b
cluster: {hardware: h100-sxm, replicas: 2}
workload: {arrivals: {rate_per_s: 20}, prompts: 200, outputs: 20}
run: {requests: 40}
"""


def write_suite(folder: Path, *entries: dict[str, Any], **fields: Any) -> Path:
    """Write a suite beside its scenario; entries say what differs from the usual one."""
    (folder / "small.yaml").write_text(SCENARIO, encoding="utf-8")
    scenarios = [
        {"name": f"entry-{place}", "scenario": "small.yaml", **entry} for place, entry in enumerate(entries or ({},))
    ]
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump({"scenarios": scenarios, **fields}, sort_keys=False), encoding="utf-8")
    return file


def plan(file: Path, *, baselines: Path | None = None, update: bool = False, **runs: Any) -> Plan:
    """Everything that happens before anything runs."""
    return make_plan(Request(file, baselines, update, RunOptions(**runs)), Catalog())


def check(file: Path, **request: Any) -> dict[str, Any]:
    """The document of a check."""
    todo = plan(file, **request)
    finished = run_plan(todo)
    document = build_document(todo, finished)
    if todo.request.update:
        update_baselines(todo, finished, document)
    return document
