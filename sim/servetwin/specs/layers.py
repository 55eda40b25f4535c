"""The parts of a decoder layer, and how large they are.

Every size is in parameters (numbers of weights). A *part* is a group of weights that is stored in one precision:

========= ================================================================================
attention query, key, value and output projections (and the low-rank ones of latent attention)
dense     the matrices of a dense feed-forward block
experts   the matrices of the routed experts
shared    the matrices of the experts that see every token
router    the matrix that chooses the experts; never quantised
========= ================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("attention", "dense", "experts", "shared", "router")
QUANTISABLE = ("attention", "dense", "experts", "shared")

#: Bytes per stored weight, with the scales of the block formats: MXFP4 has an 8-bit scale per 32 values, NVFP4 an
#: 8-bit scale per 16, INT4 a 16-bit scale per 32.
_BYTES: dict[str, float] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5625,
    "mxfp4": 0.53125,
    "nvfp4": 0.5625,
}
WEIGHT_DTYPES = tuple(_BYTES)
KV_DTYPES = ("bf16", "fp16", "fp8")


def bytes_per_value(dtype: str) -> float:
    """Bytes [B] that one value of ``dtype`` takes, block scales included."""
    return _BYTES[dtype]


def padded_vocab(vocab: int, tensor: int) -> int:
    """Rows of the vocabulary matrices on one of ``tensor`` ranks (the last rank is padded)."""
    return -(-vocab // tensor)


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Multi-head, grouped-query or multi-query attention.

    Attributes:
        heads: query heads.
        kv_heads: key/value heads; a query group shares one.
        head_dim: width of a head.
        window: tokens that a query attends at most, itself included; None = all.
        chunked: the window is a fixed chunk of the sequence (Llama 4), not a sliding one. It is priced as a
            sliding window; the difference is that its cache is kept whole.
        gated: the attention output is multiplied by a gate of its own size (a second query-sized projection).
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    chunked: bool = False
    gated: bool = False

    def local_kv_heads(self, tensor: int) -> int:
        """KV heads that one of ``tensor`` ranks holds; with more ranks than heads each is held several times."""
        return max(1, -(-self.kv_heads // tensor))

    def parameters(self, hidden: int) -> int:
        """Weights of the four projections."""
        queries = self.heads * self.head_dim * (2 if self.gated else 1)
        return hidden * (queries + 2 * self.kv_heads * self.head_dim + self.heads * self.head_dim)

    def local_parameters(self, hidden: int, tensor: int) -> float:
        """The same on one of ``tensor`` ranks."""
        queries = self.heads / tensor * self.head_dim * (2 if self.gated else 1)
        return hidden * (
            queries + 2 * self.local_kv_heads(tensor) * self.head_dim + self.heads / tensor * self.head_dim
        )

    def kv_values(self, tensor: int) -> int:
        """Cached values per token on one of ``tensor`` ranks."""
        return 2 * self.local_kv_heads(tensor) * self.head_dim

    def decode_flops(self) -> int:
        """Arithmetic [FLOP] per query and attended token, over all heads: q·kᵀ and p·v."""
        return 4 * self.heads * self.head_dim

    def prefill_flops(self) -> int:
        """The same while prefilling."""
        return self.decode_flops()


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the cache holds one compressed vector per token.

    Attributes:
        heads: query heads.
        q_rank: rank of the compressed query; None = a full query projection.
        kv_rank: rank of the compressed key/value, which is cached.
        nope_dim: width of a head's key without position.
        rope_dim: width of the shared rotary key, which is cached too.
        v_dim: width of a head's value.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int

    @property
    def window(self) -> None:
        """Latent attention attends everything."""

    @property
    def chunked(self) -> bool:
        """Latent attention is not chunked."""
        return False

    def _split(self, hidden: int) -> tuple[int, int]:
        """Weights that every rank holds, and weights that the ranks share out."""
        query = self.heads * (self.nope_dim + self.rope_dim)
        common = hidden * (self.kv_rank + self.rope_dim)
        shared_out = self.kv_rank * self.heads * (self.nope_dim + self.v_dim) + self.heads * self.v_dim * hidden
        if self.q_rank is None:
            return common, shared_out + hidden * query
        return common + hidden * self.q_rank, shared_out + self.q_rank * query

    def parameters(self, hidden: int) -> int:
        """Weights of all projections."""
        return sum(self._split(hidden))

    def local_parameters(self, hidden: int, tensor: int) -> float:
        """The same on one of ``tensor`` ranks: the down-projections are held by each."""
        common, shared_out = self._split(hidden)
        return common + shared_out / tensor

    def kv_values(self, tensor: int) -> int:
        """Cached values per token on one rank: the whole latent vector, whatever ``tensor`` is."""
        return self.kv_rank + self.rope_dim

    def decode_flops(self) -> int:
        """Arithmetic [FLOP] per query and attended token, over all heads, in latent space (absorbed matrices)."""
        return 2 * self.heads * (2 * self.kv_rank + self.rope_dim)

    def prefill_flops(self) -> int:
        """The same on decompressed keys and values."""
        return 2 * self.heads * (self.nope_dim + self.rope_dim + self.v_dim)

    def expansion_flops(self) -> int:
        """Arithmetic [FLOP] to decompress one cached token for a prefill chunk, over all heads."""
        return 2 * self.kv_rank * self.heads * (self.nope_dim + self.v_dim)


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """A dense feed-forward block.

    Attributes:
        intermediate: its inner width.
        gated: three matrices (SwiGLU) instead of two.
    """

    intermediate: int
    gated: bool = True

    def parts(self, hidden: int) -> dict[str, int]:
        """Weights by part."""
        return {"dense": self.active_parameters(hidden)}

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        return (3 if self.gated else 2) * hidden * self.intermediate


@dataclass(frozen=True, slots=True)
class MoeMlp:
    """A mixture of gated experts.

    Attributes:
        experts: routed experts.
        top_k: experts that each token visits.
        intermediate: inner width of one expert.
        shared_intermediate: inner width of all shared experts together; 0 = none.
    """

    experts: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0

    def parts(self, hidden: int) -> dict[str, int]:
        """Weights by part."""
        return {
            "experts": self.experts * self.expert_parameters(hidden),
            "shared": 3 * hidden * self.shared_intermediate,
            "router": hidden * self.experts,
        }

    def expert_parameters(self, hidden: int) -> int:
        """Weights of one expert."""
        return 3 * hidden * self.intermediate

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        return (
            self.top_k * self.expert_parameters(hidden) + 3 * hidden * self.shared_intermediate + hidden * self.experts
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """Equal decoder layers.

    Attributes:
        count: how many.
        attention: their attention.
        mlp: their feed-forward block.
    """

    count: int
    attention: GroupedAttention | LatentAttention
    mlp: DenseMlp | MoeMlp
