"""Dumps producer snapshots (`.snapshot`) and transaction indexes (`.txnindex`) as text, like DumpLogSegments.

A damaged snapshot is described with the messages of Kafka's ProducerStateManager; as in Kafka's tool, that is not a
failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.dump.printer import OptionalLong, Printer
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.errors import InvalidSnapshot
from offsetfs.storage.partition.producers import CHECKED_FROM, ENTRY, HEADER
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.segments import transaction_index
from offsetfs.storage.units import I32_MAX

SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX = ".snapshot", ".txnindex"

_VERSION = 1
_VERSION_SIZE = 2
_SEQUENCES = I32_MAX + 1


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """The fields of a producer's entry, without validation; `producers` has the layout."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record of the last batch."""
        return (self.last_sequence - self.offset_delta) % _SEQUENCES


def dump_snapshot(path: str, printer: Printer, report: DumpReport, *, is_old: bool = False) -> None:
    """Write a line for each producer of the snapshot `path`; OSError when it cannot be read.

    `is_old`: in the form of Kafka 4.1, where a producer without a batch ends with a space.
    """
    try:
        for entry in snapshot_entries(files.read_file(files.real_path(path))):
            _put_producer(entry, printer, end_without_batch=" " if is_old else "")
    except InvalidSnapshot as error:
        report.say(error.reason)


def snapshot_entries(data: bytes) -> Iterator[SnapshotEntry]:
    """Yield the producers in the order of the file; `InvalidSnapshot` before the first when the file is damaged."""
    if fault := _fault(data):
        raise InvalidSnapshot(f"Snapshot failed schema validation: {fault}")
    _, stored, count = HEADER.unpack_from(data)
    actual = crc32c(memoryview(data)[CHECKED_FROM:])
    if actual != stored:
        raise InvalidSnapshot(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {actual}"
        )
    for number in range(count):
        yield SnapshotEntry(*ENTRY.unpack_from(data, HEADER.size + number * ENTRY.size))


def _fault(data: bytes) -> str | None:
    """Return the format error of a snapshot, "null" if it ends too early; None if it is valid."""
    version, _, count = HEADER.unpack(data[: HEADER.size].ljust(HEADER.size, b"\0"))
    size_left = len(data) - HEADER.size
    if version != _VERSION and len(data) >= _VERSION_SIZE:
        return f"Snapshot contained an unknown file version {version}"
    if size_left < 0 or (count <= size_left < count * ENTRY.size):
        return "null"
    if count < 0:
        return "non-nullable field producerEntries was serialized as null"
    if count > size_left:
        return f"Tried to allocate a collection of size {count}, but there are only {size_left} bytes remaining."
    return None


def _put_producer(entry: SnapshotEntry, printer: Printer, end_without_batch: str) -> None:
    first = entry.current_txn_first_offset
    producer = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": OptionalLong(first if first >= 0 else None),
        "lastTimestamp": entry.timestamp,
    }
    if entry.last_offset < 0:
        printer.entry(producer, end=end_without_batch)
        return
    batch = {
        "firstSequence": entry.first_sequence,
        "lastSequence": entry.last_sequence,
        "lastOffset": entry.last_offset,
        "offsetDelta": entry.offset_delta,
        "timestamp": entry.timestamp,
    }
    printer.entry(producer | batch)


def dump_transaction_index(path: str, printer: Printer) -> None:
    """Write a line for each aborted transaction of the index `path`; `CorruptIndex`, OSError."""
    for entry in transaction_index.entries(files.real_path(path)):
        printer.entry(
            {
                "version": entry.version,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
        )
