"""Speed-ups by drafts, measured and simulated in one way: copies of one prompt at a time, with and without drafts.

The benchmark behind the measured figures gives the engine a batch of copies of one prompt, waits until all have ended,
and goes on to the next prompt; its speed-up is the mean over prompts of output tokens per second, with drafts over
without.

Source: ``scripts/bench_latency.py`` and ``scripts/vis_speedup.py`` of github.com/SpecDecode-Bench/vllm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetwin.acceptance.build import build_fates
from servetwin.acceptance.spec import Rate, Survival
from servetwin.request import Request
from servetwin.streams import Streams
from servetwin.studies.validation.trial import Outcome, Trial

if TYPE_CHECKING:
    from servetwin.results.result import Result

APART_S = 10_000.0
"""Time between two batches: each has ended when the next one comes [s]."""

_HALVINGS = 12
"""How often the interval is halved in which an acceptance is looked for: to 0.0002."""

_COLUMN = "accepted"

Simulate = Callable[[Mapping[str, Any]], "Result"]
"""Runs a scenario as a file would hold it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of the benchmark.

    Attributes:
        prompt_tokens: its length [tokens].
        output_tokens: tokens of its answer.
        accepted: accepted lengths by position of the answer as they were recorded; empty = not recorded.
    """

    prompt_tokens: int
    output_tokens: int
    accepted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Inference:
    """How acceptance that nobody measured follows from one measured speed-up.

    Attributes:
        speedup: that of a batch of one, which the simulated speed-up is made to equal.
        ratio: how often a token stands after one that does, for methods that find drafts in the text: then the number
            looked for is how often the first one does. None = both are the number looked for.
        proposal: see ``acceptance.spec``.
    """

    speedup: float
    ratio: float | None = None
    proposal: float | None = None

    def spec(self, rate: float, most: int) -> Rate | Survival:
        """The acceptance at a rate, without ``proposal``."""
        if self.ratio is None:
            return Rate(rate=rate)
        survival = tuple(rate * self.ratio**position for position in range(most))
        return Survival(survival=survival, persistence=self.ratio)


@dataclass(frozen=True, slots=True)
class SpeedupTrial(Trial):
    """A series of speed-ups: one way to draft, one data set, several batch sizes.

    ``scenario`` has no drafts, and its requests are one prompt.

    Attributes:
        speculation: the scenario's ``speculation``, without ``acceptance``.
        batches: copies of a prompt, by the stage that they are measured in.
        prompts: the prompts.
        inference: how acceptance is inferred; None = it was recorded with the prompts.
        proposal: see ``acceptance.spec``; of what was recorded.
    """

    speculation: Mapping[str, Any] = None  # type: ignore[assignment]
    batches: Mapping[str, int] = None  # type: ignore[assignment]
    prompts: tuple[Prompt, ...] = ()
    inference: Inference | None = None
    proposal: float | None = None


def run_speedup(trial: SpeedupTrial, folder: Path, simulate: Simulate) -> Outcome:
    """Predict the speed-ups of a series.

    Args:
        trial: the series.
        folder: where recordings are written.
        simulate: runs a scenario.

    Raises:
        InputError: this version cannot simulate it.
    """
    bench = _Bench(trial, folder, simulate)
    outcome = Outcome()
    if trial.inference is not None:
        rate = bench.infer(trial.inference)
        outcome.inferred[str(trial.scenario["name"])] = rate
        bench.draw(trial.inference, rate)
    else:
        bench.record([prompt.accepted for prompt in trial.prompts], trial.proposal)
    for stage, batch in trial.batches.items():
        outcome.predicted[stage] = {"speedup": bench.speedup(batch)}
    return outcome


class _Bench:
    """The benchmark of one series."""

    def __init__(self, trial: SpeedupTrial, folder: Path, simulate: Simulate) -> None:
        self._trial = trial
        self._folder = folder
        self._simulate = simulate
        self._recording: dict[str, Any] = {}
        self._plain: dict[int, float] = {}

    def speedup(self, batch: int) -> float:
        """Mean tokens per second of batches of so many copies, with drafts over without."""
        if batch not in self._plain:
            self._plain[batch] = self._throughput(batch, None)
        drafted = self._throughput(
            batch, {**self._trial.speculation, "acceptance": {**self._recording, "repeat": batch}}
        )
        return drafted / self._plain[batch]

    def infer(self, inference: Inference) -> float:
        """The acceptance at which the speed-up of a batch of one is as measured; the nearest there is."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            self.draw(inference, middle)
            if self.speedup(1) < inference.speedup:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def draw(self, inference: Inference, rate: float) -> None:
        """Draw a fate for each prompt; all its copies have it, as greedy decoding would give it to them."""
        spec = inference.spec(rate, int(self._trial.speculation["k"]))
        fates = build_fates(spec, Streams(0), self._folder)
        rows = []
        for number, prompt in enumerate(self._trial.prompts):
            fate = fates.of(Request(number, 0, prompt.prompt_tokens, prompt.output_tokens))
            rows.append([matches + 1 for matches in fate.matches])
        self.record(rows, inference.proposal)

    def record(self, rows: Sequence[Sequence[int]], proposal: float | None) -> None:
        """Write what stands, a line for each prompt."""
        file = self._folder / "accepted.jsonl"
        file.write_text("".join(json.dumps({_COLUMN: list(row)}) + "\n" for row in rows), encoding="utf-8")
        self._recording = {"recorded": str(file), "column": _COLUMN}
        if proposal is not None:
            self._recording["proposal"] = proposal

    def _throughput(self, batch: int, speculation: Mapping[str, Any] | None) -> float:
        """The mean over prompts of output tokens per second of a batch of copies."""
        trial = self._trial
        raw: dict[str, Any] = deepcopy(dict(trial.scenario))
        if speculation is not None:
            raw["cluster"]["speculation"] = dict(speculation)
        raw["cluster"]["engine"]["max_num_seqs"] = batch
        file = self._folder / f"prompts-{batch}.jsonl"
        if not file.exists():
            lines = (
                json.dumps({"t": number * APART_S, "p": prompt.prompt_tokens, "o": prompt.output_tokens}) + "\n"
                for number, prompt in enumerate(trial.prompts)
                for _ in range(batch)
            )
            file.write_text("".join(lines), encoding="utf-8")
        columns = {"arrival_s": "t", "prompt_tokens": "p", "output_tokens": "o"}
        trace = {"path": str(file), "format": "columns", "columns": columns}
        raw["workload"] = {"trace": trace, "sampling": raw["workload"]["sampling"]}
        raw["run"] = {}
        requests = self._simulate(raw).requests().sort_values("request_id", kind="stable", ignore_index=True)
        groups = requests.groupby(requests.index // batch)
        # From when the engine has them: the benchmark calls it in its own process.
        spans = groups["last_token_s"].max() - groups["queued_s"].min()
        return float((groups["output_tokens"].sum() / spans).mean())
