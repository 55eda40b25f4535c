"""Where the time of one step goes, operator by operator; the items add up to the price, picosecond for picosecond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from servetwin.errors import InvariantError
from servetwin.physics.attention import attended_pairs, keys_read, own_tokens
from servetwin.physics.communication import Exchange
from servetwin.physics.measured import ROOFLINE
from servetwin.physics.operators import Work, on_tokens
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs import Gpu, Layer
from servetwin.units import PS_PER_S

COLUMNS = {"sm": "compute", "hbm": "memory", "link": "communication", "host": "overhead"}
"""What a phase's resource is called in an account of a step."""

_LAYERS = "layers"
_ROUNDED = 64
"""Picoseconds by which the operators of a step may miss its price: each sum is rounded once."""


@dataclass(slots=True)
class Item:
    """A part of a step on one GPU.

    Attributes:
        name: its name: ``attention.qkv``, ``experts``, ``all-reduce``, …
        layers: layers that it occurs in; 1 for what a step does once.
        ps: what it takes [ps], by column of ``COLUMNS``: an operator counts whole by the larger of its two bounds,
            which may differ between the layers of a model.
        bytes_moved: HBM traffic [B].
        flops: arithmetic [FLOP].
        wire_bytes: bytes that a GPU has to send to the others or receive from them [B].
        wire_s: the least time of that [s].
        exchange: the collectives that it consists of; None of what is no communication.
        arithmetic_s: the least time of the arithmetic, each part at the peak of its data type [s].
        floor_s: the least time on this hardware [s]: bytes over bandwidth or arithmetic at peak, the larger, for each
            group of layers.
        provenance: where its price comes from, one of ``measured.PROVENANCE``.
    """

    name: str
    layers: int = 0
    ps: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS.values(), 0))
    bytes_moved: float = 0.0
    flops: float = 0.0
    wire_bytes: float = 0.0
    wire_s: float = 0.0
    exchange: Exchange | None = None
    arithmetic_s: float = 0.0
    floor_s: float = 0.0
    provenance: str = ROOFLINE

    @property
    def total_ps(self) -> int:
        """What it takes [ps]."""
        return sum(self.ps.values())


class _Account:
    """The items of a step while they are gathered.

    Args:
        sheet: the GPU as its data sheet describes it, for the floors.
    """

    def __init__(self, sheet: Gpu) -> None:
        self._sheet = sheet
        self.items: dict[str, Item] = {}
        self._raw: dict[tuple[str, str], float] = {}

    def fixed(self, name: str, layers: int, column: str, ps: int, works: Sequence[Work] = ()) -> None:
        """Add an operator whose time [ps] is known to the picosecond."""
        self._item(name, layers, works).ps[column] += ps

    def exchanged(self, layers: int, column: str, ps: int, exchange: Exchange, slowdown: float) -> None:
        """Add collectives; their bound on the wires is that of hardware ``slowdown`` times as slow as the sheet's."""
        item = self._item(exchange.kind, layers, ())
        item.ps[column] += ps
        item.exchange = exchange
        item.wire_bytes += exchange.calls * exchange.wire_bytes
        item.wire_s += exchange.calls * exchange.bound_s / slowdown
        item.floor_s += item.wire_s

    def operator(self, name: str, layers: int, column: str, ps: float, works: Sequence[Work]) -> None:
        """Add an operator of the layers, or another group of layers with it; its time [ps] is rounded in ``settle``."""
        self._item(name, layers, works)
        self._raw[name, column] = self._raw.get((name, column), 0.0) + ps

    def _item(self, name: str, layers: int, works: Sequence[Work]) -> Item:
        item = self.items.setdefault(name, Item(name))
        item.layers += layers
        moved = sum(work.bytes_moved for work in works)
        item.bytes_moved += moved
        item.flops += sum(work.flops for work in works)
        arithmetic_s = sum(work.flops / self._sheet.peak(work.dtype) for work in works)
        item.arithmetic_s += arithmetic_s
        item.floor_s += max(moved / self._sheet.hbm_bytes_per_s, arithmetic_s)
        return item

    def settle(self, column: str, total_ps: int) -> None:
        """Round the operators of a column to whole picoseconds that add up to ``total_ps``, the price of the layers.

        Raises:
            InvariantError: the operators do not take as long as the price says.
        """
        whole = {name: int(ps) for (name, which), ps in self._raw.items() if which == column}
        missing = total_ps - sum(whole.values())
        if not 0 <= missing <= (_ROUNDED + len(whole) if whole else 0):
            raise InvariantError(
                f"the operators of a step take {total_ps - missing} ps and its price is {total_ps} ps ({column})"
            )
        if whole:
            # To the longest, where a few picoseconds do not show.
            whole[max(whole, key=lambda name: whole[name])] += missing
        for name, ps in whole.items():
            self.items[name].ps[column] += ps


