"""The records of a batch that a dump has found: as many as Kafka's reader would return before it gives up.

Of a batch that is not compressed that is every record in front of the first damaged one; of a compressed batch all or
none, for Kafka inflates and reads it whole first. Follows DefaultRecordBatch and, for v0 and v1,
AbstractLegacyRecordBatch, which looks at no checksum inside a wrapper: a dump shows those.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from offsetfs.storage import codec, varint
from offsetfs.storage.batch import PAYLOAD_BYTES_MAX
from offsetfs.storage.batch_header import APPEND_TIME_FLAG, CODEC_MASK, HEADER_SIZE, KEY_POSITIONS, MAGIC, BatchHeader
from offsetfs.storage.compression import CODECS, decompress
from offsetfs.storage.dump_batches import BATCH_BYTES_MAX, FoundBatch
from offsetfs.storage.dump_pure import LONG_MIN, wrapped
from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.lz4_descriptor import with_right_checksum
from offsetfs.storage.message_set_pure import field

Buffer = bytes | bytearray | memoryview

_NOTHING = b""
_LZ4, _ZSTD = CODECS.index("lz4"), CODECS.index("zstd")


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Rows as `codec.scan` makes them of `payload`; `fault` says why there are no more, None when these are all.

    Offsets count from `base_offset`, timestamps from `base_timestamp` unless there is an `append_time`. In the rows of
    v0 and v1 the headers position is that of the whole message in `payload`.
    """

    payload: Buffer
    rows: array[int]
    base_offset: int
    base_timestamp: int
    append_time: int | None
    fault: StorageError | None

    def __len__(self) -> int:
        return len(self.rows) // codec.COLUMNS

    def row(self, number: int) -> array[int]:
        return self.rows[number * codec.COLUMNS : (number + 1) * codec.COLUMNS]

    def offset(self, row: array[int]) -> int:
        return wrapped(self.base_offset + row[0], LONG_MIN)

    def timestamp(self, row: array[int]) -> int:
        return wrapped(self.base_timestamp + row[1], LONG_MIN) if self.append_time is None else self.append_time

    def max_timestamp(self) -> int:
        """Return the largest timestamp, at least -1, which is also that of no records at all."""
        return max([-1, *(self.timestamp(self.row(number)) for number in range(len(self)))])


def open_records(batch: FoundBatch) -> FoundRecords:
    """Return the records of `batch`; they share its memory."""
    header = batch.header
    try:
        if batch.data is None:
            raise MalformedBatch(f"a batch of {header.size} bytes; records are shown up to {BATCH_BYTES_MAX}")
        return _open_current(header, batch.data) if header.magic >= MAGIC else _open_legacy(header, batch.data)
    except StorageError as error:
        return _opened(header, _NOTHING, array("q"), error)


def _opened(header: BatchHeader, payload: Buffer, rows: array[int], fault: StorageError | None) -> FoundRecords:
    is_append_time = header.magic >= MAGIC and header.attributes & APPEND_TIME_FLAG
    append_time = header.max_timestamp if is_append_time else None
    return FoundRecords(payload, rows, header.base_offset, header.base_timestamp, append_time, fault)


# --- v2 ------------------------------------------------------------------------------------------------------------


def _open_current(header: BatchHeader, data: memoryview) -> FoundRecords:
    if header.size < HEADER_SIZE:
        raise MalformedBatch(f"a v2 batch of {header.size} bytes")
    if header.count < 0:
        raise MalformedBatch(f"{header.count} records")
    if header.count == 0:
        return _opened(header, _NOTHING, array("q"), None)
    payload: Buffer = data[HEADER_SIZE:]
    if header.codec:
        payload = decompress(header.codec, payload, PAYLOAD_BYTES_MAX)
        return _opened(header, payload, codec.scan(payload, header.count), None)
    try:
        return _opened(header, payload, codec.scan(payload, header.count), None)
    except MalformedBatch as error:
        return _opened(header, payload, rows_before_damage(payload, header.count), error)


def rows_before_damage(payload: Buffer, count: int) -> array[int]:
    """Return the rows in front of the first record that is not sound.

    When the records are followed by something else, the last of them counts as damaged: Kafka looks before it returns
    that one.
    """
    rows: array[int] = array("q")
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
    """Return the row of the one record at `position`, and the position behind it."""
    size, start = varint.decode(payload, position, len(payload))
    if not 1 <= size <= len(payload) - start:
        raise MalformedBatch(f"a record of {size} bytes")
    row = codec.scan(payload[position : start + size], 1)
    for column in (2, 4, 6):  # positions, which count from the record
        row[column] += position
    return row, start + size


# --- v0 and v1 -----------------------------------------------------------------------------------------------------


def _open_legacy(header: BatchHeader, data: memoryview) -> FoundRecords:
    is_wrapper = bool(header.attributes & CODEC_MASK)
    messages: Buffer = _inflated(header, data) if is_wrapper else data
    is_append_time = header.magic != 0 and bool(header.attributes & APPEND_TIME_FLAG)
    rows = codec.scan_messages(messages, 0, header.base_timestamp, is_append_time)
    if not rows:
        raise MalformedBatch("a message set without a message")
    last = rows[len(rows) - codec.COLUMNS]
    base_offset = _base_offset(header, last) if is_wrapper else 0
    return FoundRecords(messages, rows, base_offset, header.base_timestamp, None, None)


def _base_offset(header: BatchHeader, last: int) -> int:
    """Return what the offsets inside a wrapper, the last of them `last`, count from."""
    if header.magic == 0 or header.base_offset == 0:  # 0: old librdkafka counted from there
        return 0
    if header.base_offset < last:
        raise MalformedBatch(f"offset {last} inside a wrapper of offset {header.base_offset}")
    return header.base_offset - last


def _inflated(header: BatchHeader, data: memoryview) -> bytes:
    if header.codec == _ZSTD or header.magic >= len(KEY_POSITIONS) or header.magic < 0:
        raise MalformedBatch(f"{header.codec_name} in a message of format v{header.magic}")
    _, _, position = field(data, KEY_POSITIONS[header.magic], len(data))
    position, size, _ = field(data, position, len(data))
    if size < 0:
        raise MalformedBatch("a wrapper without a value")
    value: Buffer = data[position : position + size]
    if header.codec == _LZ4 and header.magic == 0:
        value = with_right_checksum(value)
    return decompress(header.codec, value, PAYLOAD_BYTES_MAX)
