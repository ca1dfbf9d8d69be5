"""Recovers a log after a crash: verifies segments from the recovery point on, rebuilds indexes, cuts an invalid tail.

Follows Kafka's LogLoader.recoverLog and LogSegment.recover, with three stricter rules:

* Only bytes beyond the recovery point are cut. Bytes before it were synced, so damage there is reported and skipped.
* Bytes that are cut are kept beside the log (`cut_tail`), under a name that Kafka ignores.
* If a segment ends with a whole batch, but before the next segment begins, then a power cut took its end, because the
kernel wrote the newer file first. The later segments are set aside. In a compacted log gaps are normal. Our compaction
creates them only below the recovery point, which it raises on disk first. The rule does not apply if the log has no
recovery point or a broker compacted it. Segments of a compacted log are synced when they roll, so they have no such
gaps.

The order of writes makes a crash during recovery harmless:

    1. the copy of the bytes to cut, and the new names of the later segments, are synced
    2. the log is cut; the cut log and whole logs are synced
    3. indexes are rebuilt; epochs and snapshots follow; the directory is synced
    4. the checkpoint and the clean shutdown file are written on close; until then recovery starts again from step 1

Producers are replayed at the same time. As in Kafka, a snapshot is written at each base offset and at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from offsetfs.storage import files
from offsetfs.storage.errors import OffsetBeyondSegment, StorageError, counted
from offsetfs.storage.files import File
from offsetfs.storage.partition import cut_tail, producer_loading
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.log import Damage
from offsetfs.storage.partition.producers import ProducerState
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch_header import TRANSACTIONAL_FLAG
from offsetfs.storage.recovery import leftover_files, overflow
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_indexes import IndexBuilder
from offsetfs.storage.segments.segment_map import Segments

OnBytes = Callable[[int], None]
"""Called with the number of bytes verified since the last call."""


class Recovery:
    """The recovery of one partition. After `run`, `segments`, `next_offset` and `damage` hold the result."""

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochCache,
        recovery_point: int,
        *,
        log_start: int = 0,
        remote_start: int | None = None,
        has_gaps: bool = False,
        on_bytes: OnBytes = lambda count: None,
    ) -> None:
        """Recover `segments`; `log_start` and `recovery_point` come from the checkpoints, `remote_start` of `LogParts`.

        `has_gaps`: compaction may have removed offsets between the segments.
        """
        self.segments = segments
        self.next_offset = segments.first.base_offset
        self.damage: list[Damage] = []
        self.has_transactions = False
        """Whether the log has a transactional batch. Then the transaction indexes must be rebuilt."""
        self.split: list[str] = []
        """The old files of a segment that was split, to be removed at the end.

        If there are any, the segments must be loaded and recovered again, and gaps between them are not losses.
        """
        self._epochs = epochs
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._remote_start = remote_start
        self._has_gaps = has_gaps
        self._on_bytes = on_bytes
        self._directory = segments.first.directory
        self._producers: ProducerState | None = None

    def run(self) -> None:
        """Verify everything from the recovery point on. The result is durable on return."""
        self._load_producers()
        last: Segment | None = None
        # Everything below is on disk since the last checkpoint (Kafka's LogLoader.recoverLog begins at the same
        # segment).
        for segment in self.segments.from_floor(self._recovery_point):
            # ext4 may write a newer file before the end of an older one: a power cut then leaves whole segments behind
            # a hole.
            if last is not None and self._is_after_gap(segment):
                self._set_aside_after(last, f"offsets {self.next_offset} to {segment.base_offset - 1} are missing")
                break
            last = segment
            self._save_producers(segment.base_offset)
            if self._recover(segment):
                break
        if not self.split:
            self._finish()

    def _finish(self) -> None:
        """Update the epochs, snapshots and the directory to match the logs."""
        self._epochs.truncate_from_end(self.next_offset, next_offset=self.next_offset)
        local_start = max(self._log_start, self.segments.first.base_offset)
        # A broker finds what it has in remote storage by the epochs of those records.
        self._epochs.truncate_from_start(local_start if self._remote_start is None else self._remote_start)
        self._save_producers(self.next_offset)
        names = files.names(self._directory)
        present = leftover_files.parse_segment_names(names)
        strays = leftover_files.stray_snapshots(present, offset_max=self.next_offset)
        leftover_files.remove(self._directory, [*leftover_files.orphans(present), *strays])
        unfinished = leftover_files.unfinished_checkpoints(names)
        leftover_files.remove_garbage(os.path.join(self._directory, name) for name in unfinished)
        files.sync_directory(self._directory)

    def _is_after_gap(self, segment: Segment) -> bool:
        """Whether the end of the previous segment was lost. A gap within a segment shows that the log was compacted."""
        if (
            self._has_gaps or segment.base_offset <= self._log_start
        ):  # a log that lost its end continues behind its start
            return False
        return self._recovery_point <= self.next_offset < segment.base_offset

    # --- one segment -------------------------------------------------------------------------------------------------

    def _recover(self, segment: Segment) -> bool:
        """Verify one segment and rebuild its indexes; return whether the segment was cut or split, which ends the
        recovery.
        """
        self.next_offset = max(self.next_offset, segment.base_offset)
        builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
        with files.open_file(segment.log_path, writable=True) as log:
            position, is_cut = 0, False
            while position < segment.size and not is_cut:
                position, error = self._verify(segment, log, position, builder)
                if error is None:
                    break
                # KAFKA-6264: old cleaners merged segments beyond 2³¹ offsets. Cutting there would lose valid records.
                if isinstance(error, OffsetBeyondSegment) and self._split(segment):
                    return True
                # Only here data is removed: beyond the recovery point an interrupted write explains the invalid batch
                # (decision 3).
                if self.next_offset >= self._recovery_point:
                    self._cut(segment, log, position, error.reason)
                    is_cut = True
                else:
                    self.damage.append(Damage(segment.log_path, position, self.next_offset, error.reason))
                    position = self._skip_damage(segment, log, position)
            # After a power cut, the last block may hold bytes of a lost append beyond the end of the file. They would
            # return if the file system wrote a larger size to disk before the data of the next append, and the
            # power failed again. Truncating a file to its own size zeroes the rest of the block and releases the blocks
            # behind it (ext4_setattr, xfs_setattr_size).
            log.truncate(segment.size)
            log.sync()
        builder.finish()
        segment.replace_indexes(builder)
        return is_cut

    def _verify(
        self, segment: Segment, log: File, position: int, builder: IndexBuilder
    ) -> tuple[int, StorageError | None]:
        """Verify the batches from `position` on; return where the valid ones end and, unless that is the end of file,
        the error.

        Offsets must rise and fit an index entry, because the checksum does not cover them.
        """
        next_base_offset = self.segments.next_base_offset(segment)
        offset_max = row_walk.offset_max_of(segment.base_offset, next_base_offset)
        try:
            for rows in row_walk.sound_rows(
                log,
                position,
                segment.size,
                offset_min=self.next_offset,
                offset_max=offset_max,
                next_base_offset=next_base_offset,
            ):
                builder.add_rows(rows.numbers)
                self._record(rows, log)
                position = rows.end
        except StorageError as error:
            return position, error
        return position, None

    def _record(self, rows: Rows, log: File) -> None:
        """Record the epochs, producers and gaps of these batches."""
        if rows.next_offset - self.next_offset != sum(rows.column(chain.LAST_OFFSET_DELTA)) + len(rows):
            self._has_gaps = self._has_gaps or not self._recovery_point  # a gap below the recovery point proves nothing
        self._epochs.assign_rising(rows.column(chain.LEADER_EPOCH), rows.column(chain.BASE_OFFSET))
        if self._producers is not None:
            producer_loading.replay(self._producers, rows, log)
        self.has_transactions = self.has_transactions or bool(rows.flagged(TRANSACTIONAL_FLAG))
        self.next_offset = rows.next_offset
        self._on_bytes(rows.end - rows.position)

    def _skip_damage(self, segment: Segment, log: File, position: int) -> int:
        """Return the position after damage below the recovery point, which is never cut."""
        following = batch_chain.next_sound(
            log,
            position,
            segment.size,
            offset_min=self.next_offset,
            offset_max=row_walk.offset_max_of(segment.base_offset, self.segments.next_base_offset(segment)),
        )
        if following == segment.size:  # never reuse offsets that were assigned before the crash
            self.next_offset = max(self.next_offset, self._recovery_point)
            segment.mark_torn_tail()
        return following

    # --- what does not stay ------------------------------------------------------------------------------------------

    def _cut(self, segment: Segment, log: File, position: int, reason: str) -> None:
        """Cut the log at `position`. The cut bytes are kept and synced first.

        The later segments are set aside before the cut as well. Otherwise a crash in between would leave them in the
        log, after a gap.
        """
        kept = cut_tail.keep(segment, position, sync_name=False)
        is_preallocated = (
            kept is None and segment.config.preallocate and self.segments.next_base_offset(segment) is None
        )
        where = f"kept in {os.path.basename(kept)}" if kept else "all of them zero"
        reason = f"{reason}; cut {counted(segment.size - position, 'byte')}, {where}"
        if not is_preallocated:
            self.damage.append(Damage(segment.log_path, position, self.next_offset, reason, kept or ""))
        self._set_aside_after(segment, "follows a cut")
        # The names of the copy and of the segments set aside must be on disk before the bytes are gone.
        files.sync_directory(self._directory)
        log.truncate(position)
        segment.end_at(position)

    def _set_aside_after(self, last: Segment, reason: str) -> None:
        """Move the segments after `last` out of the log, the last one first, so that a crash leaves no gap before any
        of them.
        """
        later = [segment for segment in self.segments if segment.base_offset > last.base_offset]
        damage = []
        # The last segment first: a crash in between must not leave a gap before a segment that is still in the log.
        for segment in reversed(later):
            kept = cut_tail.set_aside(segment)
            segment.pool.drop(segment)
            meaning = f"{reason}; whole segment kept in {os.path.basename(kept)}"
            damage.append(Damage(segment.log_path, 0, segment.base_offset, meaning, kept))
        self.damage += reversed(damage)
        self.segments = self.segments.without(later)

    def _split(self, segment: Segment) -> bool:
        """Split a segment whose offsets do not fit its indexes; return whether it was one."""
        if overflow.is_overflowed(segment, self.segments.next_base_offset(segment)):
            self.split = overflow.split(segment)
        return bool(self.split)

    # --- producers ---------------------------------------------------------------------------------------------------

    def _load_producers(self) -> None:
        """Load the producers at the first segment to verify. If that fails, no snapshots are written."""
        first = next(self.segments.from_floor(self._recovery_point))
        start = max(self._log_start, self.segments.first.base_offset)
        try:
            self._producers = producer_loading.load(
                self._directory, self.segments, first.base_offset, log_start=start, clean=False
            )
        except (OSError, StorageError):
            self._producers = None

    def _save_producers(self, offset: int) -> None:
        """Write the snapshot at `offset`, unless it exists. No snapshot is written at the start of the log."""
        state = self._producers
        # At the start of the log there are no producers yet, and Kafka writes no empty snapshot.
        if state is not None and (state.entries or offset > self.segments.first.base_offset):
            producer_loading.save(self._directory, offset, state, sync_name=False)
