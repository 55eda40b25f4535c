"""The metrics of a run as one flat table of numbers, and which way each of them is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from servetwin.catalog.find import Catalog
from servetwin.results.summary import HOST_KEYS
from servetwin.scenario.build import build
from servetwin.scenario.schema import Scenario

Direction = Literal["lower-is-better", "higher-is-better", "either"]
"""Which change of a metric is for the worse; ``either``: any."""

LOWER: Direction = "lower-is-better"
HIGHER: Direction = "higher-is-better"
EITHER: Direction = "either"

Metrics = dict[str, float | None]
"""By key, the value; None = undefined."""

_LOWER = (
    "*_ms.*", "cost_*", "energy_*", "*gpu_seconds", "simulated_s", "duration_s", "preemptions", "preempted_requests",
    "recomputed_tokens", "rejected", "failed", "cancelled", "unfinished", "failed_transfers", "lost_hand_overs",
    "transfer_exposed_s", "kv_stranded*",
)  # fmt: skip
_HIGHER = (
    "*throughput*", "*_per_s_per_gpu", "*_per_s_per_user", "goodput_per_s", "slo_attainment", "completed",
    "prefix_hit_tokens", "prefix_hit_rate", "mean_acceptance_length", "draft_acceptance_rate",
)  # fmt: skip

_HOST = tuple(key for key in HOST_KEYS if key.endswith("_s"))
"""What this computer needed, and so never the same twice."""

ONLY_WHEN_NAMED = (*_HOST, "events", "steps", "gpus", "replicas")
"""What is compared only where a suite says how."""

_IDENTITY = ("seed", "interrupted")
_CLASSES = "classes."


def flatten(summary: Mapping[str, Any]) -> Metrics:
    """Every number of a summary by its key; those of a class are ``classes.NAME.KEY``.

    Args:
        summary: ``Result.summary()``.
    """
    return dict(_numbers(summary))


def _numbers(summary: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    for key, value in summary.items():
        if key == "classes":
            for name, figures in value.items():
                yield from ((f"{_CLASSES}{name}.{inner}", number) for inner, number in _numbers(figures))
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield key, value


def known_metrics(scenario: Scenario, catalog: Catalog) -> list[str]:
    """The keys that the runs of a scenario will have.

    They are taken from the summary of a run to which no request came, which costs no simulation.

    Args:
        scenario: the scenario, resolved.
        catalog: where models and GPUs are found.

    Raises:
        InputError: the scenario cannot exist.
    """
    simulation = build(scenario, catalog=catalog)
    empty = simulation.recorder.result(end_ps=0, ledgers=simulation.cluster.ledger(0), events=0)
    no_numbers = ("energy_method", "acceptance_rate_per_position", "started_at", "out")
    return [key for key in flatten(empty.summary()) if key not in (*_IDENTITY, *no_numbers)]


def compared(keys: Sequence[str], named: Sequence[str]) -> list[str]:
    """Which metrics are compared with a baseline.

    Args:
        keys: every key.
        named: those that the suite names.
    """
    return [key for key in keys if key not in ONLY_WHEN_NAMED or key in named]


def stored(keys: Sequence[str], named: Sequence[str]) -> list[str]:
    """Which metrics a baseline holds: all but those that differ from run to run, unless the suite names them."""
    return [key for key in keys if key not in _HOST or key in named]


def direction(key: str) -> Direction | None:
    """Which change of a metric is for the worse; None for a metric that is neither good nor bad.

    >>> direction("classes.chat.ttft_ms.p99"), direction("steady.output_throughput_tokens_per_s")
    ('lower-is-better', 'higher-is-better')
    >>> direction("kv_use_mean") is None
    True
    """
    plain = key.split(".", 2)[2] if key.startswith(_CLASSES) else key
    if any(fnmatchcase(plain, pattern) for pattern in _LOWER):
        return LOWER
    return HIGHER if any(fnmatchcase(plain, pattern) for pattern in _HIGHER) else None
