"""The header of a batch from which compaction removes records.

Base and last offset, producer, sequence and leader epoch never change, because readers and brokers rely on them.
Follows Kafka's MemoryRecords.buildRetainedRecordsInto and DefaultRecordBatch.writeEmptyHeader; KIP-534 for the horizon.
"""

from __future__ import annotations

from dataclasses import replace

from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    seal_checksum,
    write_header,
)
from offsetfs.storage.units import NO_TIMESTAMP, Timestamp, wrapped


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the batch without its records, with the same offsets, producer and largest timestamp."""
    attributes = header.attributes & (APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
    return _sealed(
        replace(header, size=HEADER_SIZE, attributes=attributes, base_timestamp=Timestamp(NO_TIMESTAMP), count=0), b""
    )


def rebuilt(header: BatchHeader, records: Buffer, count: int, max_timestamp: int) -> bytearray:
    """Return the batch with these of its records, encoded (and compressed) as they will be stored.

    The largest timestamp is recomputed for create times, and unchanged for append times.
    """
    latest = header.max_timestamp if header.attributes & APPEND_TIME_FLAG else Timestamp(max_timestamp)
    return _sealed(replace(header, size=HEADER_SIZE + len(records), max_timestamp=latest, count=count), records)


def horizon_of(header: BatchHeader, horizon_ms: int) -> tuple[BatchHeader, int, bool]:
    """Return the header with a horizon, and the arguments for `rebase` that keep the record timestamps the same."""
    is_append_time = bool(header.attributes & APPEND_TIME_FLAG)
    before = header.max_timestamp if is_append_time else header.base_timestamp
    attributes = header.attributes | DELETE_HORIZON_FLAG
    changed = replace(header, attributes=attributes, base_timestamp=Timestamp(horizon_ms))
    return changed, wrapped(before - horizon_ms), is_append_time


def _sealed(header: BatchHeader, records: Buffer) -> bytearray:
    batch = bytearray(HEADER_SIZE) + records
    write_header(batch, header)
    seal_checksum(batch)
    return batch
