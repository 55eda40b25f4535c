"""What a stage of a pipeline hands on to the next, and how long that takes."""

from __future__ import annotations

from servetwin.physics.collectives import AllGather, Send
from servetwin.physics.collectives.traffic import SEND
from servetwin.physics.communication import Exchange, gathering
from servetwin.physics.operators import ACTIVATION_BYTES
from servetwin.physics.pipeline import HANDED_ON, hand_off_s

HAND_OFF, STAGE_GATHER = "hand-off", "stage-gather"


class HandOff:
    """The hand-off between two stages; see ``hand_off_s``.

    Args:
        hidden: width of the residual stream.
        tensor: ranks of each stage.
        send: from a rank to its partner in the next stage.
        gather: between the ranks of a stage.
    """

    def __init__(self, hidden: int, tensor: int, send: Send, gather: AllGather) -> None:
        self._hidden, self._tensor = hidden, tensor
        self._send, self._gather = send, gather

    def seconds(self, tokens: int, share: float = 1.0) -> float:
        """Time until the next stage has its input of so many tokens with a share of the links' bandwidth [s]."""
        return hand_off_s(
            tokens, share, hidden=self._hidden, tensor=self._tensor, send=self._send.seconds,
            gather=self._gather.seconds,
        )  # fmt: skip

    def sent(self, tokens: int) -> list[Exchange]:
        """What each rank sends to its partner for so many tokens: its slice."""
        message = self._moved(tokens) / self._tensor
        bound_s, seconds = self._send.bound(message), self._send.seconds(message)
        return [Exchange(HAND_OFF, 1, message, SEND, message, message, bound_s, SEND, seconds)]

    def gathered(self, tokens: int) -> list[Exchange]:
        """What the ranks of the next stage gather for so many tokens; nothing where there is one."""
        if self._tensor == 1:
            return []
        return [gathering(STAGE_GATHER, 1, self._gather, self._tensor, self._moved(tokens))]

    def _moved(self, tokens: int) -> float:
        return HANDED_ON * ACTIVATION_BYTES * tokens * self._hidden
