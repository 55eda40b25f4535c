"""What a database of measured operators can be asked, and what it answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

TABLE = "table"
INTERPOLATED = "interpolated"
FALLBACK = "fallback"
ROOFLINE = "roofline"
PROVENANCE = {
    TABLE: "measured at exactly this shape",
    INTERPOLATED: "between or beyond measured shapes",
    FALLBACK: "not in the tables: priced by the roofline",
    ROOFLINE: "priced by the roofline, or a constant of the engine",
}
"""Where the price of an operator comes from."""


class NotMeasuredError(Exception):
    """The database has nothing for an operator; the message says what is missing, in a clause."""


class Heads(NamedTuple):
    """Attention of one kind on one rank.

    Attributes:
        queries: query heads.
        keys: heads of keys and values.
        dim: width of a head.
        window: tokens that a query attends at most; None = all.
        kv_cache: data type of the cache.
    """

    queries: int
    keys: int
    dim: int
    window: int | None
    kv_cache: str


class ExpertShape(NamedTuple):
    """The routed experts of one layer.

    Attributes:
        hidden: width of the residual stream.
        intermediate: width of a whole expert.
        top_k: experts of a token.
        experts: routed experts.
        tensor: ranks that share out every expert.
        dtype: precision of the weights.
    """

    hidden: int
    intermediate: int
    top_k: int
    experts: int
    tensor: int
    dtype: str


class OperatorDatabase(Protocol):
    """Measured operators of one GPU and one engine. Every answer is in seconds [s], its launch included.

    Each method raises ``NotMeasuredError`` where nothing was measured that the answer could rest on.
    """

    #: What it is: package, GPU and engine with their versions, for messages.
    name: str

    def gemm(self, rows: int, outer: int, inner: int, dtype: str) -> float:
        """A matrix product of ``rows × inner`` activations and ``inner × outer`` weights of ``dtype``."""

    def experts(self, rows: int, shape: ExpertShape) -> float:
        """The routed experts of one layer for ``rows`` tokens, their routing included."""

    def decode(self, requests: int, context: int, heads: Heads) -> float:
        """Decode attention of one layer: ``requests`` requests of ``context`` tokens each."""

    def prefill(self, new: int, before: int, heads: Heads) -> float:
        """Prefill attention of one layer: ``new`` tokens of a request behind ``before`` computed ones."""

    def all_reduce(self, values: int, gpus: int) -> float:
        """An all-reduce of ``values`` 16-bit numbers over ``gpus`` GPUs of a node."""

    def on_grid(self, operator: str, *arguments: object) -> bool:
        """Whether the method ``operator`` answers these arguments with a measurement as it is; may be slow."""
