"""The log of one partition: append, read by offset, find by time, flush.

Follows Kafka's UnifiedLog and LocalLog. One writer appends under a lock; readers use the immutable segment map and the
sizes in it, without a lock. The high watermark is `next_offset`: for a writer it is the log end, because it is the only
replica. A log that is open for reading beside a broker with followers ends at the checkpointed high watermark;
`log_end_offset` returns where its files end.

Durability: after `append` the records are in the segment file, so they survive a crash of this process. After `flush`
they are on disk. A write that cannot be undone, or a failed sync, fences the log: no later write is acknowledged.

Changes of the log are in modules of their own, which lock it with `changing`: retention, truncation, replacement (also
for compaction), record_deletion. Opening after a crash is in recovery, several partitions in directory.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from offsetfs.storage import files
from offsetfs.storage.errors import (
    LogFenced,
    OffsetOutOfRange,
    ReadOnlyLog,
    RecordTooLarge,
    StorageError,
    UnknownPartition,
    UnrecoveredLog,
)
from offsetfs.storage.names import OFFSET_MAX, TopicPartition
from offsetfs.storage.partition import batch_search, list_offsets, record_deletion, replacement, rolling, truncation
from offsetfs.storage.partition.damage_registry import DamageRegistry
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.latest_epoch import latest_epoch
from offsetfs.storage.partition.log_context import LogContext
from offsetfs.storage.partition.log_producers import Load, LogProducers
from offsetfs.storage.partition.log_values import Appended as Appended
from offsetfs.storage.partition.log_values import Damage as Damage
from offsetfs.storage.partition.log_values import FollowerProtocol
from offsetfs.storage.partition.producers import ProducerEntry
from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.partition.transactions import Transactions
from offsetfs.storage.records.batch import Batch, set_append_time, stamp
from offsetfs.storage.records.batch_builder import SealedBatch
from offsetfs.storage.records.batch_header import has_producer
from offsetfs.storage.segments import time_search
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import FULL, Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.settings.config import LogConfig


class Log:
    """A partition. Offsets `[log_start_offset, next_offset)` are readable, those below `recovery_point` are on disk."""

    def __init__(
        self,
        partition: TopicPartition,
        path: str,
        config: LogConfig,
        segments: Segments,
        pool: FilePool[SegmentFiles],
        *,
        log_start_offset: int,
        next_offset: int,
        recovery_point: int,
        epochs: LeaderEpochCache,
        load_producers: Load,
        damage: tuple[Damage, ...] = (),
        read_only: bool = False,
        unrecovered: Exception | None = None,
        is_compacted: bool = False,
        context: LogContext | None = None,
    ) -> None:
        """Take the result of recovery; use `log_loader.open_log`."""
        self.partition = partition
        self.path = path
        self.config = config
        self.context = context or LogContext()
        self.clock = self.context.clock
        self.read_only = read_only
        self.unrecovered = unrecovered
        """The error of the failed recovery, if the log is read-only in a directory that is open for writing."""
        self.is_compacted = is_compacted
        """Whether only the latest record of each key is kept. Then records without a key are refused."""
        self.log_start_offset = log_start_offset
        self.next_offset = next_offset
        self.recovery_point = recovery_point
        self._damaged_places = DamageRegistry(damage, self.context.on_damage)
        self.fenced: OSError | None = None
        self.epochs = epochs
        self._producers = LogProducers(load_producers)
        self._pool = pool
        self._segments = segments
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._dirty: list[Segment] = []
        self._names_dirty = False
        self._changed = False
        self._is_deleted = False
        self._is_superseded = False
        self.truncations = 0
        """How often records were cut from the end. After a truncation, offsets above it refer to other records."""
        self._follower: FollowerProtocol | None = None
        self.transactions = Transactions(self)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The known damage, each position once, at most `damage_registry.DAMAGE_ENTRIES_MAX` entries."""
        return self._damaged_places.all()

    def note_damage(self, error: StorageError) -> bool:
        """Record damage that a reader met; return whether it was unknown. Thread-safe."""
        return self._damaged_places.add(error)

    def follow(self, follower: FollowerProtocol) -> None:
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

    def adopt(self, segments: Segments) -> None:
        """Replace the segment map, because the files changed. The log start moves with its first segment."""
        self.log_start_offset = max(self.log_start_offset, segments.first.base_offset)
        same = {id(segment) for segment in self._segments}
        self._segments = segments
        self._damaged_places.keep_only(segment.log_path for segment in segments if id(segment) in same)
        self._dirty = [segment for segment in self._dirty if not segment.is_removed]

    # --- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Segments:
        """Return the current segment map. It never changes; only the active segment in it grows."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """Bytes in all `.log` files."""
        return sum(segment.size for segment in self._segments)

    @property
    def modified_ns(self) -> int:
        """The modification time of the active log file, in nanoseconds since 1970."""
        return self._segments.active.modified_ns

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch, which is stamped on appended batches; -1 if unknown."""
        latest = self.epochs.latest
        return latest if latest is not None else -1

    def batch_at(self, offset: int, *, nowait: bool = False) -> Batch | None:
        """Return the first batch whose last offset is ≥ `offset`, with its checksum verified; None at the end of the
        log.

        The batch may begin above `offset` if compaction left a gap. Raises `OffsetOutOfRange`, and `CorruptBatch` or
        `MalformedBatch` for a damaged batch; with `nowait`, `WouldBlock` instead of waiting for the disk.
        """
        return batch_search.batch_at(self, offset, nowait=nowait)

    def read(self, offset: int, bytes_max: int, *, nowait: bool = False) -> bytes:
        """Return whole batches from the one that contains `offset` on: at most `bytes_max` bytes, but at least one
        batch.

        b"" at the end of the log. Only the first batch is verified; the result never crosses a segment.
        """
        return batch_search.read(self, offset, bytes_max, nowait=nowait)

    def find_timestamp(
        self, timestamp: int, *, shows: time_search.VisibilityFilter = time_search.shows_data, nowait: bool = False
    ) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record, in offset order, with a timestamp ≥ `timestamp`; or None.

        `shows` says which batches count. Costs one look-up in the first segment whose largest timestamp reaches it.
        """
        return list_offsets.find_timestamp(self, timestamp, shows=shows, nowait=nowait)

    def list_offset(self, timestamp: int) -> tuple[int, int] | None:
        """Answer ListOffsets: (offset, timestamp) for a time or one of its four marks; None where no record answers.

        latest (-1): the next offset. earliest (-2) and earliest local (-4): the log start. max timestamp (-3): the
        first record with the largest timestamp. The timestamp is -1 where none was asked for, as Kafka answers.
        """
        return list_offsets.list_offset(self, timestamp)

    def max_timestamp(self, *, nowait: bool = False) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record with the largest timestamp (ListOffsets -3, KIP-734)."""
        return list_offsets.max_timestamp(self, nowait=nowait)

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
        if nowait:
            return self.transactions.last_stable_offset(nowait=True)
        return with_retry(self, self.log_start_offset, lambda _: self.transactions.last_stable_offset())

    def aborted(self, offset_from: int, offset_to: int, *, nowait: bool = False) -> list[tuple[int, int, int]]:
        """Return the aborted transactions that overlap `[offset_from, offset_to)`.

        Each is (producer id, first offset, offset of the abort marker).
        """
        found = self.transactions.aborted(offset_from, offset_to, nowait=nowait)
        return [(each.producer_id, each.first_offset, each.last_offset) for each in found]

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, sealed: SealedBatch) -> Appended:
        """Write one batch at the end: offset and leader epoch are stamped into `sealed.data`, in place.

        After return it is in the segment file, visible to every reader, not yet on disk (`flush`). Raises
        `RecordTooLarge` above `max.message.bytes`, `LogFenced`, `ReadOnlyLog`, `OffsetOutOfRange` where there are no
        offsets any more (a checkpoint lied), or the disk's OSError: then nothing of the batch is in the log. The same
        holds for a MemoryError, after which the batch can be appended again, unless it is of an idempotent producer.
        """
        with self._lock:
            self._check_writable()
            size_max = min(self.config.max_message_bytes, self.config.segment_bytes)
            if sealed.size > size_max:
                raise RecordTooLarge(f"a batch of {sealed.size} bytes, at most {size_max} fit", path=self.path)
            if sealed.count > OFFSET_MAX - self.next_offset:
                raise OffsetOutOfRange(self.next_offset, self.log_start_offset, OFFSET_MAX, self.path)
            self._prepare_for_change()
            base_offset = self.next_offset
            timestamp = self._stamp(sealed, base_offset)
            last_offset = base_offset + sealed.count - 1
            segment = self._segment_for(sealed.size, last_offset, timestamp)
            is_of_producer, next_offset = has_producer(sealed.data), last_offset + 1
            appended = Appended(base_offset, last_offset, timestamp)
            self._write(segment, sealed, base_offset, timestamp)
            self.next_offset = next_offset  # nothing is allocated since the batch is in the segment: it counts, or not
            if is_of_producer:
                self._producers.note(sealed)
            return appended

    def refusal(self) -> OSError | StorageError:
        """Return the error for a write to this read-only log."""
        if self.unrecovered is None:
            return ReadOnlyLog("opened for reading", path=self.path)
        if isinstance(self.unrecovered, OSError):
            reason = f"{self.unrecovered.strerror}: the partition is read only until it is recovered"
            return OSError(self.unrecovered.errno, reason, self.path)
        return UnrecoveredLog(f"not recovered: {self.unrecovered}", path=self.path)

    def _check_writable(self) -> None:
        if self.read_only:
            raise self.refusal()
        if self._is_deleted:
            raise UnknownPartition("the partition was deleted", path=self.path)
        if self.fenced is not None:
            raise LogFenced(f"an earlier write failed: {self.fenced.strerror}", path=self.path)

    def _prepare_for_change(self) -> None:
        """Open the active segment if needed. Remove the clean shutdown file before the first change."""
        if self._changed:
            self._segments.active.activate()
            return
        self.context.before_change()
        self._producers.know(self)
        self._segments.active.activate()
        if self.epochs.latest is None:
            self.epochs.assign(max(latest_epoch(self._segments), 0), self.next_offset)
        self._changed = True

    def _stamp(self, sealed: SealedBatch, base_offset: int) -> int:
        stamp(sealed.data, base_offset, self.leader_epoch)
        if self.config.message_timestamp_type != "LogAppendTime":
            return sealed.max_timestamp
        now = self.clock.now_ms()
        set_append_time(sealed.data, now)
        return now

    def _segment_for(self, batch_size: int, last_offset: int, timestamp: int) -> Segment:
        active = self._segments.active
        return self._roll() if active.must_roll(batch_size, last_offset, timestamp) else active

    def _write(self, segment: Segment, sealed: SealedBatch, base_offset: int, timestamp: int) -> None:
        size = segment.size
        if segment not in self._dirty:  # a torn write that is undone must be undone on disk as well
            self._dirty.append(segment)
        try:
            segment.append(sealed, base_offset, timestamp)
        except OSError as error:
            # The user can solve a full disk, and the log is unchanged. Any other error means that the disk lost a
            # write, or could not undo it.
            if error.errno not in FULL or self._file_size(segment) != size:
                self.fenced = error
            raise

    @staticmethod
    def _file_size(segment: Segment) -> int:
        try:
            return segment.open_files().log.size()
        except OSError:
            return -1

    def _roll(self) -> Segment:
        """Seal the active segment and create one at the end of the log. On a full disk the log is unchanged."""
        old = self._segments.active
        if old.is_preallocated:
            with self.fencing():
                old.trim()
        if self.is_compacted:
            rolling.sync_before(self, old)
        self._index_transactions()
        new = rolling.begin_segment(self, self._producers)
        self._names_dirty = True
        try:
            old.deactivate()
        except OSError as error:
            self.fenced = error
            raise
        self._segments = self._segments.plus(new)
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
            if self._segments.active.size:
                self._prepare_for_change()
                self._roll()

    def flush(self) -> None:
        """Sync everything appended before this call; raises `recovery_point`.

        Concurrent callers wait for each other. A failure fences the log: after a failed sync the state on disk is
        unknown, and a second sync would report success, because the kernel reports a lost page only once.
        """
        with self._flush_lock:
            with self._lock:
                if self.fenced is not None or self._is_deleted:
                    self._check_writable()
                target, dirty, names = self.next_offset, self._dirty, self._names_dirty
                self._dirty, self._names_dirty = [], False
                self._segments.active.release_preallocation()
            try:
                for segment in dirty:
                    segment.sync()
                if names:
                    files.sync_directory(self.path)
            except OSError as error:
                if error.errno in files.NO_DESCRIPTORS:  # no sync was attempted: a later one covers everything
                    with self._lock:
                        self._dirty, self._names_dirty = [*dirty, *self._dirty], names or self._names_dirty
                else:
                    self.fenced = error
                raise
            except MemoryError:  # a sync may not have been attempted: a later one covers everything
                with self._lock:
                    self._dirty, self._names_dirty = [*dirty, *self._dirty], names or self._names_dirty
                raise
            self.recovery_point = max(self.recovery_point, target)

    def release_preallocation(self) -> None:
        """Release preallocated blocks, because the disk is full and other writers need them."""
        if self._segments.active.has_preallocation:
            with self._lock:
                self._segments.active.release_preallocation()

    def rest(self) -> bool:
        """Close the files of the active segment until the next append; return whether any were open.

        For a process at its limit of open files. Never waits: a log in use stays as it is.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            active = self._segments.active
            if not active.is_active or self.fenced is not None or self._is_deleted:
                return False
            with self.fencing():
                active.deactivate()
            return True
        except OSError:
            return False  # fenced: the next append reports it
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
    def fencing(self) -> Iterator[None]:
        """Fence the log if an OSError is raised in the block, because then the state on disk is unknown."""
        try:
            yield
        except OSError as error:
            self.fenced = error
            raise

    def configure(self, config: LogConfig, *, is_compacted: bool | None = None) -> None:
        """Use other settings from now on, also for the segments. Index sizes take effect with the next segment."""
        with self._lock:
            self.config = config
            self.is_compacted = config.is_compacted if is_compacted is None else is_compacted
            for segment in self._segments:
                segment.configure(config)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start to `offset`, in memory; the files stay. It never falls and never passes the end."""
        with self._lock:
            self.log_start_offset = max(self.log_start_offset, min(offset, self.next_offset))
            try:
                self.epochs.truncate_from_start(self.log_start_offset)
            except OSError as error:
                if error.errno not in FULL:  # the next start removes them; an additional epoch misleads no reader
                    self.fenced = error
                    raise

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset` (-1: all); return the log start, durable on return.

        Raises `PolicyViolation` if the topic's cleanup policy does not delete, `OffsetOutOfRange`. See record_deletion.
        """
        return record_deletion.delete_records(self, offset)

    def truncate_to(self, offset: int) -> bool:
        """Truncate the records from `offset` on; return whether there were any. Durable on return. See truncation."""
        return truncation.truncate_to(self, offset)

    def truncate_fully(self, offset: int) -> None:
        """Empty the log; it begins and continues at `offset`. Durable on return. See truncation."""
        truncation.truncate_fully(self, offset)

    def end_at(self, next_offset: int, segments: Segments) -> None:
        """Take the result of a truncation. The caller has locked the log."""
        self.truncations += 1
        self._segments, self.next_offset, self.recovery_point = segments, next_offset, next_offset
        self.log_start_offset = max(min(self.log_start_offset, next_offset), segments.first.base_offset)
        self._dirty = [segment for segment in self._dirty if segments.floor(segment.base_offset) is segment]
        self._index_transactions()
        self._producers.know_anew(self)
        if self._changed:
            segments.active.activate()

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Replace segments `old` by `new`, whose files are called `.cleaned`; durable on return. See replacement.

        Raises `SegmentsChanged`, and changes nothing, if one of `old` is no longer a sealed segment of the log.
        """
        replacement.replace_segments(self, new, old)

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

    def mark_superseded(self) -> None:
        """Record that the directory has reopened the partition for writing. Readers of this log may continue."""
        self._is_superseded = True

    def mark_deleted(self, path: str) -> None:
        """Record that the partition was deleted, and its directory renamed to `path`. Readers may continue."""
        self._is_deleted, self.path = True, path

    def close(self) -> None:
        """Flush, cut the indexes to their entries, save the producer state. A fenced log is only closed."""
        if not self._changed or self._is_deleted:
            return
        if self.fenced is None:
            with self._lock, self.fencing():
                self._segments.active.trim()
            self.flush()
            self._index_transactions()
            with self._lock:  # `rest` in another thread must not run meanwhile
                self._segments.active.deactivate()
            self._producers.save(self, sync_name=False)
            files.sync_directory(self.path)

    def check(self) -> None:
        """Assert the invariants between two operations; for tests."""
        assert self.log_start_offset <= self.next_offset and self.recovery_point <= self.next_offset
        expected = 0
        for segment in self._segments:
            assert segment.base_offset >= expected
            segment.check()
            expected = max([segment.base_offset, *(header.next_offset for _, header in segment.headers())])
        assert expected <= self.next_offset
