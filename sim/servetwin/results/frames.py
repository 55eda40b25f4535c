"""Requests and time series as Arrow tables, made block by block.

Arrays are made from numpy buffers by hand: ``pyarrow.array`` imports pandas, which costs half a second of start-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from servetwin.results.exact import Bools, Floats, Ints
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.links import LinkTable
from servetwin.results.meta import RunMeta
from servetwin.results.requests import LABELS_COLUMN, RequestBlock, RequestTable, tpot_ms
from servetwin.results.timeseries import TimeSeries
from servetwin.units import PS_PER_MS, PS_PER_S

BLOCK_ROWS = 1 << 13

_INTEGER, _FLOAT, _TEXT = pa.int64(), pa.float64(), pa.string()

REQUEST_SCHEMA = pa.schema(
    [
        ("request_id", _INTEGER), ("session_id", _INTEGER), ("class", _TEXT), ("pool", _TEXT),
        ("replica", _INTEGER), ("prefill_replica", _INTEGER), ("arrival_s", _FLOAT),
        ("routed_s", _FLOAT), ("queued_s", _FLOAT),
        ("scheduled_s", _FLOAT), ("prefill_done_s", _FLOAT), ("prefill_freed_s", _FLOAT), ("decode_queued_s", _FLOAT),
        ("decode_reserved_s", _FLOAT), ("transfer_start_s", _FLOAT), ("transfer_end_s", _FLOAT),
        ("decode_scheduled_s", _FLOAT), ("first_token_s", _FLOAT), ("last_token_s", _FLOAT),
        ("prompt_tokens", _INTEGER), ("output_tokens", _INTEGER), ("hit_tokens_hbm", _INTEGER),
        ("hit_tokens_cpu", _INTEGER), ("hit_tokens_ssd", _INTEGER), ("hit_tokens_remote", _INTEGER),
        ("predicted_hit_tokens", _INTEGER), ("recomputed_tokens", _INTEGER), ("preemptions", _INTEGER),
        ("transfer_bytes", _INTEGER), ("drafted_tokens", _INTEGER), ("accepted_tokens", _INTEGER),
        ("ttft_ms", _FLOAT), ("tpot_ms", _FLOAT), ("e2e_ms", _FLOAT), ("outcome", _TEXT),
    ]
)  # fmt: skip
"""Columns of ``requests.parquet``: seconds since the start; null = it did not happen or is not defined.
``output_tokens`` is what the request asked for, which is what it got if it completed. Where a request was prefilled and
decoded by different replicas, ``queued_s``, ``scheduled_s`` and the hits are those of its prefill."""

_MOVE_STAMPS = ("freed_ps", "queued_ps", "reserved_ps", "start_ps", "end_ps", "scheduled_ps")
"""Stamps of hand-overs in the order of their columns."""

TIMESERIES_SCHEMA = pa.schema(
    [
        ("pool", _TEXT), ("replica", _INTEGER), ("start_s", _FLOAT), ("end_s", _FLOAT),
        ("running", _FLOAT), ("waiting", _FLOAT), ("kv_use", _FLOAT), ("kv_stranded", _FLOAT),
        ("tokens", _INTEGER), ("prefill_tokens", _INTEGER), ("output_tokens", _INTEGER), ("steps", _INTEGER),
        ("utilisation", _FLOAT), ("compute_bound", _FLOAT), ("k", _FLOAT),
        ("drafted_tokens", _INTEGER), ("accepted_tokens", _INTEGER), ("arrivals", _INTEGER), ("completed", _INTEGER),
    ]
)  # fmt: skip
"""Columns of ``timeseries.parquet``, see ``servetwin.results.timeseries``. ``compute_bound`` is the share of step time
bound by arithmetic, of the steps that end in the interval; ``k`` is how many tokens were to be drafted per request,
null without speculation; ``kv_stranded`` is null where no request is handed over."""


LINKS_SCHEMA = pa.schema(
    [
        ("link", _TEXT), ("start_s", _FLOAT), ("end_s", _FLOAT), ("bytes_per_s", _FLOAT), ("utilisation", _FLOAT),
        ("transfer_bytes_per_s", _FLOAT), ("collective_bytes_per_s", _FLOAT), ("collective_bytes", _INTEGER),
    ]
)  # fmt: skip
"""Columns of ``links.parquet``, see ``servetwin.results.links``: for each link that carried anything, the intervals
between changes of the rate of transfers, and where collectives use it no longer than those of the time series;
``bytes_per_s`` is the sum of both rates, ``utilisation`` its share of the capacity."""


def link_batches(table: LinkTable) -> Iterator[pa.RecordBatch]:
    """The intervals of the links, one link after the other."""
    for rows in table.rows():
        columns = [
            _texts([rows.link.name], np.zeros(len(rows.start_ps), np.int64)),
            _floats(rows.start_ps / PS_PER_S),
            _floats(rows.end_ps / PS_PER_S),
            _floats(rows.transfer_bytes_per_s + rows.collective_bytes_per_s),
            _floats(rows.utilisation),
            _floats(rows.transfer_bytes_per_s),
            _floats(rows.collective_bytes_per_s),
            _integers(rows.collective_bytes),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=LINKS_SCHEMA)


def request_batches(meta: RunMeta, table: RequestTable, hand_overs: HandOverTable) -> Iterator[pa.RecordBatch]:
    """The requests, in order of their ids."""
    pools = [*(pool.name for pool in meta.pools), None]
    owners = np.array([*meta.pool_of(), len(meta.pools)], np.int64)
    for block in table.blocks(BLOCK_ROWS):
        yield pa.RecordBatch.from_arrays(
            _request_columns(block, table, hand_overs, owners, pools), schema=REQUEST_SCHEMA
        )


def timeseries_batches(meta: RunMeta, series: TimeSeries) -> Iterator[pa.RecordBatch]:
    """The intervals of the replicas, one replica after the other."""
    owners = meta.pool_of()
    waiting: list[pa.RecordBatch] = []
    for replica in range(series.replicas):
        pool = meta.pools[owners[replica]]
        columns = series.replica_columns(replica, pool.kv_capacity_tokens)
        rows = series.intervals
        arrays = {
            "pool": _texts([pool.name], np.zeros(rows, np.int64)),
            "replica": _integers(np.full(rows, replica, np.int64)),
            "start_s": _floats(columns["start_ps"] / PS_PER_S),
            "end_s": _floats(columns["end_ps"] / PS_PER_S),
        }
        for name, kind in zip(TIMESERIES_SCHEMA.names, TIMESERIES_SCHEMA.types, strict=True):
            if name in arrays:
                continue
            values = columns[name]
            arrays[name] = _floats(values, ~np.isnan(values)) if kind == _FLOAT else _integers(values)
        ordered = [arrays[name] for name in TIMESERIES_SCHEMA.names]
        waiting.append(pa.RecordBatch.from_arrays(ordered, schema=TIMESERIES_SCHEMA))
        if sum(batch.num_rows for batch in waiting) >= BLOCK_ROWS:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _request_columns(
    block: RequestBlock, table: RequestTable, hand_overs: HandOverTable, owners: Ints, pools: Sequence[str | None]
) -> list[pa.Array]:
    label, replica = block[LABELS_COLUMN], block["replica"]
    arrival, first, last = block["arrival_ps"], block["first_token_ps"], block["last_token_ps"]
    output = block["output_tokens"]
    rows = len(block)
    zeros = _integers(np.zeros(rows, np.int64))
    nothing = pa.nulls(rows, _FLOAT)
    moves = hand_overs.of(block["id"])

    def moved(name: str) -> pa.Array:
        return _seconds(moves[name]) if moves.some else nothing

    began, ended = first >= 0, last >= 0
    several = ended & began & (output > 1)
    return [
        _integers(block["id"]),
        _optional(block["session_id"]),
        _texts(table.names(0), label),
        _texts(pools, owners[replica]),
        _optional(replica),
        _optional(moves["source"]) if moves.some else pa.nulls(rows, _INTEGER),
        _seconds(arrival),
        *(_seconds(block[name]) for name in ("routed_ps", "queued_ps", "scheduled_ps", "prefill_done_ps")),
        *(moved(name) for name in _MOVE_STAMPS),
        _seconds(first),
        _seconds(last),
        _integers(block["prompt_tokens"]),
        _integers(output),
        _integers(block["hit_tokens"]),
        zeros,
        zeros,
        zeros,
        _optional(block["predicted_hit_tokens"]),
        _integers(block["recomputed_tokens"]),
        _integers(block["preemptions"]),
        _integers(np.maximum(moves["moved_bytes"], 0)) if moves.some else zeros,
        _integers(block["drafted_tokens"]),
        _integers(block["accepted_tokens"]),
        _floats((first - arrival) / PS_PER_MS, began),
        _floats(tpot_ms(last - first, np.where(several, output, 2)), several),
        _floats((last - arrival) / PS_PER_MS, ended),
        _texts(table.names(1), label),
    ]


def _seconds(stamps: Ints) -> pa.Array:
    return _floats(stamps / PS_PER_S, stamps >= 0)


def _optional(values: Ints) -> pa.Array:
    """Integers of which -1 means none."""
    return _integers(values, values >= 0)


def _integers(values: Any, present: Bools | None = None) -> pa.Array:
    return _primitive(_INTEGER, np.ascontiguousarray(values, np.int64), present)


def _floats(values: Any, present: Bools | None = None) -> pa.Array:
    return _primitive(_FLOAT, np.ascontiguousarray(values, np.float64), present)


def _primitive(kind: pa.DataType, values: Floats | Ints, present: Bools | None) -> pa.Array:
    mask = None
    if present is not None and not present.all():
        # What is null must not leave traces of what stood there: equal tables have equal bytes.
        values = np.where(present, values, np.zeros((), values.dtype))
        mask = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(values)])


def _texts(names: Sequence[str | None], codes: Ints) -> pa.Array:
    """The name that each code stands for."""
    encoded = [b"" if name is None else name.encode() for name in names]
    lengths = np.array([len(one) for one in encoded], np.int64)[codes]
    offsets = np.zeros(len(codes) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = b"".join([encoded[code] for code in codes.tolist()])
    absent = np.array([name is None for name in names], bool)[codes]
    mask = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
    return pa.Array.from_buffers(_TEXT, len(codes), [mask, pa.py_buffer(offsets), pa.py_buffer(data)])
