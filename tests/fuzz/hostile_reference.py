"""A fuzz target for whatever compiled code reads from a log: every function against its reference.

The checksum of each batch and message is computed before it is read, so that hostile numbers reach the code behind
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

from offsetfs.storage.errors import StorageError
from offsetfs.storage.native import chain as native_chain
from offsetfs.storage.native import codec as native_codec
from offsetfs.storage.native import columns as native_columns
from offsetfs.storage.native import compaction as native_compaction
from offsetfs.storage.native import comparison as native_comparison
from offsetfs.storage.native import dump as native_dump
from offsetfs.storage.native import field_patterns as native_field_patterns
from offsetfs.storage.native import index_search as native_index_search
from offsetfs.storage.native import key_hash as native_key_hash
from offsetfs.storage.native import message_set as native_message_set
from offsetfs.storage.native import record_json as native_record_json
from offsetfs.storage.native import record_search as native_record_search
from offsetfs.storage.native import record_sketch as native_record_sketch
from offsetfs.storage.native import valid_batches as native_valid_batches
from offsetfs.storage.records.columns.columns import KEY, VALUE
from offsetfs.storage.records.format import batch_row, record_row
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, seal_checksum
from offsetfs.storage.reference import chain as reference_chain
from offsetfs.storage.reference import codec as reference_codec
from offsetfs.storage.reference import columns as reference_columns
from offsetfs.storage.reference import compaction as reference_compaction
from offsetfs.storage.reference import comparison as reference_comparison
from offsetfs.storage.reference import dump as reference_dump
from offsetfs.storage.reference import field_patterns as reference_field_patterns
from offsetfs.storage.reference import index_search as reference_index_search
from offsetfs.storage.reference import key_hash as reference_key_hash
from offsetfs.storage.reference import message_set as reference_message_set
from offsetfs.storage.reference import record_json as reference_record_json
from offsetfs.storage.reference import record_search as reference_record_search
from offsetfs.storage.reference import record_sketch as reference_record_sketch
from offsetfs.storage.reference import valid_batches as reference_valid_batches

_LONG_MAX = 2**63 - 1
_INFLATED_BYTES_MAX = 1 << 20
_LEGACY_CHECKED = 16
_SEED = bytes(16)


def compare(data: bytes) -> None:
    """A block of a log as compiled code and its reference read it."""
    block = sealed(data)
    _same(lambda module: module.headers(block, 0, len(block), len(block), 0)[0].tolist(), native_chain, reference_chain)
    _same(
        lambda module: module.sound(block, 0, len(block), 0, -1, _LONG_MAX)[0].tolist(), native_chain, reference_chain
    )
    rows, end = reference_chain.sound(block, 0, len(block), 0, -1, _LONG_MAX)
    _same(lambda module: module.measure(block, 0, rows).tolist(), native_chain, reference_chain)
    _same(lambda module: module.join(block, 0, rows), native_chain, reference_chain)
    _same(lambda module: module.scan(block, 0, rows, 1, 1), native_chain, reference_chain)
    _same(
        lambda module: module.valid_until(block, 0, rows, 0, _INFLATED_BYTES_MAX),
        native_valid_batches,
        reference_valid_batches,
    )
    _same(lambda module: _indexed(module, rows), native_chain, reference_chain)
    if end:
        _same(lambda module: _output_indexed(module, block, end), native_compaction, reference_compaction)
    for at in range(0, len(rows), batch_row.COLUMNS):
        position, base, size, _, _, flags, last_delta, *_, count = rows[at : at + batch_row.COLUMNS]
        if not flags & 7 and count:
            _records(block[position + HEADER_SIZE : position + size], count, base, last_delta)
    _same(lambda module: module.verify(block), native_message_set, reference_message_set)
    _same(lambda module: module.scan(block, 10, 1000, True).tolist(), native_message_set, reference_message_set)
    count = len(data) // 12
    for wanted in (0, -1, _LONG_MAX, -_LONG_MAX - 1, int.from_bytes(data[:8], "big", signed=True)):
        _same(functools.partial(_around, data, wanted), native_index_search, reference_index_search)
        _same(functools.partial(_time_floor, data, wanted), native_index_search, reference_index_search)


def _around(data: bytes, wanted: int, module: Any) -> object:
    return module.around(data, len(data) // 8, 7, wanted)


def _time_floor(data: bytes, wanted: int, module: Any) -> object:
    return module.time_floor(data, len(data) // 12, 7, wanted)


def _gather(payload: bytes, rows: Any, column: int, module: Any) -> object:
    return module.gather(payload, rows, column)


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


def _sketched(module: ModuleType, payload: bytes, rows: array[int], base: int) -> tuple[tuple[int, int], bytes]:
    state, other = (bytearray(reference_record_sketch.STATE_BYTES) for _ in range(2))
    times = module.add_rows(state, payload, rows, base)
    module.add_rows(other, payload, rows[: record_row.COLUMNS], base)
    module.merge(state, other)
    return times, bytes(state)


def _records(payload: bytes, count: int, base: int, last_delta: int) -> None:
    for ask in (
        lambda module: module.scan(payload, count).tolist(),
        lambda module: module.decode(payload, count),
        lambda module: module.join(payload, count),
        lambda module: module.measure(payload, count),
        lambda module: module.find(payload, count, last_delta),
    ):
        _same(ask, native_codec, reference_codec)
    frame = {"prefix": b"{", "base_offset": base, "base_timestamp": _LONG_MAX}
    _same(lambda module: module.join_json(payload, count, **frame), native_record_json, reference_record_json)
    _same(lambda module: module.measure_json(payload, count, **frame), native_record_json, reference_record_json)
    _same(lambda module: _compacted(module, payload, count, base, last_delta), native_compaction, reference_compaction)
    _same(
        lambda module: bytes(module.rebase(payload, count, _LONG_MAX, False)), native_compaction, reference_compaction
    )
    try:
        rows = reference_codec.scan(payload, count)
    except StorageError:
        return
    _same(
        lambda module: module.hash_rows(payload, rows, base, _SEED, 0, last_delta)[1].tolist(),
        native_key_hash,
        reference_key_hash,
    )
    _same(lambda module: module.hash_digests(payload, rows, 0, _SEED)[1].tolist(), native_key_hash, reference_key_hash)
    _same(
        lambda module: module.digest_records(payload, rows, base, _LONG_MAX, _SEED).offsets.tolist(),
        native_comparison,
        reference_comparison,
    )
    _same(lambda module: _gaps(module, rows, base), native_dump, reference_dump)
    for column in (KEY, VALUE):
        _same(functools.partial(_gather, payload, rows, column), native_columns, reference_columns)
    _same(lambda module: module.gather_headers(payload, rows), native_columns, reference_columns)
    patterns = [
        reference_field_patterns.FieldPattern(b"", b"", 0, 9),
        reference_field_patterns.FieldPattern(None, b"", 1, 2),
    ]
    _same(
        lambda module: module.count_patterns(payload, rows, VALUE, patterns, 3),
        native_field_patterns,
        reference_field_patterns,
    )
    for ask in (
        lambda module: module.rows_with(payload, rows, payload[-2:], 7, False).tolist(),
        lambda module: module.rows_with(payload, rows, b"", 7, True).tolist(),
        lambda module: module.rows_with_header(payload, rows, payload[-1:], None).tolist(),
    ):
        _same(ask, native_record_search, reference_record_search)
    _same(lambda module: _sketched(module, payload, rows, base), native_record_sketch, reference_record_sketch)
    keys = reference_columns.gather(payload, rows, KEY)
    _same(lambda module: module.spread_keys(keys, count, 7).tolist(), native_columns, reference_columns)
    _same(lambda module: _encoded(module, payload, rows), native_columns, reference_columns)


def _indexed(module: ModuleType, rows: array[int]) -> object:
    state = reference_chain.index_state(0, 0)
    return module.index(rows, state), state.tolist()


def _output_indexed(module: ModuleType, block: bytes, end: int) -> object:
    output = module.OutputIndexer(0, 10, 4)
    output.add(block, 0, end, 0)
    output.finish()
    return bytes(output.offsets), bytes(output.times), output.last_offset


def _compacted(module: ModuleType, payload: bytes, count: int, base: int, last_delta: int) -> object:
    offsets = module.OffsetMap(24 * 20, 1.0, hash_key=bytes(16))
    indexer = module.Indexer(offsets, 0)
    added = indexer.add(payload, count, base, last_delta)
    records = module.Filter(offsets, _LONG_MAX, 5, 7, {})
    kept = records.retain(payload, count, base, last_delta, _LONG_MAX, True)
    return added, offsets.count, offsets.latest_offset, kept, records.records_read, records.records_kept


def _gaps(module: ModuleType, rows: array[int], base: int) -> object:
    gaps = array("q")
    return module.follow(rows, base, _LONG_MAX, gaps), gaps.tolist()


def _encoded(module: ModuleType, payload: bytes, rows: array[int]) -> object:
    keys, values = (reference_columns.gather(payload, rows, column) for column in (KEY, VALUE))
    times = array("q", (max(delta, -1) for delta in rows[record_row.TIMESTAMP_DELTA :: record_row.COLUMNS]))
    columns = reference_columns.RecordColumns(keys, values, reference_columns.gather_headers(payload, rows), times)
    cursor = BatchCursor(bytearray(len(payload) + 100), 0, 0, None)
    done = module.encode_columns(columns, array("i", range(len(times))), 0, cursor)
    return done, bytes(cursor.target or b"")


def _same(ask: Callable[[ModuleType], object], compiled: ModuleType, plain: ModuleType) -> None:
    first, second = _outcome(ask, compiled), _outcome(ask, plain)
    assert first == second, f"{compiled.__name__}: {first!r:.500} where the reference has {second!r:.500}"


def _outcome(ask: Callable[[ModuleType], object], module: ModuleType) -> object:
    try:
        return ask(module)
    except (StorageError, ValueError) as error:
        return type(error).__name__
