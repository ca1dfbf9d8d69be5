"""Converts messages of formats v0 and v1 to v2 batches, on request.

Offsets (including gaps), timestamps, keys, values and their order stay the same. A wrapper becomes one batch with its
codec, and loose messages are collected in batches of 64 KiB. A v0 record has no timestamp type, so it becomes
CreateTime with timestamp -1. Batches of v2 are copied unchanged.

Each segment is written beside the old one, read back and compared record by record, and swapped in (swap). The active
segment is rolled first. One segment is held in memory at a time. Follows Kafka's up-conversion in MemoryRecordsBuilder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.partition import swap
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import CODECS, compress
from offsetfs.storage.records.format import codec as record_codec
from offsetfs.storage.records.format.batch import HEADER_SIZE, Batch, read_batch
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    MAGIC,
    BatchHeader,
    parse_header,
    seal_checksum,
    write_header,
)
from offsetfs.storage.records.format.record import LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, Record
from offsetfs.storage.segments.segment import LOG_BYTES_MAX, Segment
from offsetfs.storage.segments.segment_indexes import IndexBuilder
from offsetfs.storage.units import I32_MAX, I64_MIN, NO_TIMESTAMP, Offset, Timestamp

GATHERED_BYTES_MAX = 64 << 10

_MOVED = -I64_MIN

OnProgress = Callable[[int, int], None]
"""Called with the log bytes processed and their total."""


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """The result of a conversion. `segments` were rewritten; sizes are those of their `.log` files."""

    segments: int
    records: int
    bytes_before: int
    bytes_after: int


def has_old_format(segment: Segment) -> bool:
    """Whether the segment holds a message of format v0 or v1."""
    return any(header.magic < MAGIC for _, header in segment.headers())


def convert_log(log: Log, *, on_progress: OnProgress = lambda done, total: None) -> ConversionResult:
    """Rewrite every segment of `log` that holds v0 or v1 messages. No other thread may use the log; close it
    afterwards.

    Raises `CorruptBatch` and `MalformedBatch` before a damaged segment is changed, and OSError on a full disk, with the
    segment unchanged.
    """
    if has_old_format(log.snapshot().active):
        log.roll()
    done, total = 0, log.size_bytes
    converted = ConversionResult(0, 0, 0, 0)
    for segment in log.snapshot():
        if has_old_format(segment):
            records, size = _convert_segment(segment)
            converted = ConversionResult(
                converted.segments + 1,
                converted.records + records,
                converted.bytes_before + segment.size,
                converted.bytes_after + size,
            )
        done += segment.size
        on_progress(done, total)
    return converted


def _convert_segment(segment: Segment) -> tuple[int, int]:
    """Rewrite one segment; return its number of records and its new size."""
    builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
    content = bytearray()
    for data in _new_batches(segment):
        builder.add(len(content), parse_header(data))
        content += data
    builder.finish()
    if len(content) > LOG_BYTES_MAX:
        raise StorageError("would not fit a segment as v2", path=segment.log_path)
    count = _compare(segment, content)
    files_by_suffix = {".log": bytes(content), ".index": bytes(builder.offsets), ".timeindex": bytes(builder.times)}
    swap.write_cleaned(segment.directory, segment.base_offset, files_by_suffix)
    swap.swap_in(segment.directory, segment.base_offset)
    segment.pool.drop(segment)
    return count, len(content)


def _compare(segment: Segment, content: bytearray) -> int:
    """Read the new bytes back and compare them with the old file, record by record; return the number of records."""
    count = 0
    for old, new in itertools.zip_longest(_records(segment.batches()), _records(_batches_in(content))):
        if old is None or new is None or _in_v2(old) != new:
            raise StorageError("the converted segment differs; nothing was changed", path=segment.log_path)
        count += 1
    return count


def _records(batches: Iterator[Batch]) -> Iterator[Record]:
    return (record for batch in batches for record in batch.records())


def _batches_in(content: bytearray) -> Iterator[Batch]:
    position = 0
    while position < len(content):
        batch = read_batch(content, position)
        yield batch
        position += batch.header.size


def _in_v2(record: Record) -> Record:
    kind = "CreateTime" if record.timestamp_type == NO_TIMESTAMP_TYPE else record.timestamp_type
    return Record(record.offset, record.timestamp, kind, record.key, record.value, record.headers)


def _new_batches(segment: Segment) -> Iterator[bytes]:
    """Yield the segment's batches as v2."""
    loose: list[Record] = []
    for batch in segment.batches():
        header = batch.header
        if loose and (header.magic == MAGIC or header.codec or not _belongs(loose, batch)):
            yield _build(loose, 0)
            loose = []
        if header.magic == MAGIC:
            yield bytes(batch.data)
        elif header.codec:
            yield _build(batch.records(), header.codec)
        else:
            loose += batch.records()
    if loose:
        yield _build(loose, 0)


def _belongs(loose: list[Record], batch: Batch) -> bool:
    """Whether a loose message may join those before it: one batch has one timestamp type, and one append time."""
    last, record = loose[-1], batch.records()[0]
    size = sum(len(message.key or b"") + len(message.value or b"") for message in loose)
    same_time = record.timestamp_type != LOG_APPEND_TIME or record.timestamp == last.timestamp
    is_near = record.offset - loose[0].offset <= I32_MAX
    fits = is_near and size + batch.header.size <= GATHERED_BYTES_MAX
    return same_time and record.timestamp_type == last.timestamp_type and fits


def _build(records: list[Record], codec: int) -> bytes:
    """Return a v2 batch of records whose offsets may have gaps. `MalformedBatch` if they are 2³¹ apart."""
    first, last = records[0], records[-1]
    if last.offset - first.offset > I32_MAX:
        reason = f"the set has offsets {first.offset} to {last.offset}, too far apart for one batch of v2"
        raise MalformedBatch(reason, offset=first.offset)
    latest = max(record.timestamp for record in records)
    if first.timestamp_type != LOG_APPEND_TIME:
        latest = max(latest, NO_TIMESTAMP)  # as brokers write it for times below -1
    payload = compress(CODECS[codec], b"".join(_runs(records)))
    header = BatchHeader(
        Offset(first.offset),
        HEADER_SIZE + len(payload),
        -1,
        MAGIC,
        0,
        codec | (APPEND_TIME_FLAG if first.timestamp_type == LOG_APPEND_TIME else 0),
        last.offset - first.offset,
        first.timestamp,
        Timestamp(latest),
        -1,
        -1,
        -1,
        len(records),
    )
    batch = bytearray(HEADER_SIZE) + payload
    write_header(batch, header)
    seal_checksum(batch)
    return bytes(batch)


def _runs(records: list[Record]) -> Iterator[bytes]:
    """Encode each range of offsets without a gap."""
    base, start = records[0], 0
    # Only differences are encoded. The encoder refuses times below -1, which brokers have stored, so all are moved up.
    # A difference of more than 64 bits wraps as a Java long wraps.
    times = [(record.timestamp - base.timestamp + _MOVED) % (1 << 64) for record in records]
    for end in range(1, len(records) + 1):
        if end == len(records) or records[end].offset != records[end - 1].offset + 1:
            run = [
                (r.key, r.value, r.headers, time) for r, time in zip(records[start:end], times[start:end], strict=True)
            ]
            yield record_codec.encode(run, _MOVED, records[start].offset - base.offset)
            start = end
