"""What a crash left: verify the segments from the recovery point on, make their indexes anew, cut what is not sound.

Follows Kafka's LogLoader.recoverLog and LogSegment.recover, with three stricter rules:

* only what lies beyond the recovery point is ever cut. Damage before it was once on disk; it is reported, stepped
  over, and stays where it is;
* what is cut is kept beside the log (`cut_tail`), under a name that Kafka ignores;
* a segment that ends, with a whole batch, before the next one begins has lost its end in a power cut: the kernel wrote
  the newer file first. What follows is cut as well. A compacted log has such gaps by nature: ours below the recovery
  point only, which compaction puts on disk first. Where there is none, or a broker compacted, the rule does not hold;
  the segments of a compacted log are synced when they roll, so that they have no holes.

A crash during recovery leaves something to recover, and nothing is lost twice:

    1. the copy of what is cut, and the names of the segments behind, are on disk before
    2. the log is cut; cut and whole logs are on disk before
    3. their indexes are made anew, epochs and snapshots follow; the directory is synced
    4. the checkpoint and the mark of a clean end come when the directory is closed: until then all begins anew

Producers are replayed on the way, and a snapshot is written at each base offset and at the end, as Kafka does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from offsetfs.storage import files
from offsetfs.storage.counted import counted
from offsetfs.storage.errors import OffsetBeyondSegment, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.partition import cut_tail, producer_loading
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.log import Damage
from offsetfs.storage.partition.producers import ProducerState
from offsetfs.storage.records import batch_chain, chain, row_walk
from offsetfs.storage.records.batch_header import TRANSACTIONAL_FLAG
from offsetfs.storage.records.row_walk import Rows
from offsetfs.storage.recovery import leftover_files, overflow
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_indexes import IndexBuilder
from offsetfs.storage.segments.segment_map import Segments

OnBytes = Callable[[int], None]
"""Called with how many bytes more have been verified."""


class Recovery:
    """One partition's recovery. After `run`: `segments`, `next_offset` and `damage` say what it came to."""

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochCache,
        recovery_point: int,
        *,
        log_start: int = 0,
        has_gaps: bool = False,
        on_bytes: OnBytes = lambda count: None,
    ) -> None:
        """Recover `segments`; `log_start` and `recovery_point` come from the checkpoints.

        `has_gaps`: offsets are missing in them by nature, because they were compacted.
        """
        self.segments = segments
        self.next_offset = segments.first.base_offset
        self.damage: list[Damage] = []
        self.has_transactions = False
        """Whether a transactional batch was seen: then the transaction indexes are to be made anew."""
        self.split: list[str] = []
        """Old files of a segment that had to be split, to be removed when all is done.

        Where there are any the segments are to be loaded and recovered once more, and gaps between them are no loss.
        """
        self._epochs = epochs
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._has_gaps = has_gaps
        self._on_bytes = on_bytes
        self._directory = segments.first.directory
        self._producers: ProducerState | None = None

    def run(self) -> None:
        """Verify everything from the recovery point on. What is left is on disk after return."""
        self._know_producers()
        last: Segment | None = None
        for segment in self.segments.from_floor(self._recovery_point):
            if last is not None and self._is_after_a_hole(segment):
                self._set_aside_after(last, f"offsets {self.next_offset} to {segment.base_offset - 1} are missing")
                break
            last = segment
            self._save_producers(segment.base_offset)
            if self._recover(segment):
                break
        if not self.split:
            self._finish()

    def _finish(self) -> None:
        """Bring everything beside the logs in line with them."""
        self._epochs.truncate_from_end(self.next_offset, next_offset=self.next_offset)
        self._epochs.truncate_from_start(max(self._log_start, self.segments.first.base_offset))
        self._save_producers(self.next_offset)
        present = leftover_files.parse_segment_names(files.names(self._directory))
        strays = leftover_files.stray_snapshots(present, offset_max=self.next_offset)
        leftover_files.remove(self._directory, [*leftover_files.orphans(present), *strays])
        files.sync_directory(self._directory)

    def _is_after_a_hole(self, segment: Segment) -> bool:
        """Whether the end of the segment before was lost. One gap within a segment shows that the log was compacted."""
        if self._has_gaps or segment.base_offset <= self._log_start:  # a log that lost its end goes on behind its start
            return False
        return self._recovery_point <= self.next_offset < segment.base_offset

    # --- one segment -------------------------------------------------------------------------------------------------

    def _recover(self, segment: Segment) -> bool:
        """Verify one segment and make its indexes anew; return whether recovery ends with it."""
        self.next_offset = max(self.next_offset, segment.base_offset)
        builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
        with files.opened(segment.log_path, writable=True) as log:
            position, is_cut = 0, False
            while position < segment.size and not is_cut:
                position, error = self._verify(segment, log, position, builder)
                if error is None:
                    break
                if isinstance(error, OffsetBeyondSegment) and self._split(segment):
                    return True
                if self.next_offset >= self._recovery_point:
                    self._cut(segment, log, position, error.reason)
                    is_cut = True
                else:
                    self.damage.append(Damage(segment.log_path, position, self.next_offset, error.reason))
                    position = self._step_over(segment, log, position)
            log.sync()
        builder.finish()
        segment.adopt_indexes(builder)
        return is_cut

    def _verify(
        self, segment: Segment, log: File, position: int, builder: IndexBuilder
    ) -> tuple[int, StorageError | None]:
        """Walk the sound batches from `position`; return where they end and, if not with the file, why.

        Offsets rise and fit an index entry: the checksum does not cover them.
        """
        base_behind = self.segments.base_behind(segment)
        offset_max = row_walk.offset_max_of(segment.base_offset, base_behind)
        try:
            for rows in row_walk.sound_rows(
                log,
                position,
                segment.size,
                offset_min=self.next_offset,
                offset_max=offset_max,
                base_behind=base_behind,
            ):
                builder.add_rows(rows.numbers)
                self._take(rows, log)
                position = rows.end
        except StorageError as error:
            return position, error
        return position, None

    def _take(self, rows: Rows, log: File) -> None:
        """Take note of what batches say of epochs, producers and gaps."""
        if rows.next_offset - self.next_offset != sum(rows.column(chain.LAST_OFFSET_DELTA)) + len(rows):
            self._has_gaps = self._has_gaps or not self._recovery_point  # else it lies below it, and says nothing
        self._learn_epochs(rows)
        if self._producers is not None:
            producer_loading.replay(self._producers, rows, log)
        self.has_transactions = self.has_transactions or bool(rows.flagged(TRANSACTIONAL_FLAG))
        self.next_offset = rows.next_offset
        self._on_bytes(rows.end - rows.position)

    def _learn_epochs(self, rows: Rows) -> None:
        epochs, latest = rows.column(chain.LEADER_EPOCH), self._epochs.latest
        latest = -1 if latest is None else latest
        if max(epochs) <= latest:
            return
        for epoch, offset in zip(epochs, rows.column(chain.BASE_OFFSET), strict=True):
            if epoch > latest:
                self._epochs.assign(epoch, offset)
                latest = epoch

    def _step_over(self, segment: Segment, log: File, position: int) -> int:
        """Return where reading goes on after damage that may not be cut."""
        following = batch_chain.next_sound(
            log,
            position,
            segment.size,
            offset_min=self.next_offset,
            offset_max=row_walk.offset_max_of(segment.base_offset, self.segments.base_behind(segment)),
        )
        if following == segment.size:  # offsets that were once given out are not given out again
            self.next_offset = max(self.next_offset, self._recovery_point)
            segment.ends_torn = True
        return following

    # --- what does not stay ------------------------------------------------------------------------------------------

    def _cut(self, segment: Segment, log: File, position: int, reason: str) -> None:
        """Cut the log. What goes is kept, on disk, before; so are the segments behind, for else a crash in between
        would leave them in the log, with a hole before them."""
        kept = cut_tail.keep(segment, position, sync_name=False)
        is_preallocated = kept is None and segment.config.preallocate and self.segments.base_behind(segment) is None
        where = f"kept in {os.path.basename(kept)}" if kept else "all of them zero"
        reason = f"{reason}; cut {counted(segment.size - position, 'byte')}, {where}"
        if not is_preallocated:
            self.damage.append(Damage(segment.log_path, position, self.next_offset, reason, kept or ""))
        self._set_aside_after(segment, "it follows a cut")
        files.sync_directory(self._directory)
        log.truncate(position)
        segment.size = position

    def _set_aside_after(self, last: Segment, reason: str) -> None:
        """Take the segments behind `last` out of the log, the last of them first: a crash leaves no hole before any."""
        later = [segment for segment in self.segments if segment.base_offset > last.base_offset]
        found = []
        for segment in reversed(later):
            kept = cut_tail.set_aside(segment)
            segment.pool.drop(segment)
            meaning = f"{reason}; the whole segment is kept in {os.path.basename(kept)}"
            found.append(Damage(segment.log_path, 0, segment.base_offset, meaning, kept))
        self.damage += reversed(found)
        self.segments = self.segments.without(later)

    def _split(self, segment: Segment) -> bool:
        """Split a segment with offsets that its indexes cannot hold; return whether it is one."""
        if overflow.is_overflowed(segment, self.segments.base_behind(segment)):
            self.split = overflow.split(segment)
        return bool(self.split)

    # --- producers ---------------------------------------------------------------------------------------------------

    def _know_producers(self) -> None:
        """Find out the producers at the first segment to be verified; where that cannot be done no snapshot is made."""
        first = next(self.segments.from_floor(self._recovery_point))
        start = max(self._log_start, self.segments.first.base_offset)
        try:
            self._producers = producer_loading.load(
                self._directory, self.segments, first.base_offset, log_start=start, clean=False
            )
        except (OSError, StorageError):
            self._producers = None

    def _save_producers(self, offset: int) -> None:
        """Write the snapshot at `offset`, unless it is there; a log that begins has none."""
        state = self._producers
        if state is not None and (state.entries or offset > self.segments.first.base_offset):
            producer_loading.save(self._directory, offset, state, sync_name=False)
