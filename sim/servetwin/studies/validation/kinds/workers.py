"""Prefilling and decoding workers as the pools of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from servetwin.studies.validation.serving import Parts


@dataclass(frozen=True, slots=True)
class Workers:
    """Equal workers.

    Attributes:
        replicas: how many.
        parallel: degrees of each; those of 1 count as left out.
        options: the engine's settings, besides those of the case.
    """

    replicas: int
    parallel: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def pool(self, role: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The workers as a pool.

        Args:
            role: ``prefill`` or ``decode``.
            options: the engine's settings that the case has.
        """
        engine = {**options, **self.options}
        return {
            "name": role,
            "role": role,
            "replicas": self.replicas,
            "parallel": {name: degree for name, degree in self.parallel.items() if degree != 1},
            **({"engine": engine} if engine else {}),
        }


def apart(
    parts: Parts, name: str, workload: Mapping[str, Any], requests: int | None, *, prefill: Workers, decode: Workers,
    transfer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The scenario with prefill and decode on workers of their own; the degrees and replicas of ``parts`` do not count.

    Args:
        parts: model, hardware, engine, precision and settings.
        name: the scenario's.
        workload: the requests.
        requests: how many; None = all that the workload has.
        prefill: those that prefill.
        decode: those that decode.
        transfer: how KV cache gets from the ones to the others, where that is not the engine's own way.
    """
    scenario = parts.scenario(name, workload, requests)
    cluster = scenario["cluster"]
    options = cluster.pop("engine", {})
    del cluster["replicas"], cluster["parallel"]
    cluster["pools"] = [prefill.pool("prefill", options), decode.pool("decode", options)]
    if transfer:
        cluster["transfer"] = dict(transfer)
    return scenario
