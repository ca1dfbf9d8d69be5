"""A record batch: its checksum, its records. Of format v2, and of v0 and v1, which `legacy` reads.

A batch is parsed lazily: a header costs only its 61 bytes (`batch_header` has the layout). The records are decompressed
on first use, and then kept decompressed. Only v2 is ever built. docs/internals/format/record-batch.md has
the whole picture. Follows Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from offsetfs.storage.errors import CorruptBatch, DecompressionLimit, MalformedBatch, StorageError
from offsetfs.storage.records.compression.compression import Compression, compress, decompress
from offsetfs.storage.records.format import codec as record_codec
from offsetfs.storage.records.format import legacy, message_set, varint
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_END,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    parse_header,
    seal_checksum,
    set_append_time,
    set_max_timestamp,
    stamp,
    write_header,
)
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsetfs.storage.records.format.record_row import COLUMNS, HEADERS_COUNT, OFFSET_DELTA
from offsetfs.storage.units import I64_MAX, I64_MIN, Offset, Timestamp, wrapped

__all__ = [
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "MAGIC",
    "MAGIC_END",
    "PAYLOAD_BYTES_MAX",
    "Batch",
    "BatchHeader",
    "build",
    "check_header",
    "parse_header",
    "read_batch",
    "recompressed",
    "seal_checksum",
    "set_append_time",
    "set_max_timestamp",
    "stamp",
    "write_header",
]

PAYLOAD_BYTES_MAX = 64 << 20
"""The bytes to which a batch may inflate by default: protects the memory from a hostile batch."""

INFLATED_RECORDS_MAX = 1 << 22
"""The number of records of a compressed batch that are decoded, at most. A row takes 64 bytes, a record as few as 7."""

HEADERS_MAX = 1 << 20
"""The number of headers that the records of a batch may have if they are read one by one: each costs some hundred bytes
of memory, and may be two bytes long."""

_SMALLEST_HEADER = 2  # bytes: two sizes
_Answer = TypeVar("_Answer")


class Survey(NamedTuple):
    """The records of a batch: their earliest and latest timestamps, and how many have no key.

    Records without a timestamp count for neither: without any other, `earliest` is 2⁶³−1 and `latest` -1.
    """

    earliest: Timestamp
    latest: Timestamp
    keyless: int


class Batch:
    """One batch over a buffer that the caller keeps unchanged as long as the batch is used.

    A message of v0 or v1 is a batch too, a compressed set of them one of several records (`legacy`).

    `path` and `position` (of the file) only serve messages. Methods that look at records raise `MalformedBatch`,
    `UnsupportedFormat` for an unknown codec, `DecompressionLimit`. They do not check the checksum; `check` does. Those
    inside a set of v0 or v1 are checked when it is inflated: then any of the methods may raise `CorruptBatch`.
    """

    __slots__ = ("_messages", "_payload", "data", "header", "path", "position")

    def __init__(
        self, header: BatchHeader, data: memoryview, path: str | None = None, position: int | None = None
    ) -> None:
        self.header = header
        self.data = data
        self.path = path
        self.position = position
        self._payload: Buffer | None = None
        self._messages: legacy.MessageSet | None = None

    @property
    def base_offset(self) -> Offset:
        """The offset at which the batch begins. That of a compressed set of v0 or v1 is inside: it is inflated."""
        return Offset(self._set().base_offset) if self.header.is_wrapper else self.header.base_offset

    def check(self) -> None:
        """Raise `CorruptBatch` when the checksum differs, `MalformedBatch` when a number in the header cannot be."""
        try:
            if self.header.magic < MAGIC:
                legacy.check(self.header, self.data)
            else:
                check_header(self.header, crc32c(self.data[CRC_START:]))
        except StorageError as error:
            raise self.placed(error) from None

    def payload(self, bytes_max: int = PAYLOAD_BYTES_MAX) -> Buffer:
        """Return the records section, inflated at the first call and then kept.

        `DecompressionLimit` above `bytes_max`, which says nothing to a batch that is not compressed. A batch without
        records has an empty payload, whatever follows its header. The payload of v0 and v1 is
        the message set: whole messages, their offsets and checksums with them.
        """
        if self._payload is None:
            try:
                self._payload = self._inflated(bytes_max)
            except StorageError as error:
                raise self.placed(error) from None
        return self._payload

    def drop_payload(self) -> None:
        """Free the inflated records; they are inflated again when they are asked for."""
        if self.header.codec:
            self._payload = self._messages = None

    def _inflated(self, bytes_max: int) -> Buffer:
        if self.header.magic < MAGIC:
            self._messages = legacy.open_set(self.header, self.data, bytes_max)
            return self._messages.messages
        # Compaction leaves such batches for the last sequence of a producer (DefaultRecordBatch.writeEmptyHeader).
        if self.header.count == 0:
            return b""
        section = self.data[HEADER_SIZE:]
        return decompress(self.header.codec, section, bytes_max) if self.header.codec else section

    def records(self) -> list[Record]:
        """Return all records. Costs Python objects: bulk paths use `joined` or `rows`."""
        if self.header.magic < MAGIC:
            rows = self.rows()
            return [self._record_at(tuple(rows[at : at + COLUMNS])) for at in range(0, len(rows), COLUMNS)]
        # A record of millions of headers took 1.3 GiB of memory. Counting costs a scan, so only payloads that can hold
        # as many are counted.
        if len(self.payload()) > _SMALLEST_HEADER * HEADERS_MAX:
            self._check_headers(sum(self.rows()[HEADERS_COUNT::COLUMNS]))
        base_offset, timestamp_type = self.header.base_offset, self.header.timestamp_type
        return [
            Record(Offset(base_offset + delta), self.timestamp_of(time), timestamp_type, key, value, headers)
            for delta, time, key, value, headers in self._asked(record_codec.decode)
        ]

    def record(self, offset: int) -> Record | None:
        """Return the record with this offset, or None when the batch has none (compaction leaves gaps)."""
        delta = offset - self.header.base_offset
        row = self._find(delta)
        return None if row is None else self._record_at(row)

    def _find(self, delta: int) -> Sequence[int] | None:
        if self.header.magic == MAGIC:
            return self._asked(lambda payload, count: record_codec.find(payload, count, delta))
        rows = self.rows()
        deltas = rows[OFFSET_DELTA::COLUMNS]
        return rows[(at := deltas.index(delta) * COLUMNS) : at + COLUMNS] if delta in deltas else None

    def _record_at(self, row: Sequence[int]) -> Record:
        delta, time, key_position, key_size, value_position, value_size, headers_position, headers_count = row
        payload = self.payload()
        self._check_headers(headers_count)
        return Record(
            Offset(self.header.base_offset + delta),
            self.timestamp_of(time),
            self.header.timestamp_type if self._messages is None else self._messages.timestamp_type(headers_position),
            None if key_size < 0 else bytes(payload[key_position : key_position + key_size]),
            None if value_size < 0 else bytes(payload[value_position : value_position + value_size]),
            record_codec.headers(payload, headers_position, headers_count),
        )

    def rows(self) -> array[int]:
        """Return `codec.COLUMNS` numbers for each record; positions count from the start of `payload()`.

        Offset deltas count from `header.base_offset`: in a compressed set of v0 or v1, where that is the last record's,
        they end with 0. Such records have no headers, and in that column the position of the message.
        """
        if self.header.magic < MAGIC:
            return self._asked_set(legacy.MessageSet.rows)
        self._check_count()
        return self._asked(record_codec.scan)

    def survey(self) -> Survey:
        """Check every byte of the records of a client's v2 batch; return what they are without an object for each.

        `MalformedBatch` also where an offset delta is not the number of its record.
        """
        self._check_count()
        base_timestamp = self.header.base_timestamp
        survey = self._asked(lambda payload, count: record_codec.survey(payload, count, base_timestamp))
        return Survey(Timestamp(survey[0]), Timestamp(survey[1]), survey[2])

    def record_sizes(self) -> Iterator[int]:
        """Yield the size of each record of a v2 batch in bytes, without the number before it. `survey` checks first."""
        payload, position = self.payload(), 0
        for _ in range(self.header.count):
            size, position = varint.decode(payload, position, len(payload))
            yield size
            position += size

    def _check_count(self) -> None:
        # A batch of 100 kB may inflate to nine million records of seven bytes, each of which needs a row of 64 bytes.
        if self.header.codec and self.header.count > INFLATED_RECORDS_MAX:
            reason = f"{self.header.count} records in a compressed batch, more than {INFLATED_RECORDS_MAX}"
            raise self.placed(DecompressionLimit(reason))

    def _check_headers(self, count: int) -> None:
        if count > HEADERS_MAX:
            raise self.placed(DecompressionLimit(f"{count} headers in a batch, more than {HEADERS_MAX}"))

    def joined(self) -> bytearray:
        """Return all values, each followed by a newline; a null value is an empty line."""
        if self.header.magic < MAGIC:
            return self._asked_set(lambda run: message_set.join(run.messages))
        return self._asked(record_codec.join)

    def measured(self) -> int:
        """Return `len(joined())` without building it."""
        if self.header.magic < MAGIC:
            return self._asked_set(lambda run: message_set.measure(run.messages))
        return self._asked(record_codec.measure)

    def timestamp_of(self, timestamp_delta: int) -> Timestamp:
        """Return what a reader sees: the append time for every record, or the base timestamp plus the delta."""
        header = self.header
        # LogAppendTime: a broker sets only the header, so the timestamps of the records are those of the producer
        # (DefaultRecordBatch).
        if header.attributes & APPEND_TIME_FLAG and header.magic == MAGIC:
            return header.max_timestamp
        timestamp = header.base_timestamp + timestamp_delta
        if not I64_MIN <= timestamp <= I64_MAX:  # a hostile sum: wrapped, as a Java long wraps
            timestamp = wrapped(timestamp)
        return Timestamp(timestamp)

    def _asked(self, question: Callable[[Buffer, int], _Answer]) -> _Answer:
        payload = self.payload()
        try:
            return question(payload, self.header.count)
        except StorageError as error:
            raise self.placed(error) from None

    def _asked_set(self, question: Callable[[legacy.MessageSet], _Answer]) -> _Answer:
        messages = self._set()
        try:
            return question(messages)
        except StorageError as error:
            raise self.placed(error) from None

    def _set(self) -> legacy.MessageSet:
        self.payload()
        assert self._messages is not None
        return self._messages

    def placed(self, error: StorageError) -> StorageError:
        return type(error)(error.reason, path=self.path, position=self.position, offset=self.header.base_offset)


def check_header(header: BatchHeader, checksum: int) -> None:
    """Raise what `Batch.check` raises, for a v2 batch whose bytes have this checksum."""
    if checksum != header.crc:
        raise CorruptBatch(f"checksum {checksum:#010x} where {header.crc:#010x} is stored")
    # The checksum does not cover the base offset, and a hostile producer may compute a correct checksum over anything.
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset >= I64_MAX:
        raise MalformedBatch(f"offsets {header.base_offset} + {header.last_offset_delta}")
    if header.count < 0:
        raise MalformedBatch(f"{header.count} records")


def read_batch(
    buffer: Buffer,
    position: int = 0,
    *,
    path: str | None = None,
    file_position: int | None = None,
    check: bool = True,
) -> Batch:
    """Return the batch at `position` as a view into `buffer`; with `check`, after `Batch.check`.

    Raises what `parse_header` raises, and `MalformedBatch` when the buffer ends before the batch does.
    """
    header = parse_header(buffer, position, path=path, file_position=file_position)
    data = memoryview(buffer)[position : position + header.size]
    batch = Batch(header, data, path, file_position)
    if len(data) < header.size:
        raise batch.placed(MalformedBatch(f"{len(data)} bytes of a batch of {header.size}"))
    if check:
        batch.check()
    return batch


def recompressed(batch: Batch, compression: Compression) -> bytearray:
    """Return a v2 batch with its records compressed in another way; all else, the timestamps included, stays.

    Offset and timestamp deltas stay as well, so that the records are copied as a whole. Raises as `Batch.payload`.
    """
    payload = compress(compression.name, batch.payload(), compression.level)
    attributes = batch.header.attributes & ~CODEC_MASK | compression.codec
    return _written(replace(batch.header, size=HEADER_SIZE + len(payload), attributes=attributes), payload)


def build(
    records: Sequence[record_codec.EncodableRecord],
    *,
    codec: str = "none",
    level: int | None = None,
    base_offset: int = 0,
    timestamp_type: str = CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
) -> bytearray:
    """Return a whole batch of at least one record: (key, value, headers, timestamp), offsets without gaps.

    `ValueError` for what no reader would take: no records, a transaction without a producer, a producer without epoch
    or (but for control batches) sequence, a compressed control batch.
    """
    _check_producer(producer_id, producer_epoch, base_sequence, transactional, control)
    if not records or (control and codec != "none"):
        raise ValueError("no records" if not records else "a compressed control batch")
    base_timestamp = records[0][3]
    payload = compress(codec, record_codec.encode(records, base_timestamp, 0), level)
    header = BatchHeader(
        Offset(base_offset),
        HEADER_SIZE + len(payload),
        leader_epoch,
        MAGIC,
        0,
        _attributes(codec, timestamp_type, transactional, control),
        len(records) - 1,
        Timestamp(base_timestamp),
        Timestamp(max(record[3] for record in records)),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return _written(header, payload)


def build_at(
    records: Sequence[record_codec.EncodableRecord],
    offsets: Sequence[int],
    compression: Compression,
    leader_epoch: int,
) -> bytearray:
    """Return a batch of at least one record at given offsets, with the gaps between them, for `Log.append_replicated`.

    Offsets rise, and the last one is less than 2³¹ above the first. ValueError as `codec.encode`, or for a batch above
    2 GiB.
    """
    base_offset, base_timestamp = offsets[0], records[0][3]
    parts: list[bytes] = []
    begin = 0
    for place in range(1, len(offsets) + 1):
        if place == len(offsets) or offsets[place] != offsets[place - 1] + 1:
            parts.append(record_codec.encode(records[begin:place], base_timestamp, offsets[begin] - base_offset))
            begin = place
    payload = compress(compression.name, b"".join(parts), compression.level)
    header = BatchHeader(
        Offset(base_offset),
        HEADER_SIZE + len(payload),
        leader_epoch,
        MAGIC,
        0,
        compression.codec,
        offsets[-1] - base_offset,
        Timestamp(base_timestamp),
        Timestamp(max(record[3] for record in records)),
        -1,
        -1,
        -1,
        len(records),
    )
    return _written(header, payload)


def _written(header: BatchHeader, payload: Buffer) -> bytearray:
    """Return a batch with its checksum."""
    batch = bytearray(HEADER_SIZE) + payload
    write_header(batch, header)
    seal_checksum(batch)
    return batch


def _attributes(codec: str, timestamp_type: str, transactional: bool, control: bool) -> int:
    attributes = Compression(codec).codec
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= APPEND_TIME_FLAG
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    if control:
        attributes |= CONTROL_FLAG
    return attributes


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool
) -> None:
    if producer_id < 0:
        if transactional:
            raise ValueError("a transaction without a producer")
    elif producer_epoch < 0:
        raise ValueError("a producer without an epoch")
    elif base_sequence < 0 and not control:
        raise ValueError("a producer without a sequence")
