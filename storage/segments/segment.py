"""A segment: one `.log` file, its offset index and its time index.

Follows Kafka's LogSegment. A sealed segment opens its files when they are needed and holds none; the active one of a
writer keeps them open. Indexes are hints: an entry is believed only when the batch it points to agrees, else the index
is made anew from the log.

A segment that is taken out of its log lives on as long as somebody holds it: its files are renamed (`.deleted`), the
object follows them, and after they are unlinked what was not open answers ESTALE.

Not here: how its files are opened (segment_files) and searched (offset_search, time_search); which segments a log has,
offsets and epochs of new batches (log); what to do after a crash (recovery).
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.errors import InvalidIndexAppend, MalformedBatch, WouldBlock
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name, segment_offset_max
from offsetfs.storage.records import batch_chain
from offsetfs.storage.records.batch import Batch, BatchHeader
from offsetfs.storage.records.batch_builder import SealedBatch
from offsetfs.storage.records.legacy import NO_RUNS
from offsetfs.storage.segments import offset_search, segment_files, segment_indexes, time_search
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.preallocation import Preallocation
from offsetfs.storage.segments.removed_names import REMOVED
from offsetfs.storage.segments.roll_age import RollAge
from offsetfs.storage.segments.segment_files import LIVE, RELATIVE_OFFSET_MAX, SegmentFiles
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.units import NO_TIMESTAMP

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a full disk answers: the caller's to solve, and no reason to distrust the disk."""

LOG_BYTES_MAX = 2**31 - 1
REOPEN_BYTES = 1 << 20


