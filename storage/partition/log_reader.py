"""Readers of a log: `LogView`, the log at one isolation level, and `LogReader`, a range of its records.

The isolation levels are those of Kafka's consumers (KIP-98). With read_committed a reader sees records below the last
stable offset that are of no aborted transaction. Both only grow, so what was shown once is always shown. Control
batches are no records and are not visible.

Every bulk reader of a log uses `LogReader`, so that all have the same answer to what may happen meanwhile:

* a roll or an append: the range was fixed when the iteration began; nothing is missed, nothing is added;
* compaction, or a conversion of formats: a segment that was replaced before it was opened is read from its replacement,
  from the offset that was reached on. Another process may have replaced it, so the directory is listed before that;
* retention, or a deletion of records: what was removed before it was opened is lost, see `on_lost`;
* a deletion of the partition, or a log in its place that another process truncated or created again: the rest is lost.

What is open is read to its end, whatever happens to its name: records that were removed meanwhile may still be read.

Follows the fetch loop of Kafka's consumer, and UnifiedLog.read for the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from offsetfs.storage.errors import UNREADABLE, MalformedBatch, OffsetOutOfRange, StorageError, UnknownPartition
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.segment_retry import SegmentRetry, with_retry
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import MAGIC, Batch, BatchHeader
from offsetfs.storage.records.format.batch_group import BatchJoining, GroupHeader
from offsetfs.storage.records.format.batch_row import BASE_OFFSET
from offsetfs.storage.records.format.legacy import NO_RUNS
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.records.json.batch_json import joined_json
from offsetfs.storage.records.json.record_json import line_prefix
from offsetfs.storage.segments.offset_order import misplaced
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.time_search import FoundRecord, VisibilityFilter, shows_data

READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"


class LogView:
    """A log as readers of one isolation level see it. With `nowait` everything raises `WouldBlock` as the log does."""

    __slots__ = ("_on_damage", "is_committed_only", "log", "shows")

    def __init__(self, log: Log, *, is_committed_only: bool = False, on_damage: OnDamage | None = None) -> None:
        """`on_damage`: called with each batch that a search by time skips; by default the log records it."""
        self.log = log
        self._on_damage = on_damage
        self.is_committed_only = is_committed_only
        self.shows: VisibilityFilter = self._shows_committed if is_committed_only else shows_data

    @property
    def isolation(self) -> Literal["read_uncommitted", "read_committed"]:
        """The isolation level, as Kafka's consumers name it."""
        return READ_COMMITTED if self.is_committed_only else READ_UNCOMMITTED

    def end_offset(self, *, nowait: bool = False) -> int:
        """Return the offset at which the view ends for now; never inside a batch."""
        return self.log.last_stable_offset(nowait=nowait) if self.is_committed_only else self.log.next_offset

    def _shows_committed(self, header: BatchHeader, *, nowait: bool = False) -> bool:
        return not header.is_control and self.log.transactions.is_committed(header, nowait=nowait)

    def find_timestamp(self, timestamp: int, *, nowait: bool = False) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record shown with a timestamp ≥ `timestamp`; see `Log`."""
        record = self.find_record(timestamp, nowait=nowait)
        return None if record is None else (record.offset, record.timestamp)

    def find_record(self, timestamp: int, *, nowait: bool = False) -> FoundRecord | None:
        """Return the first record shown with a timestamp ≥ `timestamp`, and its batch; see `Log.find_timestamp`."""
        end = self.end_offset(nowait=nowait)
        record = self.log.find_record(timestamp, shows=self.shows, on_damage=self._on_damage, nowait=nowait)
        return record if record is not None and record.offset < end else None


RAW: Final = "raw"
"""The isolation level of readers that interpret control batches themselves."""

Isolation = Literal["read_uncommitted", "read_committed", "raw"]

BatchSlice = tuple[Batch, int, int]
"""A batch, and the offsets `[first, stop)` between which its records belong to the range."""

Piece = tuple[int, int, int]
"""The offsets `[start, stop)` of a piece of a range, and its size in bytes."""

OnError = Callable[[StorageError], object]


class LogReader:
    """The offsets `[start, stop)` of a log, as readers of one isolation level see them.

    Each call of a method below begins at `start` again and returns an iterator of its own. The work is proportional to
    the range; nothing is kept in memory but one block of a megabyte and one batch. Any thread may use a reader; one
    thread at a time an iterator.

    Errors of the iterators, apart from the disk's OSError:

    * `CorruptBatch`, `MalformedBatch`, `UnsupportedFormat`, `DecompressionLimit` at damage, with path, position and
      offset, unless `on_damage` is given. Damage that ends before the range, or begins behind it, is not met.
    * `OffsetOutOfRange` where records of the range are gone, or `start` is beyond the end of the log;
      `UnknownPartition` where the log is. Both unless `on_lost` is given.
    * OSError ESTALE where a segment's file is gone, and after `segment_retry.REPLACEMENT_WAIT_S` neither has another
      taken its place nor does the log begin behind it: something removed it by hand.
    """

    __slots__ = ("_log", "_on_damage", "_on_lost", "_runs", "_start", "_stop", "_view")

    def __init__(
        self,
        log: Log,
        *,
        start: int | None = None,
        stop: int | None = None,
        isolation: Isolation = READ_UNCOMMITTED,
        on_damage: OnError | None = None,
        on_lost: OnError | None = None,
        runs: tuple[int, ...] = NO_RUNS,
    ) -> None:
        """Take note of what is to be read; nothing is opened.

        `start`: the first offset; None: the log start. `stop`: the offset behind the last; None, or one beyond it: the
        end that the isolation level shows when the iteration begins.

        `isolation`: "read_uncommitted" shows all records, "read_committed" those below the last stable offset that are
        of no aborted transaction. Neither shows control batches. "raw" shows every batch, control batches among them.

        `on_damage`: called with the error of each batch that cannot be read, which is left out; None: it is raised.
        `on_lost`: called with the `OffsetOutOfRange` or `UnknownPartition` of each loss, and reading goes on with the
        first record that is left; None: it is raised. Either may raise an error of its own, or append to a list.

        `runs`: message formats (0, 1) of which loose messages come several at a time, see `storage.records.legacy`.
        """
        self._log = log
        self._view = None if isolation == RAW else LogView(log, is_committed_only=isolation == READ_COMMITTED)
        self._start = start
        self._stop = stop
        self._on_damage = on_damage
        self._on_lost = on_lost
        self._runs = runs

    # --- what is read ------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Batch]:
        """Yield the whole batches that reach into the range, with checksums verified.

        After a segment was replaced by one with other batches, a batch may repeat records: `slices` has the range of
        each.
        """
        for batch, _, _ in self.slices():
            yield batch

    def records(self) -> Iterator[Record]:
        """Yield the records. Costs Python objects: `values`, `ndjson` and `Batch.rows` do not."""
        for batch, first, stop in self.slices():
            try:
                records = batch.records()
            except UNREADABLE as error:
                self._skip(error)
                continue
            for record in records:
                if first <= record.offset < stop:
                    yield record

    def values(self) -> Iterator[bytes | bytearray]:
        """Yield the values with a newline behind each, a batch at a time; a null value is an empty line."""
        for batch, first, stop in self.slices():
            try:
                if first <= batch.base_offset and batch.header.next_offset <= stop:
                    joined: bytes | bytearray = batch.joined()
                else:
                    shown = (record for record in batch.records() if first <= record.offset < stop)
                    joined = b"".join((record.value or b"") + b"\n" for record in shown)
            except UNREADABLE as error:
                self._skip(error)
                continue
            yield joined
            del joined  # before the next one is made: that can take the same memory

    def ndjson(self) -> Iterator[bytes | bytearray]:
        """Yield the records as lines of JSON (docs/internals/format/records-ndjson.md), a batch at a time."""
        partition = self._log.partition
        prefix = line_prefix(partition.topic, partition.partition)
        for batch, first, stop in self.slices():
            try:
                joined = joined_json(batch, prefix, offset_from=first, offset_to=stop)
            except UNREADABLE as error:
                self._skip(error)
                continue
            yield joined
            del joined

    def slices(self) -> Iterator[BatchSlice]:
        """Yield each batch that reaches into the range, and the offsets of it that belong there."""
        return self._slices(is_grouped=False)

    def groups(self) -> Iterator[BatchSlice]:
        """Yield as `slices`, plain batches of a block as one `BatchGroup`: a small batch costs no objects."""
        return self._slices(is_grouped=True)

    def _slices(self, *, is_grouped: bool) -> Iterator[BatchSlice]:
        log, shows = self._log, None if self._view is None else self._view.shows
        on_damage = None if self._on_damage is None else _OncePerPlace(self._on_damage)
        # Fixed at the beginning, so that a writer beside the reader cannot make the iteration endless.
        offset, stop = self._bounds()
        retry = SegmentRetry(log)
        while offset < stop:
            first = offset = self._at_log_start(offset)
            segments = log.snapshot()
            try:
                for segment in segments.from_floor(first):
                    begin = segment.reading_position(first)
                    joins = BatchJoining(first, min(stop, self._end_of(segment, segments)) - 1) if is_grouped else None
                    for batch in self._batches(segment, begin, stop, on_damage, joins):
                        header = batch.header
                        following = header.next_offset
                        # A lower last offset than the range begins with: the batch before the start, or one with a
                        # damaged base offset, which no checksum covers.
                        if following <= first:
                            if offset > first:
                                self._skip(_misplaced(batch))
                            continue
                        try:
                            base_offset = header.base_offset if header.magic == MAGIC else batch.base_offset
                        except UNREADABLE as error:  # of a compressed set of v0 or v1, which does not inflate
                            self._skip(error)
                            continue
                        if base_offset >= stop:
                            # A flipped bit that puts a batch beyond its segment once ended a range without an error.
                            if offset < stop and base_offset >= self._end_of(segment, segments):
                                self._skip(_misplaced(batch))
                                continue
                            return
                        is_shown = shows is None or shows(header)  # before the offset moves: it may read a segment, too
                        # Nothing behind it is read: that may be damaged. Where there is a gap the offset is no proof.
                        last_base = header.last_base_offset if isinstance(header, GroupHeader) else base_offset
                        before_last = header.offset_before_last if isinstance(header, GroupHeader) else offset
                        is_last = following >= stop and last_base <= before_last
                        if following > offset:
                            offset = following
                        if is_shown:
                            yield batch, first, stop
                        if is_last:
                            return
                return
            except OSError as error:
                # A replaced segment is looked for in a new listing for a second: a swap renames file by file, and a
                # segment is missing in between.
                if not retry.again(error, segments, offset):
                    reason = "the partition was deleted or created again while it was read"
                    self._lose(UnknownPartition(reason, path=log.path))
                    return

    def headers(self) -> Iterator[Rows]:
        """Yield the headers of all batches that reach into the range, control batches too, in rows of several.

        Records are not read and checksums not verified, so that damage inside a batch is not met. The first batch may
        begin before the range.
        """
        log = self._log
        offset, stop = self._bounds()
        retry = SegmentRetry(log)
        while offset < stop:
            offset = self._at_log_start(offset)
            segments = log.snapshot()
            try:
                for segment in segments.from_floor(offset):
                    if segment.base_offset >= stop:
                        return
                    for rows in self._headers_in(segment, offset, stop):
                        yield rows
                        # A flipped bit in an offset must not end the iteration.
                        offset = max(offset, min(rows.next_offset, self._end_of(segment, segments)))
                return
            except OSError as error:
                if not retry.again(error, segments, offset):
                    reason = "the partition was deleted or created again while it was read"
                    self._lose(UnknownPartition(reason, path=log.path))
                    return

    def _headers_in(self, segment: Segment, offset: int, stop: int) -> Iterator[Rows]:
        position = segment.reading_position(offset)
        with segment.open_log() as file:
            walk = row_walk.header_rows(file, position, segment.size, runs=self._runs, on_damage=self._skip)
            for rows in walk:
                reached = _reaching(rows, offset, stop)
                if reached is not None:
                    yield reached

    def _batches(
        self, segment: Segment, begin: int, stop: int, on_damage: _OncePerPlace | None, joins: BatchJoining | None
    ) -> Iterator[Batch]:
        log = segment.open_files().log
        if joins is None or log.is_remote:  # a remote file is read no further than needed
            return segment.batches(begin, on_damage=on_damage, runs=self._runs, offset_end=stop)
        return batch_chain.batches(log, begin, segment.size, on_damage=on_damage, runs=self._runs, joins=joins)

    # --- how much it is ----------------------------------------------------------------------------------------------

    def size_bytes(self) -> int:
        """Return about how many bytes of segments the range takes, exact to an interval of the offset index.

        Reads indexes only, and reports no loss. OSError as the iterators.
        """
        start, stop = self._offsets()
        return with_retry(
            self._log, start, lambda segments: sum(last - first for _, first, last in _parts(segments, start, stop))
        )

    def cut(self, piece_bytes: int) -> list[Piece]:
        """Return contiguous pieces of about `piece_bytes` bytes that cover the range.

        A range of up to one and a half times `piece_bytes` is one piece. A piece is larger than that only if the index
        has no entry to cut at. Reads indexes only; OSError as the iterators.

        An index is a hint: a cut may lie inside a batch if the index is damaged. Then the readers of both pieces read
        that batch, and each returns its own records, so a damaged index neither loses nor repeats a record.
        """
        start, stop = self._offsets()
        return with_retry(self._log, start, lambda segments: list(_pieces(segments, start, stop, piece_bytes)))

    def _offsets(self) -> tuple[int, int]:
        """Return the offsets that were asked for, with the ends of the log where none were."""
        start, stop = self._start, self._stop
        if start is None:
            start = self._log.log_start_offset
        if stop is None:
            stop = self._log.next_offset if self._view is None else self._view.end_offset()
        return start, stop

    # --- policies ----------------------------------------------------------------------------------------------------

    def _bounds(self) -> tuple[int, int]:
        """Return where reading begins and ends. A start beyond the end of the log is a loss."""
        log = self._log
        end = log.next_offset if self._view is None else self._view.end_offset()
        offset = log.log_start_offset if self._start is None else self._start
        if offset > log.next_offset and (self._stop is None or self._stop > offset):
            self._lose(OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path))
        return offset, end if self._stop is None else min(self._stop, end)

    def _at_log_start(self, offset: int) -> int:
        """Return `offset`, or the log start where that lies above it, which is a loss."""
        log_start = self._log.log_start_offset
        if offset >= log_start:
            return offset
        self._lose(OffsetOutOfRange(offset, log_start, self._log.next_offset, self._log.path))
        return log_start

    def _end_of(self, segment: Segment, segments: Segments) -> int:
        """Return the offset below which every batch of the segment begins, unless its base offset is damaged."""
        following = segments.next_base_offset(segment)
        return self._log.next_offset if following is None else following

    def _lose(self, error: StorageError) -> None:
        if self._on_lost is None:
            raise error
        self._on_lost(error)

    def _skip(self, error: StorageError) -> None:
        if self._on_damage is None:
            raise error
        self._on_damage(error)


def _reaching(rows: Rows, start: int, stop: int) -> Rows | None:
    """Return the batches that reach into `[start, stop)`; None if there are none."""
    if start <= rows.base_offset and rows.next_offset <= stop:
        return rows
    begin = next((row for row, behind in enumerate(rows.next_offsets()) if behind > start), len(rows))
    bases = rows.column(BASE_OFFSET)
    # From the end, because a damaged offset in between is above all others.
    end = next((row + 1 for row in reversed(range(begin, len(rows))) if bases[row] < stop), begin)
    return rows.part(begin, end) if begin < end else None


class _OncePerPlace:
    """Reports damage once, though a segment may be read again from before it."""

    __slots__ = ("_report", "_seen")

    def __init__(self, report: OnError) -> None:
        self._report = report
        self._seen: set[tuple[str | None, int | None]] = set()

    def __call__(self, error: StorageError, following: int) -> None:
        location = error.path, error.position
        if location not in self._seen:
            self._seen.add(location)
            self._report(error)


def _misplaced(batch: Batch) -> MalformedBatch:
    """Return the error of a batch whose base offset, which no checksum covers, cannot be true where it is."""
    header = batch.header
    return misplaced(header.base_offset, header.last_offset, batch.path, batch.position)


def _pieces(segments: Segments, start: int, stop: int, piece_bytes: int) -> Iterator[Piece]:
    parts = list(_parts(segments, start, stop))
    size = sum(last - first for _, first, last in parts)
    if size <= piece_bytes + piece_bytes // 2:
        yield start, stop, size
        return
    gathered = 0
    for segment, position, last in parts:
        index = segment.open_files().index
        while gathered + last - position > piece_bytes:
            entry = index.upper_bound((segment.base_offset, position), piece_bytes - gathered)
            if entry is None or entry[1] >= last or not start < entry[0] + 1 < stop:
                break
            yield start, entry[0] + 1, gathered + entry[1] - position
            start, position, gathered = entry[0] + 1, entry[1], 0
        gathered += last - position
    if start < stop:
        yield start, stop, gathered


def _parts(segments: Segments, start: int, stop: int) -> Iterator[tuple[Segment, int, int]]:
    """Yield each segment that has some of the offsets, and the positions between which they are, to an interval."""
    for segment in segments.from_floor(start):
        if segment.base_offset >= stop:
            return
        following = segments.next_base_offset(segment)
        index = segment.open_files().index
        first = 0 if start <= segment.base_offset else min(index.lookup(start)[1], segment.size)
        is_whole = following is not None and following <= stop
        last = segment.size if is_whole else min(_position_after(segment, stop), segment.size)
        yield segment, first, max(last, first)


def _position_after(segment: Segment, offset: int) -> int:
    """Return the position of the first entry at or above `offset`, the end of the segment if there is none."""
    index = segment.open_files().index
    floor = index.lookup(offset - 1)
    following = index.upper_bound(floor, 1)
    return segment.size if following is None else following[1]
