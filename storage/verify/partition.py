"""Verifying one partition: its files, its segments in their order, and what its directory's checkpoints say of it.

Nothing is written, and nothing is asked that a running broker would notice. Beside one, entries of indexes are counted
before the log is read, so that whatever they name is there; what is not finished at the end of the active segment is
being written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass
from types import MappingProxyType

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import PARTITION_METADATA
from offsetfs.storage.errors import InvalidCheckpoint, MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name
from offsetfs.storage.records.batch import HEADER_SIZE, PAYLOAD_BYTES_MAX, Batch, parse_header
from offsetfs.storage.records.batch_header import MAGIC, BatchHeader
from offsetfs.storage.segments.segment import RELATIVE_OFFSET_MAX
from offsetfs.storage.verify.batches import Fault
from offsetfs.storage.verify.epochs import EpochsCheck
from offsetfs.storage.verify.files import INDEXES, PartitionFiles
from offsetfs.storage.verify.finding import Report, Reporter
from offsetfs.storage.verify.indexes import IndexCheck, OffsetIndexCheck, TimeIndexCheck, TransactionIndexCheck
from offsetfs.storage.verify.producers import ProducersCheck
from offsetfs.storage.verify.stretches import Inspected, looked_into


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the log directory says of a partition. Offsets are None where its checkpoints say nothing."""

    is_live: bool = False
    """Whether another process is writing to it now."""
    is_clean: bool = True
    """Whether the last writer closed it in order."""
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    cleaner: int | None = None
    inflated_bytes_max: int = PAYLOAD_BYTES_MAX


@dataclass(slots=True)
class Tally:
    """What was looked at."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def fields(self) -> dict[str, int]:
        """Return what `--json` prints."""
        return asdict(self)


class PartitionCheck:
    """One partition's verification; `run` says the findings as they are found."""

    def __init__(
        self,
        path: str,
        circumstances: Circumstances,
        report: Report,
        tally: Tally,
        on_bytes: Callable[[int], None] = lambda count: None,
        inspected: Mapping[int, Inspected] = MappingProxyType({}),
    ) -> None:
        """`on_bytes` is called with the bytes of a log that were read since the last call.

        `inspected`: what is known of segments, by their base offsets.
        """
        self.path = path
        self.next_offset = 0
        self._has_gap = False
        self._is_unread = False  # where the log ends is not known
        self._at = circumstances
        self._report = report
        self._tally = tally
        self._on_bytes = on_bytes
        self._inspected = inspected

    def run(self) -> None:
        """Look at everything. Raises OSError where the directory cannot be read at all."""
        self._tally.partitions += 1
        found = PartitionFiles.sorted_out(self.path, self._report, is_live=self._at.is_live)
        if not found.logs:
            self._reporter().damage("no-log", "holds no .log file: a writer begins an empty one")
            return
        self.next_offset = found.logs[0]
        log_start = max(self._at.log_start or 0, found.logs[0])
        self._epochs = EpochsCheck(self.path, log_start, self._report)
        self._producers = ProducersCheck(self.path, found.snapshots, found.logs[0], self._report)
        for base, following in zip(found.logs, [*found.logs[1:], None], strict=True):
            self._segment(base, following, found)
        if not (self._at.is_live or self._is_unread):
            self._epochs.finish(self.next_offset, is_clean=self._at.is_clean)
            self._producers.finish(self.next_offset, is_clean=self._at.is_clean)
        if not self._is_unread:
            self._compare_checkpoints()
        self._metadata()

    def _reporter(self, name: str | None = None) -> Reporter:
        return Reporter(self._report, self.path if name is None else os.path.join(self.path, name))

    # --- segments ----------------------------------------------------------------------------------------------------

    def _segment(self, base: int, following: int | None, found: PartitionFiles) -> None:
        reporter = self._reporter(segment_name(base, ".log"))
        try:
            indexes = self._indexes(base, following, found)
            with files.opened(reporter.path) as log:
                _SegmentCheck(self, log, base, following, reporter, indexes).run()
        except FileNotFoundError:
            if not self._at.is_live:  # else retention or compaction took it
                raise
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EINVAL):
                raise
            self._is_unread = True
            reporter.damage("not-regular", "a link or a special file in the place of a log: it is never opened")

    def _indexes(self, base: int, following: int | None, found: PartitionFiles) -> list[IndexCheck]:
        """Open the indexes that are there. Their entries are counted now, before the log is looked at."""
        padded = following is None and (self._at.is_live or not self._at.is_clean)
        checks: list[IndexCheck] = []
        for suffix in INDEXES:
            if (base, suffix) not in found.indexes:
                continue
            reporter = self._reporter(segment_name(base, suffix))
            if suffix == ".index":
                checks.append(OffsetIndexCheck(reporter, base, may_be_padded=padded))
            elif suffix == ".timeindex":
                sealed = following is not None
                checks.append(TimeIndexCheck(reporter, base, may_be_padded=padded, is_sealed=sealed))
            else:
                checks.append(TransactionIndexCheck(reporter, base))
        return checks

    # --- what others say of it ---------------------------------------------------------------------------------------

    def _compare_checkpoints(self) -> None:
        """Compare the checkpoints with where the log begins and ends; they were read before it."""
        end, at = self.next_offset, self._at
        lost = "records that were on disk are not there" if at.is_clean else "what followed was lost with the writer"
        for name, offset, meaning in (
            (checkpoint.RECOVERY_POINTS, at.recovery_point, lost),
            (checkpoint.HIGH_WATERMARKS, at.high_watermark, lost),
            (checkpoint.LOG_STARTS, at.log_start, "a broker would delete everything"),
            (checkpoint.CLEANER_OFFSETS, at.cleaner, "a broker begins to clean anew"),
        ):
            if offset is None or offset <= end:
                continue
            reporter = Reporter(self._report, os.path.join(os.path.dirname(self.path), name))
            say = reporter.notice if name == checkpoint.CLEANER_OFFSETS or not at.is_clean else reporter.damage
            where = f"{os.path.basename(self.path)}: offset {offset}, but the log ends at {end}"
            say("checkpoint-beyond-end", f"{where}: {meaning}", offset=offset)

    def _metadata(self) -> None:
        path = os.path.join(self.path, PARTITION_METADATA)
        try:
            checkpoint.read_topic_id(path)
        except InvalidCheckpoint as error:
            Reporter(self._report, path).damage("checkpoint", f"{error.reason}: a broker takes the partition for stray")


