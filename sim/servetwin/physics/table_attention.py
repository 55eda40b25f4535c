"""Attention priced from measurements: a straight line in the context for each number of decoding requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from servetwin.physics.attention import AttentionPrices, Slopes, attended_pairs, keys_read, own_tokens
from servetwin.physics.measured import Heads, OperatorDatabase
from servetwin.physics.overheads import Machine
from servetwin.physics.roofline import picoseconds
from servetwin.physics.table_operators import TableBook
from servetwin.specs import GroupedAttention, Layer, ModelSpec
from servetwin.units import PS_PER_S

CONTEXTS = tuple(2**power for power in range(6, 15))
"""Contexts at which decode attention is asked for [tokens]; within a window, up to the window."""

_PREFILL = "attention.prefill"


def decode_name(window: int | None) -> str:
    """The name of decode attention in accounts of a step."""
    return "attention.decode" if window is None else f"attention.decode.{window}"


def relative_line(tokens: Sequence[float], seconds: Sequence[float], least_slope: float) -> tuple[float, float]:
    """The straight line through measured times whose relative errors have the least squares.

    Args:
        tokens: abscissae, tokens of context read.
        seconds: ordinates, measured times [s], positive.
        least_slope: the hardware's floor per token [s].

    Returns:
        constant [s], not negative, and slope [s], at least ``least_slope``; a bound that holds is kept, and the other
        parameter fitted with it.
    """
    weights = [1.0 / (value * value) for value in seconds]
    total = sum(weights)
    mean_x = sum(w * x for w, x in zip(weights, tokens, strict=True)) / total
    mean_y = sum(w * y for w, y in zip(weights, seconds, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, x in zip(weights, tokens, strict=True))
    covariance = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in zip(weights, tokens, seconds, strict=True))
    slope = max(covariance / spread if spread else 0.0, least_slope)
    constant = mean_y - slope * mean_x
    if constant < 0.0:
        squares = sum(w * x * x for w, x in zip(weights, tokens, strict=True))
        products = sum(w * x * y for w, x, y in zip(weights, tokens, seconds, strict=True))
        constant, slope = 0.0, max(products / squares, least_slope)
    return constant, slope


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal layers whose attention is measured.

    Attributes:
        count: layers.
        kind: their attention kind.
        heads: what they attend with on one rank.
        read_s: floor of reading a token of context [s].
        pair_s: floor of the arithmetic of a pair of tokens [s].
        launch_s: what a launch takes besides, as the shortest prefill shows it [s].
    """

    count: int
    kind: int
    heads: Heads
    read_s: float
    pair_s: float
    launch_s: float


