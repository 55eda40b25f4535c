"""What the GPUs of a replica exchange in a step."""

from __future__ import annotations

from typing import NamedTuple

from servetwin.physics.collectives import AllGather, AllReduce, tensor_span
from servetwin.physics.operators import ACTIVATION_BYTES
from servetwin.physics.roofline import picoseconds
from servetwin.specs import Calibration, Gpu, ModelSpec, padded_vocab
from servetwin.specs.span import Span

ALL_REDUCE, GATHER = "all-reduce", "gather"

_ALL_REDUCES_PER_LAYER = 2
"""After attention, and after the feed-forward block."""


class Exchange(NamedTuple):
    """Equal collectives of a step.

    Attributes:
        kind: the phase of the step that they are.
        calls: how many.
        message_bytes: of one: the tensor that is added up, or what every GPU holds in the end [B].
        algorithm: how it is done.
        bus_bytes: bytes through a GPU's links in one by the convention of nccl-tests, whose rate does not depend on
            the number of GPUs: ``2 (n − 1)/n`` of the message in an all-reduce, ``(n − 1)/n`` in an all-gather [B].
        wire_bytes: bytes that a GPU at least sends or receives in one [B].
        bound_s: the least time of one on the wires [s].
    """

    kind: str
    calls: int
    message_bytes: float
    algorithm: str
    bus_bytes: float
    wire_bytes: float
    bound_s: float


class Communication:
    """Prices the collectives of a step; nothing overlaps with them.

    Every layer ends in two all-reduces of ``2 · tokens · hidden`` bytes. Each rank has the logits of its part of the
    vocabulary; an all-gather of ``2 · rows · vocabulary`` bytes puts them together before sampling.

    Source: vLLM V1, ``LogitsProcessor._gather_logits`` in ``model_executor/layers/logits_processor.py``, which
        all-gathers on CUDA (``Platform.use_all_gather``); V0 gathered to rank 0.

    Args:
        model: what runs.
        gpu: where.
        tensor: ranks that share out each layer.
        calibration: latencies and efficiencies.
        span: how the GPUs of the replica lie; in one link domain if not given.

    Attributes:
        reduce: the all-reduce of a layer.
        gather: the all-gather of the logits.
    """

    def __init__(
        self, model: ModelSpec, gpu: Gpu, tensor: int, calibration: Calibration, span: Span | None = None
    ) -> None:
        group = tensor_span(span, tensor)
        self.reduce = AllReduce(gpu, tensor, calibration, group)
        self.gather = AllGather(gpu, tensor, calibration, group)
        self._tensor = tensor
        self._calls = _ALL_REDUCES_PER_LAYER * model.num_layers
        self._token_bytes = ACTIVATION_BYTES * model.hidden
        # The vocabulary is padded so that the ranks share it out.
        self._row_bytes = ACTIVATION_BYTES * tensor * padded_vocab(model.vocab, tensor)
        self._reduced = calibration.all_reduce

    def layers_ps(self, tokens: int, share: float) -> int:
        """The all-reduces of all layers with ``share`` of the links' bandwidth [ps]."""
        return picoseconds(self._calls * (self._reduced * self.reduce.seconds(self._token_bytes * tokens, share)))

    def gather_ps(self, rows: int, share: float) -> int:
        """The all-gather of the logits [ps]."""
        return picoseconds(self.gather.seconds(self._row_bytes * rows, share))

    def bound_s(self, tokens: int, rows: int) -> float:
        """The least time of all collectives of a step on the wires [s]."""
        return sum(exchange.calls * exchange.bound_s for exchange in self.exchanges(tokens, rows))

    def exchanges(self, tokens: int, rows: int) -> list[Exchange]:
        """The collectives of a step of ``tokens`` tokens and ``rows`` rows of logits; none on one rank."""
        if self._tensor == 1:
            return []
        reduced, gathered = self._token_bytes * tokens, self._row_bytes * rows
        others = (self._tensor - 1) / self._tensor
        return [
            Exchange(
                ALL_REDUCE, self._calls, reduced, self.reduce.algorithm(reduced), 2.0 * others * reduced, reduced,
                self.reduce.bound(reduced),
            ),
            Exchange(
                GATHER, 1, gathered, self.gather.algorithm(gathered), others * gathered, others * gathered,
                self.gather.bound(gathered),
            ),
        ]  # fmt: skip
