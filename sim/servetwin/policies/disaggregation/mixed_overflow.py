"""What the pools cannot take goes to replicas that do both."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from servetwin.cluster.protocols import MIXED, SPLIT, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request


@register
class MixedOverflow(SplitPolicy):
    """A request is split, unless the prefilling or the decoding replicas are full: then the mixed pool has all of it.

    The prefilling ones are full if the least loaded of them has prefills under way whose prompts, with that of the
    request, are more than ``prefill_tokens``; the decoding ones if the tokens on the least loaded of them and the
    prompt are ``decode_memory`` of its KV cache or more. The mixed pool (``role: both``) takes whatever comes.

    Source: the scheduler for mixed pools of Splitwise's simulator (``scheduler.py`` and ``configs/.../mixed_pool.yml``
        of splitwise-sim), whose 2,048 tokens as a limit for decoding are stored and never used. There, memory is
        reserved for the output too, whose length is known; the two phases look for a home one by one, so that a request
        may be prefilled in one pool and decoded in another mixed one; and the mixed pool has the same limits, is made
        of machines that the other pools lend it, and gives them back when they are idle. Here it is a pool of its own.

    Attributes:
        order: ``prefill-first`` chooses the decoding replica when the prefill has ended, or at once where its blocks
            are needed earlier; ``decode-first`` chooses it before the prefilling one.
        prefill_tokens: most prompt tokens under way on a prefilling replica that has some already [tokens].
        decode_memory: from this share of its KV cache on a decoding replica is full (0–1).

    >>> from servetwin.policies.disaggregation import MixedOverflow
    >>> from servetwin.testing import FakeSplitView, make_request
    >>> decider, request = MixedOverflow().build(None), make_request(0, prompt_tokens=1000)
    >>> decider.decide(request, FakeSplitView(prefill_tokens=7192, decode_room=50_000, mixed=True))
    'split'
    >>> decider.decide(request, FakeSplitView(prefill_tokens=7193, decode_room=50_000, mixed=True))
    'mixed'
    """

    uses_mixed: ClassVar[bool] = True
    policy: Literal["mixed-overflow"] = "mixed-overflow"
    prefill_tokens: PositiveInt = 8192
    decode_memory: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0

    def build(self, context: PolicyContext) -> MixedOverflowDecider:
        """A decider for one gateway."""
        return MixedOverflowDecider(self.prefill_tokens, self.decode_memory)


class MixedOverflowDecider:
    """Adds the prompt to what is there, on both sides."""

    def __init__(self, prefill_tokens: int, decode_memory: float) -> None:
        self._prefill_tokens = prefill_tokens
        self._decode_memory = decode_memory

    def decide(self, request: Request, view: SplitView) -> str:
        """Split, if both sides have room."""
        prompt = request.prompt_tokens
        pending = view.prefill_tokens
        full = pending > 0 and pending + prompt > self._prefill_tokens
        full = full or view.decode_tokens + prompt >= self._decode_memory * view.decode_room
        return MIXED if full and view.mixed else SPLIT
