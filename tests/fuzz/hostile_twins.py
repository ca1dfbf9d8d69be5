"""A fuzz target for whatever compiled code reads from a log: every function against its plain twin.

The checksum of each batch and message is computed anew before it is read, so that hostile numbers reach the code behind
the checksum, as those of a hostile writer do.
"""

from __future__ import annotations

import functools
import struct
import zlib
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

from offsetfs.storage.compaction import _compaction, compaction_pure
from offsetfs.storage.dump import _dump, dump_pure
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import (
    _chain,
    _codec,
    _columns,
    _messages,
    _record_json,
    chain_pure,
    codec_pure,
    columns_pure,
    message_set_pure,
    record_json_pure,
)
from offsetfs.storage.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, seal_checksum
from offsetfs.storage.records.json_lines_pure import Lane
from offsetfs.storage.segments import _index_search, index_search_pure
from offsetfs.storage.verify import _valid_batches, valid_batches_pure
from offsetfs.storage.views import _key_hash, key_hash_pure

_LONG_MAX = 2**63 - 1
_INFLATED_BYTES_MAX = 1 << 20
_LEGACY_CHECKED = 16
_SEED = bytes(16)


def twins(data: bytes) -> None:
    """A block of a log as compiled code and its twins read it."""
    block = sealed(data)
    _same(lambda twin: twin.headers(block, 0, len(block), len(block), 0)[0].tolist(), _chain, chain_pure)
    _same(lambda twin: twin.sound(block, 0, len(block), 0, -1, _LONG_MAX)[0].tolist(), _chain, chain_pure)
    rows, end = chain_pure.sound(block, 0, len(block), 0, -1, _LONG_MAX)
    _same(lambda twin: twin.measure(block, 0, rows).tolist(), _chain, chain_pure)
    _same(lambda twin: twin.join(block, 0, rows), _chain, chain_pure)
    _same(lambda twin: twin.valid_until(block, 0, rows, 0, _INFLATED_BYTES_MAX), _valid_batches, valid_batches_pure)
    _same(lambda twin: _indexed(twin, rows), _chain, chain_pure)
    if end:
        _same(lambda twin: _output_indexed(twin, block, end), _compaction, compaction_pure)
    for at in range(0, len(rows), chain_pure.COLUMNS):
        position, base, size, _, _, flags, last_delta, *_, count = rows[at : at + chain_pure.COLUMNS]
        if not flags & 7 and count:
            _records(block[position + HEADER_SIZE : position + size], count, base, last_delta)
    _same(lambda twin: twin.verify(block), _messages, message_set_pure)
    _same(lambda twin: twin.scan(block, 10, 1000, True).tolist(), _messages, message_set_pure)
    count = len(data) // 12
    for wanted in (0, -1, _LONG_MAX, -_LONG_MAX - 1, int.from_bytes(data[:8], "big", signed=True)):
        _same(functools.partial(_around, data, wanted), _index_search, index_search_pure)
        _same(functools.partial(_time_floor, data, wanted), _index_search, index_search_pure)