def itemize(prices: RooflineStepTime, shape: StepShape, sheet: Gpu) -> list[Item]:
    """The items of a step on one GPU of a replica, in the order of the layer.

    The operators of the layers are priced again, one by one, and rounded so that their sum is the price.

    Args:
        prices: prices the step.
        shape: the step.
        sheet: the GPU of the data sheet, which ``prices.gpu`` is a slowed-down copy of under ``cluster.slowdown``.

    Returns:
        the items; the sums of their ``ps`` are ``prices.price(shape)``, column by column.

    Raises:
        InvariantError: where the operators do not add up to the step: a bug.
    """
    account = _Account(sheet)
    _layer_items(account, prices, shape)
    _decode_items(account, prices, shape)
    _chunk_items(account, prices, shape)
    _settle_phases(account, prices, shape, sheet.link_bytes_per_s / prices.gpu.link_bytes_per_s)
    items = [item for item in account.items.values() if item.total_ps]
    for item in items:
        item.provenance = prices.provenance(item.name)
    return items


def _layer_items(account: _Account, prices: RooflineStepTime, shape: StepShape) -> None:
    """Operators that depend on tokens only."""
    tokens, padded, _ = prices.own(shape)
    for count, operator in prices.operators:
        rows = tokens if on_tokens(operator) else padded
        cost, work = operator.cost(rows), operator.work(rows)
        account.operator(
            operator.name, count, "compute" if cost.compute_bound else "memory", count * cost.seconds * PS_PER_S,
            [Work(count * work.bytes_moved, count * work.flops, work.dtype)],
        )  # fmt: skip


def _decode_items(account: _Account, prices: RooflineStepTime, shape: StepShape) -> None:
    """Attention of the decoding requests, by kind, and what it takes per request."""
    model, tensor = prices.model, prices.tensor
    slopes = prices.slopes_of(shape)
    kinds = [None, *prices.windows]
    for (by_compute, by_memory), context, window in zip(slopes, shape.context, kinds, strict=True):
        layers = [layer for layer in model.layers if _attends(layer, window, prices)]
        works = []
        for layer in layers:
            mixer = layer.attention
            if mixer.window != window:
                continue
            moved = layer.count * context * mixer.kv_bytes(tensor, prices.kv_cache)
            flops = layer.count * context * shape.width * mixer.on_rank(mixer.decode_flops(), tensor)
            works.append(Work(moved, flops))
        if window is None:
            works += _index_work(prices, context, context * shape.width)
        name = "attention.decode" if window is None else f"attention.decode.{window}"
        count = sum(layer.count for layer in layers)
        if by_compute:
            account.operator(name, count, "compute", by_compute * context, works)
        elif by_memory:
            account.operator(name, count, "memory", by_memory * context, works)
    states = Work(2.0 * model.state_bytes(tensor) * shape.requests, 0.0)
    account.operator("attention.requests", model.num_layers, "memory", prices.attention_ps(shape), [states])


def _attends(layer: Layer, window: int | None, prices: RooflineStepTime) -> bool:
    """Whether the layers read a cache of this kind of attention."""
    mixer = layer.attention
    if window is None and mixer.index_bytes():
        return True
    return mixer.window == window and mixer.kv_bytes(prices.tensor, prices.kv_cache) > 0


def _chunk_items(account: _Account, prices: RooflineStepTime, shape: StepShape) -> None:
    """Attention of the prefill chunks, all kinds together."""
    if not shape.chunks:
        return
    model, tensor = prices.model, prices.tensor
    compute, memory = prices.attention.chunks_ps(shape.chunks)
    works: list[Work] = []
    for new, before in shape.chunks:
        share = own_tokens(new, prices.context) / new
        for layer in model.layers:
            mixer = layer.attention
            moved = keys_read(new, before, mixer.window) * mixer.kv_bytes(tensor, prices.kv_cache)
            pairs = share * attended_pairs(new, before, mixer.window)
            flops = pairs * mixer.prefill_flops() + before * mixer.expansion_flops()
            works.append(Work(layer.count * moved, layer.count * mixer.on_rank(flops, tensor)))
        works += _index_work(prices, new + before, share * attended_pairs(new, before, None))
    column = "compute" if compute else "memory"
    attending = sum(layer.count for layer in model.layers if layer.attention.prefill_flops())
    account.operator("attention.prefill", attending, column, compute or memory, works)


def _index_work(prices: RooflineStepTime, read: int, pairs: float) -> list[Work]:
    """What choosing the attended tokens needs: an index of ``read`` tokens, scored for ``pairs``; on every rank."""
    works = []
    for layer in prices.model.layers:
        moved, flops = layer.attention.index_bytes(), layer.attention.index_flops()
        if moved or flops:
            works.append(Work(layer.count * read * moved, layer.count * pairs * flops, "fp8"))
    return works


def _settle_phases(account: _Account, prices: RooflineStepTime, shape: StepShape, slowdown: float) -> None:
    """The phases outside the layers as items, and all items rounded to the phases."""
    rows = shape.rows
    _, padded, own = prices.own(shape)
    exchanges = {exchange.kind: exchange for exchange in prices.links.exchanges(padded, rows, own)}
    layers = dict.fromkeys(COLUMNS.values(), 0)
    for phase in prices.phases(shape):
        column = COLUMNS[phase.resource]
        if phase.kind == _LAYERS:
            layers[column] += phase.ps
        elif phase.kind == "logits":
            account.fixed(phase.kind, 1, column, phase.ps, [prices.head.work(rows)])
        elif phase.kind in exchanges:
            account.exchanged(phase.count, column, phase.ps, exchanges[phase.kind], slowdown)
        else:
            account.fixed(phase.kind, phase.count, column, phase.ps)
    for column, total in layers.items():
        account.settle(column, total)
