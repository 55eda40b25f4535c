"""How the tokens of a sequence meet: attention over a cache, or a state of constant size."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs.dtypes import bytes_per_value

#: FLOP per value of a state and token: it decays, takes in the token, and is read by the query (two each).
_FLOPS_PER_STATE_VALUE = 6

#: Cached values that share one 32-bit scale in the 8-bit formats of sparse latent attention.
_SCALED_BLOCK = 128


class _Mixer:
    """What a kind of attention has unless it says otherwise: everything attended, no index, no state."""

    __slots__ = ()

    heads: int

    def heads_on(self, tensor: int) -> float:
        """Query heads on the rank that has most of them; where they are not shared out evenly, rounded up."""
        return self.heads / tensor if self.heads % tensor == 0 else float(-(-self.heads // tensor))

    def on_rank(self, total: float, tensor: int) -> float:
        """The part of something that the heads share out, on the rank that has most of them."""
        return total / tensor if self.heads % tensor == 0 else total * self.heads_on(tensor) / self.heads

    @property
    def window(self) -> int | None:
        """Tokens that a query attends at most, itself included; None = all."""
        return None

    @property
    def keeps_cache(self) -> bool:
        """Whether the cache grows with the sequence for as long as it goes on."""
        return True

    def expansion_flops(self) -> int:
        """Arithmetic [FLOP] to decompress one cached token for a prefill chunk, over all heads."""
        return 0

    def index_flops(self) -> int:
        """Arithmetic [FLOP] per query and token of the context to choose which tokens are attended."""
        return 0

    def index_bytes(self) -> float:
        """Bytes [B] per token that are cached for that choice, on every rank."""
        return 0.0

    def state_flops(self) -> int:
        """Arithmetic [FLOP] per token to update and read a state, over all heads."""
        return 0

    def state_bytes(self, tensor: int) -> float:
        """Bytes [B] of state that one request holds on one of ``tensor`` ranks, however long it is."""
        return 0.0


@dataclass(frozen=True, slots=True)
class GroupedAttention(_Mixer):
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

    @property
    def keeps_cache(self) -> bool:
        """A sliding window holds the same amount however long the sequence is."""
        return self.window is None or self.chunked

    def local_kv_heads(self, tensor: int) -> int:
        """KV heads that one of ``tensor`` ranks holds, at most; with more ranks than heads each is held several times.

        Where neither number divides the other, a rank holds the KV heads of all groups that its query heads belong to;
        where the query heads are not shared out evenly, the first ranks have one more.
        """
        if self.kv_heads % tensor == 0:
            return self.kv_heads // tensor
        fewer, extra = divmod(self.heads, tensor)
        if not extra and tensor % self.kv_heads == 0:
            return 1
        most, first = 1, 0
        for rank in range(tensor):
            after = first + fewer + (rank < extra)
            if after > first:
                most = max(most, (after - 1) * self.kv_heads // self.heads - first * self.kv_heads // self.heads + 1)
            first = after
        return most

    def parameters(self, hidden: int) -> int:
        """Weights of the four projections."""
        queries = self.heads * self.head_dim * (2 if self.gated else 1)
        return hidden * (queries + 2 * self.kv_heads * self.head_dim + self.heads * self.head_dim)

    def local_parameters(self, hidden: int, tensor: int) -> float:
        """The same on one of ``tensor`` ranks."""
        heads = self.heads_on(tensor)
        queries = heads * self.head_dim * (2 if self.gated else 1)
        return hidden * (queries + 2 * self.local_kv_heads(tensor) * self.head_dim + heads * self.head_dim)

    def kv_values(self, tensor: int) -> int:
        """Cached values per token on one of ``tensor`` ranks."""
        return 2 * self.local_kv_heads(tensor) * self.head_dim

    def kv_bytes(self, tensor: int, dtype: str) -> float:
        """Bytes [B] of keys and values per token on one of ``tensor`` ranks."""
        return self.kv_values(tensor) * bytes_per_value(dtype)

    def decode_flops(self) -> int:
        """Arithmetic [FLOP] per query and attended token, over all heads: q·kᵀ and p·v."""
        return 4 * self.heads * self.head_dim

    def prefill_flops(self) -> int:
        """The same while prefilling."""
        return self.decode_flops()


@dataclass(frozen=True, slots=True)
class LatentAttention(_Mixer):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the cache holds one compressed vector per token.

    With ``top_k`` it is DeepSeek sparse attention (DeepSeek-V3.2-Exp report): an indexer of small heads scores
    every token of the context, and a query attends the ``top_k`` best of them. This is approximated: the attention
    is priced as a window of ``top_k`` tokens whose cache is kept whole, the indexer as linear in the context; the
    selection itself and the scattered reads of the chosen tokens are not priced.

    Attributes:
        heads: query heads.
        q_rank: rank of the compressed query; None = a full query projection.
        kv_rank: rank of the compressed key/value, which is cached.
        nope_dim: width of a head's key without position.
        rope_dim: width of the shared rotary key, which is cached too.
        v_dim: width of a head's value.
        top_k: tokens that a query attends at most; None = all.
        index_heads: heads of the indexer; 0 = none. Every rank computes all of them.
        index_dim: width of an indexer head, and of the key that is cached for it.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    top_k: int | None = None
    index_heads: int = 0
    index_dim: int = 0

    @property
    def window(self) -> int | None:
        """Tokens that a query attends at most."""
        return self.top_k

    def _split(self, hidden: int) -> tuple[int, int]:
        """Weights that every rank holds, and weights that the ranks share out."""
        query = self.heads * (self.nope_dim + self.rope_dim)
        common = hidden * (self.kv_rank + self.rope_dim) + self.index_parameters(hidden)
        shared_out = self.kv_rank * self.heads * (self.nope_dim + self.v_dim) + self.heads * self.v_dim * hidden
        if self.q_rank is None:
            return common, shared_out + hidden * query
        return common + hidden * self.q_rank, shared_out + self.q_rank * query

    def parameters(self, hidden: int) -> int:
        """Weights of all projections, those of the indexer included."""
        return sum(self._split(hidden))

    def local_parameters(self, hidden: int, tensor: int) -> float:
        """The same on one of ``tensor`` ranks: the down-projections and the indexer are held by each."""
        common, shared_out = self._split(hidden)
        return common + self.on_rank(shared_out, tensor)

    def index_parameters(self, hidden: int) -> int:
        """Weights of the indexer: its queries (from the compressed query), its key, the weight of each head."""
        queries = (self.q_rank or hidden) * self.index_heads * self.index_dim
        return queries + (hidden * (self.index_dim + self.index_heads) if self.index_heads else 0)

    def kv_values(self, tensor: int) -> int:
        """Cached values per token on one rank: the whole latent vector, whatever ``tensor`` is."""
        return self.kv_rank + self.rope_dim

    def kv_bytes(self, tensor: int, dtype: str) -> float:
        """Bytes [B] of the latent vector per token.

        The 8-bit format of the sparse kernels keeps the rotary key in bf16 and a 32-bit scale per 128 values:
        656 bytes for DeepSeek-V3.2.
        """
        if self.top_k is not None and dtype == "fp8":
            return self.kv_rank + 4 * self.kv_rank / _SCALED_BLOCK + 2 * self.rope_dim
        return self.kv_values(tensor) * bytes_per_value(dtype)

    def decode_flops(self) -> int:
        """Arithmetic [FLOP] per query and attended token, over all heads, in latent space (absorbed matrices)."""
        return 2 * self.heads * (2 * self.kv_rank + self.rope_dim)

    def prefill_flops(self) -> int:
        """The same while prefilling: on decompressed keys and values, or in latent space where each query has
        tokens of its own."""
        if self.top_k is not None:
            return self.decode_flops()
        return 2 * self.heads * (self.nope_dim + self.rope_dim + self.v_dim)

    def expansion_flops(self) -> int:
        """Arithmetic [FLOP] to decompress one cached token for a prefill chunk, over all heads."""
        return 0 if self.top_k is not None else 2 * self.kv_rank * self.heads * (self.nope_dim + self.v_dim)

    def index_flops(self) -> int:
        """Arithmetic [FLOP], in 8 bits, per query and token of the context: the score of each indexer head."""
        return 2 * self.index_heads * self.index_dim

    def index_bytes(self) -> float:
        """Bytes [B] per token of the indexer's keys: 8-bit values, and a 32-bit scale per 128 of them."""
        return self.index_dim * (1 + 4 / _SCALED_BLOCK)


