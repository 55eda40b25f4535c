"""What the page about speculative decoding runs: a constant batch with and without drafts."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log2
from typing import Any

from splitting_runs import CATALOG, Run

import servetwin
from servetwin.scenario.load import load_scenario

SCENARIO = "bench-8b"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Requests in flight."""

LENGTHS = {"gsm8k": (94, 166), "instructcoder": (171, 180)}
"""Prompt and answer by data set [tokens]: means of the recordings that the presets of acceptance were fitted to."""

_FEWEST, _TIMES = 300, 5
"""A run has at least so many requests, and so many times the batch."""


@dataclass(frozen=True)
class Variant:
    """A way to decode a data set on some machine.

    Attributes:
        name: what tables and pictures call it.
        speculation: ``cluster.speculation`` as JSON; empty = plain decoding.
        dataset: whose lengths the requests have.
        more: further changes of the scenario, ``PATH=VALUE``.
    """

    name: str
    speculation: str = ""
    dataset: str = "gsm8k"
    more: tuple[str, ...] = ()

    @property
    def plain(self) -> Variant:
        """The same without drafts."""
        return Variant("plain", "", self.dataset, self.more)


def drafting(name: str, dataset: str = "gsm8k", more: Sequence[str] = (), **speculation: Any) -> Variant:
    """A variant with these fields of ``cluster.speculation``."""
    return Variant(name, json.dumps(speculation), dataset, tuple(more))


@cache
def at(variant: Variant, batch: int) -> Run:
    """The requests of a variant, so many in flight at any time."""
    prompt, answer = LENGTHS[variant.dataset]
    changes = [
        f"workload.arrivals={{process: closed-loop, concurrency: {batch}}}",
        f"workload.prompts={prompt}",
        f"workload.outputs={{distribution: normal, mean: {answer}, std: {0.3 * answer:.0f}, min: 20, "
        f"max: {2 * answer}}}",
        f"run.requests={max(_FEWEST, _TIMES * batch)}",
        f"run.warmup_requests={batch}",
        *variant.more,
    ]
    return simulated([*changes, *([f"cluster.speculation={variant.speculation}"] if variant.speculation else ())])


def simulated(changes: Sequence[str], scenario: str = SCENARIO) -> Run:
    """The scenario with these changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = servetwin.run(load_scenario(scenario, list(changes), CATALOG))
    spent = result.ledger()["total"]
    return Run(result.summary(), spent["share"], spent["seconds"])


def speed(found: Run) -> float:
    """Output tokens per second while the batch was constant [tokens/s]."""
    return float(found.summary["steady.output_throughput_tokens_per_s"])


def speed_up(variant: Variant, batch: int) -> float:
    """Output tokens per second with drafts over those without, for the same requests and batch."""
    return speed(at(variant, batch)) / speed(at(variant.plain, batch))


def tokens_a_step(found: Run) -> float:
    """Output tokens of a request and step, those without drafts included [tokens]."""
    tokens, accepted = found.summary["output_tokens"], found.summary["spec_decode_num_accepted_tokens"] or 0
    return float(tokens / (tokens - accepted))


def dearer(variant: Variant, batch: int) -> float:
    """How many times as long a step takes as one without drafts: what its tokens must make up for."""
    found = at(variant, batch)
    return tokens_a_step(found) / speed_up(variant, batch)


def crossing(variant: Variant) -> float | None:
    """The batch at which drafts begin to lose, by a line in the logarithm of the batch; None up to the largest."""
    gains = [speed_up(variant, batch) for batch in BATCHES]
    for place in range(len(BATCHES) - 1, 0, -1):
        before, after = gains[place - 1], gains[place]
        if before >= 1 > after:
            share = (before - 1) / (before - after)
            return float(2 ** (log2(BATCHES[place - 1]) + share))
    return None
