"""A step that nobody has scheduled: so many decodes, and a prefill chunk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from servetwin.errors import ScenarioError
from servetwin.physics.protocols import StepShape

BATCH, CONTEXT = 32, 1024
"""The step that is explained where none is asked for: decodes [requests], and the context of each [tokens]."""

MOST = 10**7
"""A batch, context or chunk beyond this is a slip of the keyboard [requests, tokens]."""


@dataclass(frozen=True, slots=True)
class Step:
    """The step to explain.

    Attributes:
        batch: requests that decode one token each.
        context: tokens in the KV cache of each of them, the one computed included [tokens]; in a step that only
            prefills, those of the chunk's prompt that were computed before it.
        prefill: prompt tokens of one request that the step computes besides [tokens].
    """

    batch: int
    context: int
    prefill: int

    @classmethod
    def of(cls, batch: int | None, context: int | None, prefill: int | None) -> Step:
        """The step that a user means who leaves things out: decodes, unless there is a prefill chunk.

        Raises:
            ScenarioError: there is nothing in it, or more than there can be.
        """
        prefill = prefill or 0
        batch = batch if batch is not None else 0 if prefill else BATCH
        context = context if context is not None else CONTEXT if batch else 0
        for option, value in (("--batch", batch), ("--context", context), ("--prefill", prefill)):
            if not 0 <= value <= MOST:
                raise ScenarioError(
                    "this is no size of a step", path=option, found=value, allowed=f"from 0 to {MOST:,}"
                )
        if not batch and not prefill:
            raise ScenarioError(
                "a step without tokens takes no time", path="--batch", found=batch, allowed="at least 1, or --prefill"
            )
        if batch and not context:
            raise ScenarioError(
                "a request that decodes has at least the token that it decodes", path="--context", found=context,
                allowed="at least 1",
            )  # fmt: skip
        return cls(batch, context, prefill)

    @property
    def before(self) -> int:
        """Tokens of the chunk's prompt that were computed before it [tokens]."""
        return 0 if self.batch else self.context

    def shape(self, windows: Sequence[int], sizes: Sequence[int], verified: int = 0, drafts: int = 0) -> StepShape:
        """What the engine would hand to physics.

        Args:
            windows: the model's attention windows besides full attention.
            sizes: captured CUDA-graph sizes, ascending.
            verified: drafted tokens of each decoding request that the step verifies.
            drafts: tokens that are drafted for each request at its end.
        """
        drafted = self.batch * verified
        tokens = self.batch + drafted + self.prefill
        place = bisect_left(sizes, tokens)
        graph = place < len(sizes)
        kinds = (None, *windows)
        return StepShape(
            tokens=tokens,
            padded_tokens=sizes[place] if graph else tokens,
            graph=graph,
            requests=self.batch + (1 if self.prefill else 0),
            decodes=self.batch,
            context=tuple(
                self.batch * (self.context if kind is None else min(self.context, kind)) + drafted for kind in kinds
            ),
            growing=tuple(self.batch if kind is None or self.context < kind else 0 for kind in kinds),
            chunks=((self.prefill, self.before),) if self.prefill else (),
            drafted=drafted,
            drafts=drafts,
        )
