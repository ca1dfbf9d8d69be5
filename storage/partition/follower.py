"""Updates a log that is open for reading with the changes of the broker that writes it.

There is no background task. A caller that asks the log for its end triggers a check, at most a hundred times a second,
which costs two stat calls if nothing changed. The cases:

* The active file grew: whole batches with correct checksums are added. Later bytes are an append in progress, or the
zeros of a preallocated file: neither data nor damage.
* With a high watermark, batches above it are added only once it has risen, because the broker may truncate them.
* Names changed (a roll, retention, a compaction's swap): the segment map is rebuilt. Segments whose files still have
the same inodes are kept. During a swap (`.swap` names) the map stays as it was.
* The log was replaced: its directory was deleted or created again, or a broker's recovery cut its end. Then `is_gone`
is set permanently, and the caller must get the log from the directory again.

Open files stay readable whatever happens to their names. A segment that was replaced before it was opened raises ESTALE
(see `Segment`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import parse_segment_name
from offsetfs.storage.partition.log_end import readable_end, replicated_end
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import BatchHeader
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

LOOK_INTERVAL_S = 0.01
CATCH_UP_BYTES_MAX = 4 << 20
"""The bytes that one check processes: some milliseconds of work. Later checks process the rest."""

TIMESTAMP_TICK_MS = 20
"""The milliseconds in which a directory may change without another modification time: file systems stamp with a clock
that ticks every one to ten milliseconds, on kernels before 6.13 all of them. Until they have passed, each poll lists
the names."""

BLOCK_BYTES = 128 << 10
"""The bytes of one read. Small, because a poll of a preallocated file finds only zeros."""


class LogFollower:
    """Checks one partition's directory for a `Log` that is open for reading."""

    def __init__(
        self,
        log: Log,
        log_start: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
        *,
        high_watermark: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`log_start` returns the partition's offset in the log start checkpoint, 0 when there is none;
        `high_watermark` returns the offset below which batches are taken in, None for no bound."""
        self.is_gone = False
        self._high_watermark = high_watermark
        self._bound = high_watermark()
        self._log = log
        self._log_start = log_start
        self._now = now
        self._next_look = 0.0
        self._looking = threading.Lock()  # two threads that took in the same growth would count it twice
        status = files.status(log.path)
        self._directory = status.st_ino
        self._names_changed = -1  # looked at once more: they may have changed while the log was opened

    def look(self, *, is_forced: bool = False) -> None:
        """Update the log, unless the last check was a moment ago. Never raises for changes that a broker may make."""
        with self._looking:
            now = self._now()
            if self.is_gone or (now < self._next_look and not is_forced):
                return
            self._next_look = now + LOOK_INTERVAL_S
            if is_forced:
                self._names_changed = -1
            try:
                with self._log.held():
                    self._look()
            except FileNotFoundError:
                self.is_gone = not files.is_directory(self._log.path)

    def _look(self) -> None:
        status = files.status(self._log.path)
        if status.st_ino != self._directory:
            self.is_gone = True
            return
        self._bound = self._high_watermark()
        self._catch_up()
        if status.st_mtime_ns != self._names_changed and not self.is_gone:
            self._look_at_names(status.st_mtime_ns)
        self._log.publish(self._log.state.starting_at(self._log_start()))

    # --- growth ------------------------------------------------------------------------------------------------------

    def _catch_up(self) -> bool:
        """Process whole, valid batches of the active file; return whether its end was reached."""
        active = self._log.snapshot().active
        size = self._size_of(active)
        if size < active.size:
            self.is_gone = True
        if size <= active.size:
            return True
        if self._bound is not None and self._bound <= self._log.next_offset:
            return False
        recorded = files.recorded_end_offset(active.log_path, size)
        if recorded is not None and self._bound is None:  # what is archived has whole batches only: nothing to read
            active.grow_to(size)
            self._log.publish(self._log.state.extended_to(recorded))
            return True
        stop = active.size + CATCH_UP_BYTES_MAX
        try:
            for batch in batch_chain.batches(active.open_files().log, active.size, size, block_bytes=BLOCK_BYTES):
                if batch.header.base_offset < self._log.next_offset:
                    return True
                if self._is_above_bound(batch.header):
                    return False
                active.note_growth(batch.header)
                self._log.publish(self._log.state.extended_to(batch.header.next_offset))
                if active.size >= stop:
                    return active.size == size
        except StorageError:
            pass  # an append in progress
        return True

    def _is_above_bound(self, header: BatchHeader) -> bool:
        """Whether a batch may still be truncated. The one with the log start may not; see `replicated_end`."""
        if self._bound is None or header.next_offset <= self._bound:
            return False
        return header.base_offset >= self._log_start()

    @staticmethod
    def _size_of(active: Segment) -> int:
        try:
            status = files.status(active.log_path)
        except FileNotFoundError:  # deleted or renamed: the open file still has its bytes
            return active.open_files().log.size()
        return status.st_size if status.st_ino == active.inode else active.open_files().log.size()

    # --- names -------------------------------------------------------------------------------------------------------

    def _look_at_names(self, changed: int) -> None:
        age_ms = self._log.clock.now_ms() - changed // 1_000_000
        inodes, is_swapping = self._log_files()
        if is_swapping or not inodes:
            return  # and check again next time
        # A writer replaces the file of the leader epochs. Consumers that have read a batch of a later epoch than they
        # are given ignore the partition (KIP-320).
        self._log.epochs.reload()
        old = self._log.snapshot()
        if max(inodes) < old.active.base_offset:
            self.is_gone = True
            return
        newest = max(inodes)
        inodes = self._below_bound(inodes, old.active.base_offset)
        if old.active.base_offset in inodes and max(inodes) > old.active.base_offset and not self._catch_up():
            return  # the former active segment is read to its end before the next one counts
        kept = {s.base_offset: s for s in old if inodes.get(s.base_offset) == s.inode and _has_its_name(s)}
        segments = Segments(kept[base] if base in kept else self._new(base, inode) for base, inode in inodes.items())
        state = self._log.state
        if segments.active is not old.active:
            state = state.extended_to(self._find_end(segments.active))
        self._log.publish(state.with_segments(segments))
        if max(inodes) == newest and abs(age_ms) > TIMESTAMP_TICK_MS:
            self._names_changed = changed

    def _below_bound(self, inodes: dict[int, int], active: int) -> dict[int, int]:
        """Return the log files that begin at or below the bound; known ones stay."""
        if self._bound is None:
            return inodes
        bound = max(self._bound, active)
        return {base: inode for base, inode in inodes.items() if base <= bound} or inodes

    def _log_files(self) -> tuple[dict[int, int], bool]:
        """Return the inodes of the `.log` files by base offset, and whether a swap is in progress."""
        inodes, is_swapping = {}, False
        for name, inode in files.names_with_inodes(self._log.path):
            parsed = parse_segment_name(name)
            if parsed is not None and parsed[1] == ".log":
                inodes[int(parsed[0])] = inode
            is_swapping = is_swapping or name.endswith(".swap")
        return inodes, is_swapping

    def _new(self, base_offset: int, inode: int) -> Segment:
        old = self._log.snapshot().active
        return Segment(self._log.path, base_offset, old.config, old.pool, read_only=True, inode=inode)

    def _find_end(self, active: Segment) -> int:
        """Return the next offset of a segment that became the active one, and let it end there."""
        size, next_offset, _ = readable_end(active, 0)
        active.end_at(size)
        if self._bound is not None:
            size, next_offset = replicated_end(active, next_offset, self._bound, self._log_start())
            active.end_at(size)
        if next_offset < self._log.next_offset and size:
            self.is_gone = True
        return next_offset

    @property
    def is_bounded(self) -> bool:
        """Whether batches above a high watermark are left out."""
        return self._bound is not None

    def log_end_offset(self) -> int:
        """Return the offset after the last whole batch of the newest file, regardless of the bound."""
        if self._bound is None:
            return self._log.next_offset
        try:
            inodes, _ = self._log_files()
            newest = max(inodes)
            segment = self._new(newest, inodes[newest])
            try:
                end = readable_end(segment, 0)[1]
            finally:
                segment.release()
        except (ValueError, OSError, StorageError):
            return self._log.next_offset
        return max(end, self._log.next_offset)


def _has_its_name(segment: Segment) -> bool:
    """Whether the segment was opened by its current name, not as the `.swap` of a swap in progress."""
    return segment.log_path.endswith(".log")
