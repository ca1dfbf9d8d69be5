"""The records of a v2 batch in a dump: as many as Kafka's reader would return before it fails.

Of an uncompressed batch these are the records before the first damaged one. Of a compressed batch it is all or none,
because Kafka decompresses and reads it completely first. `legacy` has the older formats. Follows DefaultRecordBatch.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from offsetfs.storage.dump.batches import FoundBatch
from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.records.compression.compression import decompress
from offsetfs.storage.records.format import codec, varint
from offsetfs.storage.records.format.batch import PAYLOAD_BYTES_MAX
from offsetfs.storage.records.format.batch_header import APPEND_TIME_FLAG, HEADER_SIZE, BatchHeader, Buffer
from offsetfs.storage.records.format.record_row import (
    COLUMNS,
    KEY_POSITION,
    KEY_SIZE,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE_POSITION,
    VALUE_SIZE,
)
from offsetfs.storage.units import wrapped


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Rows, the result of `codec.scan` for `payload`; `fault` is why there are no more, None if these are all.

    Offsets are relative to `base_offset`, timestamps to `base_timestamp` unless there is an `append_time`.
    """

    payload: Buffer
    rows: array[int]
    base_offset: int
    base_timestamp: int
    append_time: int | None
    fault: StorageError | None

    def __len__(self) -> int:
        return len(self.rows) // COLUMNS

    def row(self, number: int) -> array[int]:
        return self.rows[number * COLUMNS : (number + 1) * COLUMNS]

    def offset(self, row: array[int]) -> int:
        return wrapped(self.base_offset + row[OFFSET_DELTA])

    def timestamp(self, row: array[int]) -> int:
        if self.append_time is not None:
            return self.append_time
        return wrapped(self.base_timestamp + row[TIMESTAMP_DELTA])

    def max_timestamp(self) -> int:
        """Return the largest timestamp; -1 if there are no records."""
        if self.append_time is not None:
            return max(self.append_time, -1) if self.rows else -1
        deltas = set(self.rows[TIMESTAMP_DELTA::COLUMNS])
        return max([-1, *(wrapped(self.base_timestamp + delta) for delta in deltas)])

    def key(self, row: array[int]) -> Buffer | None:
        return self._field(row[KEY_POSITION], row[KEY_SIZE])

    def value(self, row: array[int]) -> Buffer | None:
        return self._field(row[VALUE_POSITION], row[VALUE_SIZE])

    def _field(self, position: int, size: int) -> Buffer | None:
        return None if size < 0 else self.payload[position : position + size]


def open_records(batch: FoundBatch) -> FoundRecords:
    """Return the records of a v2 batch; they share its memory."""
    header = batch.header
    try:
        return _open(header, batch.whole())
    except StorageError as error:
        return _opened(header, b"", array("q"), error)


def _opened(header: BatchHeader, payload: Buffer, rows: array[int], fault: StorageError | None) -> FoundRecords:
    append_time = header.max_timestamp if header.attributes & APPEND_TIME_FLAG else None
    return FoundRecords(payload, rows, header.base_offset, header.base_timestamp, append_time, fault)


def _open(header: BatchHeader, data: memoryview) -> FoundRecords:
    if header.size < HEADER_SIZE:
        raise MalformedBatch(f"a v2 batch of {header.size} bytes")
    if header.count < 0:
        raise MalformedBatch(f"{header.count} records")
    if header.count == 0:
        return _opened(header, b"", array("q"), None)
    payload: Buffer = data[HEADER_SIZE:]
    if header.codec:
        payload = inflated(header.codec, payload)
        return _opened(header, payload, codec.scan(payload, header.count), None)
    try:
        return _opened(header, payload, codec.scan(payload, header.count), None)
    except MalformedBatch as error:
        return _opened(header, payload, rows_before_damage(payload, header.count), error)


def inflated(codec_id: int, data: Buffer) -> bytes | bytearray:
    """Return the decompressed data."""
    return decompress(codec_id, data, PAYLOAD_BYTES_MAX)


def rows_before_damage(payload: Buffer, count: int) -> array[int]:
    """Return the rows before the first malformed record.

    If other bytes follow the records, the last record counts as malformed, because Kafka checks that before returning
    it.
    """
    rows = array("q")
    position = done = 0
    try:
        while done < count:
            row, position = _row_at(payload, position)
            done += 1
            if done < count or position == len(payload):
                rows.extend(row)
    except MalformedBatch:
        pass
    return rows


def _row_at(payload: Buffer, position: int) -> tuple[array[int], int]:
    """Return the row of the record at `position`, and the position after it."""
    size, start = varint.decode(payload, position, len(payload))
    if not 1 <= size <= len(payload) - start:
        raise MalformedBatch(f"a record of {size} bytes")
    row = codec.scan(payload[position : start + size], 1)
    for column in (2, 4, 6):  # positions, which are relative to the record
        row[column] += position
    return row, start + size
