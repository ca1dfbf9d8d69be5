"""The records that a filter can match: ranges of offsets, and the earliest and the latest time.

DuckDB passes a filter as an expression of Arrow, whose structure Python cannot read. Arrow itself decides whether an
expression can be true for rows of which something is known, such as "partition is 3, and offset is 0 to 99": so it
leaves out files of a dataset. Here each question is a file that is never opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from offsetfs.storage import I64_MAX, LOG_APPEND_TIME, BatchHeader, TopicPartition
from offsetfs.tables.arrow import SCHEMA

PIECES_MAX = 64
"""Into how many pieces a range of offsets is divided, to find gaps that a filter leaves."""

_EARLIEST_US = -1000
"""The timestamp of a record without one, in microseconds."""

_LATEST_US = I64_MAX

_FORMAT = ds.IpcFileFormat()
_FILES = LocalFileSystem()

OffsetRange = tuple[int, int]
"""The offsets `[start, stop)`."""


def names_in(filter: pc.Expression | None, names: Iterable[str]) -> set[str]:
    """Return the columns that a filter may read: those whose names its text has."""
    text = "" if filter is None else str(filter)
    return {name for name in names if re.search(rf"\b{name}\b", text)}


class Pruning:
    """Answers for one filter; None matches everything."""

    def __init__(self, filter: pc.Expression | None, schema: pa.Schema = SCHEMA, prefix: str = "") -> None:
        """`schema`: the columns of the table. `prefix` stands before the names of those that a record has by itself."""
        self._filter = filter
        self._schema = schema
        self._prefix = prefix
        self._names = names_in(filter, schema.names)

    def start_ms(self) -> int | None:
        """Return the time in milliseconds before which no record matches; None: records of any time may match."""
        if f"{self._prefix}timestamp" not in self._names or self._can_match(self._until(_EARLIEST_US)):
            return None
        return _last_unmatched(lambda us: not self._can_match(self._until(us)), _EARLIEST_US, _LATEST_US) // 1000 + 1

    def end_ms(self) -> int | None:
        """Return the time in milliseconds after which no record matches; None: records of any time may match."""
        if f"{self._prefix}timestamp" not in self._names or self._can_match(self._since(_LATEST_US)):
            return None
        after_us = -_last_unmatched(lambda us: not self._can_match(self._since(-us)), -_LATEST_US, -_EARLIEST_US)
        return (after_us - 1) // 1000

    def partition_can_match(self, name: TopicPartition) -> bool:
        """Return whether records of a partition can match."""
        return self._filter is None or self._can_match(self._is_of(name))

    def offsets(self, name: TopicPartition, start: int, stop: int) -> list[OffsetRange]:
        """Return disjoint ranges within `[start, stop)`, ascending, outside of which no record matches."""
        if start >= stop:
            return []
        if f"{self._prefix}offset" not in self._names:
            return [(start, stop)]
        bounds = self._narrowed(name, start, stop)
        if bounds is None:
            return []
        step = max(1, -(-(bounds[1] - bounds[0]) // PIECES_MAX))
        pieces = [(first, min(first + step, bounds[1])) for first in range(*bounds, step)]
        matching = self._matching([self._is_of(name) & self._within(*piece) for piece in pieces])
        joined: list[OffsetRange] = []
        for index in matching:
            first, end = pieces[index]
            if joined and joined[-1][1] == first:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((first, end))
        if len(joined) > 1:
            return [narrowed for first, end in joined if (narrowed := self._narrowed(name, first, end)) is not None]
        return joined

    def _narrowed(self, name: TopicPartition, start: int, stop: int) -> OffsetRange | None:
        """Return the smallest range that has all matches; None: there are none."""
        if not self._can_match(self._is_of(name) & self._within(start, stop)):
            return None
        first = _last_unmatched(
            lambda offset: not self._can_match(self._is_of(name) & self._within(start, offset + 1)),
            start - 1,
            stop - 1,
        )
        last = -_last_unmatched(
            lambda offset: not self._can_match(self._is_of(name) & self._within(-offset, stop)), -stop, -first - 1
        )
        return first + 1, last

    def _can_match(self, known: pc.Expression) -> bool:
        return bool(self._matching([known]))

    def _matching(self, known: list[pc.Expression]) -> list[int]:
        """Return the indexes of what is known of rows that the filter can match."""
        if self._filter is None:
            return list(range(len(known)))
        files = [_FORMAT.make_fragment(str(index), _FILES, piece) for index, piece in enumerate(known)]
        dataset = ds.FileSystemDataset(files, self._schema, _FORMAT, _FILES)
        return sorted(int(fragment.path) for fragment in dataset.get_fragments(self._filter))

    def _is_of(self, name: TopicPartition) -> pc.Expression:
        known = self._field("partition") == pa.scalar(name.partition, pa.int32())
        return known & (self._field("topic") == name.topic) if f"{self._prefix}topic" in self._schema.names else known

    def _within(self, start: int, stop: int) -> pc.Expression:
        offset = self._field("offset")
        return (offset >= start) & (offset <= stop - 1)  # Arrow does not know that it is whole

    def _since(self, us: int) -> pc.Expression:
        return self._field("timestamp") >= pa.scalar(us, SCHEMA.field("timestamp").type)

    def _until(self, us: int) -> pc.Expression:
        return self._field("timestamp") <= pa.scalar(us, SCHEMA.field("timestamp").type)

    def _field(self, name: str) -> pc.Expression:
        return ds.field(f"{self._prefix}{name}")


def _last_unmatched(is_unmatched: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest number for which `is_unmatched` holds, which holds for `low` and all numbers up to it."""
    while low < high:
        middle = low + (high - low + 1) // 2
        if is_unmatched(middle):
            low = middle
        else:
            high = middle - 1
    return low


def stamped_within(header: BatchHeader, start_ms: int | None, end_ms: int | None) -> bool:
    """Return whether a batch can have records from `start_ms` to `end_ms`, both included; None: without that bound.

    With LogAppendTime all records of a batch have the time in its header. With CreateTime a header has no lower limit
    of the times: that of the first record need not be the least.
    """
    if header.is_old or header.timestamp_type != LOG_APPEND_TIME:
        return True
    time = header.max_timestamp
    return (start_ms is None or start_ms <= time) and (end_ms is None or time <= end_ms)