class _SegmentCheck:
    """One segment: its batches, in their order, with everybody who wants to know of them."""

    def __init__(
        self,
        partition: PartitionCheck,
        log: File,
        base: int,
        following: int | None,
        reporter: Reporter,
        indexes: list[IndexCheck],
    ) -> None:
        self._partition = partition
        self._log = log
        self._base = base
        self._following = following
        self._reporter = reporter
        self._indexes = indexes
        self._size = log.size()
        self._is_whole = True
        self._broke = False
        self._told = 0

    def run(self) -> None:
        partition = self._partition
        partition._tally.segments += 1
        partition._tally.bytes += self._size
        if self._base > partition.next_offset:
            partition._producers.miss(self._base - 1)
        if self._base < partition.next_offset:
            meaning = f"begins at {self._base}, but the segment before it goes to {partition.next_offset - 1}"
            self._reporter.damage("segment-overlap", meaning, offset=self._base)
        inspected, bytes_max = partition._inspected.get(self._base), partition._at.inflated_bytes_max
        walk = looked_into(self._log, self._size, self._on_break, inspected, inflated_bytes_max=bytes_max)
        for batch, faults, count in walk:
            self._batch(batch, faults, count)
        partition._on_bytes(self._size - self._told)
        for index in self._indexes:
            index.finish(is_whole=self._is_whole)
        partition.next_offset = max(partition.next_offset, self._base)

    def _batch(self, batch: Batch, faults: list[Fault], count: int) -> None:
        partition, header, position = self._partition, batch.header, batch.position or 0
        for kind, meaning in faults:
            self._reporter.damage(kind, meaning, position=position, offset=header.base_offset)
        first = _first_offset(batch, is_readable=bool(count))
        is_in_order = self._check_order(header, first, position)
        if first > partition.next_offset or self._broke:
            partition._producers.miss(first - 1)
        if first > partition.next_offset and is_in_order and not self._broke:
            self._note_gap(partition.next_offset, first, position)
        self._broke = not is_in_order
        self._is_whole = is_in_order
        if is_in_order:
            if faults:
                partition._producers.miss(header.last_offset)
            else:
                partition._producers.batch(batch, self._reporter)
            partition._epochs.batch(header, self._reporter, position)
            for index in self._indexes:
                index.batch(position, header, first)
            partition.next_offset = header.next_offset
        else:
            for index in self._indexes:
                index.skip(position, position + header.size)
        partition._tally.batches += 1
        partition._tally.records += count
        if position - self._told > 8 << 20:
            partition._on_bytes(position - self._told)
            self._told = position

    def _check_order(self, header: BatchHeader, first: int, position: int) -> bool:
        """Whether the offsets of a batch fit where it stands. The checksum does not cover them."""
        expected = max(self._partition.next_offset, self._base)
        meaning = ""
        if first < expected:
            meaning = f"offset {first} where {expected} is the lowest that may follow"
        elif header.last_offset - self._base > RELATIVE_OFFSET_MAX:
            meaning = f"offset {header.last_offset} is more than {RELATIVE_OFFSET_MAX} above the segment's {self._base}"
        elif self._following is not None and header.last_offset >= self._following:
            meaning = f"offset {header.last_offset} belongs into the next segment, which begins at {self._following}"
        elif first > expected and self._is_overtaken(header, expected, position):
            meaning = f"offset {first} is above those of the batch behind it, where {expected} would follow"
        if meaning:
            self._reporter.damage("offset-order", meaning, position=position, offset=header.base_offset)
        return not meaning

    def _is_overtaken(self, header: BatchHeader, expected: int, position: int) -> bool:
        """Whether, after a gap, the next batch goes on before it: then this one is wrong, and not all that follow."""
        place = position + header.size
        try:
            head = self._log.read(place, min(HEADER_SIZE, self._size - place))
            return expected <= parse_header(head).last_offset < header.last_offset
        except (MalformedBatch, UnsupportedFormat):
            return False

    def _note_gap(self, expected: int, first: int, position: int) -> None:
        """Say the first gap of a log that was never cleaned: only compaction takes offsets away in the middle."""
        partition = self._partition
        if partition._at.cleaner is None and not partition._has_gap:
            partition._has_gap = True
            meaning = f"offsets {expected} to {first - 1} are missing, and nothing says that the log was ever compacted"
            self._reporter.notice("offset-gap", meaning, position=position, offset=first)

    def _on_break(self, error: StorageError, position: int, following: int) -> None:
        """Say what is not sound, unless it is what a running broker is writing."""
        at, next_offset = self._partition._at, max(self._partition.next_offset, self._base)
        self._broke = True
        for index in self._indexes:
            index.skip(position, following)
        is_tail = following >= self._size
        self._is_whole = not is_tail
        size = following - position
        if is_tail and self._following is None and next_offset >= (at.recovery_point or 0):
            if not at.is_live:
                meaning = f"{error.reason}; {size} bytes that were not finished: the next writer sets them aside"
                self._reporter.damage("unfinished-tail", meaning, position=position, offset=next_offset)
            return
        rest = "to the end of the file" if is_tail else "what follows can"
        meaning = f"{error.reason}; {size} bytes cannot be read, {rest}"
        offset = error.offset if error.offset is not None and error.offset >= 0 else next_offset
        self._reporter.damage("unreadable-batch", meaning, position=position, offset=offset)


def _first_offset(batch: Batch, *, is_readable: bool) -> int:
    """Return the first offset of the batch; that of a set of v0 or v1 only when it can be inflated."""
    return batch.base_offset if batch.header.magic == MAGIC or is_readable else batch.header.base_offset
