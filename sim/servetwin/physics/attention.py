"""Attention: linear in the context that is read and in the pairs of tokens that meet."""

from __future__ import annotations

from servetwin.physics.overheads import Machine
from servetwin.physics.roofline import picoseconds, rounded_max
from servetwin.specs import GroupedAttention, ModelSpec
from servetwin.units import PS_PER_S

Slopes = tuple[tuple[int, int], ...]
"""Per attention kind: picoseconds per token of context, bound by arithmetic and bound by HBM [ps]; one is 0."""


def attended_pairs(new: int, context: int, window: int | None) -> int:
    """Pairs (query, attended token) of a prefill chunk, causal and exact.

    Args:
        new: tokens of the chunk.
        context: tokens computed before it.
        window: tokens that a query attends at most, itself included; None = all.

    Returns:
        ``Σ_{j=1…new} min(context + j, window)``.
    """
    if window is None or context + new <= window:
        return new * context + new * (new + 1) // 2
    growing = max(0, window - context)
    return growing * context + growing * (growing + 1) // 2 + (new - growing) * window


def keys_read(new: int, context: int, window: int | None) -> int:
    """Tokens whose keys and values a prefill chunk touches, its own included.

    Args:
        new: tokens of the chunk.
        context: tokens computed before it.
        window: tokens that a query attends at most, itself included; None = all.
    """
    return new + (context if window is None else min(context, window - 1))


