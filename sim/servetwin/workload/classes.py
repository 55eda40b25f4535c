"""Kinds of requests that differ in importance, latency target or size."""

from __future__ import annotations

from pydantic import Field, field_validator

from servetwin.units import ms_to_ps
from servetwin.workload.base import Part, Positive
from servetwin.workload.lengths import Lengths


class ClassSlo(Part):
    """What a class of requests is promised."""

    ttft_ms: Positive = Field(
        description="Limit on the time to the first token; arrival plus this is the request's deadline."
    )


class RequestClass(Part):
    """A class of requests."""

    name: str = Field(min_length=1, max_length=100, description="Name of the class, as it appears in the results.")
    share: Positive = Field(1.0, description="Weight of the class; shares are relative to their sum.")
    priority: int = Field(0, strict=True, ge=-(10**9), le=10**9, description="Smaller is more important, as in vLLM.")
    slo: ClassSlo | None = Field(None, description="Latency promised to the class.")
    prompts: Lengths | None = Field(None, description="Prompt lengths of the class; null = the workload's.")
    outputs: Lengths | None = Field(None, description="Output lengths of the class; null = the workload's.")

    @field_validator("name")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("the name of a class has no control characters")
        return value

    @property
    def ttft_ps(self) -> int:
        """The limit on the time to the first token [ps]; −1 = none."""
        return -1 if self.slo is None else ms_to_ps(self.slo.ttft_ms)
