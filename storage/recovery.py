"""What a crash left: verify the segments from the recovery point on, make their indexes anew, cut what is not sound.

Follows Kafka's LogLoader.recoverLog and LogSegment.recover, with three stricter rules:

* only what lies beyond the recovery point is ever cut. Damage before it was once on disk; it is reported, stepped
  over, and stays where it is;
* what is cut is kept beside the log, as `<base offset>.cut-<position>`, a name that Kafka ignores;
* a segment that ends, with a whole batch, before the next one begins has lost its end in a power cut: the kernel wrote
  the newer file first. What follows is cut as well. A compacted log has such gaps by nature, and does without the rule
  because its segments are synced when they roll.
"""

from __future__ import annotations

import os

from offsetfs.storage import batch_chain, files, segment_indexes
from offsetfs.storage.batch import BatchHeader
from offsetfs.storage.epochs import LeaderEpochCache
from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.legacy import TIMELESS_RUNS
from offsetfs.storage.log import Damage
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.segment import RELATIVE_OFFSET_MAX, Segment
from offsetfs.storage.segment_indexes import IndexBuilder
from offsetfs.storage.segments import Segments

_COPY_BYTES = 1 << 20


class Recovery:
    """One partition's recovery. After `run`: `segments`, `next_offset` and `damage` say what it came to."""

    def __init__(
        self, segments: Segments, epochs: LeaderEpochCache, recovery_point: int, *, has_gaps: bool = False
    ) -> None:
        """Recover `segments`; `has_gaps`: offsets are missing in them by nature, because they were compacted."""
        self.segments = segments
        self.next_offset = segments.first.base_offset
        self.damage: list[Damage] = []
        self._epochs = epochs
        self._recovery_point = recovery_point
        self._has_gaps = has_gaps

    def run(self) -> None:
        """Verify everything from the recovery point on. What is left is on disk after return."""
        last: Segment | None = None
        for segment in self.segments.from_floor(self._recovery_point):
            if last is not None and self._is_after_a_hole(segment):
                self._set_aside_after(last)
                break
            last = segment
            if self._recover(segment):
                self._set_aside_after(segment)
                break
        self._epochs.truncate_from_end(self.next_offset)
        path = self.segments.first.directory
        _remove_snapshots_above(path, self.next_offset)
        files.sync_directory(path)

    def _is_after_a_hole(self, segment: Segment) -> bool:
        """Whether the end of the segment before was lost. One gap within a segment shows that the log was compacted."""
        return self._recovery_point <= self.next_offset < segment.base_offset and not self._has_gaps

    def _recover(self, segment: Segment) -> bool:
        """Verify one segment and make its indexes anew; return whether it had to be cut."""
        self.next_offset = max(self.next_offset, segment.base_offset)
        builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
        position, cut = 0, False
        while position < segment.size and not cut:
            position, reason = self._verify(segment, position, builder)
            if position == segment.size:
                break
            if self.next_offset >= self._recovery_point:
                self._cut(segment, position, reason)
                cut = True
            else:
                self.damage.append(Damage(segment.log_path, position, self.next_offset, reason))
                position = self._step_over(segment, position)
        builder.finish()
        segment.adopt_indexes(builder)
        segment.sync()
        return cut

    def _verify(self, segment: Segment, position: int, builder: IndexBuilder) -> tuple[int, str]:
        """Walk the sound batches from `position`; return where they end and why."""
        try:
            for batch in segment.batches(position, runs=TIMELESS_RUNS):
                header = batch.header
                if not self._fits(segment, header):
                    return position, f"offset {header.base_offset} cannot follow {self.next_offset - 1}"
                self._has_gaps = self._has_gaps or header.base_offset > self.next_offset
                builder.add(position, header)
                self._learn_epoch(header.leader_epoch, header.base_offset)
                position += header.size
                self.next_offset = header.next_offset
        except StorageError as error:
            return position, error.reason
        return position, ""

    def _fits(self, segment: Segment, header: BatchHeader) -> bool:
        """Whether offsets rise and fit an index entry. The checksum does not cover the base offset."""
        return (
            header.base_offset >= self.next_offset
            and header.last_offset_delta >= 0
            and header.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
        )

    def _learn_epoch(self, epoch: int, offset: int) -> None:
        latest = self._epochs.latest
        if epoch >= 0 and (latest is None or epoch > latest):
            self._epochs.assign(epoch, offset)

    def _step_over(self, segment: Segment, position: int) -> int:
        """Return where reading goes on after damage that may not be cut."""
        with files.opened(segment.log_path) as log:
            following = batch_chain.next_sound(log, position, segment.size, offset_min=self.next_offset)
        if following == segment.size:  # offsets that were once given out are not given out again
            self.next_offset = max(self.next_offset, self._recovery_point)
        return following

    def _cut(self, segment: Segment, position: int, reason: str) -> None:
        kept = _keep_copy(segment, position)
        with files.opened(segment.log_path, writable=True) as log:
            log.truncate(position)
            log.sync()
        count, segment.size = segment.size - position, position
        where = f"kept in {os.path.basename(kept)}" if kept else "all of them zero"
        self.damage.append(
            Damage(segment.log_path, position, self.next_offset, f"{reason}; cut {count} bytes, {where}")
        )

    def _set_aside_after(self, last: Segment) -> None:
        """Take the segments after a cut or a hole out of the log."""
        later = [segment for segment in self.segments if segment.base_offset > last.base_offset]
        for segment in later:
            _unlink_existing(segment, (".index", ".timeindex", ".txnindex", ".snapshot"))
            kept = segment_indexes.path(segment, ".cut-0")
            files.rename(segment.log_path, kept)
            reason = f"follows a cut or a hole; the whole segment is kept in {os.path.basename(kept)}"
            self.damage.append(Damage(segment.log_path, 0, segment.base_offset, reason))
        self.segments = self.segments.without(later)


