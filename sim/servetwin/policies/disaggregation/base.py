"""What disaggregation policies have in common."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.policies.registry import Kind, Policy

Order = Literal["prefill-first", "decode-first"]


class SplitPolicy(Policy):
    """Base of the disaggregation policies.

    What a decider asks for beyond simple counts has its price, so a policy says what it asks for.

    Attributes:
        order: ``prefill-first`` chooses the decoding replica when the prefill has ended, or at once where its blocks
            are needed earlier; ``decode-first`` chooses it before the prefilling one, and before it is decided whether
            the request is split. A policy may narrow it.

    >>> from servetwin.policies.disaggregation import UncachedLength
    >>> policy = UncachedLength(tokens=0)
    >>> policy.reads_cache, policy.predicts, policy.uses_mixed
    (True, False, False)
    >>> policy.idle_field()
    ('tokens', 'with 0 no request is split, which is what policy: never says')
    """

    kind: ClassVar[Kind] = "disaggregation"

    #: Whether it asks for ``cached_tokens``, which needs ``decode-first``.
    reads_cache: ClassVar[bool] = False
    #: Whether it asks for ``ttft_ps`` or ``tpot_ps``.
    predicts: ClassVar[bool] = False
    #: Whether it sends requests to replicas that do both, so that there must be some.
    uses_mixed: ClassVar[bool] = False
    #: Whether it splits requests at all.
    splits: ClassVar[bool] = True

    order: Order = "prefill-first"

    def idle_field(self) -> tuple[str, str] | None:
        """A field whose value makes it do what ``never`` does, and why; None = there is none."""
        return None
