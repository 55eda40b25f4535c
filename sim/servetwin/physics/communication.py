"""What the GPUs of a replica exchange in a step."""

from __future__ import annotations

from typing import NamedTuple

from servetwin.physics.collectives import AllGather, AllReduce, context_span, tensor_span
from servetwin.physics.operators import ACTIVATION_BYTES
from servetwin.physics.roofline import picoseconds
from servetwin.specs import Calibration, Gpu, ModelSpec, padded_vocab
from servetwin.specs.span import Span

ALL_REDUCE, GATHER, KV_GATHER = "all-reduce", "gather", "kv-gather"

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
        route: which links it loads how much, one of the routes of ``collectives.traffic``.
        seconds: what one takes with the links to itself [s].
    """

    kind: str
    calls: int
    message_bytes: float
    algorithm: str
    bus_bytes: float
    wire_bytes: float
    bound_s: float
    route: str
    seconds: float


class Communication:
    """Prices the collectives of a step; nothing overlaps with them.

    Every layer ends in two all-reduces of ``2 · tokens · hidden`` bytes. Each rank has the logits of its part of the
    vocabulary; an all-gather of ``2 · rows · vocabulary`` bytes puts them together before sampling.

    With c context groups, each has computed the keys and values of its share of a chunk's tokens; in every layer an
    all-gather over the c GPUs of the same tensor rank gives all of them to each, ``2 · c · ceil(tokens / c) · values``
    bytes, before attention.

    Source: vLLM V1, ``LogitsProcessor._gather_logits`` in ``model_executor/layers/logits_processor.py``, which
        all-gathers on CUDA (``Platform.use_all_gather``); V0 gathered to rank 0. Context groups: vLLM's RFC on prefill
        context parallelism, github.com/vllm-project/vllm/issues/25749.

    Args:
        model: what runs.
        gpu: where.
        tensor: ranks that share out each layer.
        calibration: latencies and efficiencies.
        span: how the GPUs of the replica lie; in one link domain if not given.
        context: tensor groups that share out the tokens of prompts.

    Attributes:
        reduce: the all-reduce of a layer.
        gather: the all-gather of the logits.
        share: the all-gather of keys and values of a layer.
    """

    def __init__(
        self, model: ModelSpec, gpu: Gpu, tensor: int, calibration: Calibration, span: Span | None = None,
        context: int = 1,
    ) -> None:  # fmt: skip
        group = tensor_span(span, tensor)
        self.reduce = AllReduce(gpu, tensor, calibration, group)
        self.gather = AllGather(gpu, tensor, calibration, group)
        self.share = AllGather(gpu, context, calibration, context_span(span, tensor, context))
        self._context = context
        # By bytes of keys and values of a token on one rank, how many layers; bf16 until they are in the cache.
        self._kept: dict[float, int] = {}
        for layer in model.layers:
            kept = ACTIVATION_BYTES * layer.attention.kv_values(tensor) + layer.attention.index_bytes()
            self._kept[kept] = self._kept.get(kept, 0) + layer.count
        self._tensor = tensor
        self._others = (tensor - 1) / tensor
        self._calls = _ALL_REDUCES_PER_LAYER * model.num_layers
        self._token_bytes = ACTIVATION_BYTES * model.hidden
        # The vocabulary is padded so that the ranks share it out.
        self._row_bytes = ACTIVATION_BYTES * tensor * padded_vocab(model.vocab, tensor) if model.has_output else 0
        self._reduced = calibration.all_reduce

    def layers_ps(self, tokens: int, share: float) -> int:
        """The all-reduces of all layers with ``share`` of the links' bandwidth [ps]."""
        return picoseconds(self._calls * self._reduce_s(self._token_bytes * tokens, share))

    def gather_ps(self, rows: int, share: float) -> int:
        """The all-gather of the logits [ps]."""
        return picoseconds(self.gather.seconds(self._row_bytes * rows, share))

    def share_ps(self, own: int, share: float) -> int:
        """The keys and values of a step's chunks, of which each context group has computed ``own`` tokens [ps]."""
        whole = self._context * own
        seconds = sum(count * self.share.seconds(whole * kept, share) for kept, count in self._kept.items())
        return picoseconds(seconds)

    def bound_s(self, tokens: int, rows: int, own: int = 0) -> float:
        """The least time of all collectives of a step on the wires [s]."""
        return sum(exchange.calls * exchange.bound_s for exchange in self.exchanges(tokens, rows, own))

    def exchanges(self, tokens: int, rows: int, own: int = 0) -> list[Exchange]:
        """The collectives of a step on one GPU; none where it has no partner.

        Args:
            tokens: tokens that it computes.
            rows: rows of logits.
            own: tokens of chunks among its tokens, where context groups share out the chunks; else 0.
        """
        found = [*self.shared(own), *self.reduced(tokens), *self.gathered(rows)]
        return [exchange for exchange in found if exchange.message_bytes]

    def reduced(self, tokens: int) -> list[Exchange]:
        """The all-reduces of the layers for ``tokens``; none where there is one tensor rank."""
        if self._tensor == 1:
            return []
        message = self._token_bytes * tokens
        return [
            Exchange(
                ALL_REDUCE, self._calls, message, self.reduce.algorithm(message), 2.0 * self._others * message,
                message, self.reduce.bound(message), self.reduce.route(message), self._reduce_s(message),
            )
        ]  # fmt: skip

    def gathered(self, rows: int) -> list[Exchange]:
        """The all-gather of so many rows of logits; none where there is one tensor rank, or no output matrix."""
        if self._tensor == 1 or not self._row_bytes:
            return []
        return [gathering(GATHER, 1, self.gather, self._tensor, self._row_bytes * rows)]

    def shared(self, own: int) -> list[Exchange]:
        """The all-gathers of keys and values, of which each context group has computed ``own`` tokens.

        They are of one kind, of the mean size where layers differ; none where there is one context group.
        """
        sizes = [(self._context * own * kept, count) for kept, count in self._kept.items() if kept]
        calls = sum(count for _, count in sizes)
        if self._context == 1 or not calls:
            return []
        message = sum(size * count for size, count in sizes) / calls
        return [gathering(KV_GATHER, calls, self.share, self._context, message)]

    def _reduce_s(self, message_bytes: float, share: float = 1.0) -> float:
        """One all-reduce [s]; what the calibration takes off does not take it below what the wires allow."""
        seconds = self._reduced * self.reduce.seconds(message_bytes, share)
        return max(seconds, self.reduce.bound(message_bytes / share))


def gathering(kind: str, calls: int, gather: AllGather, gpus: int, message_bytes: float) -> Exchange:
    """Equal all-gathers of ``message_bytes`` [B] between so many GPUs."""
    moved = (gpus - 1) / gpus * message_bytes
    return Exchange(
        kind, calls, message_bytes, gather.algorithm(message_bytes), moved, moved, gather.bound(message_bytes),
        gather.route(message_bytes), gather.seconds(message_bytes),
    )  # fmt: skip