def readable_end(segment: Segment, recovery_point: int) -> tuple[int, int, Damage | None]:
    """Return (bytes, next offset, damage) that a reader may trust in the last segment; changes nothing.

    What follows the last sound batch is being written, or was when the writer died. Below `recovery_point` that
    explanation fails, and it is damage.
    """
    position, next_offset = segment.last_indexed_position(), segment.base_offset
    reason = ""
    try:
        for place, header in segment.headers(position):
            if header.base_offset < next_offset:
                raise MalformedBatch(f"offset {header.base_offset} follows {next_offset - 1}", position=place)
            segment.batch_at_position(place)
            position, next_offset = place + header.size, header.next_offset
    except StorageError as error:
        reason = error.reason
    if not reason or next_offset >= recovery_point:
        return position, next_offset, None
    return segment.size, recovery_point, Damage(segment.log_path, position, next_offset, reason)


def end_of_chain(segment: Segment) -> int | None:
    """Return the offset after the last batch, or None when the file does not end with a whole one."""
    position, next_offset = segment.last_indexed_position(), segment.base_offset
    try:
        for place, header in segment.headers(position):
            if header.base_offset < next_offset:
                return None
            position, next_offset = place + header.size, header.next_offset
    except MalformedBatch:
        return None
    return next_offset


def _keep_copy(segment: Segment, position: int) -> str | None:
    """Copy what is about to be cut to a file beside the log, on disk after return; None when it is all zeros."""
    target = segment_indexes.path(segment, f".cut-{position}")
    something = False
    with files.opened(segment.log_path) as log, files.opened(target, create=True) as copy:
        for place in range(position, segment.size, _COPY_BYTES):
            block = log.read(place, min(_COPY_BYTES, segment.size - place))
            something = something or block.count(0) < len(block)
            copy.write(place - position, block)
        copy.sync()
    if not something:
        files.remove_file(target)
        return None
    files.sync_directory(segment.directory)
    return target


def _unlink_existing(segment: Segment, suffixes: tuple[str, ...]) -> None:
    for suffix in suffixes:
        path = segment_indexes.path(segment, suffix)
        if files.exists(path):
            files.remove_file(path)


def _remove_snapshots_above(path: str, next_offset: int) -> None:
    """Producer states of a future that was cut are not to be believed."""
    for name in files.names(path):
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[1] == ".snapshot" and parsed[0] > next_offset:
            files.remove_file(os.path.join(path, segment_name(parsed[0], ".snapshot")))