def _around(data: bytes, wanted: int, twin: Any) -> object:
    return twin.around(data, len(data) // 8, 7, wanted)


def _time_floor(data: bytes, wanted: int, twin: Any) -> object:
    return twin.time_floor(data, len(data) // 12, 7, wanted)


def _gather(payload: bytes, rows: Any, column: int, twin: Any) -> object:
    return twin.gather(payload, rows, column)


def sealed(data: bytes) -> bytes:
    """Return the block with the right checksum in each batch that is there in whole."""
    block, position = bytearray(data), 0
    while len(block) - position > _LEGACY_CHECKED:
        (length,) = struct.unpack_from(">i", block, position + 8)
        end = position + LOG_OVERHEAD + length
        if length < _LEGACY_CHECKED or end > len(block):
            break
        if block[position + 16] == MAGIC and end - position >= HEADER_SIZE:
            with memoryview(block)[position:end] as batch:
                seal_checksum(batch)
        else:
            struct.pack_into(">I", block, position + 12, zlib.crc32(block[position + _LEGACY_CHECKED : end]))
        position = end
    return bytes(block)


def _records(payload: bytes, count: int, base: int, last_delta: int) -> None:
    for ask in (
        lambda twin: twin.scan(payload, count).tolist(),
        lambda twin: twin.decode(payload, count),
        lambda twin: twin.join(payload, count),
        lambda twin: twin.measure(payload, count),
        lambda twin: twin.find(payload, count, last_delta),
    ):
        _same(ask, _codec, codec_pure)
    frame = {"prefix": b"{", "base_offset": base, "base_timestamp": _LONG_MAX}
    _same(lambda twin: twin.join_json(payload, count, **frame), _record_json, record_json_pure)
    _same(lambda twin: twin.measure_json(payload, count, **frame), _record_json, record_json_pure)
    _same(lambda twin: _compacted(twin, payload, count, base, last_delta), _compaction, compaction_pure)
    _same(lambda twin: bytes(twin.rebase(payload, count, _LONG_MAX, False)), _compaction, compaction_pure)
    try:
        rows = codec_pure.scan(payload, count)
    except StorageError:
        return
    _same(lambda twin: twin.hash_rows(payload, rows, base, _SEED, 0, last_delta)[1].tolist(), _key_hash, key_hash_pure)
    _same(lambda twin: twin.hash_digests(payload, rows, 0, _SEED)[1].tolist(), _key_hash, key_hash_pure)
    _same(lambda twin: _gaps(twin, rows, base), _dump, dump_pure)
    for column in (2, 4):
        _same(functools.partial(_gather, payload, rows, column), _columns, columns_pure)
    _same(lambda twin: twin.gather_headers(payload, rows), _columns, columns_pure)
    keys = columns_pure.gather(payload, rows, 2)
    _same(lambda twin: twin.spread_keys(keys, count, 7).tolist(), _columns, columns_pure)
    _same(lambda twin: _encoded(twin, payload, rows), _columns, columns_pure)


def _indexed(twin: ModuleType, rows: array[int]) -> object:
    state = chain_pure.index_state(0, 0)
    return twin.index(rows, state), state.tolist()


def _output_indexed(twin: ModuleType, block: bytes, end: int) -> object:
    output = twin.OutputIndexer(0, 10, 4)
    output.add(block, 0, end, 0)
    output.finish()
    return bytes(output.offsets), bytes(output.times), output.last_offset


def _compacted(twin: ModuleType, payload: bytes, count: int, base: int, last_delta: int) -> object:
    offsets = twin.OffsetMap(24 * 20, 1.0, hash_key=bytes(16))
    indexer = twin.Indexer(offsets, 0)
    added = indexer.add(payload, count, base, last_delta)
    records = twin.Filter(offsets, _LONG_MAX, 5, 7, {})
    kept = records.retain(payload, count, base, last_delta, _LONG_MAX, True)
    return added, offsets.count, offsets.latest_offset, kept, records.records_read, records.records_kept


def _gaps(twin: ModuleType, rows: array[int], base: int) -> object:
    gaps = array("q")
    return twin.follow(rows, base, _LONG_MAX, gaps), gaps.tolist()


def _encoded(twin: ModuleType, payload: bytes, rows: array[int]) -> object:
    keys, values = (columns_pure.gather(payload, rows, column) for column in (2, 4))
    times = array("q", (max(delta, -1) for delta in rows[1::8]))
    columns = columns_pure.RecordColumns(keys, values, columns_pure.gather_headers(payload, rows), times)
    lane = Lane(bytearray(len(payload) + 100), 0, 0, None)
    done = twin.encode_columns(columns, array("i", range(len(times))), 0, lane)
    return done, bytes(lane.target or b"")


def _same(ask: Callable[[ModuleType], object], compiled: ModuleType, plain: ModuleType) -> None:
    first, second = _outcome(ask, compiled), _outcome(ask, plain)
    assert first == second, f"{compiled.__name__}: {first!r:.500} where the plain twin has {second!r:.500}"


def _outcome(ask: Callable[[ModuleType], object], twin: ModuleType) -> object:
    try:
        return ask(twin)
    except (StorageError, ValueError) as error:
        return type(error).__name__
