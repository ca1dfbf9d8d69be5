"""The log of one partition: append, read by offset, find by time, flush.

Follows Kafka's UnifiedLog and LocalLog. One writer appends under a lock; readers take the immutable segment map and the
sizes they find, and need no lock. The high watermark is `next_offset`: for a writer that is the log end, because a
writer is the only replica. A log that is opened for reading beside a broker with followers ends at the high watermark
that the broker has checkpointed; `log_end_offset` returns where its files end.

Durability: after `append` the records are in the segment file (they survive the death of this process); after `flush`
they are on disk. A write that cannot be undone or a failed sync fences the log: nothing later is acknowledged.

What becomes of a log later is told in modules of their own, which hold it with `changing` meanwhile: retention,
truncation, compaction with replacement, record_deletion. Not here either: opening a directory after a crash
(recovery), several partitions (directory).
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
        """Take over what recovery found; use `log_loader.open_log`."""
        self.partition = partition
        self.path = path
        self.config = config
        self.context = context or LogContext()
        self.clock = self.context.clock
        self.read_only = read_only
        self.unrecovered = unrecovered
        """Why the log is read only in a directory that is open for writing: its recovery failed."""
        self.is_compacted = is_compacted
        """Whether only the latest record of a key is kept, so that a record without a key has no place here."""
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
        """How often records were cut from the end: offsets that were given out before mean others since."""
        self._follower: FollowerProtocol | None = None
        self.transactions = Transactions(self)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged places that are known, each once, at most `damage_registry.DAMAGE_ENTRIES_MAX`."""
        return self._damaged_places.all()

    def note_damage(self, error: StorageError) -> bool:
        """Record the place of damage that a reader met; return whether it was not known. From any thread."""
        return self._damaged_places.add(error)

    def follow(self, follower: FollowerProtocol) -> None:
        """Let `follower` keep this log, opened for reading, up with whoever writes it."""
        self._follower = follower

    def refresh(self, *, is_forced: bool = False) -> None:
        """Take in what another process wrote, when the log is opened for reading; costs two stat calls at most.

        At most a hundred times a second, unless `is_forced`: then the directory is listed as well. Any thread.
        """
        if self._follower is not None:
            self._follower.look(is_forced=is_forced)

    @property
    def is_gone(self) -> bool:
        """Whether the partition was deleted, made anew, recovered or cut: ask the directory for it again."""
        return self._is_deleted or self._is_superseded or (self._follower is not None and self._follower.is_gone)

    def adopt(self, segments: Segments) -> None:
        """Put another segment map in place, because the files changed; the log start moves with its first segment."""
        self.log_start_offset = max(self.log_start_offset, segments.first.base_offset)
        same = {id(segment) for segment in self._segments}
        self._segments = segments
        self._damaged_places.keep_only(segment.log_path for segment in segments if id(segment) in same)
        self._dirty = [segment for segment in self._dirty if not segment.is_removed]

    # --- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Segments:
        """Return the segment map as it is now; it never changes, only the active segment in it grows."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """Bytes in all `.log` files."""
        return sum(segment.size for segment in self._segments)

    @property
    def modified_ns(self) -> int:
        """When the active log file last changed, nanoseconds since 1970."""
        return self._segments.active.modified_ns

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch, stamped on what we append; -1 when none is known."""
        latest = self.epochs.latest
        return latest if latest is not None else -1

    def batch_at(self, offset: int, *, nowait: bool = False) -> Batch | None:
        """Return the first batch whose last offset is ≥ `offset`, checksum verified; None at the end of the log.

        The batch may begin above `offset` where compaction left a gap. Raises `OffsetOutOfRange`, and for a damaged
        batch `CorruptBatch` or `MalformedBatch`; with `nowait` `WouldBlock` instead of waiting for the disk.
        """
        return batch_search.batch_at(self, offset, nowait=nowait)

    def read(self, offset: int, bytes_max: int, *, nowait: bool = False) -> bytes:
        """Return whole batches from the one that holds `offset` on, at most `bytes_max` bytes but at least one batch.

        b"" at the end of the log. Batches are not cut and not checked beyond the first; never crosses a segment.
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
        """The offset below which every replica has the records: everything that this log shows."""
        return self.next_offset

    @property
    def is_bounded(self) -> bool:
        """Whether the log ends at a high watermark for now, so that there may be records on disk behind it."""
        return self._follower is not None and self._follower.is_bounded

    def log_end_offset(self) -> int:
        """Return the offset after the last whole batch on disk, which followers of a broker may not have yet."""
        return self.next_offset if self._follower is None else self._follower.log_end_offset()

    def last_stable_offset(self, *, nowait: bool = False) -> int:
        """Return the offset below which no transaction is open; the log end when none is. See `transactions`.

        The first call walks over the headers of the active segment, unless the log was closed cleanly.
        """
        if nowait:
            return self.transactions.last_stable_offset(nowait=True)
        return with_retry(self, self.log_start_offset, lambda _: self.transactions.last_stable_offset())

    def aborted(self, offset_from: int, offset_to: int, *, nowait: bool = False) -> list[tuple[int, int, int]]:
        """Return (producer id, first offset, offset of the abort marker) of the aborted transactions that reach into
        `[offset_from, offset_to)`."""
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
        """Return the error of a write to this log, which is read only."""
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
        """Open the active segment, unless it is open. Before the first change the directory's clean mark goes."""
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
        if segment not in self._dirty:  # what is torn and taken back has to be off the disk, too
            self._dirty.append(segment)
        try:
            segment.append(sealed, base_offset, timestamp)
        except OSError as error:
            # A full disk is the caller's to solve, and the log is as it was. Anything else means that the disk
            # lost a write, or could not take it back.
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
        """Seal the active segment and begin one at the end of the log. On a full disk the log is as it was."""
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
        """Bring the transaction index up to the end of the log: where there is one it is believed."""
        if self._producers.aborted_from is not None:
            self.transactions.rebuild_indexes(self._producers.aborted_from)
            self._producers.aborted_from = None

    def roll(self) -> None:
        """Begin a new segment now, unless the active one is empty."""
        with self._lock:
            self._check_writable()
            if self._segments.active.size:
                self._prepare_for_change()
                self._roll()

    def flush(self) -> None:
        """Make everything appended before this call survive power loss; `recovery_point` moves on.

        Concurrent callers wait for each other. A failure fences the log: after a failed sync nobody knows what is on
        disk, and a second one would claim success (the kernel reports a lost page once).
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
                if error.errno in files.NO_DESCRIPTORS:  # nothing was asked of the disk: a later sync can cover it all
                    with self._lock:
                        self._dirty, self._names_dirty = [*dirty, *self._dirty], names or self._names_dirty
                else:
                    self.fenced = error
                raise
            except MemoryError:  # the disk may not have been asked: a later sync covers it all
                with self._lock:
                    self._dirty, self._names_dirty = [*dirty, *self._dirty], names or self._names_dirty
                raise
            self.recovery_point = max(self.recovery_point, target)

    def release_preallocation(self) -> None:
        """Take no more of the disk than was appended: it is full, and others want to write."""
        if self._segments.active.has_preallocation:
            with self._lock:
                self._segments.active.release_preallocation()

    def rest(self) -> bool:
        """Close the files of the active segment until the next append; return whether that closed anything.

        For a process at its limit of open files. Never waits: a log that is in use stays as it is.
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
        """Hold the log for a change of its files; raise what an append would when it takes none."""
        with self.held():
            self._check_writable()
            self.context.before_change()
            yield

    @contextlib.contextmanager
    def fencing(self) -> Iterator[None]:
        """Fence the log when an OSError is raised inside: nobody knows then how much of the change is on disk."""
        try:
            yield
        except OSError as error:
            self.fenced = error
            raise

    def configure(self, config: LogConfig, *, is_compacted: bool | None = None) -> None:
        """Go by other settings from now on, for the segments too; those of index size begin with the next segment."""
        with self._lock:
            self.config = config
            self.is_compacted = config.is_compacted if is_compacted is None else is_compacted
            for segment in self._segments:
                segment.configure(config)

    def raise_log_start(self, offset: int) -> None:
        """Let the log begin at `offset`, in memory; the files stay. It never falls and does not pass the end."""
        with self._lock:
            self.log_start_offset = max(self.log_start_offset, min(offset, self.next_offset))
            try:
                self.epochs.truncate_from_start(self.log_start_offset)
            except OSError as error:
                if error.errno not in FULL:  # else they go the next time: an epoch too many misleads nobody
                    self.fenced = error
                    raise

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset` (-1: all there are); return the log start, on disk after return.

        Raises `PolicyViolation` where the topic does not delete, `OffsetOutOfRange`. See record_deletion.
        """
        return record_deletion.delete_records(self, offset)

    def truncate_to(self, offset: int) -> bool:
        """Cut the records from `offset` on; return whether there were any. On disk after return. See truncation."""
        return truncation.truncate_to(self, offset)

    def truncate_fully(self, offset: int) -> None:
        """Empty the log, which begins and goes on at `offset`. On disk after return. See truncation."""
        truncation.truncate_fully(self, offset)

    def end_at(self, next_offset: int, segments: Segments) -> None:
        """Take over what a truncation left. The caller holds the log."""
        self.truncations += 1
        self._segments, self.next_offset, self.recovery_point = segments, next_offset, next_offset
        self.log_start_offset = max(min(self.log_start_offset, next_offset), segments.first.base_offset)
        self._dirty = [segment for segment in self._dirty if segments.floor(segment.base_offset) is segment]
        self._index_transactions()
        self._producers.know_anew(self)
        if self._changed:
            segments.active.activate()

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put `new`, whose files are called `.cleaned`, in the place of `old`; on disk after return. See replacement.

        Raises `SegmentsChanged`, and nothing is changed, where one of `old` is no sealed segment of the log any more.
        """
        replacement.replace_segments(self, new, old)

    def producers(self) -> dict[int, ProducerEntry]:
        """Return what is known of each active producer, by its id. Reads the newest snapshot when asked first."""
        with self._lock:
            return dict(self._producers.know(self).entries)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were idle for so long and have no open transaction; return how many."""
        with self._lock:
            return self._producers.expire(now_ms, expiration_ms)

    @property
    def is_held(self) -> bool:
        """Whether an append would have to wait now for somebody who changes the log: a swap syncs a few times."""
        return self._lock.locked()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the log: nothing is appended, rolled or flushed meanwhile; reading goes on."""
        with self._flush_lock, self._lock:
            yield

    def mark_superseded(self) -> None:
        """Note that the directory has opened the partition anew, for writing. Readers of this log may read on."""
        self._is_superseded = True

    def mark_deleted(self, path: str) -> None:
        """Take note that the partition was deleted, its directory renamed to `path`. Who reads may read on."""
        self._is_deleted, self.path = True, path

    def close(self) -> None:
        """Flush, trim the indexes to what is valid, save the producer state. A fenced log is only let go."""
        if not self._changed or self._is_deleted:
            return
        if self.fenced is None:
            with self._lock, self.fencing():
                self._segments.active.trim()
            self.flush()
            self._index_transactions()
            with self._lock:  # not while another thread has it `rest`
                self._segments.active.deactivate()
            self._producers.save(self, sync_name=False)
            files.sync_directory(self.path)

    def check(self) -> None:
        """Assert what must hold between any two operations; for tests."""
        assert self.log_start_offset <= self.next_offset and self.recovery_point <= self.next_offset
        expected = 0
        for segment in self._segments:
            assert segment.base_offset >= expected
            segment.check()
            expected = max([segment.base_offset, *(header.next_offset for _, header in segment.headers())])
        assert expected <= self.next_offset