class Segment:
    """Batches from `base_offset` on, in `size` valid bytes."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_files",
        "_is_preallocated",
        "_least_max_timestamp",
        "_max_timestamp",
        "_roll_age",
        "_room",
        "base_offset",
        "clock",
        "config",
        "directory",
        "ending",
        "ends_torn",
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
    ) -> None:
        """Name the segment of `directory` that begins at `base_offset`; `size` None: as long as the file.

        With `inode` no other file of that name is taken for it: opening answers ESTALE where another one was put.
        `ending` is what all its names end in: nothing, or what a segment in the making is called (`.cleaned`).
        """
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.read_only = read_only
        self.ending = ending
        self.log_path = self.path(".log")
        if size is None:
            status = files.status(self.log_path)
            size, inode = status.st_size, inode if read_only else status.st_ino
        self.size = size
        self.pool = pool
        self.inode = inode
        self.clock = clock
        self._files: SegmentFiles | None = None
        self._max_timestamp: tuple[int, int] | None = None
        self._least_max_timestamp: int = NO_TIMESTAMP  # what the time index says, which may end early
        self._bytes_since_index_entry = 0
        self._room = Preallocation()
        self._is_preallocated = False
        self._roll_age = RollAge(config, clock)
        self.ends_torn = False
        """Whether the last bytes are of no whole batch, and stay: what is appended does not begin amid them."""
        self.names_lock = threading.Lock()

    def configure(self, config: LogConfig) -> None:
        """Go by other settings from now on. How long open index files may get stays as it is."""
        self._roll_age.configure(config)
        self.config = config

    def path(self, suffix: str) -> str:
        """Return the path of the file with this suffix (`.index`, `.snapshot`, …) as it is called now."""
        return os.path.join(self.directory, segment_name(self.base_offset, suffix + self.ending))

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this process holds the segment open for appends."""
        return self._files is not None

    @property
    def is_removed(self) -> bool:
        """Whether the segment was taken out of its log: who holds it may read on, nothing is written for it."""
        return self.ending.endswith(REMOVED)

    @property
    def modified_ns(self) -> int:
        """When the log file last changed, nanoseconds since 1970."""
        return files.status(self.log_path).st_mtime_ns

    def find(self, offset: int, *, offset_end: int | None = None, nowait: bool = False) -> Batch | None:
        """Return the first batch whose last offset is ≥ `offset`, checksum verified; None when there is none.

        `offset_end`: where the next segment begins, which tells batches that lie. Costs an index look-up and a walk of
        one index interval, whatever the size of the segment. Raises `CorruptBatch`, `MalformedBatch`,
        `UnsupportedFormat` when the offset is in what is damaged; with `nowait` `WouldBlock`.
        """
        return offset_search.find(self, offset, offset_end=offset_end, nowait=nowait)

    def batch_at_position(self, position: int, *, nowait: bool = False) -> Batch:
        """Return the batch that begins at byte `position`, checksum verified."""
        log = self.open_files(nowait=nowait).log
        for place, header, seen in batch_chain.headers(log, position, self.size, nowait=nowait):
            return batch_chain.load(log, place, header, seen, nowait=nowait)
        raise MalformedBatch("no whole batch here", path=self.log_path, position=position)

    def batches(
        self,
        position: int = 0,
        end: int | None = None,
        *,
        on_damage: batch_chain.OnDamage | None = None,
        runs: tuple[int, ...] = NO_RUNS,
    ) -> Iterator[Batch]:
        """Yield the batches in `[position, end)`, checksums verified; see `batch_chain.batches` for damage and runs."""
        log = self.open_files().log
        return batch_chain.batches(log, position, self.size if end is None else end, on_damage=on_damage, runs=runs)

    def headers(
        self, position: int = 0, *, over_damage: bool = False, runs: tuple[int, ...] = NO_RUNS
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield `(position, header)` of the batches from `position` on, checksums not looked at.

        A header that cannot be true raises `MalformedBatch`, or is stepped over when `over_damage` is asked for.
        """
        chain = batch_chain.walk if over_damage else batch_chain.headers
        log = self.open_files().log
        found = chain(log, position, self.size, block_bytes=batch_chain.BLOCK_BYTES, runs=runs)
        return ((place, header) for place, header, _ in found)

    def position_of(self, offset: int, *, nowait: bool = False) -> int:
        """Return the byte position of the batch that `find` would return, or `size`."""
        opened = self.open_files(nowait=nowait)
        position = offset_search.floor_position(self, opened, offset, nowait)
        for place, header, _ in batch_chain.walk(opened.log, position, self.size, nowait=nowait):
            if header.last_offset >= offset:
                return place
        return self.size

    def last_indexed_position(self) -> int:
        """Return the byte position of the last batch that the index knows: the end is at most an interval away."""
        last = segment_offset_max(self.base_offset)
        return offset_search.floor_position(self, self.open_files(), last, nowait=False)

    # --- time --------------------------------------------------------------------------------------------------------

    def max_timestamp(self, *, nowait: bool = False) -> tuple[int, int]:
        """Return the largest record timestamp and the last offset of the first batch that has it; (-1, base) if none.

        The last entry of the time index, when its batch agrees, and whatever batches lie behind it.
        """
        if self._max_timestamp is None:
            if nowait:
                raise WouldBlock("the largest timestamp is not known yet", path=self.log_path)
            self._max_timestamp = time_search.measure_max_timestamp(self)
        return self._max_timestamp

    def has_timestamp(self, timestamp: int, *, nowait: bool = False) -> bool:
        """Whether a record is of `timestamp`, which is not negative, or later.

        Costs a look at the time index where that says yes; no is said only after a walk over what lies behind it.
        """
        if self._max_timestamp is None and not nowait:
            self._least_max_timestamp = time_search.last_entry(self)[0]
        if self._max_timestamp is None and self._least_max_timestamp >= timestamp >= 0:
            return True
        return self.max_timestamp(nowait=nowait)[0] >= timestamp

    def reaches_timestamp(self, timestamp: int) -> bool:
        """Whether a record is of `timestamp` or later; where no record has a time, whether the file is.

        Costs what `has_timestamp` does.
        """
        if self.has_timestamp(max(timestamp, 0)):
            return True
        largest = self.max_timestamp()[0]
        return (largest if largest >= 0 else self.modified_ns // 1_000_000) >= timestamp

    def note_growth(self, header: BatchHeader) -> None:
        """Take in a batch that another process wrote behind the last one."""
        if self._max_timestamp is not None and header.max_timestamp > self._max_timestamp[0]:
            self._max_timestamp = (header.max_timestamp, header.last_offset)
        if self.size // REOPEN_BYTES != (self.size + header.size) // REOPEN_BYTES:
            self.pool.drop(self)  # where we made an index because there was none, its owner has one by now
        self.size += header.size

    # --- opening -----------------------------------------------------------------------------------------------------

    def open_files(self, *, nowait: bool = False) -> SegmentFiles:
        """Return the open files; with `nowait` only when they are open already."""
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
        """Hold the log file open for a look at it, without the indexes, which cost twice as much to open."""
        opened = self._files or self.pool.peek(self)
        if opened is not None:
            yield opened.log
            return
        log = segment_files.open_log(self)
        try:
            yield log
        finally:
            log.close()

    def distrust_indexes(self, *, nowait: bool = False) -> SegmentFiles:
        """Make the indexes anew from the log, because an entry proved wrong."""
        if nowait:
            raise WouldBlock("the index has to be made anew", path=self.log_path)
        opened = self.open_files()
        if self._files is None:
            index, time_index = segment_indexes.rebuild(self, opened.log)
            self.pool.drop(self)
            opened = self.pool.get(self, lambda: SegmentFiles(opened.log, index, time_index))
        return opened

    def adopt_indexes(self, builder: segment_indexes.IndexBuilder) -> None:
        """Put the indexes that a walk over the whole log made in the place of those on disk; see `write` there."""
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
        """Make an empty segment; leftovers of one with the same base offset go first. Its name is not synced."""
        segment_files.remove(directory, base_offset, ending)
        with files.created(os.path.join(directory, segment_name(base_offset, ".log" + ending))) as log:
            inode = log.stat().st_ino
        return cls(directory, base_offset, config, pool, size=0, inode=inode, clock=clock, ending=ending)

    def activate(self) -> None:
        """Open for appends: indexes at their full length, as Kafka's active segment has them."""
        if self._files is not None:
            return
        opened = self.open_files()  # what is missing is made anew
        if not segment_files.ends_agree(self, opened):
            self.distrust_indexes()
        self.max_timestamp()
        self._files = segment_files.open_for_appends(self)
        self.pool.drop(self)
        self._preallocate(self._files.log)

    def _preallocate(self, log: File) -> None:
        """Make the file of an empty segment as long as it may become, where `preallocate` is set (Kafka's FileRecords).

        The bytes behind `size` are zeros, and no data. Where the disk refuses, the segment goes on without.
        """
        if self.size or not self.config.preallocate:
            return
        with contextlib.suppress(OSError):
            log.truncate(min(self.config.segment_bytes, LOG_BYTES_MAX))
            self._is_preallocated = True

    @property
    def is_preallocated(self) -> bool:
        """Whether the file is longer than what was appended."""
        return self._is_preallocated

    def trim(self) -> None:
        """Cut a preallocated file to what was appended, on disk after return.

        To be called before another segment or the mark of a clean shutdown follows: no recovery looks here after that.
        """
        if self._files is not None and self._is_preallocated:
            self._files.log.truncate(self.size)
            self._is_preallocated = False
            self._files.log.sync()

    def append(self, batch: SealedBatch, base_offset: int, timestamp: int) -> None:
        """Write a stamped batch, whose largest timestamp is `timestamp`, at the end.

        On an error the file is cut back to its length before; when that fails too, it is longer than `size`.
        """
        opened = self.open_files()
        last_offset = base_offset + batch.count - 1
        position = self.size
        if not self._is_preallocated:
            self._room.provide(opened.log, position, batch.size)
        try:
            opened.log.write(position, batch.data)
        except OSError:
            with contextlib.suppress(OSError):
                opened.log.truncate(position)
                self._is_preallocated = False
            raise
        if timestamp > self.max_timestamp()[0]:
            self._max_timestamp = (timestamp, last_offset)
        if position == 0:
            self._roll_age.begin(timestamp)
        if self._bytes_since_index_entry > self.config.index_interval_bytes:
            self._index(opened, last_offset, position)
        self._bytes_since_index_entry += batch.size
        self.size = position + batch.size

    def _index(self, opened: SegmentFiles, last_offset: int, position: int) -> None:
        """Add the sparse entries. A full disk costs an entry, which costs time later, never the record."""
        try:
            opened.index.append(last_offset, position)
            opened.time_index.maybe_append(*self.max_timestamp())
        except (OSError, InvalidIndexAppend):
            return
        self._bytes_since_index_entry = 0

    @property
    def has_room_set_aside(self) -> bool:
        """Whether more of the disk is taken than was appended."""
        return self._room.is_set_aside

    def give_back_room(self) -> None:
        """Take no more of the disk than was appended; until more is."""
        if self._files is not None:
            self._room.give_back(self._files.log, self.size)

    def must_roll(self, batch_size: int, last_offset: int, timestamp: int) -> bool:
        """Whether the next batch belongs into a new segment (Kafka's LogSegment.shouldRoll)."""
        if self.ends_torn:
            return True
        opened = self.open_files()
        if self.size > self.config.segment_bytes - batch_size or self.size + batch_size > LOG_BYTES_MAX:
            return self.size > 0
        if self.size > 0 and self._roll_age.is_reached(timestamp, self._measure_first_timestamp):
            return True
        if opened.index.is_full or opened.time_index.is_full:
            return self.size > 0
        return last_offset - self.base_offset > RELATIVE_OFFSET_MAX

    def _measure_first_timestamp(self) -> int:
        first = next(self.headers(over_damage=True), None)
        return -1 if first is None else first[1].max_timestamp

    def sync(self) -> None:
        """Make log and indexes survive power loss. After an error nobody may trust the files again."""
        opened = self.open_files()
        if self._files is None:  # rolled since: synced through a descriptor of its own
            with self.names_lock:
                if not self.is_removed:
                    segment_files.sync_closed(self)
            return
        opened.log.sync()
        opened.index.flush()
        opened.time_index.flush()

    def deactivate(self) -> None:
        """End appends (roll, close): the last time entry, indexes cut to what is valid, files let go.

        A full disk costs the entry, which costs time later. Any other error says nothing of what is in the indexes.
        """
        if self._files is None:
            return
        self.give_back_room()
        if self._is_preallocated:
            self._files.log.truncate(self.size)
            self._is_preallocated = False
        opened, self._files = self._files, None
        try:
            opened.time_index.maybe_append(*self.max_timestamp(), skip_full=True)
            opened.index.trim()
            opened.time_index.trim()  # not closed: a reader may still look something up, and the last one closes
        except OSError as error:
            if error.errno not in FULL:
                raise

    def release(self) -> None:
        """Let the open files go as they are: the segment is no log's any more."""
        self._files = None
        self.pool.let_go(self)

    def check(self) -> None:
        """Assert what must hold between any two operations; for tests."""
        expected, size = self.base_offset, 0
        for batch in self.batches():
            assert batch.header.base_offset >= expected, (self.log_path, batch.position)
            expected, size = batch.header.next_offset, (batch.position or 0) + batch.header.size
        assert size == self.size, self.log_path
        for offset, position in self.open_files().index.entries():
            if self.read_only and position >= self.size:
                continue  # of a batch that the log does not show yet
            assert self.batch_at_position(position).base_offset <= offset, (self.log_path, offset)
