"""A segment: one `.log` file, its offset index and its time index.

Follows Kafka's LogSegment. A sealed segment opens its files on demand; the active segment of a writer keeps them open.
Index entries are hints: an entry is used only if the batch at its position agrees, otherwise the index is rebuilt.

A segment that was removed from its log stays usable while it is referenced. Its files are renamed to `.deleted`, and
the object follows the rename. After they are unlinked, opening them raises ESTALE.

Other modules: opening files (segment_files), the steps of searches (offset_search, time_search), the segments of a log
and the offsets and epochs of new batches (log), recovery.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, overload

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.errors import (
    UNREADABLE,
    CorruptBatch,
    InvalidIndexAppend,
    MalformedBatch,
    StorageError,
    WouldBlock,
)
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name, segment_offset_max
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import MAGIC, Batch, BatchHeader
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.batch_chain import CheckedBatch
from offsetfs.storage.records.format.legacy import NO_RUNS, RUNS, TIMELESS_RUNS
from offsetfs.storage.segments import offset_order, offset_search, segment_files, segment_indexes, time_search
from offsetfs.storage.segments.active_segment import Preallocation, RollAge
from offsetfs.storage.segments.deletions import REMOVED
from offsetfs.storage.segments.offset_search import Found, Take
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment_files import LIVE, RELATIVE_OFFSET_MAX, SegmentFiles
from offsetfs.storage.segments.time_search import FoundRecord, VisibilityFilter, shows_data
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.units import I32_MAX, NO_TIMESTAMP

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a full disk. The user can solve them, and the disk remains trustworthy."""

LOG_BYTES_MAX = I32_MAX
ENDS_MAX = 32
"""The number of ends of ranges that a segment remembers. The end of offset N replaces that of N - ENDS_MAX."""

REOPEN_BYTES = 1 << 20


