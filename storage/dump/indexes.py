"""Dumps offset indexes (`.index`) and time indexes (`.timeindex`) as text, and compares each entry with the log.

Text and checks are those of Kafka's DumpLogSegments: an entry of an offset index must have the last offset of the batch
at its position, one of a time index the last offset and the largest timestamp of a batch. That is stricter than the
format, so correct entries may be reported as mismatches: after appends of several batches, and in logs of Kafka below
1.0. Zeros after the last entry end the listing, but a sanity check counts them as entries, as a broker does.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from struct import Struct

from offsetfs.storage import files
from offsetfs.storage.dump.batches import HEADER_BLOCK_BYTES, BatchWalk, FoundBatch, last_offset
from offsetfs.storage.dump.legacy import messages
from offsetfs.storage.dump.log import LOG_SUFFIX
from offsetfs.storage.dump.printer import Printer
from offsetfs.storage.dump.records import open_records
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.errors import CorruptIndex, InvalidName, MalformedBatch, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, MAGIC, BatchHeader
from offsetfs.storage.segments import offset_index, time_index
from offsetfs.storage.units import I32_MAX, I64_MAX, wrapped

INDEX_SUFFIX, TIME_INDEX_SUFFIX = ".index", ".timeindex"
INDEX_WINDOW_BYTES = 5 << 20
"""Kafka's --max-message-size: the bytes of the log that are read from an entry's position on."""

FILE_BYTES_MAX = I32_MAX
"""The largest index that Kafka can map."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """`sanity_only`: check as a broker does on start. `verify_only`: check each entry, print none."""

    sanity_only: bool = False
    verify_only: bool = False
    window_bytes: int = INDEX_WINDOW_BYTES


def dump_index(path: str, options: IndexOptions, printer: Printer, report: DumpReport) -> None:
    """Write a line for each entry of the offset index `path`; `CorruptIndex`, OSError."""
    index = _Entries.read(path, offset_index.OFFSET_ENTRY)
    with _log_of(index) as log:
        if not index.count:
            printer.remark(f"{path} is empty.")
        elif options.sanity_only:
            _check_offsets(index)
            printer.remark(f"{path} passed sanity check.")
        else:
            _dump_offsets(index, log, options, printer, report)


def _dump_offsets(index: _Entries, log: File, options: IndexOptions, printer: Printer, report: DumpReport) -> None:
    size = log.size()
    for relative, position in index.listed(offset_column=0):
        offset = index.offset(relative)
        batch = _header_at(log, index, position, min(position + options.window_bytes, size))
        if batch is None:
            reason = f"points to position {position} of the log, where no whole batch is"
            report.cannot_read(MalformedBatch(reason, path=index.path, offset=offset))
        elif last_offset(batch) != offset:
            report.index_mismatch(index.path, offset, last_offset(batch))
        if not options.verify_only:
            printer.entry({"offset": offset, "position": position})


def dump_time_index(path: str, options: IndexOptions, printer: Printer, report: DumpReport) -> None:
    """Write a line for each entry of the time index `path`; `CorruptIndex`, OSError."""
    index = _Entries.read(path, time_index.TIME_ENTRY)
    with _log_of(index) as log:
        if options.sanity_only:
            _check_times(index)
            printer.remark(f"{path} passed sanity check.")
        else:
            _dump_times(index, log, options, printer, report)


def _dump_times(index: _Entries, log: File, options: IndexOptions, printer: Printer, report: DumpReport) -> None:
    search = _Search(index, log, report)
    before = -1
    for timestamp, relative in index.listed(offset_column=1):
        offset = index.offset(relative)
        batch = search.first_reaching(offset)
        if batch is None or last_offset(batch.header) != offset:
            report.time_offset_missing(index.path, offset, -1 if batch is None else last_offset(batch.header))
        else:
            _check_time(index, batch, timestamp, before, report)
        if not options.verify_only:
            printer.entry({"timestamp": timestamp, "offset": offset})
        before = timestamp


def _check_time(index: _Entries, batch: FoundBatch, timestamp: int, before: int, report: DumpReport) -> None:
    try:
        max_timestamp = _max_timestamp(batch)
        if max_timestamp != timestamp:
            report.time_mismatch(index.path, timestamp, max_timestamp)
    except StorageError as error:
        report.cannot_read(batch.error(error.reason))
    if before >= timestamp:
        report.time_disorder(index.path, timestamp, before)


def _max_timestamp(batch: FoundBatch) -> int:
    """Return the largest timestamp of the records, -1 if there are none."""
    if batch.header.magic < MAGIC:
        return max([-1, *(message.timestamp for message in messages(batch))])
    records = open_records(batch)
    if records.fault is not None:
        raise records.fault
    return records.max_timestamp()


# --- the index -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entries:
    """The bytes of an index file, as entries up to the end of the file."""

    path: str
    base_offset: int
    entry: Struct
    data: bytes

    @classmethod
    def read(cls, path: str, entry: Struct) -> _Entries:
        name = os.path.basename(path).split(".")[0]
        if not (name.isascii() and name.isdigit()):
            raise InvalidName("the name of an index begins with its base offset", path=path)
        # A name of 20 digits may be above 2⁶³−1; a dump of such a file once ended in an internal error.
        if int(name) > I64_MAX:
            raise InvalidName(f"the base offset of an index is at most {I64_MAX}", path=path)
        return cls(path, int(name), entry, files.read_file(files.real_path(path), FILE_BYTES_MAX))

    @property
    def count(self) -> int:
        return len(self.data) // self.entry.size

    def offset(self, relative: int) -> int:
        """Return the offset of an entry with the overflow of a Java long."""
        return wrapped(self.base_offset + relative)

    def at(self, number: int) -> tuple[int, int]:
        first, second = self.entry.unpack_from(self.data, number * self.entry.size)
        return first, second

    def listed(self, offset_column: int) -> Iterator[tuple[int, int]]:
        """Yield the entries before the first one, other than entry 0, that has the base offset, as zeros do."""
        for number in range(self.count):
            entry = self.at(number)
            # Kafka's dumpIndex stops at the first entry that has the base offset: the zeros of a preallocated file look
            # so.
            if entry[offset_column] == 0 and number:
                return
            yield entry

    def beside(self, suffix: str) -> str:
        """Return the path of another file of the same segment."""
        directory = os.path.dirname(files.real_path(self.path))
        return os.path.join(directory, os.path.basename(self.path).split(".")[0] + suffix)

    def fail(self, reason: str) -> CorruptIndex:
        return CorruptIndex(f"does not pass the sanity check: {reason}", path=self.path)


def _check_offsets(index: _Entries) -> None:
    last = index.at(index.count - 1)[0]
    if last < 0:
        raise index.fail(f"it ends with offset {index.base_offset + last}, below its base offset")
    _check_length(index)


def _check_times(index: _Entries) -> None:
    if index.count:
        first, last = index.at(0), index.at(index.count - 1)
        if last[0] < first[0]:
            raise index.fail(f"it ends with timestamp {last[0]}, below its first, {first[0]}")
        if last[1] < 0:
            raise index.fail(f"it ends with offset {index.base_offset + last[1]}, below its base offset")
    _check_length(index)


def _check_length(index: _Entries) -> None:
    if len(index.data) % index.entry.size:
        raise index.fail(f"{len(index.data)} bytes are no whole number of {index.entry.size}-byte entries")


# --- the log -------------------------------------------------------------------------------------------------------


def _log_of(index: _Entries) -> AbstractContextManager[File]:
    return files.open_file(index.beside(LOG_SUFFIX))


def _header_at(log: File, index: _Entries, position: int, end: int) -> BatchHeader | None:
    if not 0 <= position < end:
        return None
    walk = BatchWalk(log, index.path, position, end, lambda error: None, HEADER_SIZE)
    header = next(walk.headers(), None)
    return header if walk.position == position else None


class _Search:
    """Finds the batches that the entries of a time index name."""

    def __init__(self, index: _Entries, log: File, report: DumpReport) -> None:
        self._index = index
        self._log = log
        self._report = report
        self._offsets = self._read_offsets()
        self._count = 0 if self._offsets is None else sum(1 for _ in self._offsets.listed(offset_column=0))
        self._last = (index.base_offset, 0)

    def _read_offsets(self) -> _Entries | None:
        try:
            return _Entries.read(self._index.beside(INDEX_SUFFIX), offset_index.OFFSET_ENTRY)
        except FileNotFoundError:
            return None  # the scan continues at the last batch found

    def first_reaching(self, offset: int) -> FoundBatch | None:
        """Return the first batch, from the position in the offset index on, whose last offset is ≥ `offset`."""
        position = self._floor(offset)
        end = self._log.size()
        walk = BatchWalk(self._log, self._index.path, position, end, self._report.cannot_read, HEADER_BLOCK_BYTES)
        for header in walk.headers():
            if last_offset(header) >= offset:
                self._last = (offset, walk.position)
                return walk.found(header)
        return None

    def _floor(self, offset: int) -> int:
        if self._offsets is None:
            return self._last[1] if offset >= self._last[0] else 0
        relative, offsets = offset - self._index.base_offset, self._offsets
        index = bisect_right(range(self._count), relative, key=lambda number: offsets.at(number)[0]) - 1
        return max(offsets.at(index)[1], 0) if index >= 0 else 0
