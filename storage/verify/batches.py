"""Verifies a batch whose checksum is correct: record structure, offsets, timestamps, producer fields.

Walks the whole structure (`codec.scan`) for every codec, with bounded decompression. Rows are compared as columns, so
that a large batch creates no Python object per record. Follows the checks of Kafka's DefaultRecordBatch and
LogValidator. As after Kafka's cleaner, records may be missing from a batch.
"""

from __future__ import annotations

from array import array
from itertools import islice
from operator import lt

from offsetfs.storage.errors import DecompressionLimit, MalformedBatch, StorageError
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import MAGIC, Batch
from offsetfs.storage.records.format.batch_header import APPEND_TIME_FLAG, BatchHeader
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA
from offsetfs.storage.units import I64_MAX, NO_TIMESTAMP

Fault = tuple[str, str]
"""The kind of a finding, and its meaning."""


def batch_faults(batch: Batch, inflated_bytes_max: int) -> tuple[list[Fault], int]:
    """Return the faults of a batch whose checksum is correct, and the number of its records."""
    try:
        batch.payload(inflated_bytes_max)
        rows = batch.rows()
    except DecompressionLimit as error:
        return [("inflates-too-far", f"{error.reason}: readers with this limit cannot read it")], 0
    except StorageError as error:
        return [("malformed-records", f"the checksum is correct, but the structure is not: {error.reason}")], 0
    count = len(rows) // COLUMNS
    checks = [_times(batch, rows), *_header(batch)]
    checks += [_current_offsets(batch.header, rows) if batch.header.magic == MAGIC else _old_offsets(batch, rows)]
    if batch.header.is_control:
        checks.append(_control(batch, count))
    return [fault for fault in checks if fault is not None], count


_COUNTED = array("q", range(1 << 16))


def _current_offsets(header: BatchHeader, rows: array[int]) -> Fault | None:
    """Check that offsets rise and end with the last one. Compaction can remove records in between."""
    deltas, span = rows[OFFSET_DELTA::COLUMNS], header.last_offset_delta + 1
    if header.count > span:
        return "record-count", f"{header.count} records for {span} offsets"
    # Nearly all batches have no gaps, and comparing two arrays creates no Python integers.
    if not deltas or (len(deltas) == span <= len(_COUNTED) and deltas == _COUNTED[:span]):
        return None
    if not _rises(deltas) or deltas[0] < 0 or deltas[-1] > header.last_offset_delta:
        return "record-offsets", f"the offsets of its {len(deltas)} records do not rise within the batch"
    return None


def _old_offsets(batch: Batch, rows: array[int]) -> Fault | None:
    deltas = rows[OFFSET_DELTA::COLUMNS]
    if not _rises(deltas) or (deltas[-1] and batch.header.base_offset):  # offset 0: old librdkafka, see legacy
        return "record-offsets", "the offsets inside the compressed set do not rise to that of the set"
    return None


def _rises(numbers: array[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))


def _times(batch: Batch, rows: array[int]) -> Fault | None:
    """Check that the header's largest timestamp is that of a record, because time searches and retention use it."""
    header = batch.header
    # With LogAppendTime the records keep the producer's timestamps, so they need not agree with the header.
    if header.magic == 0 or header.attributes & APPEND_TIME_FLAG or not rows:
        return None
    deltas = rows[TIMESTAMP_DELTA::COLUMNS]
    farthest = max(abs(min(deltas)), abs(max(deltas)))
    if abs(header.base_timestamp) + farthest <= I64_MAX:
        largest = batch.timestamp_of(max(deltas))
    else:  # a sum may wrap, so the largest delta need not be that of the largest timestamp
        largest = max(map(batch.timestamp_of, deltas))
    # Brokers count from -1, whatever the records say (MemoryRecordsBuilder, LogValidator).
    if header.max_timestamp == max(largest, NO_TIMESTAMP):
        return None
    return "max-timestamp", f"the largest timestamp of its records is {largest}, the header says {header.max_timestamp}"


def _header(batch: Batch) -> list[Fault | None]:
    header = batch.header
    if header.producer_id < 0:
        return [("producer", "a transaction without a producer id")] if header.is_transactional else []
    if header.producer_epoch < 0 or (header.base_sequence < 0 and not header.is_control):
        missing = f"epoch {header.producer_epoch} and sequence {header.base_sequence}"
        return [("producer", f"producer {header.producer_id} with {missing}")]
    return []


def _control(batch: Batch, count: int) -> Fault | None:
    """The end of a transaction is alone in its batch; records of the quorum share one, as voters with its leader."""
    try:
        kinds = [_marker(record)[0] for record in batch.records()]
    except StorageError as error:
        return "control-record", error.reason
    if count > 1 and not {ABORT, COMMIT}.isdisjoint(kinds):
        return "control-record", f"{count} records in a control batch with the end of a transaction"
    return None


def marker(batch: Batch) -> tuple[int, int] | None:
    """Return (type, coordinator epoch) of a control batch; None if it was emptied, epoch -1 for other types.

    Raises `MalformedBatch`.
    """
    records = batch.records()
    return _marker(records[0]) if records else None


def _marker(record: Record) -> tuple[int, int]:
    key, value = record.key or b"", record.value or b""
    if len(key) < 4:
        raise MalformedBatch(f"a control record with a key of {len(key)} bytes")
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (ABORT, COMMIT):
        return kind, -1
    if len(value) < 6:
        raise MalformedBatch(f"the end of a transaction in {len(value)} bytes")
    return kind, int.from_bytes(value[2:6], "big", signed=True)