class Segment:
    """Batches from `base_offset` on, in `size` valid bytes."""

    __slots__ = (
        "_appended_from",
        "_bytes_since_index_entry",
        "_ends",
        "_files",
        "_is_preallocated",
        "_least_max_timestamp",
        "_max_timestamp",
        "_preallocation",
        "_roll_age",
        "base_offset",
        "clock",
        "config",
        "directory",
        "ending",
        "has_torn_tail",
        "inode",
        "log_path",
        "names_lock",
        "pool",
        "read_only",
        "size",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        pool: FilePool[SegmentFiles],
        *,
        size: int | None = None,
        read_only: bool = False,
        inode: int | None = None,
        clock: Clock = SYSTEM,
        ending: str = LIVE,
        log_path: str | None = None,
    ) -> None:
        """Create the object for the segment of `directory` that begins at `base_offset`. `size` None: the size of the
        file.

        With `inode`, opening raises ESTALE if another file has the name. `ending` is the suffix of all its names:
        empty, or `.cleaned` for a segment that is being written. `log_path`: of the log file where only that has
        another name, because a swap is in progress.
        """
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.read_only = read_only
        self.ending = ending
        self.log_path = self.path(".log") if log_path is None else log_path
        if size is None:
            status = files.status(self.log_path)
            size, inode = status.st_size, inode if read_only else status.st_ino
        self.size = size
        self._appended_from = size
        self._ends: list[tuple[int, int, int]] = []  # a table: each offset has one place in it
        self.pool = pool
        self.inode = inode
        self.clock = clock
        self._files: SegmentFiles | None = None
        self._max_timestamp: tuple[int, int] | None = None
        self._least_max_timestamp: int = NO_TIMESTAMP  # from the time index, which may lack later entries
        self._bytes_since_index_entry = 0
        self._preallocation = Preallocation()
        self._is_preallocated = False
        self._roll_age = RollAge(config, clock)
        self.has_torn_tail = False
        """Whether trailing bytes form no whole batch and are kept. Then the next append must not start among them."""
        # A reader that rebuilds an index must not write it while the segment is renamed: the file would get the name of
        # a segment that no longer exists.
        self.names_lock = threading.Lock()

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on. The maximum size of open index files does not change."""
        self._roll_age.configure(config)
        self.config = config

    def path(self, suffix: str) -> str:
        """Return the current path of the file with this suffix (`.index`, `.snapshot`, …)."""
        return os.path.join(self.directory, segment_name(self.base_offset, suffix + self.ending))

    # --- changes of the files, made by other modules ------------------------------------------------------------------

    def end_at(self, size: int) -> None:
        """Let the segment end at byte `size` of its file: bytes after it are not valid batches of the log."""
        self.size = size

    def mark_torn_tail(self) -> None:
        """Record that trailing bytes which form no whole batch are kept."""
        self.has_torn_tail = True

    def make_read_only(self) -> None:
        """Let this object write no files any more. `names_lock` is held, so that no write is in progress."""
        self.read_only = True

    def follow_rename(self, ending: str) -> None:
        """Record that the names of the files now end in `ending`. `names_lock` is held if the segment is in a log."""
        self.ending = ending
        self.log_path = self.path(".log")

    def follow_move(self, directory: str) -> None:
        """Record that the directory of the segment was renamed. `names_lock` is held."""
        self.directory = directory
        self.log_path = self.path(".log")

    def forget_file(self) -> None:
        """Record that the log file was unlinked: the kernel may reuse its inode number. `names_lock` is held."""
        self.inode = -1

    # --- batches of this process -------------------------------------------------------------------------------------

    def is_appended_here(self, position: int) -> bool:
        """Whether this process has written the batch at `position`, with a checksum that it had verified."""
        return position >= self._appended_from and not self.read_only

    def note_damage(self) -> None:
        """Record that a batch is damaged: from now on none counts as appended here."""
        self._appended_from = LOG_BYTES_MAX + 1

    # --- ends of earlier reads ---------------------------------------------------------------------------------------

    def note_end(self, offset: int, position: int, size: int) -> None:
        """Remember that a reader has read up to `offset`, which is to begin at byte `position`.

        `size` is that of the batch there, 0 if it is not known. The end is valid for this object only: a segment that
        was truncated, compacted or created again is a new object.
        """
        if not self._ends:
            self._ends = [(-1, 0, 0)] * ENDS_MAX
        self._ends[offset % ENDS_MAX] = offset, position, size

    def end_before(self, offset: int) -> tuple[int, int] | None:
        """Return where a reader ended that had read up to `offset`, and the size of the batch there; None if it is not
        known.
        """
        if not self._ends:
            return None
        known, position, size = self._ends[offset % ENDS_MAX]
        return (position, size) if known == offset else None

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this process has the segment open for appends."""
        return self._files is not None

    @property
    def is_removed(self) -> bool:
        """Whether the segment was removed from its log. Readers may continue; no files are written for it."""
        return self.ending.endswith(REMOVED)

    @property
    def modified_ns(self) -> int:
        """The modification time of the log file, in nanoseconds since 1970."""
        return files.status(self.log_path).st_mtime_ns

    @overload
    def find(self, offset: int, *, offset_end: int | None = None, nowait: bool = False) -> Batch | None: ...

    @overload
    def find(
        self, offset: int, *, offset_end: int | None = None, nowait: bool = False, take: Take[Found]
    ) -> Found | None: ...

    def find(
        self, offset: int, *, offset_end: int | None = None, nowait: bool = False, take: Take[Any] = batch_chain.load
    ) -> Any:
        """Return the first batch whose last offset is ≥ `offset`, with its checksum verified; or None.

        `offset_end`: where the next segment begins; detects batches with wrong offsets. `take` verifies the batch and
        returns it; with `check_batch` the bytes are left out, for a caller that sends the file itself. Costs an index
        look-up and a scan of one index interval, whatever the size of the segment. Raises `CorruptBatch`,
        `MalformedBatch` or `UnsupportedFormat` if the offset is in damaged bytes; with `nowait`, `WouldBlock`.
        """
        opened = self.open_files(nowait=nowait)
        search = offset_search
        if (end := self.end_before(offset)) is not None and end[0] < self.size:
            # A reader that reads on needs no look-up. At the end of a log of small batches, half an index interval is
            # walked otherwise: 65 µs instead of 20.
            size = search.block_bytes_of(end[1])
            direct = search.find_at(self, opened.log, end[0], offset, offset_end, nowait, take, size)
            if direct is not None:
                return direct
        direct = search.find_directly(self, opened, offset, offset_end, nowait, take)
        if direct is not None:
            return direct
        position = self.floor_position(offset, nowait=nowait, opened=opened)
        try:
            return search.walk_to(self, opened.log, position, offset, offset_end, nowait, take)
        except UNREADABLE:
            if nowait:
                raise WouldBlock("the search must skip damage", path=self.log_path) from None
        entry_offset, _ = opened.index.lookup(offset)
        position = self.floor_position(entry_offset - 1, opened=opened) if position else 0
        batch = offset_order.find_over_damage(
            opened.log, position, self.size, offset, offset_min=self.base_offset, offset_end=offset_end
        )
        return None if batch is None else take(opened.log, batch.position or 0, batch.header, batch.data)

    def check_batch(
        self, file: File, position: int, header: BatchHeader, seen: memoryview, *, nowait: bool = False
    ) -> CheckedBatch:
        """Verify a batch as `batch_chain.check` does, for `find`.

        With `nowait`, a large batch that `is_appended_here` is not verified again while the page cache has it.
        """
        if nowait and len(seen) < header.size and header.magic == MAGIC and self.is_appended_here(position):
            # To read a batch of a megabyte again took a quarter of the processor time of its Fetch (decision 51).
            if not file.is_cached(position, header.size):
                raise WouldBlock("not in the page cache", path=file.path, position=position)
            return CheckedBatch(header, position, header.base_offset)
        try:
            return batch_chain.check(file, position, header, seen, nowait=nowait)
        except CorruptBatch:
            self.note_damage()
            raise

    def floor_position(self, offset: int, *, nowait: bool = False, opened: SegmentFiles | None = None) -> int:
        """Return the position where a scan for `offset` starts: that of the index entry, if the batch there agrees.

        `opened`: the open files, which costs a microsecond to find again.
        """
        opened = opened or self.open_files(nowait=nowait)
        entry_offset, position = opened.index.lookup(offset)
        if position == 0 or offset_search.agrees(self, opened.log, entry_offset, position, offset, nowait):
            return position
        # An index entry that disagrees never changes an answer. It costs a scan: once in a sealed segment, because its
        # indexes are rebuilt; at each look-up in the segment that is open for appends, until its next opening checks
        # them.
        opened = self.rebuild_indexes(nowait=nowait)
        entry_offset, position = opened.index.lookup(offset)
        return position if offset_search.agrees(self, opened.log, entry_offset, position, offset, nowait) else 0

    def batch_at_position(self, position: int, *, nowait: bool = False) -> Batch:
        """Return the batch that begins at byte `position`, with its checksum verified."""
        log = self.open_files(nowait=nowait).log
        for batch_position, header, seen in batch_chain.headers(log, position, self.size, nowait=nowait):
            return batch_chain.load(log, batch_position, header, seen, nowait=nowait)
        raise MalformedBatch("no whole batch here", path=self.log_path, position=position)

    def batches(
        self,
        position: int = 0,
        end: int | None = None,
        *,
        on_damage: batch_chain.OnDamage | None = None,
        runs: tuple[int, ...] = NO_RUNS,
        offset_end: int | None = None,
    ) -> Iterator[Batch]:
        """Yield the batches in `[position, end)`, with checksums verified; see `batch_chain.batches` for damage and
        runs.

        `offset_end`: the offset before which the caller probably ends, so that a remote file is read no further. It
        does not end the iteration.
        """
        log = self.open_files().log
        if end is None:
            end = self.size
        likely_end = None
        if offset_end is not None and log.is_remote:
            likely_end = min(self._position_behind(offset_end), end)
            log = log.reading_to(likely_end)
        return batch_chain.batches(log, position, end, on_damage=on_damage, runs=runs, likely_end=likely_end)

    def _position_behind(self, offset: int) -> int:
        """Return a position that the batches below `offset` probably do not reach: that of an index entry, or `size`.

        It is at most one index interval behind their end.
        """
        floor, *after = self.open_files().index.around(offset - 1)
        # The offset of an entry is the last one of the append that begins there. So batches below `offset` end before
        # the next entry if `offset` follows that of its floor; else they may be of the append of the next entry.
        number = 0 if floor[0] == offset - 1 else 1
        return after[number][1] if number < len(after) else self.size

    def headers(
        self, position: int = 0, *, over_damage: bool = False, runs: tuple[int, ...] = NO_RUNS
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield `(position, header)` of the batches from `position` on, without verifying checksums.

        An impossible header raises `MalformedBatch`, or is skipped with `over_damage`.
        """
        chain = batch_chain.walk if over_damage else batch_chain.headers
        log = self.open_files().log
        walk = chain(log, position, self.size, block_bytes=batch_chain.BLOCK_BYTES, runs=runs)
        return ((batch_position, header) for batch_position, header, _ in walk)

    def position_of(self, offset: int, *, nowait: bool = False) -> int:
        """Return the byte position of the batch that `find` would return, or `size`."""
        log, position = self.open_files(nowait=nowait).log, self.floor_position(offset, nowait=nowait)
        for batch_position, header, _ in batch_chain.walk(log, position, self.size, nowait=nowait):
            if header.last_offset >= offset:
                return batch_position
        return self.size

    def reading_position(self, offset: int, *, nowait: bool = False) -> int:
        """Return the byte position where reading from `offset` begins: never behind a batch that may hold it.

        `position_of` serves searches and steps over damage; a reader that begins here meets damage that may hide the
        offset, and reports it. The batch there may end below `offset`. `WouldBlock` as `find`.
        """
        if offset <= self.base_offset:
            return 0
        log, before = self.open_files(nowait=nowait).log, self.floor_position(offset, nowait=nowait)
        for position, header, _ in batch_chain.walk(log, before, self.size, nowait=nowait):
            if header.last_offset >= offset:
                # Headers are not verified here, and a damaged one may say that its batch ends too early: the batch
                # before the first one that reaches the offset is read again where that one begins above it.
                return position if header.base_offset <= offset else before
            before = position
        return before

    def last_indexed_position(self) -> int:
        """Return the byte position of the last indexed batch; the end is at most one index interval later."""
        return self.floor_position(segment_offset_max(self.base_offset))

    # --- time --------------------------------------------------------------------------------------------------------

    def find_record(
        self,
        timestamp: int,
        offset_min: int,
        *,
        shows: VisibilityFilter = shows_data,
        offset_end: int | None = None,
        on_damage: Callable[[StorageError], object] = lambda error: None,
        nowait: bool = False,
    ) -> FoundRecord | None:
        """Return the first record ≥ `offset_min` with a timestamp ≥ `timestamp`, or None.

        Unreadable batches on the way are passed to `on_damage`; with `nowait` they raise `WouldBlock`. If offsets are
        out of order, because a batch has a wrong offset, `offset_order` finds the record.
        """
        opened = self.open_files(nowait=nowait)
        log = opened.log
        start, before = time_search.start_of(self, opened, timestamp, offset_min, nowait)
        for position, header, seen in batch_chain.walk(
            log, start, self.size, on_damage=on_damage, nowait=nowait, runs=RUNS
        ):
            rises = before < header.base_offset if before is not None else time_search.is_indexed(opened, header)
            before = header.last_offset
            if header.max_timestamp < timestamp or header.last_offset < offset_min or not shows(header, nowait=nowait):
                continue
            try:
                batch = batch_chain.load(log, position, header, seen, nowait=nowait)
                record = time_search.first_at_or_after(batch, timestamp, offset_min)
                if record is None:
                    continue
                # The base offset may be damaged, so the time leads to a batch only if its offset fits between its
                # neighbors.
                if rises and offset_search.ends_in_order(self, log, position, header, seen, offset_end, nowait):
                    return record
                holder = self.find(record.offset, offset_end=offset_end, nowait=nowait)
            except UNREADABLE as error:
                if nowait:
                    raise WouldBlock("the search must skip damage", path=self.log_path, position=position) from None
                on_damage(error)
                continue
            if holder is not None and position <= (holder.position or 0) < position + header.size:
                return record
        return None

    def max_timestamp(self, *, nowait: bool = False) -> tuple[int, int]:
        """Return the largest record timestamp and the last offset of the first batch that has it, or (-1, base offset).

        Uses the last entry of the time index, if its batch agrees, and scans the later batches.
        """
        if self._max_timestamp is None:
            if nowait:
                raise WouldBlock("the largest timestamp is not known yet", path=self.log_path)
            self._max_timestamp = self.measure_max_timestamp()
        return self._max_timestamp

    def measure_max_timestamp(self) -> tuple[int, int]:
        """Return what `max_timestamp` returns, from the files."""
        opened = self.open_files()
        timestamp, offset = time_search.sound_entry(self, opened, opened.time_index.last_entry, nowait=False)
        position = self.floor_position(offset) if timestamp >= 0 else 0
        for rows in row_walk.header_rows(opened.log, position, self.size, runs=TIMELESS_RUNS):
            times = rows.column(chain.MAX_TIMESTAMP)
            latest = max(times)
            if latest > timestamp:
                timestamp, offset = latest, rows.batch(times.index(latest))[1].last_offset
        return timestamp, offset

    def max_data_timestamp(self, offset_min: int) -> int:
        """Return the largest timestamp of the batches with records that reach `offset_min`; -1 if none does.

        Transaction markers are not records.
        """
        headers = (
            header for _, header in self.headers(over_damage=True, runs=RUNS) if header.last_offset >= offset_min
        )
        # ListOffsets -3 (KIP-734) asks for a record; a transaction marker may have a later timestamp.
        data = (header for header in headers if header.count and not header.is_control)
        return max((header.max_timestamp for header in data), default=-1)

    def has_timestamp(self, timestamp: int, *, nowait: bool = False) -> bool:
        """Whether a record has `timestamp`, which is not negative, or a later one.

        A look-up in the time index can return True. False requires a scan of the batches after the last entry.
        """
        if self._max_timestamp is None and not nowait:
            opened = self.open_files()
            entry = time_search.sound_entry(self, opened, opened.time_index.last_entry, nowait=False)
            self._least_max_timestamp = entry[0]
        if self._max_timestamp is None and self._least_max_timestamp >= timestamp >= 0:
            return True
        return self.max_timestamp(nowait=nowait)[0] >= timestamp

    def reaches_timestamp(self, timestamp: int) -> bool:
        """Whether a record has `timestamp` or a later one. If no record has a timestamp, the file's time is used.

        Costs as much as `has_timestamp`.
        """
        if self.has_timestamp(max(timestamp, 0)):
            return True
        largest = self.max_timestamp()[0]
        return (largest if largest >= 0 else self.modified_ns // 1_000_000) >= timestamp

    def note_growth(self, header: BatchHeader) -> None:
        """Add a batch that another process appended."""
        if self._max_timestamp is not None and header.max_timestamp > self._max_timestamp[0]:
            self._max_timestamp = (header.max_timestamp, header.last_offset)
        # The first megabytes of a followed segment were once scanned without an index, because the broker had not
        # created one when the segment was opened.
        if self.size // REOPEN_BYTES != (self.size + header.size) // REOPEN_BYTES:
            self.pool.drop(self)  # drop indexes that were built because none existed: the writer has created one by now
        self.size += header.size

    def grow_to(self, size: int) -> None:
        """Add whole batches that another process appended, up to byte `size`; they are not read."""
        self._max_timestamp, self._least_max_timestamp = None, NO_TIMESTAMP
        self.size = size

    # --- opening -----------------------------------------------------------------------------------------------------

    def open_files(self, *, nowait: bool = False) -> SegmentFiles:
        """Return the open files; with `nowait` only if they are open already."""
        if self._files is not None:
            return self._files
        if nowait:
            opened = self.pool.peek(self)
            if opened is None:
                raise WouldBlock("the segment's files are not open", path=self.log_path)
            return opened
        return self.pool.get(self, lambda: segment_files.open_for_reading(self))

    @contextlib.contextmanager
    def open_log(self) -> Iterator[File]:
        """Open the log file for the block, without the indexes, which take twice as long to open."""
        opened = self._files or self.pool.peek(self)
        if opened is not None:
            yield opened.log
            return
        log = segment_files.open_log(self)
        try:
            yield log
        finally:
            log.close()

    def rebuild_indexes(self, *, nowait: bool = False) -> SegmentFiles:
        """Rebuild the indexes from the log, because an entry was wrong."""
        if nowait:
            raise WouldBlock("the index must be rebuilt", path=self.log_path)
        opened = self.open_files()
        if self._files is None:
            index, time_index = segment_indexes.rebuild(self, opened.log, "an entry does not agree with the log")
            self.pool.drop(self)
            opened = self.pool.get(self, lambda: SegmentFiles(opened.log, index, time_index))
        return opened

    def replace_indexes(self, builder: segment_indexes.IndexBuilder) -> None:
        """Replace the indexes on disk with those that a scan of the whole log built; see `segment_indexes.write`."""
        segment_indexes.write(self, builder)
        self.pool.drop(self)
        self._max_timestamp = builder.max_timestamp

    # --- writing (the log holds its lock) ----------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        pool: FilePool[SegmentFiles],
        *,
        clock: Clock = SYSTEM,
        ending: str = LIVE,
    ) -> Segment:
        """Create an empty segment, after removing leftover files with the same base offset. Its name is not synced."""
        segment_files.remove(directory, base_offset, ending)
        with files.created(os.path.join(directory, segment_name(base_offset, ".log" + ending))) as log:
            inode = log.stat().st_ino
        return cls(directory, base_offset, config, pool, size=0, inode=inode, clock=clock, ending=ending)

    def activate(self) -> None:
        """Open for appends: the indexes get their full size, as Kafka's active segment has them."""
        if self._files is not None:
            return
        opened = self.open_files()  # rebuilds missing indexes
        if not segment_files.ends_agree(self, opened):
            self.rebuild_indexes()
        self.max_timestamp()
        # As LogSegment.recover: where each append opens the log again, an index that counted from there stayed empty.
        self._bytes_since_index_entry = self.size - self.last_indexed_position()
        self._files = segment_files.open_for_appends(self)
        self.pool.drop(self)
        self._preallocate(self._files.log)

    def _preallocate(self, log: File) -> None:
        """Extend the file of an empty segment to its maximum size if `preallocate` is set (Kafka's FileRecords).

        The bytes after `size` are zeros, not data. If the disk refuses, the segment is used without it.
        """
        if self.size or not self.config.preallocate:
            return
        with contextlib.suppress(OSError):
            # A sparse file, as FileRecords makes it on Linux; a file system that refuses only loses the advantage.
            log.truncate(min(self.config.segment_bytes, LOG_BYTES_MAX))
            self._is_preallocated = True

    @property
    def is_preallocated(self) -> bool:
        """Whether the file is longer than the appended bytes."""
        return self._is_preallocated

    def trim(self) -> None:
        """Cut a preallocated file to the appended bytes; durable on return.

        Must happen before the next segment or the clean shutdown file is written, because recovery does not check this
        segment after that.
        """
        if self._files is not None and self._is_preallocated:
            self._files.log.truncate(self.size)
            self._is_preallocated = False
            self._files.log.sync()

    def append(self, batch: SealedBatch, base_offset: int, timestamp: int) -> None:
        """Write a stamped batch, whose largest timestamp is `timestamp`, at the end.

        After an error the file is cut back to its previous length. If that fails too, it is longer than `size`. After a
        MemoryError the same batch can be appended again.
        """
        opened = self.open_files()
        last_offset = base_offset + batch.count - 1
        position = self.size
        size = position + batch.size
        if not self._is_preallocated:
            self._preallocation.reserve(opened.log, position, batch.size)
        try:
            opened.log.write(position, batch.data)
            self._note(opened, batch, position, last_offset, timestamp)
        except (OSError, MemoryError):
            self._undo_write(opened, position)
            raise
        self.size = size  # nothing may be allocated from here on: the batch is in the segment now

    def _undo_write(self, opened: SegmentFiles, position: int) -> None:
        """Cut the file at `position` again: a part of the batch may be there."""
        with contextlib.suppress(OSError, MemoryError):
            opened.log.truncate(position)
            self._is_preallocated = False

    def append_rows(self, rows: Rows) -> None:
        """Write the whole batches of `rows` at the end, as they are; their positions are those in this file.

        Errors as of `append`. The indexes get an entry every `index.interval.bytes`, as from single appends.
        """
        opened = self.open_files()
        position, size = self.size, rows.end
        data, start = rows.block
        data = data[position - start : size - start]
        if not self._is_preallocated:
            self._preallocation.reserve(opened.log, position, len(data))
        state = chain.resumed_index_state(
            self.base_offset,
            self.config.index_interval_bytes,
            indexed_position=position - self._bytes_since_index_entry,
            next_offset=rows.base_offset,
            max_timestamp=self.max_timestamp(),
            time_entry=opened.time_index.last_entry[0],
        )
        entries, times = chain.index(rows.numbers, state)
        try:
            opened.log.write(position, data)
        except (OSError, MemoryError):
            self._undo_write(opened, position)
            raise
        self.size = size
        self._max_timestamp = chain.index_timestamp(state)
        try:
            opened.index.append_packed(entries)
            opened.time_index.append_packed(times)
        except OSError:  # a full disk: entries are lost, which costs time later
            self._bytes_since_index_entry += len(data)
        else:
            self._bytes_since_index_entry = size - chain.indexed_position(state)

    def rows_that_fit(self, rows: Rows) -> int:
        """Return how many of the batches can follow here before the next segment; their positions are in this file.

        The rules of `must_roll`, for many batches. An empty segment takes at least one, with which its age begins.
        """
        if self.has_torn_tail:
            return 0
        opened, size_max = self.open_files(), min(self.config.segment_bytes, LOG_BYTES_MAX)
        ends = array("q", map(operator.add, rows.column(chain.POSITION), rows.column(chain.SIZE)))
        # Each entry of an index is for more bytes than the interval, so these batches need no more than are free.
        free = min(opened.index.free, opened.time_index.free)
        indexable = bisect_right(ends, self.size + free * max(self.config.index_interval_bytes, 1) - 1)
        fitting = min(bisect_right(ends, size_max), max(indexable, min(free, 1)))
        if rows.next_offset - 1 - self.base_offset > RELATIVE_OFFSET_MAX:
            fitting = min(fitting, bisect_right(rows.next_offsets(), self.base_offset + RELATIVE_OFFSET_MAX + 1))
        timestamps = rows.column(chain.MAX_TIMESTAMP)
        if not self.size:
            self._roll_age.begin(timestamps[0])
        is_old = partial(self._roll_age.is_reached, measure_first=self._measure_first_timestamp)
        if is_old(max(timestamps)):
            fitting = min(fitting, next(number for number, timestamp in enumerate(timestamps) if is_old(timestamp)))
        return fitting if self.size else max(fitting, 1)

    def _note(self, opened: SegmentFiles, batch: SealedBatch, position: int, last_offset: int, timestamp: int) -> None:
        """Take the batch written at `position` into what is known of the segment; may be called again for it."""
        if timestamp > self.max_timestamp()[0]:
            self._max_timestamp = (timestamp, last_offset)
        if position == 0:
            self._roll_age.begin(timestamp)
        # The same rule as LogSegment.append: the entry is for the batch that begins after the interval.
        if self._bytes_since_index_entry > self.config.index_interval_bytes:
            self._index(opened, last_offset, position)
        self._bytes_since_index_entry += batch.size

    def _index(self, opened: SegmentFiles, last_offset: int, position: int) -> None:
        """Add the sparse index entries. On a full disk an entry is lost, which costs time later; the record is not."""
        try:
            opened.index.append(last_offset, position)
            opened.time_index.maybe_append(*self.max_timestamp())
        except (OSError, InvalidIndexAppend):
            return
        self._bytes_since_index_entry = 0

    @property
    def has_preallocation(self) -> bool:
        """Whether blocks are allocated beyond the appended bytes."""
        return self._preallocation.is_allocated

    def release_preallocation(self) -> None:
        """Release the blocks beyond the appended bytes, until more is appended."""
        if self._files is not None:
            self._preallocation.release(self._files.log, self.size)

    def must_roll(self, batch_size: int, last_offset: int, timestamp: int) -> bool:
        """Whether the next batch needs a new segment (Kafka's LogSegment.shouldRoll)."""
        # An append after a torn batch would complete it with the first bytes of the new one, and neither could be read.
        if self.has_torn_tail:
            return True
        opened = self.open_files()
        if self.size > self.config.segment_bytes - batch_size or self.size + batch_size > LOG_BYTES_MAX:
            return self.size > 0
        if self.size > 0 and self._roll_age.is_reached(timestamp, self._measure_first_timestamp):
            return True
        # As LogSegment.shouldRoll: without a free entry look-ups at the end would scan ever more bytes.
        if opened.index.is_full or opened.time_index.is_full:
            return self.size > 0
        return last_offset - self.base_offset > RELATIVE_OFFSET_MAX

    def _measure_first_timestamp(self) -> int:
        first = next(self.headers(over_damage=True), None)
        return -1 if first is None else first[1].max_timestamp

    def sync(self) -> None:
        """Sync log and indexes. After an error the content of the files on disk is unknown."""
        opened = self.open_files()
        if self._files is None:  # rolled meanwhile: synced through separate descriptors
            with self.names_lock:
                if not self.is_removed:
                    segment_files.sync_closed(self)
            return
        # The log first: if the disk fails in between, the records are safe, and a lost index entry costs only time.
        opened.log.sync()
        opened.index.sync()
        opened.time_index.sync()

    def deactivate(self) -> None:
        """End appends (roll, close): write the last time entry, cut the indexes to their entries, release the files.

        On a full disk the last time entry is lost, which costs time later. Any other error is raised.
        """
        if self._files is None:
            return
        self.release_preallocation()
        if self._is_preallocated:
            self._files.log.truncate(self.size)
            self._is_preallocated = False
        opened, self._files = self._files, None
        try:
            opened.time_index.maybe_append(*self.max_timestamp(), skip_full=True)
        except OSError as error:
            if error.errno not in FULL:
                raise
        opened.index.trim()
        opened.time_index.trim()  # also of a part of the entry; not closed: the last reader that uses it closes it

    def release(self) -> None:
        """Release the open files unchanged: the segment belongs to no log any more."""
        self._files = None
        self.pool.evict(self)

    def check(self) -> None:
        """Assert the invariants between two operations; for tests."""
        expected, size = self.base_offset, 0
        for batch in self.batches():
            assert batch.header.base_offset >= expected, (self.log_path, batch.position)
            expected, size = batch.header.next_offset, (batch.position or 0) + batch.header.size
        assert size == self.size, self.log_path
        for offset, position in self.open_files().index.entries():
            if self.read_only and position >= self.size:
                continue  # of a batch that the log does not show yet
            assert self.batch_at_position(position).base_offset <= offset, (self.log_path, offset)