def own_tokens(new: int, context: int) -> int:
    """Tokens of a chunk of ``new`` that the fullest of ``context`` groups computes."""
    return -(-new // context)


class AttentionPrices:
    """What reading and attending context takes, per attention kind.

    Decoding reads each request's context once: ``max(bytes / (e_kv · bandwidth), flops / (e_a · peak))`` per
    token of context, both linear, so that the larger one is known before the context is; each request adds a constant
    for every query head of the rank. A prefill chunk takes the larger of reading its keys and of its arithmetic,
    in which every row counts ``AttentionCurve.ramp_tokens`` more than it attends; latent attention also decompresses
    the context of a chunk.

    Sparse attention has two parts: the attention of the chosen tokens, which is a window of ``top_k``, and the
    indexer, whose keys are read and scored for the whole context on every rank, which counts as full attention.
    Constant-state layers read and write the state of every request once per step, whatever its context: they add to
    ``per_request_ps`` and to nothing else here. Both are approximations: choosing the ``top_k`` tokens and reading
    them from scattered places is not priced, and a chunk is taken to choose tokens near to each other.

    FlashAttention 2 packs the heads of a query group into one tile of 64 rows only where every request has one
    token. In a step with a prefill chunk each head of each decoding request has a tile to itself, 63 rows of it
    padding, and reading the context and that arithmetic are both large: ``rounded_max`` of the two.

    Args:
        model: the model.
        tensor: ranks that share out the heads.
        kv_cache: data type of the cache.
        machine: where it runs.
        context: groups of ranks that share out the tokens of every chunk.
    """

    def __init__(self, model: ModelSpec, tensor: int, kv_cache: str, machine: Machine, context: int = 1) -> None:
        gpu, kernels, calibration = machine.gpu, machine.kernels, machine.calibration
        self.windows = model.windows
        curve = kernels.attending(kv_cache)
        bandwidth = curve.memory * gpu.hbm_bytes_per_s
        arithmetic = curve.compute * gpu.peak("bf16")
        kinds = len(self.windows) + 1
        self._read = [0.0] * kinds
        self._decode = [0.0] * kinds
        self._tiled = [0.0] * kinds
        self._pair = [0.0] * kinds
        self._expand = 0.0
        for layer in model.layers:
            attention = layer.attention
            kind = 0 if attention.window is None else self.windows.index(attention.window) + 1
            self._read[kind] += layer.count * attention.kv_bytes(tensor, kv_cache) / bandwidth
            flops = layer.count * attention.on_rank(attention.decode_flops(), tensor)
            self._decode[kind] += flops / arithmetic
            if isinstance(attention, GroupedAttention) and kernels.mixed_query_tile > 1:
                self._tiled[kind] += kernels.mixed_query_tile * flops / (calibration.tile_attention * gpu.peak("bf16"))
            self._pair[kind] += layer.count * attention.on_rank(attention.prefill_flops(), tensor) / arithmetic
            expansion = layer.count * attention.on_rank(attention.expansion_flops(), tensor)
            self._expand += expansion / (kernels.product("bf16").compute * gpu.peak("bf16"))
            # The indexer scores in 8 bits, and every rank has all of its heads.
            index = layer.count * attention.index_flops() / (curve.compute * gpu.peak("fp8"))
            self._read[0] += layer.count * attention.index_bytes() / bandwidth
            self._decode[0] += index
            self._pair[0] += index
        heads = sum(layer.count * layer.attention.heads_on(tensor) for layer in model.layers)
        self.per_request_ps = picoseconds(heads * curve.per_head_s + 2.0 * model.state_bytes(tensor) / bandwidth)
        self._ramp = curve.ramp_tokens
        self._context = context
        self._slopes: dict[tuple[float, bool], Slopes] = {}
        self._windowed = tuple(enumerate(self.windows, start=1))
        self._power = calibration.roofline_power
        self._chunk_read_ps = [seconds * PS_PER_S for seconds in self._read]
        self._chunk_pair_ps = [seconds * PS_PER_S for seconds in self._pair]
        self._expand_ps = self._expand * PS_PER_S

    def slopes(self, width: float, mixed: bool) -> Slopes:
        """Price of a token of decode context.

        Args:
            width: tokens per decoding request, their mean: the arithmetic is done for each, the context is read once.
            mixed: whether the step has a prefill chunk.
        """
        if width % 1:
            # Uneven drafts have a width of their own in every step: nothing to remember.
            return self._slopes_at(width, mixed)
        found = self._slopes.get((width, mixed))
        if found is None:
            found = self._slopes[width, mixed] = self._slopes_at(width, mixed)
        return found

    def _slopes_at(self, width: float, mixed: bool) -> Slopes:
        return tuple([self._slope(kind, width, mixed) for kind in range(len(self._read))])

    def _slope(self, kind: int, width: float, mixed: bool) -> tuple[int, int]:
        """The price of one attention kind; see ``slopes``."""
        memory, compute = self._read[kind], width * self._decode[kind]
        seconds = max(memory, compute)
        if mixed and self._tiled[kind] > compute:
            compute = self._tiled[kind]
            seconds = rounded_max(memory, compute, self._power)
        return (picoseconds(seconds), 0) if compute > memory else (0, picoseconds(seconds))

    def chunks_ps(self, chunks: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        """Attention of all prefill chunks of a step [ps]: bound by arithmetic and bound by HBM; one is 0."""
        if self._context > 1:
            return self._shared_chunks_ps(chunks)
        ramp = self._ramp
        if len(chunks) == 1:
            ((new, before),) = chunks
            pairs = new * (before + ramp) + (new * (new + 1) >> 1)
            read = new + before
        else:
            pairs, read, before = 0.0, 0, 0
            for new, context in chunks:
                before += context
                pairs += new * (context + ramp) + (new * (new + 1) >> 1)
                read += new + context
        compute = pairs * self._chunk_pair_ps[0]
        memory = read * self._chunk_read_ps[0]
        for kind, window in self._windowed:
            for new, context in chunks:
                compute += (attended_pairs(new, context, window) + ramp * new) * self._chunk_pair_ps[kind]
                memory += keys_read(new, context, window) * self._chunk_read_ps[kind]
        compute += before * self._expand_ps
        return (int(compute) + 1, 0) if compute > memory else (0, int(memory) + 1)

    def _shared_chunks_ps(self, chunks: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        """The same on one of several context groups.

        Each takes its share of the queries, from both ends of the chunk, so that all attend about as many pairs; it
        reads the keys of the whole chunk, and decompresses the whole context.
        """
        compute = memory = 0.0
        for new, before in chunks:
            share = own_tokens(new, self._context) / new
            for kind, window in enumerate((None, *self.windows)):
                pairs = attended_pairs(new, before, window) + self._ramp * new
                compute += share * pairs * self._chunk_pair_ps[kind]
                memory += keys_read(new, before, window) * self._chunk_read_ps[kind]
            compute += before * self._expand_ps
        return (int(compute) + 1, 0) if compute > memory else (0, int(memory) + 1)
