"""The formats of growing views: values, or records as lines of JSON. A record is a line in both.

    VALUES         the value and a newline; a null value is an empty line                   `values`
    JsonFormat     one object per record (docs/internals/format/records-ndjson.md)          `records.ndjson`
    LinesFormat    JSON that callers of the engine make                                     `decoded/…`

A format computes the output of a batch, and its size. Other modules select the batches, find them, and handle damage:
`view_blocks`, `line_index`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, Protocol

from offsetfs.storage.errors import UNREADABLE, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import CONTROL_FLAG, Buffer, parse_header
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, VALUE_SIZE
from offsetfs.storage.records.json import batch_json, record_json
from offsetfs.storage.records.json.batch_json import joined_json, measured_json, record_lines


class ViewFormat(Protocol):
    """Converts batches to bytes. All methods raise as `Batch.payload` does, and do not verify checksums."""

    name: str
    """The name of the file in a partition's directory of the mount."""

    suffix: str
    """The suffix of stored line indexes (docs/internals/format/values-map.md). Empty: they are not stored."""

    identity: bytes
    """The inputs of the output besides the log. An index with another value is dropped."""

    in_rows: bool
    """Whether `chain.measure` and `chain.join` produce the output of plain batches."""

    is_slow: bool
    """Whether output is made in threads only: it takes too long for an event loop, also if the log is cached."""

    def joined(self, batch: Batch) -> bytes | bytearray:
        """Return the output of a batch."""

    def measured(self, batch: Batch) -> int:
        """Return `len(joined(batch))`, usually without building it."""

    def measured_below(self, batch: Batch, offset: int) -> int:
        """Return the size of the output of records with an offset below `offset`, which comes first."""

    def line_ends(self, rows: array[int], data: bytes | bytearray) -> list[int]:
        """Return where the lines of a batch's records end in `data`, its output. `rows`: as of `Batch.rows`."""

    def measured_rows(self, block: Buffer, file_position: int, rows: array[int]) -> array[int]:
        """Return the output sizes of many v2 batches; -1 for one that must be measured alone. See `chain`."""

    def joined_rows(self, block: Buffer, file_position: int, rows: array[int]) -> bytes | bytearray | None:
        """Return the output of many v2 batches; None if one of them must be joined alone."""


class ValueFormat:
    """Every value and a newline."""

    name = "values"
    suffix = ".values-map"
    identity = b""
    in_rows = True
    is_slow = False
    measured_rows = staticmethod(chain.measure)
    joined_rows = staticmethod(chain.join)

    def joined(self, batch: Batch) -> bytes | bytearray:
        return batch.joined()

    def measured(self, batch: Batch) -> int:
        return batch.measured()

    def measured_below(self, batch: Batch, offset: int) -> int:
        rows, delta = batch.rows(), offset - batch.header.base_offset
        deltas, sizes = rows[OFFSET_DELTA::COLUMNS].tolist(), rows[VALUE_SIZE::COLUMNS]
        if deltas == sorted(deltas):
            sizes = sizes[: bisect_left(deltas, delta)]
        else:  # a malicious batch
            sizes = array("q", (size for record_delta, size in zip(deltas, sizes, strict=True) if record_delta < delta))
        return sum(sizes) + sizes.count(-1) + len(sizes)  # a null adds nothing but its newline

    def line_ends(self, rows: array[int], data: bytes | bytearray) -> list[int]:
        return list(accumulate(max(size, 0) + 1 for size in rows[VALUE_SIZE::COLUMNS]))


class JsonFormat:
    """Every record of one partition as a line of JSON, which includes the partition."""

    name = "records.ndjson"
    suffix = ".records-map"
    in_rows = False
    is_slow = False

    def __init__(self, partition: TopicPartition) -> None:
        self.prefix = record_json.line_prefix(partition.topic, partition.partition)
        self.identity = b"records.ndjson 1\n" + self.prefix
        self.joined = partial(joined_json, prefix=self.prefix)
        self.measured = partial(measured_json, prefix=self.prefix)
        self.measured_rows = partial(batch_json.measured_rows, prefix=self.prefix)
        self.joined_rows = partial(batch_json.joined_rows, prefix=self.prefix)

    def measured_below(self, batch: Batch, offset: int) -> int:
        return measured_json(batch, self.prefix, offset_to=offset)

    def line_ends(self, rows: array[int], data: bytes | bytearray) -> list[int]:
        return _ends_of_lines(data)


