"""The description of a workload."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from servetwin.workload.arrivals import Arrivals
from servetwin.workload.base import Count, Flag, Part
from servetwin.workload.classes import RequestClass
from servetwin.workload.documents import Documents
from servetwin.workload.lengths import Lengths
from servetwin.workload.prefixes import Prefixes
from servetwin.workload.rules import check
from servetwin.workload.sessions import Sessions
from servetwin.workload.traces.spec import TraceSpec


class WorkloadSpec(Part):
    """What the cluster is asked to do: a synthetic workload or a recorded trace."""

    arrivals: Arrivals | None = Field(None, description="When requests (or sessions) come.")
    max_concurrency: Count | None = Field(
        None,
        description="Most requests that the client has under way, as ``vllm bench serve --max-concurrency``: others "
        "wait at the client, and count as arrived when they are sent. null = no bound.",
    )
    prompts: Lengths | None = Field(
        None, description="Prompt tokens, not counting a shared prefix, documents or history."
    )
    outputs: Lengths | None = Field(
        None, description="Output tokens: where an answer would end by itself, with its end-of-sequence token."
    )
    max_tokens: Lengths | None = Field(None, description="Bound on the output tokens of a request; null = no bound.")
    ignore_eos: Flag = Field(
        False,
        description="Every answer has exactly ``max_tokens`` tokens, as with ``ignore_eos`` in vLLM; there are no "
        "``outputs`` then.",
    )
    prefixes: Prefixes | None = Field(None, description="What prompts have in common.")
    documents: Documents | None = Field(None, description="Retrieved documents in the prompts.")
    sessions: Sessions | None = Field(None, description="Multi-turn conversations, and agents.")
    classes: tuple[RequestClass, ...] = Field((), description="Kinds of requests that differ, or tenants.")
    sampling: Literal["greedy", "top-p"] = Field(
        "greedy", description="How tokens are chosen; top-p sorts the logits, which costs time."
    )
    trace: TraceSpec | None = Field(None, description="A recorded trace instead of arrivals and lengths.")

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself, without ``run.requests`` or ``run.duration_s``."""
        if self.trace is not None:
            return True
        processes = [item.arrivals for item in self.classes]
        if self.arrivals is not None:
            processes.append(self.arrivals)
        return all(process.finite for process in processes if process is not None)

    @property
    def in_lanes(self) -> bool:
        """Whether there is more to it than single requests that arrive by one process."""
        return self.sessions is not None or any(
            part is not None
            for item in self.classes
            for part in (item.arrivals, item.prefixes, item.documents, item.sessions)
        )

    @model_validator(mode="after")
    def _consistent(self) -> WorkloadSpec:
        check(self)
        return self
