"""Verifies the indexes of a segment during a scan of its log.

Each check reads the entries of one file in order, and receives each valid batch and each damaged range. So memory does
not grow with the segment. An entry is wrong if a look-up that uses it could miss a record, or if it names a position or
offset that is not in the log. Entries that Kafka may legally write differ (OffsetIndex, TimeIndex, LogSegment):

* The offset of an entry is the last one of the whole append that begins at its position, which may be several batches.
Releases before 0.11 wrote the offset of the first record of the set.
* The time index of a v0 log has timestamps that the log itself does not have.
* The active segment's indexes end in zeros, which are not entries.

Each file has at most one finding: its first fault, with the number of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import BatchHeader
from offsetfs.storage.segments.offset_index import OFFSET_ENTRY, OffsetIndex
from offsetfs.storage.segments.time_index import TIME_ENTRY, TimeIndex
from offsetfs.storage.units import I32_MAX
from offsetfs.storage.verify.finding import FindingReporter

_TXN_ENTRY = Struct(">hqqqq")  # with both bytes of the version: readers ignore the second, writers set it to 0
_NO_LIMIT = I32_MAX + 1
_SPARSE_BYTES = 2 << 20
"""Followers before Kafka 4 add one entry for each Fetch response, of 1 MiB by default."""
_SPARSE_INTERVALS = 64


class _Faults:
    """Collects the faults of one file, and reports the first with the number of the others."""

    def __init__(self, reporter: FindingReporter, kind: str) -> None:
        self._reporter = reporter
        self._kind = kind
        self._first: tuple[int, int, str] | None = None
        self._more = 0

    def add(self, position: int, offset: int, meaning: str) -> None:
        if self._first is None:
            self._first = position, offset, meaning
        else:
            self._more += 1

    def report(self) -> None:
        if self._first is not None:
            position, offset, meaning = self._first
            more = f" (and {self._more} more entries)" if self._more else ""
            self._reporter.damage(self._kind, meaning + more, position=position, offset=offset)


class OffsetIndexCheck:
    """Checks the entries of `<base>.index` against the batches of the log, and that they are not too few."""

    def __init__(
        self, reporter: FindingReporter, base_offset: int, *, may_be_padded: bool, interval_bytes: int
    ) -> None:
        self._reporter = reporter
        self._sparse_bytes = max(_SPARSE_BYTES, _SPARSE_INTERVALS * interval_bytes)
        self._indexed_position = 0
        self._sparse = 0  # the longest range in which batches begin without an entry
        self._faults = _Faults(reporter, "offset-index")
        self._entries = _numbered(_offset_entries(reporter, base_offset, may_be_padded), OFFSET_ENTRY.size)
        self._last = (base_offset - 1, -1)
        self._next = self._pull()
        self._open: tuple[int, int] | None = None  # an entry that is not yet confirmed: number and offset
        self._last_offset = base_offset - 1

    def _pull(self) -> tuple[int, int, int] | None:
        """Return the next entry (number, offset, position) that is larger than the previous one."""
        for entry_position, (offset, position) in self._entries:
            if offset > self._last[0] and position > self._last[1]:
                self._last = offset, position
                return entry_position, offset, position
            self._faults.add(
                entry_position, offset, f"offset {offset}, position {position} does not rise above {self._last}"
            )
        return None

    def check_rows(self, rows: Rows) -> None:
        """Check consecutive valid batches, after those before them."""
        columns = (rows.column(column) for column in (chain.POSITION, chain.BASE_OFFSET, chain.LAST_OFFSET_DELTA))
        for position, first, delta in zip(*columns, strict=True):
            self._take(position, first, first + delta)

    def batch(self, position: int, header: BatchHeader, first_offset: int) -> None:
        """Check the valid batch at `position`."""
        self._take(position, first_offset, header.last_offset)

    def _take(self, position: int, first_offset: int, last_offset: int) -> None:
        while self._next is not None and self._next[2] < position:
            entry_position, offset, wanted = self._next
            self._faults.add(entry_position, offset, f"no batch begins at position {wanted}")
            self._next = self._pull()
        if self._next is None or self._next[2] != position:
            self._sparse = max(self._sparse, position - self._indexed_position)
        else:
            self._indexed_position = position
            entry_position, offset, _ = self._next
            self._close()
            if offset <= self._last_offset or offset < first_offset:
                self._faults.add(
                    entry_position, offset, f"the batch at position {position} begins with offset {first_offset}"
                )
            else:
                self._open = entry_position, offset
            self._next = self._pull()
        # Kafka below 0.11 wrote the first offset of a compressed set, later versions the last one.
        if self._open is not None and self._open[1] in (last_offset, first_offset):
            self._open = None
        self._last_offset = last_offset

    def _close(self) -> None:
        if self._open is not None:
            entry_position, offset = self._open
            self._faults.add(
                entry_position, offset, f"offset {offset} ends no batch between its position and the next entry's"
            )
        self._open = None

    def skip(self, _position: int, following: int) -> None:
        """Accept the entries that point into a damaged range, because they cannot be checked."""
        while self._next is not None and self._next[2] < following:
            self._next = self._pull()
        self._open, self._indexed_position = None, following

    def finish(self, *, is_whole: bool) -> None:
        """Report the faults. `is_whole`: the log ended with a valid batch."""
        if is_whole:
            self._close()
        while self._next is not None:
            entry_position, offset, position = self._next
            self._faults.add(entry_position, offset, f"no batch begins at position {position}")
            self._next = self._pull()
        self._faults.report()
        if self._sparse > self._sparse_bytes:
            meaning = f"no entry for {self._sparse} bytes: look-ups there read all of them; repair rebuilds the index"
            self._reporter.notice("index-sparse", meaning)


class TimeIndexCheck:
    """Checks the entries of `<base>.timeindex` against the batches of the log."""

    def __init__(self, reporter: FindingReporter, base_offset: int, *, may_be_padded: bool, is_sealed: bool) -> None:
        self._reporter = reporter
        self._faults = _Faults(reporter, "time-index")
        self._entries = _numbered(_time_entries(reporter, base_offset, may_be_padded), TIME_ENTRY.size)
        self._last = (-1, base_offset)
        self._next = self._pull()
        self._largest = -1
        self._is_sealed = is_sealed
        self._skipped = False

    def _pull(self) -> tuple[int, int, int] | None:
        """Return the next entry (number, timestamp, offset) that is larger than the previous one."""
        for entry_position, (timestamp, offset) in self._entries:
            if timestamp > self._last[0] and offset >= self._last[1]:
                self._last = timestamp, offset
                return entry_position, timestamp, offset
            self._faults.add(
                entry_position, offset, f"time {timestamp}, offset {offset} does not rise above {self._last}"
            )
        return None

    def check_rows(self, rows: Rows) -> None:
        """Check consecutive valid v2 batches, after those before them."""
        columns = (rows.column(column) for column in (chain.BASE_OFFSET, chain.LAST_OFFSET_DELTA, chain.MAX_TIMESTAMP))
        for first, delta, largest in zip(*columns, strict=True):
            if self._next is not None and self._next[2] <= first + delta:
                self._take(first, first + delta, largest, is_timed=True)
            elif largest > self._largest:
                self._largest = largest

    def batch(self, _position: int, header: BatchHeader, first_offset: int) -> None:
        """Check the next valid batch."""
        self._take(first_offset, header.last_offset, header.max_timestamp, is_timed=header.magic > 0)
        self._skipped = False

    def _take(self, first_offset: int, last_offset: int, largest: int, *, is_timed: bool) -> None:
        while self._next is not None and self._next[2] <= last_offset:
            entry_position, timestamp, offset = self._next
            if self._largest > timestamp:
                meaning = f"says that no record up to offset {offset} is above {timestamp}, and one has {self._largest}"
                self._faults.add(entry_position, offset, meaning)
            elif is_timed and (largest != timestamp or offset < first_offset):
                self._contradict(entry_position, offset, timestamp, first_offset, largest)
            self._next = self._pull()
        self._largest = max(self._largest, largest)

    def _contradict(self, entry_position: int, offset: int, timestamp: int, first_offset: int, largest: int) -> None:
        if offset >= first_offset:
            meaning = f"the batch with offset {offset} has the largest timestamp {largest}, not {timestamp}"
            self._faults.add(entry_position, offset, meaning)
        elif not self._skipped:
            self._faults.add(entry_position, offset, f"there is no batch with offset {offset}")

    def skip(self, _position: int, _following: int) -> None:
        """Accept the entries for offsets in a damaged range, because they cannot be checked."""
        self._skipped = True

    def finish(self, *, is_whole: bool) -> None:
        """Report the faults. `is_whole`: the log ended with a valid batch."""
        while self._next is not None:
            entry_position, _, offset = self._next
            if is_whole:
                self._faults.add(entry_position, offset, f"offset {offset} lies beyond the end of the log")
            self._next = self._pull()
        self._faults.report()
        if self._is_sealed and -1 < self._last[0] < self._largest:
            # Retention by time reads the last entry; if it is too low, the segment is removed too early.
            meaning = f"ends at {self._last[0]}, but the segment's largest timestamp is {self._largest}"
            self._reporter.damage("time-index-end", f"{meaning}: retention by time uses the index")


class TransactionIndexCheck:
    """Checks the entries of `<base>.txnindex`, the aborted transactions that ended in the segment, against its
    markers.
    """

    def __init__(self, reporter: FindingReporter, base_offset: int) -> None:
        self._faults = _Faults(reporter, "transaction-index")
        data = files.read_file(reporter.path)
        if len(data) % _TXN_ENTRY.size:
            meaning = f"{len(data)} bytes are no whole number of {_TXN_ENTRY.size}-byte entries"
            reporter.damage("transaction-index", meaning, position=len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size)
        whole = memoryview(data)[: len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size]
        self._entries = _numbered(_TXN_ENTRY.iter_unpack(whole), _TXN_ENTRY.size)
        self._last_offset = base_offset - 1
        self._skipped = False
        self._next = self._pull()

    def _pull(self) -> tuple[int, int, int] | None:
        """Return the next well-formed entry (number, producer id, last offset)."""
        for entry_position, (version, producer_id, first, last, _stable) in self._entries:
            if version == 0 and 0 <= first <= last and last > self._last_offset:
                self._last_offset = last
                return entry_position, producer_id, last
            self._faults.add(
                entry_position, last, f"version {version}, offsets {first} to {last} behind {self._last_offset}"
            )
        return None

    def check_rows(self, rows: Rows) -> None:
        """Check consecutive valid data batches, after those before them."""
        if self._next is not None and self._next[2] < rows.next_offset:
            for number in range(len(rows)):
                position, header, _ = rows.batch(number)
                self.batch(position, header, header.base_offset)

    def batch(self, _position: int, header: BatchHeader, first_offset: int) -> None:
        """Check the next valid batch."""
        while self._next is not None and self._next[2] <= header.last_offset:
            entry_position, producer_id, offset = self._next
            is_there = header.is_control and first_offset <= offset and header.producer_id == producer_id
            if not is_there and not (self._skipped and offset < first_offset):
                self._faults.add(
                    entry_position, offset, f"no marker of producer {producer_id} stands at offset {offset}"
                )
            self._next = self._pull()
        self._skipped = False

    def skip(self, _position: int, _following: int) -> None:
        """Accept the entries for offsets in a damaged range, because they cannot be checked."""
        self._skipped = True

    def finish(self, *, is_whole: bool) -> None:
        """Report the faults. `is_whole`: the log ended with a valid batch."""
        while is_whole and self._next is not None:
            self._faults.add(self._next[0], self._next[2], f"offset {self._next[2]} lies beyond the end of the segment")
            self._next = self._pull()
        self._faults.report()


IndexCheck = OffsetIndexCheck | TimeIndexCheck | TransactionIndexCheck


def _numbered(entries: Iterator[tuple[int, ...]], size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    return ((number * size, entry) for number, entry in enumerate(entries))


def _offset_entries(reporter: FindingReporter, base_offset: int, may_be_padded: bool) -> Iterator[tuple[int, ...]]:
    def opened() -> tuple[int, Iterator[tuple[int, ...]]]:
        index = OffsetIndex.open(reporter.path, base_offset, bytes_max=_NO_LIMIT, followed=may_be_padded)
        return index.count, _complete(index.entries(), 0) if may_be_padded else index.entries()

    return _entries(reporter, opened, OFFSET_ENTRY.size, may_be_padded)


def _time_entries(reporter: FindingReporter, base_offset: int, may_be_padded: bool) -> Iterator[tuple[int, ...]]:
    def opened() -> tuple[int, Iterator[tuple[int, ...]]]:
        index = TimeIndex.open(reporter.path, base_offset, bytes_max=_NO_LIMIT, followed=may_be_padded)
        return index.count, _complete(index.entries(), base_offset) if may_be_padded else index.entries()

    return _entries(reporter, opened, TIME_ENTRY.size, may_be_padded)


def _complete(entries: Iterator[tuple[int, ...]], unwritten: int) -> Iterator[tuple[int, ...]]:
    """Leave out the last entry if its second number is `unwritten`, that of zeros in the file.

    A broker writes the numbers of an entry one after the other into its memory map of the file
    (AbstractIndex.mmap, TimeIndex.maybeAppend).
    """
    last = None
    for entry in entries:
        if last is not None:
            yield last
        last = entry
    if last is not None and last[1] != unwritten:
        yield last


def _entries(
    reporter: FindingReporter,
    opened: Callable[[], tuple[int, Iterator[tuple[int, ...]]]],
    size: int,
    may_be_padded: bool,
) -> Iterator[tuple[int, ...]]:
    try:
        count, entries = opened()
    except CorruptIndex as error:
        reporter.damage("index-shape", f"{error.reason}: it will be rebuilt from the log")
        return iter(())
    zeros = files.status(reporter.path).st_size - count * size
    if zeros > size and not may_be_padded:  # a zero entry may be the first one: time 0 at the base offset
        meaning = f"{zeros} zero bytes after its entries, which a broker reads as entries"
        reporter.notice("index-padding", meaning, position=count * size)
    return entries
