"""The lines of several ranges in one order: by timestamp, then by range, then by offset.

The offsets of a range stay in order: a record that follows one with a later timestamp counts as that late. So the order
is that of a merge which always takes the range whose next record is the oldest.

Reading goes forward and holds one batch of each range. `LineMerge` remembers positions on the way, at most
`MARKS_MAX`, from which it continues for a reader that seeks.

Threads: one at a time.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol

from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.views.ends import newest_start
from offsetfs.storage.views.record_row_walk import record_rows
from offsetfs.storage.views.view_blocks import OnDamage

MARKS_MAX = 64
"""The number of positions that are remembered. If there are more, every second is dropped."""

MARK_BYTES = 1 << 20
"""The output between two positions at first; it doubles when positions are dropped."""

BEFORE_ALL = -(1 << 63)
"""Below each timestamp."""

# Read at first from the end of each log. Not fewer for `last/1`, because of records whose timestamps are out of order.
_TAIL_RECORDS = 16


class TimedLines(NamedTuple):
    """The lines of some records of one range. Record `n` is `data[ends[n - 1]:ends[n]]`, the first from byte 0 on."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    ends: Sequence[int]
    data: bytes | bytearray | memoryview


class TimedRange(Protocol):
    """A range of records in offset order."""

    size: int

    def timed_lines(self, offset: int) -> Iterator[TimedLines]:
        """Yield the lines of the records from `offset` on."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A position of the merge: for each range the next offset, and the latest timestamp before it."""

    byte: int
    offsets: tuple[int, ...]
    latest: tuple[int, ...]


class _Source:
    """One range while it is merged: its current lines, of which those from `_next` on are left."""

    def __init__(self, timed: TimedRange, number: int, offset: int, latest: int) -> None:
        self.number = number
        self.offset = offset
        """The offset from which on records are left."""
        self.latest = latest
        """The latest timestamp of the records before it."""
        self._batches = timed.timed_lines(offset)
        self._lines = TimedLines((), (), (), b"")
        self._keys: Sequence[int] = ()
        self._next = 0

    def key(self) -> tuple[int, int] | None:
        """Return the place of the next record in the order; None if the range has no more."""
        while self._next == len(self._keys):
            lines = next(self._batches, None)
            if lines is None:
                return None
            self._lines, self._next = lines, 0
            self._keys = array("q", accumulate(lines.timestamps, max, initial=self.latest))[1:]
        return self._keys[self._next], self.number

    def take(self, limit: tuple[int, int] | None, size_min: int) -> memoryview:
        """Return the current lines that come before `limit`, whole lines of `size_min` bytes or more if there are."""
        begin, end = self._next, len(self._keys)
        if limit is not None:
            search = bisect_right if self.number < limit[1] else bisect_left
            end = max(search(self._keys, limit[0], begin), begin + 1)
        first = self._lines.ends[begin - 1] if begin else 0
        end = min(end, bisect_left(self._lines.ends, first + size_min, begin) + 1)
        self._next = end
        self.offset, self.latest = self._lines.offsets[end - 1] + 1, self._keys[end - 1]
        return memoryview(self._lines.data)[first : self._lines.ends[end - 1]]


