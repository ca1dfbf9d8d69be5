"""Groups of batches: the sound, plain v2 batches that follow each other in a block, as if they were one.

A producer without linger writes a batch for each record, and an object for each costs more than reading it. A group has
one header, and the rows of all its records, made by one call of compiled code. Batches that are compressed, of a
transaction, or control batches are in no group.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import Batch, BatchHeader, parse_header
from offsetfs.storage.records.format.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from offsetfs.storage.units import Timestamp

_REFUSED = CODEC_MASK | TRANSACTIONAL_FLAG | CONTROL_FLAG


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

    Raises `MalformedBatch` for `rows` where those of one batch cannot be read.
    """

    __slots__ = ()
    header: GroupHeader

    def payload(self, bytes_max: int = 0) -> Buffer:
        """Return the bytes of all batches, headers too."""
        return self.data

    def rows(self) -> array[int]:
        """Return the rows of all records; positions count from the start of `payload`."""
        header = self.header
        rows = chain.scan(self.data, self.position or 0, header.rows, header.base_offset, header.base_timestamp)
        if rows is None:
            raise self.placed(MalformedBatch("records that cannot be read"))
        return rows

    def batches(self) -> Iterator[Batch]:
        """Yield each batch."""
        for number in range(len(self.header.rows) // chain.COLUMNS):
            yield self._batch(number)

    def parts(self, numbers: array[int]) -> Iterator[tuple[Batch, array[int]]]:
        """Yield each batch that has some of the records with these numbers, ascending, and their numbers in it."""
        ends = accumulate(self.header.rows[chain.COUNT :: chain.COLUMNS], initial=0)
        at = 0
        for batch, (first, end) in enumerate(pairwise(ends)):
            if at == len(numbers):
                return
            begin = at
            while at < len(numbers) and numbers[at] < end:
                at += 1
            if begin < at:
                yield self._batch(batch), array("q", (number - first for number in numbers[begin:at]))

    def _batch(self, number: int) -> Batch:
        row = self.header.rows[number * chain.COLUMNS : (number + 1) * chain.COLUMNS]
        position = row[chain.POSITION]
        data = self.data[position - (self.position or 0) :][: row[chain.SIZE]]
        return Batch(parse_header(data), data, self.path, position)


class Joining:
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
