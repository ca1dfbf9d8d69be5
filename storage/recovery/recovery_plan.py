"""Predicts what recovery would do to one partition, without changing anything.

Reads everything from the recovery point on, segment by segment, in the order of `recovery.Recovery`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from offsetfs.storage import checkpoint, files
from offsetfs.storage.errors import InvalidCheckpoint, OffsetBeyondSegment, StorageError, counted
from offsetfs.storage.names import OFFSET_MAX, segment_name
from offsetfs.storage.partition import cut_tail
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.recovery import leftover_files, overflow
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.settings.config import DEFAULTS


class OnStep(Protocol):
    """Receives one step of the plan."""

    def __call__(
        self, kind: str, name: str, meaning: str, *, position: int | None = None, offset: int | None = None
    ) -> None: ...


class RecoveryPlan:
    """The steps of one recovery, each passed to `on_step`. After `make`, `next_offset` is where the log would end."""

    def __init__(
        self,
        path: str,
        logs: Mapping[int, str],
        on_step: OnStep,
        *,
        recovery_point: int,
        log_start: int,
        has_gaps: bool,
    ) -> None:
        """`logs`: the paths of the log files after pending swaps, by base offset. `has_gaps`: as for `Recovery`."""
        self.next_offset = min(logs)
        self.set_aside: list[int] = []
        """The base offsets of the segments that would be set aside."""
        self._path = path
        self._logs = logs
        self._bases = sorted(logs)
        self._on_step = on_step
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._has_gaps = has_gaps

    def make(self) -> None:
        first = max((i for i, base in enumerate(self._bases) if base <= self._recovery_point), default=0)
        bases = self._bases[first:]
        after = f", with the {counted(len(bases) - 1, 'segment')} after it" if len(bases) > 1 else ""
        meaning = f"will be checked from offset {self._recovery_point}{after}; indexes will be rebuilt"
        self._on_step("recover", segment_name(bases[0], ".log"), meaning, offset=self._recovery_point)
        for index, base in enumerate(bases):
            if index and self._is_after_gap(base):
                self._set_aside(bases[index:], f"offsets {self.next_offset} to {base - 1} are missing")
                break
            self.next_offset = max(self.next_offset, base)
            if self._cuts(base, bases[index + 1] if base != bases[-1] else None):
                self._set_aside(bases[index + 1 :], "follows a cut")
                break
        self._plan_leftovers()
        self._plan_epochs()

    def _is_after_gap(self, base: int) -> bool:
        is_gap = self._recovery_point <= self.next_offset < base
        return is_gap and not self._has_gaps and base > self._log_start

    def _set_aside(self, bases: Sequence[int], reason: str) -> None:
        for base in bases:
            kept = cut_tail.free_name(self._path, base)
            self.set_aside.append(base)
            self._on_step("set-aside", segment_name(base, ".log"), f"{reason}; kept as {kept}", position=0)

    def _cuts(self, base: int, next_base_offset: int | None) -> bool:
        """Verify one segment; return whether it would be cut."""
        offset_max = row_walk.offset_max_of(base, next_base_offset)
        with files.open_file(self._logs[base]) as log:
            position, size = 0, log.size()
            while position < size:
                position, error = self._sound_end(log, position, size, offset_max, next_base_offset)
                if error is None:
                    return False
                if isinstance(error, OffsetBeyondSegment) and self._splits(base, next_base_offset):
                    offset_max = OFFSET_MAX
                elif self.next_offset >= self._recovery_point:
                    self._report_cut(log, base, position, size, error.reason)
                    return True
                else:
                    position = batch_chain.next_sound(
                        log, position, size, offset_min=self.next_offset, offset_max=offset_max
                    )
                    # As `Recovery` does: offsets below the recovery point are never assigned again.
                    if position == size:
                        self.next_offset = max(self.next_offset, self._recovery_point)
        return False

    def _sound_end(
        self, log: files.File, position: int, size: int, offset_max: int, next_base_offset: int | None
    ) -> tuple[int, StorageError | None]:
        try:
            for rows in row_walk.sound_rows(
                log,
                position,
                size,
                offset_min=self.next_offset,
                offset_max=offset_max,
                next_base_offset=next_base_offset,
            ):
                if rows.next_offset - self.next_offset != sum(rows.column(chain.LAST_OFFSET_DELTA)) + len(rows):
                    self._has_gaps = True
                position, self.next_offset = rows.end, rows.next_offset
        except StorageError as error:
            return position, error
        return position, None

    def _splits(self, base: int, next_base_offset: int | None) -> bool:
        pool: FilePool[SegmentFiles] = FilePool(1)
        log_path = self._logs[base]
        size = files.status(log_path).st_size
        segment = Segment(self._path, base, DEFAULTS, pool, size=size, read_only=True, log_path=log_path)
        if not overflow.is_overflowed(segment, next_base_offset):
            return False
        self._on_step("split", segment_name(base, ".log"), overflow.MEANING)
        self._has_gaps = True
        return True

    def _report_cut(self, log: files.File, base: int, position: int, size: int, reason: str) -> None:
        kept = cut_tail.name_for(self._path, base, log, position, size)
        where = f"kept in {kept}" if kept else "all of them zero"
        meaning = f"{reason}; {counted(size - position, 'byte')} will be cut, {where}"
        self._on_step("cut", segment_name(base, ".log"), meaning, position=position, offset=self.next_offset)

    def _plan_leftovers(self) -> None:
        """Report the snapshots and indexes that would be removed. Files that a swap removes are reported there."""
        pending = set(leftover_files.pending_swaps(self._path).removed)
        aside = {segment_name(base, ".log") for base in self.set_aside}
        names = {*files.names(self._path), *(segment_name(base, ".log") for base in self._logs)} - pending - aside
        present = leftover_files.parse_segment_names(sorted(names))
        for name in sorted(leftover_files.stray_snapshots(present, offset_max=self.next_offset)):
            is_beyond = (leftover_files.parse_segment_names([name])[0][1]) > self.next_offset
            reason = f"the log ends at {self.next_offset}" if is_beyond else "no segment begins with it"
            self._on_step("snapshot", name, f"will be removed: {reason}")
        for name in leftover_files.orphans(present):
            base = leftover_files.parse_segment_names([name])[0][1]
            if base not in self.set_aside:
                reason = "it is unfinished" if name.endswith(".tmp") else "its log is gone"
                self._on_step("leftover", name, f"will be removed: {reason}")
        for name in leftover_files.unfinished_checkpoints(names):
            self._on_step("leftover", name, "will be removed: it is unfinished")

    def _plan_epochs(self) -> None:
        path = os.path.join(self._path, checkpoint.LEADER_EPOCHS)
        try:
            dropped = [entry for entry in checkpoint.read_epochs(path) if entry[1] >= self.next_offset]
        except InvalidCheckpoint as error:
            reason = f"{error.reason}; will be rebuilt from the batches"
            self._on_step("epochs", checkpoint.LEADER_EPOCHS, reason)
            return
        for epoch, start in dropped:
            meaning = f"epoch {epoch} will be dropped: the log ends at {self.next_offset}"
            self._on_step("epochs", checkpoint.LEADER_EPOCHS, meaning, offset=start)
