"""Verifies one segment: passes its batches, in order, to all checks.

Consecutive batches without findings (`split_valid`) are passed as blocks of columns, if they continue the log as
expected; other batches one by one. Findings and their order do not depend on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.storage.errors import MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.files import File
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, Batch, parse_header
from offsetfs.storage.records.format.batch_header import MAGIC, BatchHeader
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX
from offsetfs.storage.verify.batches import Fault, batch_faults
from offsetfs.storage.verify.epochs import EpochsCheck
from offsetfs.storage.verify.finding import FindingReporter, PartitionContext, VerificationCounts
from offsetfs.storage.verify.indexes import IndexCheck
from offsetfs.storage.verify.producers import ProducersCheck
from offsetfs.storage.verify.segment_inspection import SegmentInspection, batches_to_verify, split_valid

_PROGRESS_BYTES = 8 << 20


@dataclass(slots=True)
class VerificationState:
    """The state that a segment takes over from the previous one, and passes on to the next."""

    at: PartitionContext
    tally: VerificationCounts
    on_bytes: Callable[[int], None]
    epochs: EpochsCheck
    producers: ProducersCheck
    next_offset: int
    has_gap: bool = False
    """Whether missing offsets were reported."""


class SegmentCheck:
    """The verification of one segment; `run` reports findings as it goes."""

    def __init__(
        self,
        so_far: VerificationState,
        log: File,
        base: int,
        following: int | None,
        reporter: FindingReporter,
        indexes: list[IndexCheck],
    ) -> None:
        """`following`: where the next segment begins, None after the last."""
        self._so_far = so_far
        self._log = log
        self._base = base
        self._following = following
        self._reporter = reporter
        self._indexes = indexes
        self._size = log.size()
        self._is_whole = True
        self._broke = False
        self._told = 0

    def run(self, inspected: SegmentInspection | None) -> None:
        """Verify every byte. Ranges in `inspected` are not inspected again."""
        so_far = self._so_far
        so_far.tally.segments += 1
        so_far.tally.bytes += self._size
        if self._base > so_far.next_offset:
            so_far.producers.record_missing(self._base - 1)
        if self._base < so_far.next_offset:
            meaning = f"begins at {self._base}, but the segment before it goes to {so_far.next_offset - 1}"
            self._reporter.damage("segment-overlap", meaning, offset=self._base)
        for looked in batches_to_verify(self._log, self._size, self._on_break, inspected):
            if isinstance(looked, Rows):
                self._rows(looked)
            else:
                self._batch(*looked)
        self._report_progress(self._size)
        for index in self._indexes:
            index.finish(is_whole=self._is_whole)
        so_far.next_offset = max(so_far.next_offset, self._base)

    def _report_progress(self, position: int) -> None:
        self._so_far.on_bytes(position - self._told)
        self._told = position

    # --- many batches ------------------------------------------------------------------------------------------------

    def _rows(self, rows: Rows) -> None:
        for part, is_valid in split_valid(rows, self._so_far.at.inflated_bytes_max):
            if is_valid:
                self._check_rows(part)
            else:
                self._inspect(part, 0)

    def _check_rows(self, rows: Rows) -> None:
        """Check valid batches as one block, or the first one alone if the block does not continue the log."""
        if self._passes(rows):
            return
        self._inspect(rows, 0)
        if len(rows) > 1 and not self._passes(rows.part(1, len(rows))):
            for number in range(1, len(rows)):
                self._inspect(rows, number)

    def _passes(self, rows: Rows) -> bool:
        """Check valid batches that continue the log.

        Returns False, and records nothing, if they must be checked one by one.
        """
        so_far, highest = self._so_far, rows.next_offset - 1
        if self._broke or not self._base <= so_far.next_offset == rows.base_offset:
            return False
        if highest - self._base > RELATIVE_OFFSET_MAX or (self._following is not None and highest >= self._following):
            return False
        if not so_far.epochs.passes(rows):
            return False
        so_far.producers.check_rows(rows, self._log, self._reporter)
        for index in self._indexes:
            index.check_rows(rows)
        self._is_whole = True
        so_far.next_offset = rows.next_offset
        so_far.tally.batches += len(rows)
        so_far.tally.records += sum(rows.column(chain.COUNT))
        if rows.position - self._told > _PROGRESS_BYTES:
            self._report_progress(rows.position)
        return True

    # --- one batch ---------------------------------------------------------------------------------------------------

    def _inspect(self, rows: Rows, number: int) -> None:
        batch = rows.whole_batch(number, self._log.path)
        self._batch(batch, *batch_faults(batch, self._so_far.at.inflated_bytes_max))

    def _batch(self, batch: Batch, faults: list[Fault], count: int) -> None:
        so_far, header, position = self._so_far, batch.header, batch.position or 0
        for kind, meaning in faults:
            self._reporter.damage(kind, meaning, position=position, offset=header.base_offset)
        first = _first_offset(batch, is_readable=bool(count))
        is_in_order = self._check_order(header, first, position)
        if first > so_far.next_offset or self._broke:
            so_far.producers.record_missing(first - 1)
        if first > so_far.next_offset and is_in_order and not self._broke:
            self._note_gap(so_far.next_offset, first, position)
        self._broke = not is_in_order
        self._is_whole = is_in_order
        if is_in_order:
            if faults:
                so_far.producers.record_missing(header.last_offset)
            else:
                so_far.producers.batch(batch, self._reporter)
            so_far.epochs.batch(header, self._reporter, position)
            for index in self._indexes:
                index.batch(position, header, first)
            so_far.next_offset = header.next_offset
        else:
            for index in self._indexes:
                index.skip(position, position + header.size)
        so_far.tally.batches += 1
        so_far.tally.records += count
        if position - self._told > _PROGRESS_BYTES:
            self._report_progress(position)

    def _check_order(self, header: BatchHeader, first: int, position: int) -> bool:
        """Whether the offsets of a batch fit its position. The checksum does not cover them."""
        expected = max(self._so_far.next_offset, self._base)
        meaning = ""
        if first < expected:
            meaning = f"offset {first} where {expected} is the lowest that may follow"
        elif header.last_offset - self._base > RELATIVE_OFFSET_MAX:
            meaning = f"offset {header.last_offset} is more than {RELATIVE_OFFSET_MAX} above the segment's {self._base}"
        elif self._following is not None and header.last_offset >= self._following:
            meaning = f"offset {header.last_offset} belongs into the next segment, which begins at {self._following}"
        elif first > expected and self._is_misplaced(header, expected, position):
            meaning = f"offset {first} is above that of the next batch, and {expected} was expected"
        if meaning:
            self._reporter.damage("offset-order", meaning, position=position, offset=header.base_offset)
        return not meaning

    def _is_misplaced(self, header: BatchHeader, expected: int, position: int) -> bool:
        """Whether, after a gap, the next batch has a lower offset: then this batch is wrong, not all later ones."""
        next_position = position + header.size
        try:
            head = self._log.read(next_position, min(HEADER_SIZE, self._size - next_position))
            return expected <= parse_header(head).last_offset < header.last_offset
        except (MalformedBatch, UnsupportedFormat):
            return False

    def _note_gap(self, expected: int, first: int, position: int) -> None:
        """Report the first gap of a log that was never compacted, because only compaction removes offsets in the
        middle.
        """
        so_far = self._so_far
        if so_far.at.cleaner is None and not so_far.has_gap:
            so_far.has_gap = True
            meaning = f"offsets {expected} to {first - 1} are missing, and nothing says that the log was ever compacted"
            self._reporter.notice("offset-gap", meaning, position=position, offset=first)

    def _on_break(self, error: StorageError, position: int, following: int) -> None:
        """Report damage, unless it is an append in progress by a running broker."""
        at, next_offset = self._so_far.at, max(self._so_far.next_offset, self._base)
        self._broke = True
        for index in self._indexes:
            index.skip(position, following)
        is_tail = following >= self._size
        self._is_whole = not is_tail
        size = following - position
        if is_tail and self._following is None and next_offset >= (at.recovery_point or 0):
            if not at.is_live:
                meaning = f"{error.reason}; {size} bytes of an unfinished append; the next writer sets them aside"
                self._reporter.damage("unfinished-tail", meaning, position=position, offset=next_offset)
            return
        rest = "to the end of the file" if is_tail else "what follows can"
        meaning = f"{error.reason}; {size} bytes cannot be read, {rest}"
        offset = error.offset if error.offset is not None and error.offset >= 0 else next_offset
        self._reporter.damage("unreadable-batch", meaning, position=position, offset=offset)


def _first_offset(batch: Batch, *, is_readable: bool) -> int:
    """Return the first offset of the batch; that of a v0 or v1 set only if it can be decompressed."""
    return batch.base_offset if batch.header.magic == MAGIC or is_readable else batch.header.base_offset