@dataclass(frozen=True, slots=True)
class StateAttention(_Mixer):
    """Linear attention or a state-space layer: a request holds a state of constant size instead of a KV cache.

    Gated DeltaNet (Qwen3-Next, Qwen3.5), Kimi delta attention, lightning attention (MiniMax), Mamba 1 and 2 all have
    an input projection, an update of the state per token, and an output projection, and are described by the sizes of
    these. This is approximated: the kinds differ in the arithmetic of the update, which is a small part of the layer.

    Attributes:
        heads: heads of the state, which the ranks share out.
        inputs: columns of all input projections: queries, keys, values, gates, decays.
        inner: rows of the output projection.
        state: values of a request's state, over all heads.
        value_bytes: bytes of a value of the state.
        convolved: channels that pass through a short convolution; 0 = none.
        kernel: tokens that the convolution looks at; it remembers all but the newest, in bf16.
        extra: weights besides the projections and the convolution: low-rank gates, decays, norms.
    """

    heads: int
    inputs: int
    inner: int
    state: int
    value_bytes: int = 2
    convolved: int = 0
    kernel: int = 0
    extra: int = 0

    @property
    def keeps_cache(self) -> bool:
        """There is no cache."""
        return False

    def parameters(self, hidden: int) -> int:
        """Weights of projections, convolution and the rest."""
        return hidden * (self.inputs + self.inner) + self.convolved * self.kernel + self.extra

    def local_parameters(self, hidden: int, tensor: int) -> float:
        """The same on one of ``tensor`` ranks."""
        return self.on_rank(self.parameters(hidden), tensor)

    def kv_values(self, tensor: int) -> int:
        """Nothing is cached per token."""
        return 0

    def kv_bytes(self, tensor: int, dtype: str) -> float:
        """Nothing is cached per token."""
        return 0.0

    def decode_flops(self) -> int:
        """No token of the context is attended."""
        return 0

    def prefill_flops(self) -> int:
        """No token of the context is attended."""
        return 0

    def state_flops(self) -> int:
        """Arithmetic [FLOP] per token, over all heads."""
        return _FLOPS_PER_STATE_VALUE * self.state

    def state_bytes(self, tensor: int) -> float:
        """Bytes [B] of a request's state on one of ``tensor`` ranks, with what the convolution remembers."""
        remembered = 2 * self.convolved * max(0, self.kernel - 1)
        return self.on_rank(self.state * self.value_bytes + remembered, tensor)


Attention = GroupedAttention | LatentAttention | StateAttention
