"""One trial: its scenario as this version takes it, its run, and what is measured of it."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.run import execute
from servetwin.scenario.schema import Scenario
from servetwin.studies.run_options import RunOptions
from servetwin.studies.validation.measure import measure
from servetwin.studies.validation.speedup import SpeedupTrial, run_speedup
from servetwin.studies.validation.step_cost import StepCostTrial, price_trial
from servetwin.studies.validation.trial import BLOCK_TOKENS, Outcome, Trial

if TYPE_CHECKING:
    from servetwin.results.result import Result

_LARGEST_GRAPH = 8192
"""The largest captured batch in the options of TensorRT-LLM's perf-overview."""


def run_trial(trial: Trial, options: RunOptions, catalog: Catalog) -> Outcome:
    """Run one trial as often as it asks for; what keeps it from running is its answer.

    Raises:
        Interrupted: a signal.
    """
    first = options.seed or 0
    seeds = range(first + 1, first + trial.draws)
    outcomes = [_run_once(trial, options, catalog)]
    outcomes += [_run_once(trial, replace(options, seed=seed), catalog) for seed in seeds if not outcomes[0].missing]
    return _mean(outcomes)


def _mean(outcomes: list[Outcome]) -> Outcome:
    """The first outcome, with the mean of what those of them predict that do."""
    first = outcomes[0]
    for stage, predicted in first.predicted.items():
        for metric in predicted:
            values = [other.predicted.get(stage, {}).get(metric) for other in outcomes]
            predicted[metric] = fmean([value for value in values if value is not None])
    return first


def _run_once(trial: Trial, options: RunOptions, catalog: Catalog) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="servetwin-validate-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if isinstance(trial, SpeedupTrial):
                return run_speedup(trial, Path(folder), partial(_simulate, options, catalog))
            scenario = resolved(trial, options, catalog, Path(folder))
            if isinstance(trial, StepCostTrial):
                return price_trial(trial, scenario, catalog)
            result = execute(scenario, strict=options.strict, catalog=catalog)
        except InputError as error:
            return Outcome(missing={point.stage: error.message for point in trial.points})
    return measure(trial, result)


def _simulate(options: RunOptions, catalog: Catalog, raw: Mapping[str, Any]) -> Result:
    """Run a scenario as a file would hold it."""
    scenario = validate_mapping(dict(raw), catalog, overrides=options.overrides)
    return execute(scenario, strict=options.strict, catalog=catalog)


def resolved(trial: Trial, options: RunOptions, catalog: Catalog, folder: Path) -> Scenario:
    """The scenario of a trial, ready to run.

    Args:
        trial: the trial.
        options: what holds for every run.
        catalog: where models and GPUs are found.
        folder: where its recording is written.

    Raises:
        InputError: this version cannot simulate it.
    """
    raw: dict[str, Any] = deepcopy(dict(trial.scenario))
    if trial.rows:
        raw["workload"]["trace"] = _write_rows(trial, folder)
    if trial.full_length_seats is None:
        return validate_mapping(raw, catalog, overrides=options.overrides)
    engine = raw["cluster"]["engine"]
    engine["max_num_seqs"] = 256
    first = validate_mapping(raw, catalog, overrides=options.overrides)
    seats = _seats(first, trial.full_length_seats, catalog)
    engine["max_num_seqs"] = min(seats, first.run.requests or seats)
    engine["max_cudagraph_capture_size"] = min(_LARGEST_GRAPH, engine["max_num_seqs"])
    return validate_mapping(raw, catalog, overrides=options.overrides)


def _seats(scenario: Scenario, tokens: int, catalog: Catalog) -> int:
    """How many requests of so many tokens the KV cache of a replica holds, at least one."""
    place = "cluster.pools.0"
    pool = scenario.cluster.pools[0]
    room = pool_parts(scenario, pool, place, catalog).room(pool, place)
    size = pool.engine.block_size
    return max(1, (room.num_blocks - 1) // -(-tokens // size))


def _write_rows(trial: Trial, folder: Path) -> dict[str, Any]:
    """Write a recording; returns what ``workload.trace`` says of it."""
    columns = {"arrival_s": "t", "prompt_tokens": "p", "output_tokens": "o"}
    blocks = any(row.blocks for row in trial.rows)
    file = folder / "recording.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for row in trial.rows:
            line: dict[str, Any] = {"t": round(row.arrival_s, 9), "p": row.prompt_tokens, "o": row.output_tokens}
            if blocks:
                line["b"] = row.blocks
            out.write(json.dumps(line) + "\n")
    more = {"block_ids": "b", "block_tokens": BLOCK_TOKENS} if blocks else {}
    return {"path": str(file), "format": "columns", "columns": {**columns, **more}}
