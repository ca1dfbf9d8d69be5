"""The log of one partition: append, read by offset, find by time, flush.

Follows Kafka's UnifiedLog and LocalLog. One writer appends under a lock; readers use the immutable segment map and the
sizes in it, without a lock. The high watermark is `next_offset`: for a writer it is the log end, because it is the only
replica. A log that is open for reading beside a broker with followers ends at the checkpointed high watermark;
`log_end_offset` returns where its files end.

Durability: after `append` the records are in the segment file, so they survive a crash of this process. After `flush`
they are on disk. A write that cannot be undone, or a failed sync, ends writing to the log: no later write
is acknowledged.

Other modules: the steps of a truncation, a roll and a replacement (changes), retention, opening after a crash
(recovery), several partitions (directory).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import (
    LogFailed,
    OffsetOutOfRange,
    PolicyViolation,
    ReadOnlyLog,
    RecordTooLarge,
    StorageError,
    UnknownPartition,
    UnrecoveredLog,
    WouldBlock,
)
from offsetfs.storage.names import OFFSET_MAX, TopicPartition
from offsetfs.storage.partition import changes, replicated_batches
from offsetfs.storage.partition.damage_registry import DamageRegistry, OnDamage
from offsetfs.storage.partition.epochs import latest_epoch
from offsetfs.storage.partition.log_parts import LogParts
from offsetfs.storage.partition.log_producers import LogProducers
from offsetfs.storage.partition.log_state import Appended as Appended
from offsetfs.storage.partition.log_state import BatchRange, LogState, remote_note
from offsetfs.storage.partition.log_state import Damage as Damage
from offsetfs.storage.partition.producers import ProducerEntry
from offsetfs.storage.partition.segment_retry import SegmentRetry, with_retry
from offsetfs.storage.partition.transactions import Transactions
from offsetfs.storage.partition.unsynced import UnsyncedAccount
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, Batch, set_append_time, stamp
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.batch_chain import CheckedBatch
from offsetfs.storage.records.format.batch_header import Buffer, has_producer
from offsetfs.storage.segments.segment import FULL, Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.time_search import FoundRecord, VisibilityFilter, shows_data
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.units import I64_MAX

if TYPE_CHECKING:
    from offsetfs.storage.partition.follower import LogFollower

ALL = -1
"""The offset for `Log.delete_records` that stands for the end of the log."""

LARGE_BATCH_BYTES = 4096
"""The size from which `Log.find_range` reads the header of each batch alone."""


class Log:
    """A partition. Offsets `[log_start_offset, next_offset)` are readable, those below `recovery_point` are on disk."""

    def __init__(
        self, partition: TopicPartition, path: str, config: LogConfig, state: LogState, parts: LogParts
    ) -> None:
        """Take the result of recovery; use `log_loader.open_log`."""
        self.partition = partition
        self.path = path
        self.config = config
        self.context = parts.context
        self.clock = self.context.clock
        self.is_mirrored = bool(self.context.mirrored_from)
        """Whether the records are those of a topic of a cluster, so that no others can be appended."""
        self.read_only = parts.read_only
        self._is_closed = False
        self.unrecovered = parts.unrecovered
        """The error of the failed recovery, if the log is read-only in a directory that is open for writing."""
        self.is_compacted = parts.is_compacted
        """Whether only the latest record of each key is kept. Then records without a key are refused."""
        self._damaged_places = DamageRegistry(parts.damage, self.context.on_damage)
        self.failure: OSError | None = None
        self.epochs = parts.epochs
        self._producers = LogProducers(parts.load_producers)
        self._remote_start = parts.remote_start
        self._state = state
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._dirty: list[Segment] = []
        self._names_dirty = False
        self._unsynced = UnsyncedAccount()
        self._flush_target = 0  # what the last flush has made, or makes, the recovery point
        self._changed = False
        self._is_deleted = False
        self._is_superseded = False
        self.truncations = 0
        """The number of truncations. After a truncation, offsets above it refer to other records."""
        self._follower: LogFollower | None = None
        self.transactions = Transactions(self)

    @property
    def state(self) -> LogState:
        """The current state, an immutable value. A reader that needs several of its parts takes it once."""
        return self._state

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        return self._state.log_start_offset

    @property
    def remote_start_offset(self) -> int | None:
        """The start of the log if its broker keeps it in remote storage, too (KIP-405); else None.

        Records below `log_start_offset` are then in remote storage only, where they cannot be read from here.
        """
        return self._remote_start(self._state.segments.first.base_offset)

    @property
    def remote_note(self) -> str | None:
        """A sentence on the records that are only in remote storage; None if there are none."""
        return remote_note(self.remote_start_offset, self.log_start_offset)

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._state.next_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which every record is on disk."""
        return self._state.recovery_point

    @property
    def unsynced(self) -> UnsyncedAccount:
        """The account of what was appended and is not yet on disk."""
        return self._unsynced

    @property
    def must_flush(self) -> bool:
        """Whether `flush.messages` records are not on disk: Kafka syncs before it acknowledges the last of them."""
        messages_max = self.config.flush_messages
        return messages_max < I64_MAX and self._unsynced.total.records >= messages_max

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The known damage, each position once, at most `damage_registry.DAMAGE_ENTRIES_MAX` entries."""
        return self._damaged_places.all()

    def note_damage(self, error: StorageError) -> bool:
        """Record damage that a reader met; return whether it was unknown. Thread-safe."""
        return self._damaged_places.add(error)

    def follow(self, follower: LogFollower) -> None:
        """Let `follower` update this log, which is open for reading, with the changes of its writer."""
        self._follower = follower

    def refresh(self, *, is_forced: bool = False) -> None:
        """Load what another process wrote, if the log is open for reading; costs two stat calls at most."""
        if self._follower is not None:
            self._follower.look(is_forced=is_forced)

    @property
    def is_gone(self) -> bool:
        """Whether the partition was deleted, created again, recovered or truncated.

        Then reopen it through the directory.
        """
        return self._is_deleted or self._is_superseded or (self._follower is not None and self._follower.is_gone)

    # --- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Segments:
        """Return the current segment map. It never changes; only the active segment in it grows."""
        return self._state.segments

    @property
    def size_bytes(self) -> int:
        """Bytes in all `.log` files."""
        return sum(segment.size for segment in self._state.segments)

    @property
    def modified_ns(self) -> int:
        """The modification time of the active log file, in nanoseconds since 1970."""
        return self._state.segments.active.modified_ns

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch, which is stamped on appended batches; -1 if unknown."""
        latest = self.epochs.latest
        return latest if latest is not None else -1

    def batch_at(self, offset: int, *, nowait: bool = False, is_inflated: bool = False) -> Batch | None:
        """Return the first batch whose last offset is ≥ `offset`, with its checksum verified; None at the end of the
        log.

        The batch may begin above `offset` if compaction left a gap. Raises `OffsetOutOfRange`, and `CorruptBatch` or
        `MalformedBatch` for a damaged batch; with `nowait`, `WouldBlock` instead of waiting for the disk. With
        `is_inflated` it is decompressed on return, also a large one.
        """
        retry: SegmentRetry | None = None
        while True:  # not `with_retry`: the loop costs no calls, and this is the look-up of every single record
            segments = self._state.segments
            try:
                for segment in self._segments_from(segments, offset):
                    batch = segment.find(offset, offset_end=segments.next_base_offset(segment), nowait=nowait)
                    if batch is not None:
                        if is_inflated:
                            batch.payload()
                        return batch
                return None
            except OSError as error:
                retry = retry or SegmentRetry(self)
                if nowait or not retry.again(error, segments, offset):
                    raise

    def _segments_from(self, segments: Segments, offset: int) -> Iterator[Segment]:
        """Return the segments to search for `offset`, in order; none at the end of the log; OffsetOutOfRange."""
        _, start, end, _ = self._state
        if not start <= offset <= end:
            raise OffsetOutOfRange(offset, start, end, self.path)
        return iter(()) if offset == end else segments.from_floor(offset)

    def read(self, offset: int, bytes_max: int, *, nowait: bool = False) -> bytes:
        """Return whole batches from the one that contains `offset` on: at most `bytes_max` bytes, but at least one
        batch.

        b"" at the end of the log. Only the first batch is verified; the result never crosses a segment.
        """
        first = self.batch_at(offset, nowait=nowait)
        if first is None:
            return b""
        segment = self._state.segments.floor(first.header.base_offset)
        if segment is None:  # the batch begins below its segment's name
            return bytes(first.data)
        start = first.position or 0
        end = start + first.header.size
        file = segment.open_files(nowait=nowait).log
        for position, header, _ in batch_chain.headers(file, end, segment.size, nowait=nowait):
            if position + header.size - start > bytes_max:
                break
            end = position + header.size
        return bytes(file.read(start, end - start, nowait=nowait))

    def find_range(
        self, offset: int, bytes_max: int, *, offset_end: int, needs_one: bool = True, nowait: bool = False
    ) -> BatchRange | None:
        """Return where whole batches from the one that contains `offset` on are: at most `bytes_max` bytes of them.

        All end below `offset_end`. None if there is none, or without `needs_one` if the first one is larger. Only the
        first batch is verified; the range never crosses a segment. Raises as `batch_at`.
        """
        find = partial(self._range_in, offset, bytes_max, offset_end, needs_one, nowait)
        return find(self._state.segments) if nowait else with_retry(self, offset, find)

    def _range_in(
        self, offset: int, bytes_max: int, offset_end: int, needs_one: bool, nowait: bool, segments: Segments
    ) -> BatchRange | None:
        # Batch and file are of one map: compaction can replace a segment by one with the same base offset meanwhile.
        first: CheckedBatch | None = None
        for candidate in self._segments_from(segments, offset):
            first = candidate.find(
                offset, offset_end=segments.next_base_offset(candidate), nowait=nowait, take=candidate.check_batch
            )
            if first is not None:
                break
        if first is None or first.header.last_offset >= offset_end or (first.header.size > bytes_max and not needs_one):
            return None
        segment = segments.floor(first.header.base_offset)
        if segment is None:
            return None
        end, last_offset = first.position + first.header.size, first.header.last_offset
        read_to, size_behind = end, 0
        file = segment.open_files(nowait=nowait).log
        # Blocks would read every byte of batches of 16 KiB once: 0.34 s of processor time for 1 GB, with headers 0.29.
        block_bytes = batch_chain.PROBE_BYTES if first.header.size < LARGE_BATCH_BYTES else HEADER_SIZE
        for position, header, _ in batch_chain.headers(file, end, segment.size, nowait=nowait, block_bytes=block_bytes):
            if position + header.size - first.position > bytes_max or header.last_offset >= offset_end:
                size_behind = header.size
                break
            end, last_offset = position + header.size, header.last_offset
        segment.note_end(last_offset + 1, end, size_behind)
        return BatchRange(file, first.position, end - first.position, last_offset + 1, read_to)

    # --- reading by time, as ListOffsets (KIP-79, KIP-734; UnifiedLog.fetchOffsetByTimestamp) ------------------------

    def find_record(
        self,
        timestamp: int,
        *,
        shows: VisibilityFilter = shows_data,
        on_damage: OnDamage | None = None,
        nowait: bool = False,
    ) -> FoundRecord | None:
        """Return the first record, in offset order, with a timestamp ≥ `timestamp`, and its batch; or None.

        `shows` says which batches count. Batches on the way that cannot be read go to `on_damage`; by default the log
        records them. Costs one look-up in the first segment whose largest timestamp reaches it.
        """

        def find(segments: Segments) -> FoundRecord | None:
            for segment in segments.from_timestamp(timestamp, nowait=nowait):
                record = segment.find_record(
                    timestamp,
                    self.log_start_offset,
                    shows=shows,
                    offset_end=segments.next_base_offset(segment),
                    on_damage=on_damage or self.note_damage,
                    nowait=nowait,
                )
                if record is not None:
                    return record
            return None

        return with_retry(self, self.log_start_offset, find, nowait=nowait)

    def find_timestamp(
        self, timestamp: int, *, shows: VisibilityFilter = shows_data, nowait: bool = False
    ) -> tuple[int, int] | None:
        """Return (offset, timestamp) of what `find_record` returns."""
        record = self.find_record(timestamp, shows=shows, nowait=nowait)
        return None if record is None else (record.offset, record.timestamp)

    def list_offset(self, timestamp: int) -> tuple[int, int] | None:
        """Answer ListOffsets: (offset, timestamp) for a time or one of its four marks; None where no record answers.

        latest (-1): the next offset. earliest (-2) and earliest local (-4): the log start. max timestamp (-3): the
        first record with the largest timestamp. The timestamp is -1 where none was asked for, as Kafka answers.
        """
        match timestamp:
            case -1:
                return self.next_offset, -1
            case -2 | -4:
                return self.log_start_offset, -1
            case -3:
                return self.max_timestamp()
        return self.find_timestamp(timestamp) if timestamp >= 0 else None

    def max_timestamp(self, *, nowait: bool = False) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record with the largest timestamp; None when no record has one.

        Where a transaction marker is the latest, or a record below the log start, this walks over all headers.
        """
        best = max((segment.max_timestamp(nowait=nowait)[0] for segment in self._state.segments), default=-1)
        place = self.find_timestamp(best, nowait=nowait) if best >= 0 else None
        if place is not None or best < 0:
            return place
        if nowait:
            raise WouldBlock("what is the latest is no record of the log", path=self.path)
        start = self.log_start_offset
        best = max((segment.max_data_timestamp(start) for segment in self._state.segments), default=-1)
        return self.find_timestamp(best) if best >= 0 else None

    # --- ends --------------------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The offset below which all replicas have the records; for this log, its end."""
        return self.next_offset

    @property
    def is_bounded(self) -> bool:
        """Whether the log currently ends at a high watermark, so that there may be later records on disk."""
        return self._follower is not None and self._follower.is_bounded

    def log_end_offset(self) -> int:
        """Return the offset after the last whole batch on disk. Followers of a broker may not have it yet."""
        return self.next_offset if self._follower is None else self._follower.log_end_offset()

    def last_stable_offset(self, *, nowait: bool = False) -> int:
        """Return the offset below which no transaction is open; the log end if none is. See `transactions`.

        The first call scans the headers of the active segment, unless the log was closed cleanly.
        """
        find = self.transactions.last_stable_offset
        return with_retry(self, self.log_start_offset, lambda _: find(nowait=nowait), nowait=nowait)

    def aborted(self, offset_from: int, offset_to: int, *, nowait: bool = False) -> list[tuple[int, int, int]]:
        """Return the aborted transactions that overlap `[offset_from, offset_to)`.

        Each is (producer id, first offset, offset of the abort marker).
        """
        aborted = self.transactions.aborted(offset_from, offset_to, nowait=nowait)
        return [(transaction.producer_id, transaction.first_offset, transaction.last_offset) for transaction in aborted]

    def aborted_in_indexes(self, offset_from: int, offset_to: int) -> list[tuple[int, int, int]]:
        """Return as `aborted`, but read no sealed segment: one without a transaction index counts as free of any."""
        found = self.transactions.aborted_in_indexes(offset_from, offset_to)
        return [(aborted.producer_id, aborted.first_offset, aborted.last_offset) for aborted in found]

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, sealed: SealedBatch, *, checks_producer: bool = False, bumps_epochs: bool = False) -> Appended:
        """Write one batch at the end: offset and leader epoch are stamped into `sealed.data`, in place.

        After return it is in the segment file, visible to every reader, not yet on disk (`flush`). Raises
        `RecordTooLarge` above `max.message.bytes`, `LogFailed`, `ReadOnlyLog`, `OffsetOutOfRange` where there are no
        offsets any more (a checkpoint lied), or the disk's OSError: then nothing of the batch is in the log. The same
        holds for a MemoryError, after which the batch can be appended again, unless it is of an idempotent producer.

        With `checks_producer`, a batch of an idempotent producer that repeats one of its last five is not appended: the
        offsets and the timestamp of the first time are returned. Raises `OutOfOrderSequence`, `InvalidProducerEpoch` or
        `InvalidTransactionState` as Kafka does, and for a marker of a transaction `CoordinatorFenced`. `bumps_epochs`:
        the producer has another epoch in each transaction, and begins it with the sequence 0 (KIP-890).
        """
        segments = self._state.segments
        appended = self._append(sealed, checks_producer=checks_producer, bumps_epochs=bumps_epochs)
        with contextlib.suppress(MemoryError):  # the batch is in the log: its writer must not append it again
            self.context.on_append()
            if self._state.segments is not segments:
                self.context.on_roll()
        return appended

    def _append(self, sealed: SealedBatch, *, checks_producer: bool, bumps_epochs: bool) -> Appended:
        with self._lock:
            self._check_writable()
            if self.is_mirrored:
                raise self.mirror_refusal()
            # Kafka refuses a batch above `segment.bytes` as well (UnifiedLog.append, RecordBatchTooLargeException).
            size_max = min(self.config.max_message_bytes, self.config.segment_bytes)
            if sealed.size > size_max:
                raise RecordTooLarge(f"a batch of {sealed.size} bytes, at most {size_max} fit", path=self.path)
            _, log_start_offset, base_offset, _ = self._state
            # A checkpoint with 2⁶³−1 once led to a batch at an offset that no reader could ask for.
            if sealed.count > OFFSET_MAX - base_offset:
                raise OffsetOutOfRange(base_offset, log_start_offset, OFFSET_MAX, self.path)
            segment = self._prepare_for_change()
            if checks_producer:
                repeated = self._producers.repeated(self, sealed, bumps_epochs=bumps_epochs)
                if repeated is not None:
                    return repeated
            timestamp = self._stamp(sealed, base_offset)
            last_offset = base_offset + sealed.count - 1
            if segment.must_roll(sealed.size, last_offset, timestamp):
                segment = self._roll()
            # Computed before the write: a MemoryError between the write and the next offset once gave the same offsets
            # to two batches.
            is_of_producer = has_producer(sealed.data)
            segments, log_start_offset, _, recovery_point = self._state
            state = LogState(segments, log_start_offset, last_offset + 1, recovery_point)
            appended = Appended(base_offset, last_offset, timestamp)
            self._write(segment, sealed, base_offset, timestamp)
            self._unsynced.add(1, sealed.count, sealed.size, self.clock.monotonic())
            self._state = state  # nothing is allocated since the batch is in the segment: it counts, or not
            if is_of_producer:
                self._producers.note(sealed)
            return appended

    def append_replicated(self, data: Buffer, *, begins_by: int | None = None) -> int:
        """Append batches that another log has, as they are: offsets, leader epochs, control batches, format.

        `data` is what a Fetch response has: a batch that ends below the log end is skipped, one that is cut at the end
        is left out; gaps are allowed. Returns how many bytes of `data` are done with. After return they are in the
        segment files, not yet on disk (`flush`). An empty log begins with the first batch, if that contains its end;
        its log start stays, durably.

        `begins_by`: no gap is allowed before a batch; the first one begins at this offset at the latest, if that is
        behind the log end. Batches before a gap are appended; `OffsetGap` is raised when the gap comes first.

        Batches before a damaged one are appended; `CorruptBatch` or `MalformedBatch` is raised when it is the first.
        Other errors as of `append`: then a number of whole batches may be in the log, and `next_offset` shows it.
        """
        view, segments = memoryview(data), self._state.segments
        start = self._begin_within(view)
        before = self.next_offset
        try:
            with self._lock:
                return self._append_replicated(view, begins_by)
        finally:
            if self.next_offset > before:
                if start is not None:
                    changes.raise_log_start(self, start)
                self.context.on_append()
                if self._state.segments is not segments:
                    self.context.on_roll()

    def _begin_within(self, data: memoryview) -> int | None:
        """Let an empty log whose end lies within the first batch begin with that batch; return its log start, or None.

        As Kafka's Partition.appendRecordsToFollowerOrFutureReplica: the source may begin within a batch.
        """
        _, log_start_offset, next_offset, _ = self._state
        if log_start_offset < next_offset or self.size_bytes:
            return None
        position = replicated_batches.first_new(data, next_offset, self.path)
        header = replicated_batches.whole_header(data, position, self.path)
        if header is None or header.base_offset >= next_offset:
            return None
        self.truncate_fully(max(header.base_offset, 0))
        return log_start_offset

    def _append_replicated(self, data: memoryview, begins_by: int | None) -> int:
        self._check_writable()
        begin = position = replicated_batches.first_new(data, self.next_offset, self.path)
        while position < len(data):
            try:
                rows = replicated_batches.next_rows(data, position, self.next_offset, self.path)
                if rows is not None and begins_by is not None:
                    rows = replicated_batches.before_gap(rows, max(begins_by, self.next_offset), self.path)
            except StorageError:
                if position > begin:
                    break
                raise
            if rows is None:
                break
            position = rows.end
            self._append_rows(rows)
        return position

    def _append_rows(self, rows: Rows) -> None:
        """Append verified batches, in as many segments as they need."""
        segment = self._prepare_for_change(begins_epoch=False)
        while rows.numbers:
            placed = rows.moved(segment.size - rows.position)
            if rows.part(0, 1).next_offset - self.next_offset > RELATIVE_OFFSET_MAX:
                segment = self._roll_over_gap(rows.base_offset)
                continue
            count = segment.rows_that_fit(placed)
            if count == 0:
                segment = self._roll()
                continue
            self._write_rows(segment, placed.part(0, count))
            rows = rows.part(count, len(rows))

    def _roll_over_gap(self, offset: int) -> Segment:
        """Continue at `offset`, in a segment of its own: no index entry can hold so large a gap.

        Recovery takes a gap between segments for a loss, unless the recovery point on disk is behind it.
        """
        with self.fail_on_error():
            changes.sync_before(self, self._state.segments.active)
            self._state = self._state.extended_to(offset).synced_to(offset)
            self.context.save_recovery_point(offset)
        return self._roll()

    def _write_rows(self, segment: Segment, rows: Rows) -> None:
        segments, log_start_offset, first, recovery_point = self._state
        state = LogState(segments, log_start_offset, rows.next_offset, recovery_point)
        size = segment.size
        if segment not in self._dirty:
            self._dirty.append(segment)
        try:
            # As in Kafka, before the records: a reader of the log must not see records of an unknown epoch.
            self.epochs.assign_rising(rows.column(chain.LEADER_EPOCH), rows.column(chain.BASE_OFFSET))
            segment.append_rows(rows)
        except OSError as error:
            self._note_failed_write(error, segment, size)
            raise
        self._unsynced.add(len(rows), rows.next_offset - first, segment.size - size, self.clock.monotonic())
        self._state = state
        self._producers.note_rows(rows, segment.open_files().log)

    def appends_at_once(self, batch: memoryview) -> bool:
        """Whether `append` of this v2 batch only writes to the page cache, as a rule: the log is open for appends and
        not locked, its producers are known, and the batch fits into the active segment. An event loop asks this.
        """
        active = self._state.segments.active
        return (
            self._changed
            and active.is_active
            and not self._lock.locked()
            and active.size + len(batch) <= self.config.segment_bytes
            and (self._producers.can_check or not has_producer(batch))
        )

    def refusal(self) -> OSError | StorageError:
        """Return the error for a write to this read-only log."""
        if self.unrecovered is None:
            return ReadOnlyLog("closed" if self._is_closed else "opened for reading", path=self.path)
        if isinstance(self.unrecovered, OSError):
            reason = f"{self.unrecovered.strerror}: the partition is read only until it is recovered"
            return OSError(self.unrecovered.errno, reason, self.path)
        return UnrecoveredLog(f"not recovered: {self.unrecovered}", path=self.path)

    def mirror_refusal(self) -> ReadOnlyLog:
        """Return the error for an append to this log, which is mirrored."""
        source = self.context.mirrored_from
        return ReadOnlyLog(
            f"the topic is mirrored from {source}; append to the source, or to another topic", path=self.path
        )

    def _check_writable(self) -> None:
        if self.read_only or self._is_closed:
            raise self.refusal()
        if self._is_deleted:
            raise UnknownPartition("the partition was deleted", path=self.path)
        if self.failure is not None:
            raise LogFailed(f"an earlier write failed: {self.failure.strerror}", path=self.path)

    def _prepare_for_change(self, *, begins_epoch: bool = True) -> Segment:
        """Return the active segment, opened. Remove the clean shutdown file before the first change.

        `begins_epoch`: a log without leader epochs gets one, because batches are stamped with it.
        """
        active = self._state.segments.active
        if self._changed:
            active.activate()
            return active
        self.context.before_change()
        # Before the first change, while the files are as the last writer left them: after a clean shutdown without a
        # snapshot there are no producers, as in Kafka.
        self._producers.know(self)
        active.activate()
        if begins_epoch and self.epochs.latest is None:
            # A missing or damaged epoch file must not restart the epochs at 0 behind batches of a later epoch:
            # consumers would detect a diverged log (KIP-320).
            self.epochs.assign(max(latest_epoch(self._state.segments), 0), self.next_offset)
        self._changed = True
        return active

    def _stamp(self, sealed: SealedBatch, base_offset: int) -> int:
        stamp(sealed.data, base_offset, self.leader_epoch)
        if self.config.message_timestamp_type != "LogAppendTime":
            return sealed.max_timestamp
        now = self.clock.now_ms()
        # LogAppendTime: one timestamp for the whole batch, as LogValidator sets it; the checksum is computed again.
        set_append_time(sealed.data, now)
        return now

    def _write(self, segment: Segment, sealed: SealedBatch, base_offset: int, timestamp: int) -> None:
        size = segment.size
        if segment not in self._dirty:  # a torn write that is undone must be undone on disk as well
            self._dirty.append(segment)
        try:
            segment.append(sealed, base_offset, timestamp)
        except OSError as error:
            self._note_failed_write(error, segment, size)
            raise

    def _note_failed_write(self, error: OSError, segment: Segment, size: int) -> None:
        # The user can solve a full disk, and the log is unchanged. Any other error means that the disk lost a write, or
        # could not undo it.
        if error.errno not in FULL or self._file_size(segment) != size:
            self.failure = error

    @staticmethod
    def _file_size(segment: Segment) -> int:
        try:
            return segment.open_files().log.size()
        except OSError:
            return -1

    def _roll(self) -> Segment:
        """Seal the active segment and create one at the end of the log. On a full disk the log is unchanged."""
        old = self._state.segments.active
        # The zeros must be gone from disk before the next segment exists: recovery checks only the last segments.
        if old.is_preallocated:
            with self.fail_on_error():
                old.trim()
        # In a compacted log recovery cannot tell a lost end from a gap of compaction, so the segment is complete on
        # disk before the next one exists.
        if self.is_compacted:
            changes.sync_before(self, old)
        # Readers use an existing index for the whole segment: an abort that was missing in it once showed aborted
        # records as committed.
        self._index_transactions()
        # The indexes as well are complete before the next segment exists: recovery that begins there does not look at
        # them, and a broker takes the zeros behind their entries for entries (LocalLog.roll has this order).
        with self.fail_on_error():
            old.deactivate()
            # Recovery will not look at the segment, and a power cut could take its last entry, or bring back what a
            # full disk tore off.
            if max(self.recovery_point, self._flush_target) >= self.next_offset:
                old.sync()
        new = changes.begin_segment(self, self._producers)
        self._names_dirty = True
        self._unsynced.seal()
        self._state = self._state.with_segments(self._state.segments.plus(new))
        return new

    def _index_transactions(self) -> None:
        """Update the transaction index to the end of the log, because readers trust an existing one."""
        if self._producers.aborted_from is not None:
            self.transactions.rebuild_indexes(self._producers.aborted_from)
            self._producers.aborted_from = None

    def roll(self) -> None:
        """Start a new segment, unless the active one is empty."""
        with self._lock:
            self._check_writable()
            if not self._state.segments.active.size:
                return
            self._prepare_for_change()
            self._roll()
        self.context.on_roll()

    def flush(self) -> None:
        """Sync everything appended before this call; raises `recovery_point`.

        Concurrent callers wait for each other. A failure ends writing to the log: after a failed sync the state on disk
        is unknown, and a second sync would report success, because the kernel reports a lost page only once.
        """
        self._flush(sealed_only=False)

    def flush_sealed(self) -> None:
        """Sync the sealed segments; raises `recovery_point` to the base offset of the active one. Errors as of `flush`.

        As Kafka does after a roll (UnifiedLog.roll, "flush-log").
        """
        if self.recovery_point < self._state.segments.active.base_offset:
            self._flush(sealed_only=True)

    def _flush(self, *, sealed_only: bool) -> None:
        with self._flush_lock:
            with self._lock:
                if self.failure is not None or self._is_deleted:
                    self._check_writable()
                active = self._state.segments.active
                # Taken before the syncs: records that are appended meanwhile belong to the next flush.
                target = self._flush_target = active.base_offset if sealed_only else self.next_offset
                dirty = [segment for segment in self._dirty if segment is not active or not sealed_only]
                names = self._names_dirty
                self._dirty, self._names_dirty = [segment for segment in self._dirty if segment not in dirty], False
                self._unsynced.begin(sealed_only=sealed_only)
                # Blocks beyond the end are free space that other programs need; they were used for at most one interval
                # of syncs.
                active.release_preallocation()
            try:
                for segment in dirty:
                    # Outside of the log's lock, so that appends continue while the disk works.
                    segment.sync()
                if names:
                    # After the files: a name on disk without the records that were promised under it would be a hole.
                    files.sync_directory(self.path)
            except OSError as error:
                if error.errno in files.NO_DESCRIPTORS:  # no sync was attempted: a later one covers everything
                    self._postpone(dirty, names=names)
                else:
                    self.failure = error
                raise
            except MemoryError:  # a sync may not have been attempted: a later one covers everything
                self._postpone(dirty, names=names)
                raise
            with self._lock:
                self._unsynced.end(is_synced=True)
                self._state = self._state.synced_to(target)

    def _postpone(self, dirty: list[Segment], *, names: bool) -> None:
        """Leave segments to the next flush."""
        with self._lock:
            self._unsynced.end(is_synced=False)
            self._dirty, self._names_dirty = [*dirty, *self._dirty], names or self._names_dirty

    def release_preallocation(self) -> None:
        """Release preallocated blocks, because the disk is full and other writers need them."""
        if self._state.segments.active.has_preallocation:
            with self._lock:
                self._state.segments.active.release_preallocation()

    def rest(self) -> bool:
        """Close the files of the active segment until the next append; return whether any were open.

        For a process at its limit of open files. Never waits: a log in use stays as it is.
        """
        # Two logs at their limit of descriptors could otherwise wait for each other's locks.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            active = self._state.segments.active
            if not active.is_active or self.failure is not None or self._is_deleted:
                return False
            with self.fail_on_error():
                active.deactivate()
            return True
        except OSError:
            return False  # the log has failed: the next append reports it
        finally:
            self._lock.release()

    # --- later -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Lock the log for a change of its files. Raises as an append would, if the log accepts none."""
        with self.held():
            self._check_writable()
            self.context.before_change()
            yield

    @contextlib.contextmanager
    def fail_on_error(self) -> Iterator[None]:
        """Mark the log as failed if an OSError is raised in the block, because then the state on disk is unknown."""
        try:
            yield
        except OSError as error:
            self.failure = error
            raise

    def configure(self, config: LogConfig, *, is_compacted: bool | None = None) -> None:
        """Use other settings from now on, also for the segments. Index sizes take effect with the next segment."""
        with self._lock:
            self.config = config
            self.is_compacted = config.is_compacted if is_compacted is None else is_compacted
            for segment in self._state.segments:
                segment.configure(config)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start to `offset`, in memory; the files stay. It never falls and never passes the end."""
        with self._lock:
            self._state = self._state.starting_at(offset)
            try:
                self.epochs.truncate_from_start(self.log_start_offset)
            except OSError as error:
                if error.errno not in FULL:  # the next start removes them; an additional epoch misleads no reader
                    self.failure = error
                    raise

    def delete_records(self, offset: int) -> int:
        """Raise the log start to `offset` (`ALL`: the log end), durably, and return it (KIP-107). It never falls.

        The records below it are not visible any more; retention removes the segments that lie completely below it.
        Raises `PolicyViolation` for a topic that only compacts, and for a log that is kept in remote storage, too,
        `OffsetOutOfRange` beyond the end, `ReadOnlyLog`, `LogFailed`, OSError. Follows Kafka's
        Partition.deleteRecordsOnLeader for one replica, whose high watermark is the log end.
        """
        if self.read_only:
            raise self.refusal()
        # As Kafka from 4.2 on: an empty policy keeps records until a client deletes them.
        if self.config.is_compacted and not self.config.is_deleted:
            raise PolicyViolation("records are not deleted where cleanup.policy is compact", path=self.path)
        if self.remote_start_offset is not None:
            raise PolicyViolation("its broker has records of it in remote storage: delete them there", path=self.path)
        start = self.next_offset if offset == ALL else offset
        if not 0 <= start <= self.next_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.next_offset, self.path)
        if start > self.log_start_offset:
            changes.raise_log_start(self, start)
        return self.log_start_offset

    def truncate_to(self, offset: int) -> bool:
        """Truncate the records from `offset` on; return whether there were any. Durable on return. See `changes`.

        If the log begins above `offset`, it is emptied and begins there. Raises `OffsetOutOfRange` below 0,
        `ReadOnlyLog`, `LogFailed`; OSError before anything was cut (a full disk); later errors end writing to the log.
        """
        if offset < 0:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.next_offset, self.path)
        self.flush()  # makes the recovery point correct: recovery takes a gap above it for a loss
        with self.changing():
            if offset >= self.next_offset:
                self.epochs.truncate_from_end(offset, next_offset=self.next_offset)
                return False
            if offset < self._state.segments.first.base_offset:
                changes.empty(self, offset)
            else:
                changes.cut(self, offset)
        return True

    def truncate_fully(self, offset: int) -> None:
        """Empty the log; it begins and continues at `offset`. Durable on return; raises as `truncate_to`."""
        if offset < 0:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.next_offset, self.path)
        with self.changing():
            changes.empty(self, offset)

    def publish(self, state: LogState) -> None:
        """Replace the state. Locked by the caller, who computed `state` from `self.state` under the same lock."""
        assert self._lock.locked()
        old = self._state.segments
        dirty = self._dirty if state.segments is old else _those_in(state.segments, self._dirty)
        self._state, self._dirty = state, dirty
        if state.segments is not old:
            # By identity: a compacted segment has the base offset of the one that it replaces, and its damage is gone.
            same = {id(segment) for segment in old}
            self._damaged_places.keep_only(segment.log_path for segment in state.segments if id(segment) in same)

    def publish_truncated(self, state: LogState) -> None:
        """Replace the state by one with another end, as `publish`; also replace what depends on the records cut off."""
        assert self._lock.locked()
        # Readers compare this number, because offsets now stand for other records.
        self.truncations += 1
        self._unsynced.clear()
        dirty = _those_in(state.segments, self._dirty)
        self._state, self._dirty = state, dirty
        self._index_transactions()
        self._producers.know_anew(self)
        if self._changed:
            state.segments.active.activate()

    def producers(self) -> dict[int, ProducerEntry]:
        """Return the state of each active producer, by its id. The first call reads the newest snapshot."""
        with self._lock:
            return dict(self._producers.know(self).entries)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that were idle for so long and have no open transaction; return their number."""
        with self._lock:
            return self._producers.expire(now_ms, expiration_ms)

    @property
    def is_held(self) -> bool:
        """Whether an append would have to wait for a change of the log. A swap, for example, syncs several times."""
        return self._lock.locked()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the log against appends, rolls and flushes. Readers are not affected."""
        with self._flush_lock, self._lock:
            yield

    def end_changes(self) -> None:
        """Wait for a running append or change, and refuse later ones: what they wrote would miss the flush of `close`.

        The log is not read-only before `end_writing`: until then the checkpoints include it.
        """
        with self._lock:
            self._is_closed = not self.read_only

    def end_writing(self) -> None:
        """Make the log read-only: the lock of the directory is released, and another process may write."""
        with self._lock:
            self.read_only = True

    def mark_superseded(self) -> None:
        """Record that the directory has reopened the partition for writing. Readers of this log may continue."""
        self._is_superseded = True

    def mark_deleted(self, path: str) -> None:
        """Record that the partition was deleted, and its directory renamed to `path`. Readers may continue."""
        self._is_deleted, self.path = True, path

    def close(self) -> None:
        """Flush, cut the indexes to their entries, save the producer state. A failed log is only closed."""
        if not self._changed or self._is_deleted:
            return
        if self.failure is None:
            with self._lock, self.fail_on_error():
                self._state.segments.active.trim()
            self.flush()
            self._index_transactions()
            with self._lock:  # `rest` in another thread must not run meanwhile
                self._state.segments.active.deactivate()
            self._producers.save(self, sync_name=False)
            files.sync_directory(self.path)

    def check(self) -> None:
        """Assert the invariants between two operations; for tests."""
        assert self.log_start_offset <= self.next_offset and self.recovery_point <= self.next_offset
        expected = 0
        for segment in self._state.segments:
            assert segment.base_offset >= expected
            segment.check()
            expected = max([segment.base_offset, *(header.next_offset for _, header in segment.headers())])
        assert expected <= self.next_offset


def _those_in(segments: Segments, chosen: Sequence[Segment]) -> list[Segment]:
    return [segment for segment in chosen if segments.floor(segment.base_offset) is segment]