class TableAttention(AttentionPrices):
    """Prices attention from a database where it has the layer's heads, and by the roofline where it has not.

    The price of a step must be linear in the context. For each number of decoding requests B the table is asked at the
    contexts ``CONTEXTS``, all requests alike, and a line ``a(B) + k(B) · context`` fitted with the least relative
    squares, ``k`` not below the bytes of a token at full bandwidth. An approximation: as long as the cache of a batch
    fits into the chip's own (50 MB of KV on H100), measured attention hardly depends on the context at all, and the
    line is too low there and too high in the knee.

    A chunk costs what the table has for its tokens and context, less the launch, which the step pays once: with the
    decodes if it has any. Drafts verified and steps with chunks are measured by nobody: there the slope of the table
    is multiplied by the roofline's ratio to a plain decode step.

    Args:
        model: the model.
        tensor: ranks that share out the heads.
        kv_cache: data type of the cache.
        machine: where it runs.
        database: the measurements.
        book: takes notes.
        context: groups of ranks that share out the tokens of every chunk.
    """

    def __init__(
        self, model: ModelSpec, tensor: int, kv_cache: str, machine: Machine, database: OperatorDatabase,
        book: TableBook, context: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(model, tensor, kv_cache, machine, context)
        self._database, self._book = database, book
        self._machine, self._tensor, self._kv_cache = machine, tensor, kv_cache
        self._groups: list[_Group] = []
        self._by_layer: list[_Group | None] = [self._group(layer) for layer in model.layers]
        self._groups = [group for group in self._by_layer if group is not None]
        others = tuple(layer for layer, group in zip(model.layers, self._by_layer, strict=True) if group is None)
        rest = replace(model, layers=others)
        self._rest = AttentionPrices(rest, tensor, kv_cache, machine, context)
        kinds: list[int | None] = [None, *self.windows]
        self._rest_kinds = [kinds.index(window) for window in (None, *rest.windows)]
        self._lines: dict[int, tuple[int, list[float]]] = {}
        self._by_size: dict[tuple[int, float, bool], Slopes] = {}
        self._chunk_s: dict[tuple[_Group, int, int], float] = {}

    def _group(self, layer: Layer) -> _Group | None:
        """Equal layers, if their attention is measured."""
        attention = layer.attention
        window = attention.window
        kind = 0 if window is None else self.windows.index(window) + 1
        if not isinstance(attention, GroupedAttention):
            for name in (decode_name(window), _PREFILL):
                self._book.missing.setdefault(name, "of attention, only the grouped kind is looked up")
            return None
        heads = Heads(
            round(attention.heads_on(self._tensor)), attention.local_kv_heads(self._tensor), attention.head_dim, window,
            self._kv_cache,
        )  # fmt: skip
        context = min(CONTEXTS[-1], window or CONTEXTS[-1])
        decode = self._book.ask(decode_name(window), self._database.decode, 1, context, heads)
        shortest = [
            self._book.ask(_PREFILL, self._database.prefill, new, before, heads) for new, before in ((1, 0), (16, 512))
        ]
        found = [seconds for seconds in shortest if seconds is not None]
        if decode is None or len(found) < len(shortest):
            # Half of an attention would be counted twice or not at all.
            for name in (decode_name(window), _PREFILL):
                self._book.missing.setdefault(name, "the other half of its attention is missing")
            return None
        gpu = self._machine.gpu
        return _Group(
            count=layer.count,
            kind=kind,
            heads=heads,
            read_s=attention.kv_bytes(self._tensor, self._kv_cache) / gpu.hbm_bytes_per_s,
            pair_s=attention.on_rank(attention.decode_flops(), self._tensor) / gpu.peak("bf16"),
            launch_s=min(found),
        )

    def constant_s(self, layer: int) -> float | None:
        """What measured attention of group ``layer`` of the model takes for one request besides its context [s]."""
        group = self._by_layer[layer]
        return None if group is None else self._line(group, 1)[0]

    def fixed_ps(self, decodes: int, requests: int) -> int:
        """What attention takes besides reading and attending context [ps]."""
        if decodes:
            fixed, _ = self._lines_of(decodes)
        else:
            fixed = picoseconds(sum(group.count * group.launch_s for group in self._groups))
        return fixed + self._rest.per_request_ps * requests

    def slopes_of(self, decodes: int, width: float, mixed: bool) -> Slopes:
        """Price of a token of context of ``decodes`` decoding requests, by attention kind; see ``slopes``."""
        if width % 1:
            return self._slopes_of(decodes, width, mixed)
        found = self._by_size.get((decodes, width, mixed))
        if found is None:
            found = self._by_size[decodes, width, mixed] = self._slopes_of(decodes, width, mixed)
        return found

    def _slopes_of(self, decodes: int, width: float, mixed: bool) -> Slopes:
        plain, wanted = self.slopes(1.0, False), self.slopes(width, mixed)
        _, lines = self._lines_of(max(decodes, 1))
        prices = []
        for kind, seconds in enumerate(lines):
            ratio = sum(wanted[kind]) / sum(plain[kind]) if sum(plain[kind]) else 1.0
            ps = picoseconds(seconds * ratio)
            prices.append([ps, 0] if wanted[kind][0] else [0, ps])
        for kind, (compute, memory) in zip(self._rest_kinds, self._rest.slopes(width, mixed), strict=True):
            prices[kind][0] += compute
            prices[kind][1] += memory
        return tuple((compute, memory) for compute, memory in prices)

    def _lines_of(self, decodes: int) -> tuple[int, list[float]]:
        """Of all measured layers: constant [ps], and seconds per token of context by kind."""
        found = self._lines.get(decodes)
        if found is None:
            constant_s = 0.0
            slopes = [0.0] * (len(self.windows) + 1)
            for group in self._groups:
                constant, slope = self._line(group, decodes)
                constant_s += group.count * constant
                slopes[group.kind] += group.count * slope
            found = self._lines[decodes] = (picoseconds(constant_s), slopes)
        return found

    def _line(self, group: _Group, decodes: int) -> tuple[float, float]:
        """Constant [s] and seconds per token of context of one layer."""
        window = group.heads.window
        contexts = [context for context in CONTEXTS if window is None or context < window]
        contexts += [window] if window is not None and window <= CONTEXTS[-1] else []
        name = decode_name(window)
        tokens, seconds = [], []
        for context in contexts:
            found = self._book.ask(name, self._database.decode, decodes, context, group.heads)
            if found is not None:
                tokens.append(float(decodes * context))
                seconds.append(found)
        floor_s = max(group.read_s, group.pair_s)
        if len(seconds) < 2:
            curve = self._machine.kernels.attending(self._kv_cache)
            return curve.per_head_s * group.heads.queries * decodes + group.launch_s, floor_s / curve.memory
        line = relative_line(tokens, seconds, floor_s)
        if line[1] == floor_s:
            self._book.raise_once(name)
        return line

    def chunks_ps(self, chunks: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        """Attention of all prefill chunks of a step [ps], bound by arithmetic and by HBM; one is 0."""
        compute_s = memory_s = seconds = 0.0
        for group in self._groups:
            window = group.heads.window
            for new, before in chunks:
                share = own_tokens(new, self._context) / new
                pairs = share * group.count * group.pair_s * attended_pairs(new, before, window)
                read = group.count * group.read_s * keys_read(new, before, window)
                compute_s += pairs
                memory_s += read
                taken = share * group.count * (self._chunk(group, new, before) - group.launch_s)
                # A tail that takes no longer than a launch is no fault of the table.
                seconds += max(taken, pairs, read)
        compute, memory = self._rest.chunks_ps(chunks) if self._rest_has_layers else (0, 0)
        total = int(seconds * PS_PER_S) + 1 + compute + memory
        return (total, 0) if compute_s + compute / PS_PER_S > memory_s + memory / PS_PER_S else (0, total)

    @property
    def _rest_has_layers(self) -> bool:
        return len(self._groups) < len(self._by_layer)

    def _chunk(self, group: _Group, new: int, before: int) -> float:
        """One chunk in one layer [s], its launch included."""
        key = (group, new, before)
        found = self._chunk_s.get(key)
        if found is None:
            asked = self._book.ask(_PREFILL, self._database.prefill, new, before, group.heads)
            if asked is None:
                curve = self._machine.kernels.attending(self._kv_cache)
                pairs = attended_pairs(new, before, group.heads.window) + curve.ramp_tokens * new
                asked = group.launch_s + pairs * group.pair_s / curve.compute
            found = self._chunk_s[key] = asked
        return found
