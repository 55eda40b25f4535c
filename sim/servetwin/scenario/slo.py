"""What the service has promised: the limits that a scenario sets on latencies."""

from __future__ import annotations

from pydantic import PositiveFloat

from servetwin.scenario.part import Part


class Limits(Part):
    """Limits on the distribution of a metric [ms]."""

    mean: PositiveFloat | None = None
    p50: PositiveFloat | None = None
    p90: PositiveFloat | None = None
    p95: PositiveFloat | None = None
    p99: PositiveFloat | None = None
    max: PositiveFloat | None = None


class Goodput(Part):
    """Limits that a single request must meet, all of them, to count as good [ms]."""

    ttft_ms: PositiveFloat | None = None
    tpot_ms: PositiveFloat | None = None
    e2e_ms: PositiveFloat | None = None


class Slo(Part):
    """What the service has promised.

    Attributes:
        ttft_ms: time to first token.
        tpot_ms: time per output token.
        itl_ms: gaps between tokens.
        e2e_ms: end to end.
        goodput: limits per request.
    """

    ttft_ms: Limits | None = None
    tpot_ms: Limits | None = None
    itl_ms: Limits | None = None
    e2e_ms: Limits | None = None
    goodput: Goodput | None = None