class LineMerge:
    """The merged lines of ranges as a file. `starts`: the offset from which on each range is read."""

    def __init__(self, ranges: Sequence[TimedRange], starts: Sequence[int]) -> None:
        self._ranges = ranges
        self._marks = [_Mark(0, tuple(starts), (BEFORE_ALL,) * len(ranges))]
        self._mark_bytes = MARK_BYTES
        self._sources: list[_Source] = []
        self._heap: list[tuple[tuple[int, int], _Source]] = []
        self._byte = -1  # the position of the sources; -1: none are open
        self._rest = memoryview(b"")  # lines before `_byte` that were taken and not returned

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end. Waits for the disk.

        A position behind the last read is reached by merging, an earlier one from a remembered position.
        """
        if not self._byte - len(self._rest) <= position:
            self._begin(position)
        else:
            mark = self._mark_before(position)
            if mark.byte > self._byte:
                self._begin(position)
        pieces: list[memoryview] = []
        while size > 0:
            start = self._byte - len(self._rest)
            if position < self._byte:
                piece = self._rest[position - start : position - start + size]
                pieces.append(piece)
                position, size = position + len(piece), size - len(piece)
                self._rest = self._rest[position - start :]
            elif not self._advance(max(position + size - self._byte, 1)):
                break
        return b"".join(pieces)

    def close(self) -> None:
        """Drop the open batches; the remembered positions stay."""
        self._sources, self._heap, self._byte, self._rest = [], [], -1, memoryview(b"")

    def _mark_before(self, position: int) -> _Mark:
        return self._marks[bisect_right(self._marks, position, key=lambda mark: mark.byte) - 1]

    def _begin(self, position: int) -> None:
        mark = self._mark_before(position)
        self._sources = [
            _Source(timed, number, mark.offsets[number], mark.latest[number])
            for number, timed in enumerate(self._ranges)
        ]
        keyed = ((source.key(), source) for source in self._sources)
        self._heap = [(key, source) for key, source in keyed if key is not None]
        heapq.heapify(self._heap)
        self._byte, self._rest = mark.byte, memoryview(b"")

    def _advance(self, size_min: int) -> bool:
        """Take the next lines, about `size_min` bytes or less; return False at the end."""
        if not self._heap:
            return False
        self._set_mark()
        source = self._heap[0][1]
        following = min((entry[0] for entry in self._heap[1:3]), default=None)
        self._rest = source.take(following, size_min)
        self._byte += len(self._rest)
        key = source.key()
        if key is None:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (key, source))
        return True

    def _set_mark(self) -> None:
        if self._byte - self._marks[-1].byte < self._mark_bytes:
            return
        offsets, latest = zip(*((source.offset, source.latest) for source in self._sources), strict=True)
        self._marks.append(_Mark(self._byte, offsets, latest))
        if len(self._marks) > MARKS_MAX:
            del self._marks[1::2]
            self._mark_bytes *= 2


def newest_starts(views: Sequence[LogView], ends: Sequence[int], count: int, on_damage: OnDamage) -> list[int]:
    """Return the offset in each log from which on the logs together have `count` records, in the order of `LineMerge`.

    Only records below `ends` count. Costs a walk over at most twice as many records of each log as belong to the
    result, and a few of each other log.
    """
    tails = [_Tail(view, end, _TAIL_RECORDS, on_damage) for view, end in zip(views, ends, strict=True)]
    while True:
        taken = _newest([tail.keys for tail in tails], count)
        short = [tail for tail, number in zip(tails, taken, strict=True) if number == len(tail.keys) < count]
        extended = [tail.extend(count) for tail in short]
        if not any(extended):
            return [tail.start_of(number) for tail, number in zip(tails, taken, strict=True)]


class _Tail:
    """The newest records of one log: offsets, and timestamps as `LineMerge` orders them."""

    def __init__(self, view: LogView, end: int, count: int, on_damage: OnDamage) -> None:
        self._view = view
        self._end = end
        self._on_damage = on_damage
        self._count = 0
        self.keys = array("q")
        self._offsets = array("q")
        self._read(count)

    def extend(self, count_max: int) -> bool:
        """Read twice as many records, up to `count_max`; return whether there are more."""
        known = len(self.keys)
        if known < self._count:
            return False
        self._read(min(2 * self._count, count_max))
        return len(self.keys) > known

    def _read(self, count: int) -> None:
        self._count = count
        start = newest_start(self._view, count, end=self._end) if count else self._end
        rows = [row for row in record_rows(self._view, start, self._end, self._on_damage) if row.size >= 0][-count:]
        self._offsets = array("q", (row.offset for row in rows))
        self.keys = array("q", accumulate((row.timestamp for row in rows), max))

    def start_of(self, count: int) -> int:
        """Return the offset of the first of the newest `count` records."""
        return self._offsets[-count] if count else self._end


def _newest(keys: Sequence[array[int]], count: int) -> list[int]:
    """Return how many of the newest `count` records of all logs each log has. `keys` rise in each log."""
    low, high = BEFORE_ALL, 1 << 63  # `count` records or more are at or after `low`, fewer at or after `high`
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = sum(len(log_keys) - bisect_left(log_keys, middle) for log_keys in keys) >= count
        low, high = (middle, high) if is_enough else (low, middle)
    taken = [len(log_keys) - bisect_right(log_keys, low) for log_keys in keys]
    left = count - sum(taken)
    for number in reversed(range(len(keys))):  # of the same time, the records of the last logs are the newest
        equal = min(len(keys[number]) - taken[number] - bisect_left(keys[number], low), left)
        taken[number], left = taken[number] + equal, left - equal
    return taken
