"""Kinds of requests that differ in importance, latency target, size or source."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from servetwin.units import ms_to_ps
from servetwin.workload.arrivals import Arrivals
from servetwin.workload.base import Part, Positive
from servetwin.workload.documents import Documents
from servetwin.workload.lengths import Lengths
from servetwin.workload.prefixes import Prefixes
from servetwin.workload.sessions import Sessions


class ClassSlo(Part):
    """What every request of a class is promised; the results say which share of them got it."""

    ttft_ms: Positive | None = Field(
        None, description="Limit on the time to the first token; arrival plus this is the request's deadline."
    )
    tpot_ms: Positive | None = Field(None, description="Limit on the time per output token.")
    e2e_ms: Positive | None = Field(None, description="Limit on the time to the last token.")

    @model_validator(mode="after")
    def _not_empty(self) -> ClassSlo:
        if self.ttft_ms is None and self.tpot_ms is None and self.e2e_ms is None:
            raise ValueError("slo needs a limit: ttft_ms, tpot_ms or e2e_ms")
        return self


class RequestClass(Part):
    """A class of requests, or a tenant.

    What it does not say it has in common with the others. A class with ``arrivals`` of its own comes by itself, beside
    the common arrivals, which the other classes share; a class with ``prefixes`` or ``documents`` of its own shares
    them with nobody else.
    """

    name: str = Field(min_length=1, max_length=100, description="Name of the class, as it appears in the results.")
    share: Positive = Field(
        1.0, description="Weight of the class among those without arrivals of their own, relative to their sum."
    )
    priority: int = Field(0, strict=True, ge=-(10**9), le=10**9, description="Smaller is more important, as in vLLM.")
    slo: ClassSlo | None = Field(None, description="Latency promised to the class.")
    arrivals: Arrivals | None = Field(None, description="When its requests come; null = a share of the workload's.")
    prompts: Lengths | None = Field(None, description="Prompt lengths of the class; null = the workload's.")
    outputs: Lengths | None = Field(None, description="Output lengths of the class; null = the workload's.")
    max_tokens: Lengths | None = Field(None, description="Bound on its output lengths; null = the workload's.")
    prefixes: Prefixes | None = Field(None, description="What its prompts have in common; null = the workload's.")
    documents: Documents | None = Field(None, description="Documents in its prompts; null = the workload's.")
    sessions: Sessions | None = Field(None, description="Its conversations; null = the workload's.")

    @field_validator("name")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("the name of a class has no control characters")
        return value

    @model_validator(mode="after")
    def _sensible(self) -> RequestClass:
        if self.arrivals is not None:
            if self.share != 1.0:
                raise ValueError(f"share has no effect: the arrivals of class {self.name!r} say how often it comes")
            if self.arrivals.process == "all-at-once":
                raise ValueError("all-at-once is for the whole workload: it would leave no requests for other classes")
        if self.prefixes is not None and self.prefixes.prompts_per_group is not None:
            raise ValueError("prompts_per_group (prompts that recur) is for the prefixes of the whole workload")
        return self

    @property
    def ttft_ps(self) -> int:
        """The limit on the time to the first token [ps]; −1 = none."""
        return -1 if self.slo is None or self.slo.ttft_ms is None else ms_to_ps(self.slo.ttft_ms)
