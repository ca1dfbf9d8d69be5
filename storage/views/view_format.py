"""The formats of growing views: values, or records as lines of JSON. A record is a line in both.

    VALUES         the value and a newline; a null value is an empty line                   `values`
    JsonFormat     one object per record (docs/internals/format/records-ndjson.md)          `records.ndjson`

A format computes the output of a batch, and its size. Other modules select the batches, find them, and handle damage:
`view_blocks`, `line_index`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import partial
from itertools import accumulate
from typing import Protocol

from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, VALUE_SIZE
from offsetfs.storage.records.json import batch_json, record_json
from offsetfs.storage.records.json.batch_json import joined_json, measured_json, record_lines


class ViewFormat(Protocol):
    """Converts batches to bytes. All methods raise as `Batch.payload` does, and do not verify checksums."""

    name: str
    """The name of the file in a partition's directory of the mount."""

    suffix: str
    """The suffix of stored line indexes (docs/internals/format/values-map.md)."""

    identity: bytes
    """The inputs of the output besides the log. An index with another value is dropped."""

    in_rows: bool
    """Whether `chain.measure` and `chain.join` produce the output of plain batches."""

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


def _ends_of_lines(data: bytes | bytearray) -> list[int]:
    return list(accumulate(len(line) for line in data.splitlines(keepends=True)))


VALUES = ValueFormat()
