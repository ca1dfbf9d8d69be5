"""Verifies one partition: its files, its segments in order, and the checkpoints of its directory.

Writes nothing and does not disturb a running broker. Beside a running broker, index entries are counted before the log
is read, so that the batches they name are in the log by then. An unfinished batch at the end of the active segment is
an append in progress.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from offsetfs.storage import checkpoint, files, names
from offsetfs.storage.checkpoint import PARTITION_METADATA
from offsetfs.storage.errors import InvalidCheckpoint
from offsetfs.storage.names import segment_name
from offsetfs.storage.verify.epochs import EpochsCheck
from offsetfs.storage.verify.files import INDEXES, PartitionFiles
from offsetfs.storage.verify.finding import FindingReporter, PartitionContext, Report, VerificationCounts
from offsetfs.storage.verify.indexes import IndexCheck, OffsetIndexCheck, TimeIndexCheck, TransactionIndexCheck
from offsetfs.storage.verify.producers import ProducersCheck
from offsetfs.storage.verify.segment import SegmentCheck, VerificationState
from offsetfs.storage.verify.segment_inspection import SegmentInspection


class PartitionCheck:
    """The verification of one partition; `run` reports findings as it goes."""

    def __init__(
        self,
        path: str,
        context: PartitionContext,
        report: Report,
        tally: VerificationCounts,
        on_bytes: Callable[[int], None] = lambda count: None,
        inspected: Mapping[int, SegmentInspection] = MappingProxyType({}),
    ) -> None:
        """`on_bytes` is called with the number of log bytes read since the last call.

        `inspected`: results of earlier inspections, by the segment's base offset.
        """
        self.path = path
        self._is_unread = False  # the end of the log is unknown
        self._at = context
        self._report = report
        self._tally = tally
        self._on_bytes = on_bytes
        self._inspected = inspected

    def run(self) -> None:
        """Verify everything. Raises OSError if the directory cannot be read at all."""
        self._tally.partitions += 1
        listed = PartitionFiles.classify(self.path, self._report, is_live=self._at.is_live)
        if not listed.logs and listed.has_metadata_snapshot:  # as `kafka-storage format` leaves it
            return
        if not listed.logs:
            self._reporter().damage("no-log", "has no .log file; the next writer creates an empty one")
            return
        so_far = self._beginning(listed)
        for base, following in zip(listed.logs, [*listed.logs[1:], None], strict=True):
            self._segment(so_far, base, following, listed)
        if not (self._at.is_live or self._is_unread):
            so_far.epochs.finish(so_far.next_offset, is_clean=self._at.is_clean)
            so_far.producers.finish(so_far.next_offset, is_clean=self._at.is_clean)
        if not self._is_unread:
            self._compare_checkpoints(so_far.next_offset)
        self._metadata()

    def _beginning(self, listed: PartitionFiles) -> VerificationState:
        base = listed.logs[0]
        return VerificationState(
            self._at,
            self._tally,
            self._on_bytes,
            EpochsCheck(self.path, max(self._at.log_start or 0, base), self._report),
            ProducersCheck(
                self.path, listed.snapshots, base, self._report, by_coordinator=names.is_internal(self.path)
            ),
            next_offset=base,
        )

    def _reporter(self, name: str | None = None) -> FindingReporter:
        return FindingReporter(self._report, self.path if name is None else os.path.join(self.path, name))

    # --- segments ----------------------------------------------------------------------------------------------------

    def _segment(self, so_far: VerificationState, base: int, following: int | None, listed: PartitionFiles) -> None:
        reporter = self._reporter(segment_name(base, ".log"))
        try:
            # Before the log is read: entries that a running broker adds meanwhile name batches beyond what was read.
            indexes = self._indexes(base, following, listed)
            with files.open_file(reporter.path) as log:
                check = SegmentCheck(so_far, log, base, following, reporter, indexes)
                check.run(self._inspected.get(base))
        except FileNotFoundError:
            if not self._at.is_live:  # otherwise retention or compaction removed it
                raise
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EINVAL):
                raise
            self._is_unread = True
            reporter.damage("not-regular", "a link or a special file in the place of a log: it is never opened")

    def _indexes(self, base: int, following: int | None, listed: PartitionFiles) -> list[IndexCheck]:
        """Open the indexes that exist. Their entries are counted now, before the log is read."""
        # KafkaRaftLog never trims the indexes of its active segment
        trimmed = self._at.is_clean and not self._at.is_live and not names.is_metadata(self.path)
        padded = following is None and not trimmed
        checks: list[IndexCheck] = []
        for suffix in INDEXES:
            if (base, suffix) not in listed.indexes:
                continue
            reporter = self._reporter(segment_name(base, suffix))
            if suffix == ".index":
                checks.append(
                    OffsetIndexCheck(reporter, base, may_be_padded=padded, interval_bytes=self._at.index_interval_bytes)
                )
            elif suffix == ".timeindex":
                sealed = following is not None
                checks.append(TimeIndexCheck(reporter, base, may_be_padded=padded, is_sealed=sealed))
            else:
                checks.append(TransactionIndexCheck(reporter, base))
        return checks

    # --- what others say of it ---------------------------------------------------------------------------------------

    def _compare_checkpoints(self, end: int) -> None:
        """Compare the checkpoints, which were read earlier, with the beginning and the end of the log."""
        at = self._at
        lost = "records that were on disk are missing" if at.is_clean else "later records were lost in the crash"
        for name, offset, meaning in (
            (checkpoint.RECOVERY_POINTS, at.recovery_point, lost),
            (checkpoint.HIGH_WATERMARKS, at.high_watermark, lost),
            (checkpoint.LOG_STARTS, at.log_start, "a broker would delete everything"),
            (checkpoint.CLEANER_OFFSETS, at.cleaner, "a broker compacts from the start"),
        ):
            if offset is None or offset <= end:
                continue
            reporter = FindingReporter(self._report, os.path.join(os.path.dirname(self.path), name))
            say = reporter.notice if name == checkpoint.CLEANER_OFFSETS or not at.is_clean else reporter.damage
            where = f"{os.path.basename(self.path)}: offset {offset}, but the log ends at {end}"
            say("checkpoint-beyond-end", f"{where}: {meaning}", offset=offset)

    def _metadata(self) -> None:
        path = os.path.join(self.path, PARTITION_METADATA)
        try:
            checkpoint.read_topic_id(path)
        except InvalidCheckpoint as error:
            FindingReporter(self._report, path).damage(
                "checkpoint", f"{error.reason}: a broker treats the partition as stray"
            )