class Base64JsonFormat:
    """As `JsonFormat`, with all bytes in base64. Batches become lines record by record, in Python."""

    name = JsonFormat.name
    suffix = JsonFormat.suffix
    in_rows = False
    is_slow = False

    def __init__(self, partition: TopicPartition) -> None:
        self._prefix = record_json.line_prefix(partition.topic, partition.partition)
        self.identity = b"records.ndjson base64 1\n" + self._prefix

    def joined(self, batch: Batch) -> bytes:
        return record_lines(batch, self._prefix, as_base64=True)

    def measured(self, batch: Batch) -> int:
        return len(self.joined(batch))

    def measured_below(self, batch: Batch, offset: int) -> int:
        return len(record_lines(batch, self._prefix, offset_to=offset, as_base64=True))

    def line_ends(self, rows: array[int], data: bytes | bytearray) -> list[int]:
        return _ends_of_lines(data)

    def measured_rows(self, block: Buffer, file_position: int, rows: array[int]) -> array[int]:
        return array("q", [-1]) * (len(rows) // chain.COLUMNS)

    def joined_rows(self, block: Buffer, file_position: int, rows: array[int]) -> None:
        return None


class MadeLines(NamedTuple):
    """Lines of the records of some batches. `ends`: where the line of each record ends, its newline included."""

    data: bytes
    ends: Sequence[int]


class LinesFormat:
    """Lines of JSON that a caller of the engine makes, from many batches at once: each call may have a high cost."""

    suffix = ""
    identity = b""
    in_rows = False
    is_slow = True

    def __init__(self, name: str, make: Callable[[Sequence[Batch]], MadeLines]) -> None:
        """`make` returns a line for each record of the batches. It raises `UNREADABLE` if it cannot read one."""
        self.name = name
        self._make = make

    def joined(self, batch: Batch) -> bytes:
        return self._made(batch).data

    def measured(self, batch: Batch) -> int:
        return len(self.joined(batch))

    def measured_below(self, batch: Batch, offset: int) -> int:
        deltas, ends = batch.rows()[OFFSET_DELTA::COLUMNS], self._made(batch).ends
        below = sum(batch.header.base_offset + delta < offset for delta in deltas)
        return ends[below - 1] if below else 0

    def _made(self, batch: Batch) -> MadeLines:
        try:
            return self._make([batch])
        except StorageError as error:
            raise batch.placed(error) from None

    def line_ends(self, rows: array[int], data: bytes | bytearray) -> list[int]:
        return _ends_of_lines(data)

    def measured_rows(self, block: Buffer, file_position: int, rows: array[int]) -> array[int]:
        batches = _plain_batches(block, file_position, rows)
        try:
            ends = [0, *self._make([batch for batch in batches if batch is not None]).ends]
        except UNREADABLE:
            return array("q", [-1]) * len(batches)
        sizes, begin = array("q"), 0
        for batch in batches:
            end = begin + (0 if batch is None else batch.header.count)
            sizes.append(ends[end] - ends[begin])
            begin = end
        return sizes

    def joined_rows(self, block: Buffer, file_position: int, rows: array[int]) -> bytes | None:
        try:
            batches = _plain_batches(block, file_position, rows)
            return self._make([batch for batch in batches if batch is not None]).data
        except UNREADABLE:
            return None


def _plain_batches(block: Buffer, file_position: int, rows: array[int]) -> list[Batch | None]:
    """Return the batches of rows; None for one without records to show."""
    view, found = memoryview(block), list[Batch | None]()
    names = chain.POSITION, chain.SIZE, chain.ATTRIBUTES, chain.COUNT
    for position, size, flags, count in zip(*(rows[name :: chain.COLUMNS] for name in names), strict=True):
        start = position - file_position
        if flags & CONTROL_FLAG or count == 0:
            found.append(None)
        else:
            header = parse_header(view, start, file_position=position)
            found.append(Batch(header, view[start : start + size], None, position))
    return found


def _ends_of_lines(data: bytes | bytearray) -> list[int]:
    return list(accumulate(len(line) for line in data.splitlines(keepends=True)))


VALUES = ValueFormat()
