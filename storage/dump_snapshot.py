"""Producer snapshots (`.snapshot`) and transaction indexes (`.txnindex`) as lines of text, those of DumpLogSegments.

A snapshot that is damaged is described in the words of Kafka's ProducerStateManager, which its tool also takes for no
failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from offsetfs.storage import files, transaction_index
from offsetfs.storage.dump_printer import OptionalLong, Printer
from offsetfs.storage.dump_report import Report
from offsetfs.storage.errors import InvalidSnapshot

SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX = ".snapshot", ".txnindex"

_VERSION = 1
_HEADER = Struct(">hIi")
_CHECKED_FROM = 6
_ENTRY = Struct(">qhiqiqiq")
_SEQUENCES = 2**31


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A producer as its entry says it, unchanged; `producers` draws the layout."""

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


def dump_snapshot(path: str, printer: Printer, report: Report) -> None:
    """Write a line for each producer of the snapshot `path`; OSError when it cannot be read."""
    try:
        for entry in snapshot_entries(files.read_file(os.path.realpath(path))):
            _put_producer(entry, printer)
    except InvalidSnapshot as error:
        report.told(error.reason)


def snapshot_entries(data: bytes) -> Iterator[SnapshotEntry]:
    """Yield the producers in the order of the file; `InvalidSnapshot` before the first when the file is damaged."""
    version, stored, count = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
    if version != _VERSION or len(data) < 2:
        raise InvalidSnapshot(f"Snapshot contained an unknown file version {version}")
    room = len(data) - _HEADER.size
    if room < 0 or count < 0:
        raise InvalidSnapshot(f"Snapshot failed schema validation: {_schema_fault(room, count)}")
    if count > room:
        fault = f"Tried to allocate a collection of size {count}, but there are only {room} bytes remaining."
        raise InvalidSnapshot(f"Snapshot failed schema validation: {fault}")
    if count * _ENTRY.size > room:
        raise InvalidSnapshot("Snapshot failed schema validation: null")
    actual = crc32c(memoryview(data)[_CHECKED_FROM:])
    if actual != stored:
        raise InvalidSnapshot(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {actual}"
        )
    for number in range(count):
        yield SnapshotEntry(*_ENTRY.unpack_from(data, _HEADER.size + number * _ENTRY.size))


def _schema_fault(room: int, count: int) -> str:
    return "null" if room < 0 else "non-nullable field producerEntries was serialized as null"


def _put_producer(entry: SnapshotEntry, printer: Printer) -> None:
    """Write one producer. Without a batch the text ends with a space, as Kafka's."""
    first = entry.current_txn_first_offset
    producer = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": OptionalLong(first if first >= 0 else None),
        "lastTimestamp": entry.timestamp,
    }
    if entry.last_offset < 0:
        printer.entry(producer, end=" ")
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
    for entry in transaction_index.entries(os.path.realpath(path)):
        printer.entry(
            {
                "version": entry.version,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
        )
