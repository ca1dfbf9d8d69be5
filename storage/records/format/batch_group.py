"""Groups of batches: the sound v2 batches that follow each other in a block, as if they were one.

A producer without linger writes a batch for each record, and an object for each costs more than reading it. A group has
one header, and the rows of all its records, made by one call of compiled code. Batches of transactions and control
batches are in no group.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.compression import decompress
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import Batch, BatchHeader, parse_header
from offsetfs.storage.records.format.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SIZE_POSITION,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from offsetfs.storage.units import Timestamp

COMPRESSED_BYTES_MAX = 128 << 10
"""About the bytes of compressed batches in a group."""

INFLATED_BYTES_MAX = 8 << 20
"""The bytes to which the batches of a group may inflate; more are inflated batch by batch."""

_REFUSED = TRANSACTIONAL_FLAG | CONTROL_FLAG
_ATTRIBUTES_LOW = 22
"""The byte of a header that has the codec."""


@dataclass(frozen=True, slots=True)
class GroupHeader(BatchHeader):
    """The header of a group: offsets, times, size and count of all its batches."""

    rows: array[int]
    """Those of `chain.sound`: a row for each batch."""

    @property
    def last_base_offset(self) -> int:
        """The base offset of the last batch."""
        return self.rows[chain.BASE_OFFSET - chain.COLUMNS]

    @property
    def offset_before_last(self) -> int:
        """The offset behind the batch before the last one: lower than `last_base_offset` where there is a gap."""
        before = self.rows[-2 * chain.COLUMNS : -chain.COLUMNS]
        return before[chain.BASE_OFFSET] + before[chain.LAST_OFFSET_DELTA] + 1


class BatchGroup(Batch):
    """At least two batches. `payload`, `rows` and `timestamp_of` serve all records; other questions go to `batches`.

    Both raise what those of a `Batch` raise where one batch cannot be read; `batches` then tells which.
    """

    __slots__ = ("_rows",)
    header: GroupHeader

    def __init__(
        self, header: GroupHeader, data: memoryview, path: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(header, data, path, position)
        self._rows = header.rows
        """Those of the batches in `payload`."""

    def payload(self, bytes_max: int = INFLATED_BYTES_MAX) -> Buffer:
        """Return all batches, headers too, as they are without compression."""
        if self._payload is None:
            codecs = any(attributes & CODEC_MASK for attributes in self.header.rows[chain.ATTRIBUTES :: chain.COLUMNS])
            self._payload = self._inflated(bytes_max) if codecs else self.data
        return self._payload

    def drop_payload(self) -> None:
        """Free the inflated records."""
        self._payload = None

    def rows(self) -> array[int]:
        """Return the rows of all records; positions count from the start of `payload`."""
        header, payload = self.header, self.payload()
        rows = chain.scan(payload, self.position or 0, self._rows, header.base_offset, header.base_timestamp)
        if rows is None:
            raise self.placed(MalformedBatch("records that cannot be read"))
        return rows

    def inflated_sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the codec of each batch, and its bytes without compression, header too."""
        self.payload()
        codecs = (attributes & CODEC_MASK for attributes in self.header.rows[chain.ATTRIBUTES :: chain.COLUMNS])
        return zip(codecs, self._rows[chain.SIZE :: chain.COLUMNS], strict=True)

    def _inflated(self, bytes_max: int) -> Buffer:
        data, rows, pieces, start, total = self.data, self.header.rows[:], list[Buffer](), 0, 0
        for at in range(0, len(rows), chain.COLUMNS):
            end, codec = start + rows[at + chain.SIZE], rows[at + chain.ATTRIBUTES] & CODEC_MASK
            inflated: Buffer = data[start + HEADER_SIZE : end]
            # A batch without records has an empty payload, whatever follows its header.
            if codec and rows[at + chain.COUNT]:
                inflated = decompress(codec, inflated, bytes_max - total)
            size = HEADER_SIZE + len(inflated)
            head = bytearray(data[start : start + HEADER_SIZE])
            head[SIZE_POSITION : SIZE_POSITION + 4] = (size - LOG_OVERHEAD).to_bytes(4, "big")
            head[_ATTRIBUTES_LOW] ^= codec
            rows[at] = (self.position or 0) + total
            rows[at + chain.SIZE], rows[at + chain.ATTRIBUTES] = size, rows[at + chain.ATTRIBUTES] ^ codec
            pieces += (head, inflated)
            start, total = end, total + size
        self._rows = rows
        return b"".join(pieces)

    def batches(self) -> Iterator[Batch]:
        """Yield each batch."""
        for number in range(len(self.header.rows) // chain.COLUMNS):
            yield self._batch(self.data, self.header.rows, number)

    def parts(self, numbers: array[int]) -> Iterator[tuple[Batch, array[int]]]:
        """Yield each batch that has some of the records with these numbers, ascending, and their numbers in it.

        The batches are not compressed, whatever those of the log are.
        """
        data = memoryview(self.payload())
        ends = accumulate(self.header.rows[chain.COUNT :: chain.COLUMNS], initial=0)
        at = 0
        for batch, (first, end) in enumerate(pairwise(ends)):
            if at == len(numbers):
                return
            begin = at
            while at < len(numbers) and numbers[at] < end:
                at += 1
            if begin < at:
                yield self._batch(data, self._rows, batch), array("q", (number - first for number in numbers[begin:at]))

    def _batch(self, data: memoryview, rows: array[int], number: int) -> Batch:
        start, size = rows[number * chain.COLUMNS] - (self.position or 0), rows[number * chain.COLUMNS + chain.SIZE]
        batch = data[start : start + size]
        return Batch(parse_header(batch), batch, self.path, self.header.rows[number * chain.COLUMNS])


class BatchJoining:
    """Joins batches of one segment. Offsets rise, from `offset_min` on, and not beyond `offset_max`.

    Because of the bounds a damaged offset, which no checksum covers, ends a group, and its batch is met alone.
    """

    __slots__ = ("_offset_max", "_offset_min")

    def __init__(self, offset_min: int, offset_max: int) -> None:
        self._offset_min = offset_min
        self._offset_max = offset_max

    def __call__(self, header: BatchHeader, data: memoryview, position: int) -> BatchHeader:
        """Return the header of the group that begins with the batch of `header`; that itself if it is alone."""
        if header.magic < MAGIC or header.attributes & _REFUSED or header.base_offset < self._offset_min:
            return header
        if header.codec:
            data = data[:COMPRESSED_BYTES_MAX]
        if 2 * header.size > len(data):  # no second batch of the size is there
            return header
        rows, size = chain.sound(data, 0, len(data), position, self._offset_min, self._offset_max, _REFUSED)
        if len(rows) <= chain.COLUMNS:
            return header
        last = rows[-chain.COLUMNS :]
        end = last[chain.BASE_OFFSET] + last[chain.LAST_OFFSET_DELTA]
        return GroupHeader(
            header.base_offset,
            size,
            header.leader_epoch,
            MAGIC,
            0,
            0,
            end - header.base_offset,
            header.base_timestamp,
            Timestamp(max(rows[chain.MAX_TIMESTAMP :: chain.COLUMNS])),
            -1,
            -1,
            -1,
            sum(rows[chain.COUNT :: chain.COLUMNS]),
            rows,
        )
