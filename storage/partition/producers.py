"""The state of each idempotent or transactional producer, and the `.snapshot` files that store it.

A snapshot named N holds the state before offset N: a broker that starts reads the newest one and replays the batches
behind it, instead of the whole log. Nothing is refused here: batches in a log were accepted once. Follows Kafka's
`ProducerStateManager`, `ProducerAppendInfo` and `ProducerStateEntry` as a replica uses them (KIP-98), with one batch
remembered for each producer, which is what a snapshot keeps. Not here: expiry (the reader of a snapshot knows its own
clock and limit), duplicates, aborted transactions.

    0       2           6           10
    +-------+-----------+-----------+------------------------
    | ver.  | crc-32c of| count     | count entries of 46 bytes    big-endian; version 1; the checksum covers
    | (i16) | the rest  | (i32)     | each                         everything behind it
    +-------+-----------+-----------+------------------------

    0               8     10          14              22          26              34          38              46
    +---------------+-----+-----------+---------------+-----------+---------------+-----------+---------------+
    | producer id   |epoch| last      | last offset   | offset    | timestamp, ms | coordin.  | first offset  |
    | (i64)         |(i16)| seq. (i32)| (i64)         | delta(i32)| (i64)         | epoch(i32)| of open txn   |
    +---------------+-----+-----------+---------------+-----------+---------------+-----------+---------------+
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct

from offsetfs.storage.errors import InvalidSnapshot, MalformedBatch
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.units import I16_MAX, I32_MAX

NONE = -1
"""The value for no sequence, no offset, no epoch, no open transaction."""

EPOCH_MAX = I16_MAX

ABORT, COMMIT = 0, 1
"""The types of control record that end a transaction."""

_VERSION = 1
HEADER = Struct(">hIi")
CHECKED_FROM = 6  # the checksum covers the bytes from here on
ENTRY = Struct(">qhiqiqiq")
SEQUENCE_MAX = I32_MAX


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One producer: its epochs, its last data batch (NONE: none in this epoch), its open transaction (NONE: none)."""

    producer_epoch: int = NONE
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    timestamp: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE

    def with_epoch(self, producer_epoch: int) -> ProducerEntry:
        """Return the entry in this epoch. Another epoch drops the batch, because sequences start again."""
        if producer_epoch == self.producer_epoch:
            return self
        return replace(self, producer_epoch=producer_epoch, last_sequence=NONE, last_offset=NONE, offset_delta=0)


_UNKNOWN = ProducerEntry()


class ProducerState:
    """The producers of one partition at some offset; without `entries` of one that no producer with an id wrote to."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[int, ProducerEntry] | None = None) -> None:
        self.entries = entries or {}
        """Entries by producer id."""

    @classmethod
    def load(cls, data: bytes, path: str | None = None) -> ProducerState:
        """Read a snapshot; InvalidSnapshot unless version, length and checksum are correct.

        `path` is for the message.
        """
        if len(data) < HEADER.size:
            raise InvalidSnapshot(f"{len(data)} bytes are too few", path=path)
        version, crc, count = HEADER.unpack_from(data)
        if version != _VERSION:
            raise InvalidSnapshot(f"version {version}, known is {_VERSION}", path=path)
        if count < 0 or len(data) != HEADER.size + count * ENTRY.size:
            raise InvalidSnapshot(f"{len(data)} bytes for {count} producers", path=path)
        actual = crc32c(memoryview(data)[CHECKED_FROM:])
        if actual != crc:
            raise InvalidSnapshot(f"checksum {actual:#010x} where {crc:#010x} is stored", path=path)
        rows = ENTRY.iter_unpack(memoryview(data)[HEADER.size :])
        return cls({producer_id: _entry(*fields) for producer_id, *fields in rows})

    def dump(self) -> bytes:
        """Return the bytes of a snapshot, in the order of producer ids. Write them atomically (`replace_file`)."""
        rows = [ENTRY.pack(producer_id, *_fields(entry)) for producer_id, entry in sorted(self.entries.items())]
        body = b"".join([len(rows).to_bytes(4, "big"), *rows])
        return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers whose last batch is `expiration_ms` old by its timestamp; return their number.

        A producer with an open transaction never expires, because the end of the transaction is still to come.
        """
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.current_txn_first_offset == NONE and now_ms - entry.timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    def replay(self, header: BatchHeader, control: tuple[int, int] | None = None) -> None:
        """Process the next batch of the log.

        `control` is (type, coordinator epoch) of the marker in a control batch; None for data, and for a control batch
        that compaction emptied. Batches without a producer id, and control records of other types, change nothing.
        """
        if header.producer_id < 0:
            return
        entry = self.entries.get(header.producer_id, _UNKNOWN)
        if not header.is_control:
            self.entries[header.producer_id] = _after_data(entry, header)
        elif control is not None and control[0] in (ABORT, COMMIT):
            self.entries[header.producer_id] = _after_marker(entry, header, control[1])


def end_marker(batch: Batch) -> tuple[int, int] | None:
    """Return (type, coordinator epoch) of the marker in a control batch; None if compaction emptied the batch.

    The type may be one that ends no transaction. `MalformedBatch` if the record is too short for a marker.
    """
    records = batch.records()
    if not records:
        return None
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < 4 or len(value) < 6:
        raise MalformedBatch("a control record too short", path=batch.path, position=batch.position)
    return int.from_bytes(key[2:4], "big", signed=True), int.from_bytes(value[2:6], "big", signed=True)


def _after_data(entry: ProducerEntry, header: BatchHeader) -> ProducerEntry:
    opens = header.is_transactional and entry.current_txn_first_offset == NONE
    return ProducerEntry(
        producer_epoch=header.producer_epoch,
        last_sequence=_last_sequence(header.base_sequence, header.last_offset_delta),
        last_offset=header.last_offset,
        offset_delta=header.last_offset_delta,
        timestamp=header.max_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=header.base_offset if opens else entry.current_txn_first_offset,
    )


def _after_marker(entry: ProducerEntry, header: BatchHeader, coordinator_epoch: int) -> ProducerEntry:
    """End the transaction. The producer gets the marker's epoch, because the coordinator fences it that way."""
    return replace(
        entry.with_epoch(header.producer_epoch),
        timestamp=header.max_timestamp,
        coordinator_epoch=coordinator_epoch,
        current_txn_first_offset=NONE,
    )


def _last_sequence(base_sequence: int, delta: int) -> int:
    """Return the sequence of the last record; 0 follows 2³¹−1."""
    return NONE if base_sequence == NONE else (base_sequence + delta) & SEQUENCE_MAX


def _entry(
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerEntry:
    if last_offset < 0:  # no batch: Kafka checks only the offset
        last_sequence, last_offset, offset_delta = NONE, NONE, 0
    return ProducerEntry(
        producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
        coordinator_epoch,
        max(current_txn_first_offset, NONE),
    )


def _fields(entry: ProducerEntry) -> tuple[int, ...]:
    return (
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_offset,
        entry.offset_delta,
        entry.timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )
