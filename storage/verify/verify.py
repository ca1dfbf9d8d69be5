"""Verifies a log directory, or some of its partitions, without changing anything.

`Verification.run` reads every byte of every log, and all index entries, snapshots and checkpoints. It reports each
contradiction as a `Finding` and never stops at the first. It works beside a running broker and on read-only
directories. The modules:

    verify              the directory: checkpoints, names, whether a process is writing
    partition           a partition: its files, its segments in order
    files               the kind of each file of a partition
    segment             a segment: passes its batches to all checks
    walk                a scan of every byte of a log, from one valid batch to the next
    segment_inspection  the same for a log that several workers have inspected
    valid_batches       fast path: skips blocks of batches without findings
    batches             checks inside a batch
    indexes             offset, time and transaction index, checked against each batch
    producers           sequences and snapshots, checked against each batch
    epochs              leader epochs, checked against each batch

docs/use/verify.md lists the findings. Repairs are in `repair`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from offsetfs.storage import checkpoint, files, lock
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, META_PROPERTIES, SECURITY_FILE, CleanShutdown
from offsetfs.storage.cluster.metadata_log import METADATA_DIRECTORY
from offsetfs.storage.directory.directory_listing import check_log_directory
from offsetfs.storage.directory.inherited_settings import NO_BROKER, setting_layers
from offsetfs.storage.errors import InvalidCheckpoint, StorageError, UnknownPartition, counted
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import PAYLOAD_BYTES_MAX
from offsetfs.storage.recovery.log_loader import belongs_to_partition
from offsetfs.storage.security.security_file import read_security_file
from offsetfs.storage.settings.topic_settings import TOPICS, TopicSettings
from offsetfs.storage.verify.finding import FindingReporter, PartitionContext, Report, VerificationCounts
from offsetfs.storage.verify.partition import PartitionCheck
from offsetfs.storage.verify.segment_inspection import SegmentInspection

_OFFSETS = {
    checkpoint.RECOVERY_POINTS: "the next start verifies all records",
    checkpoint.HIGH_WATERMARKS: "a broker starts at the beginning of each log",
    checkpoint.LOG_STARTS: "records that were deleted may come back",
    checkpoint.CLEANER_OFFSETS: "a broker compacts everything again",
}
_NAMED_MAX = 3
_DELETED = "-delete"
"""The end of a partition's name after the deletion of its topic. No finding: the next start removes it."""

_MOVED = re.compile(r"(.+)-(future|stray)\Z")

OnProgress = Callable[[int, int], None]
"""Called with the log bytes read so far, and their total."""


class Verification:
    """The verification of a log directory, or of the named `partitions`."""

    def __init__(
        self,
        path: str,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        report: Report,
        on_progress: OnProgress = lambda done, total: None,
        inflated_bytes_max: int = PAYLOAD_BYTES_MAX,
        inspected: Mapping[TopicPartition, Mapping[int, SegmentInspection]] = MappingProxyType({}),
    ) -> None:
        """Raises `NotALogDirectory`, `UnknownPartition`, or OSError if the directory cannot be read.

        `inspected`: the results of earlier inspections, by partition and base offset.
        """
        check_log_directory(path, read_only=True)
        self.path = path
        self.tally = VerificationCounts()
        self._report = report
        self._on_progress = on_progress
        self._is_whole = partitions is None
        self._inflated_bytes_max = inflated_bytes_max
        self._inspected = inspected
        self._settings = _settings(path)
        self.partitions = self._all_partitions() if partitions is None else list(partitions)
        for partition in self.partitions:
            if not files.is_directory(self._file(str(partition))):
                raise UnknownPartition(f"no partition {partition}", path=path)
        self._done, self._total = 0, 0

    def run(self, *, into_partitions: bool = True) -> VerificationCounts:
        """Verify everything, or only the files outside of partitions; findings are reported as they are found."""
        holder = lock.writer_of(self.path)
        is_clean = CleanShutdown.read(self.path) is not None
        self._total = sum(_log_bytes(self._file(str(partition))) for partition in self.partitions)
        offsets = {name: self._offsets(name) for name in _OFFSETS}
        if self._is_whole:
            self._check_directory(is_clean=is_clean, is_live=holder is not None, offsets=offsets)
        common = PartitionContext(
            is_live=holder is not None, is_clean=is_clean, inflated_bytes_max=self._inflated_bytes_max
        )
        for partition in self.partitions if into_partitions else ():
            self._verify(partition, self._context_of(common, partition, offsets))
        return self.tally

    def _verify(self, partition: TopicPartition, context: PartitionContext) -> None:
        path = self._file(str(partition))
        try:
            inspected = self._inspected.get(partition, {})
            PartitionCheck(path, context, self._report, self.tally, self._add_bytes, inspected).run()
        except OSError as error:
            if context.is_live and not files.is_directory(path):
                return  # deleted meanwhile
            failed = error.filename if isinstance(error.filename, str) else path
            FindingReporter(self._report, failed).damage(
                "cannot-read", f"{error.strerror or error}; the other files were read"
            )

    def _context_of(
        self, common: PartitionContext, partition: TopicPartition, offsets: dict[str, dict[TopicPartition, int]]
    ) -> PartitionContext:
        return replace(
            common,
            recovery_point=offsets[checkpoint.RECOVERY_POINTS].get(partition),
            high_watermark=offsets[checkpoint.HIGH_WATERMARKS].get(partition),
            log_start=offsets[checkpoint.LOG_STARTS].get(partition),
            cleaner=offsets[checkpoint.CLEANER_OFFSETS].get(partition),
            index_interval_bytes=self._settings.config_of(partition.topic).index_interval_bytes,
        )

    def _add_bytes(self, count: int) -> None:
        self._done += count
        self._on_progress(self._done, max(self._total, self._done))

    # --- the directory itself ----------------------------------------------------------------------------------------

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _reporter(self, name: str) -> FindingReporter:
        return FindingReporter(self._report, self._file(name))

    def _all_partitions(self) -> list[TopicPartition]:
        parsed = (TopicPartition.parse_or_none(name) for name in files.names(self.path))
        return sorted(partition for partition in parsed if partition is not None and self._is_partition(str(partition)))

    def _is_partition(self, name: str) -> bool:
        """Whether the directory is empty, unreadable, or has a file of a partition: `.Trash-1000` has none."""
        if not files.is_directory(self._file(name)):
            return False
        try:
            names = files.names(self._file(name))
        except OSError:
            return True
        # After its format a controller has a snapshot there, and no log.
        return name == METADATA_DIRECTORY or not names or any(belongs_to_partition(child) for child in names)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self._file(name))
        except InvalidCheckpoint as error:
            self._reporter(name).damage("checkpoint", f"{error.reason}: {_OFFSETS[name]}")
            return {}

    def _check_directory(self, *, is_clean: bool, is_live: bool, offsets: dict[str, dict[TopicPartition, int]]) -> None:
        """Report faults of the directory's own files."""
        is_unused = bool(self.partitions) and not self._total  # formatted, and no broker has run
        if not (is_clean or is_live or is_unused):
            meaning = (
                f"no {CLEAN_SHUTDOWN}: the last writer did not close it; "
                "the next writer will check what was not yet synced"
            )
            FindingReporter(self._report, self.path).notice("not-closed", meaning)
        try:
            checkpoint.check_meta_properties(self._file(META_PROPERTIES))
        except InvalidCheckpoint as error:
            FindingReporter(self._report, error.path or self._file(META_PROPERTIES)).damage("checkpoint", error.reason)
        problem = TopicSettings(self.path).problem
        if problem is not None:
            reason = problem.reason if isinstance(problem, StorageError) else str(problem.strerror)
            self._reporter(TOPICS).damage("checkpoint", reason)
        try:
            read_security_file(self.path)
        except StorageError as error:
            self._reporter(SECURITY_FILE).damage("security", error.reason)
        self._topic_ids()
        if is_live:
            return
        for name in sorted(files.names(self.path)):
            self._check_name(name)
        self._check_absent(offsets)

    def _check_absent(self, offsets: dict[str, dict[TopicPartition, int]]) -> None:
        """Report partitions that checkpoints name and that are not here, each at the first checkpoint with it.

        The cleaner checkpoint does not count: brokers leave deleted partitions in it until the next compaction.
        """
        known = set(self.partitions)
        for name in offsets:
            if name == checkpoint.CLEANER_OFFSETS:
                continue
            absent = sorted(offsets[name].keys() - known)
            known.update(absent)
            if absent:
                named = ", ".join(map(str, absent[:_NAMED_MAX])) + ", …" * (len(absent) > _NAMED_MAX)
                meaning = f"names {counted(len(absent), 'partition')} without a directory here: {named}"
                self._reporter(name).notice("unknown-partition", meaning)

    def _check_name(self, name: str) -> None:
        if name.endswith(".tmp"):
            self._reporter(name).notice("left-over", "a temporary file that was never put in place")
            return
        partition = TopicPartition.parse_or_none(name)
        if files.is_directory(self._file(name)) and partition not in self.partitions:
            if partition is not None:
                meaning = "holds no file of a partition, though a broker takes its name for that of one"
                self._reporter(name).notice("foreign-directory", meaning)
            elif name.endswith(_DELETED):
                return
            elif _MOVED.match(name):
                self._reporter(name).notice("left-over", "a partition that a broker set aside; it settles it")
            elif name not in ("remote-log-index-cache", "lost+found"):
                self._reporter(name).notice(
                    "foreign-directory", "is not a partition: a broker refuses to start over it"
                )

    def _topic_ids(self) -> None:
        """Report partitions of a topic with different topic ids: a broker treats some of them as another topic's."""
        seen: dict[str, bytes] = {}
        for partition in self.partitions:
            path = os.path.join(self._file(str(partition)), checkpoint.PARTITION_METADATA)
            try:
                topic_id = checkpoint.read_topic_id(path)
            except (InvalidCheckpoint, OSError):
                continue  # reported with the partition
            if topic_id is not None and seen.setdefault(partition.topic, topic_id) != topic_id:
                meaning = f"its topic id differs from that of other partitions of {partition.topic}"
                FindingReporter(self._report, path).damage("topic-id", meaning)


def _settings(path: str) -> TopicSettings:
    """Return the settings of the topics, also those in the metadata log of the cluster if it can be read."""
    try:
        layers = setting_layers(path, broker=NO_BROKER, given={})
    except (StorageError, OSError):
        return TopicSettings(path)
    return TopicSettings(path, inherited=layers.inherited())


def _log_bytes(path: str) -> int:
    """Return the bytes of the logs in a partition, 0 if it cannot be listed."""
    try:
        logs = [os.path.join(path, name) for name in files.names(path) if name.endswith(".log")]
        return sum(files.status(log).st_size for log in logs)
    except OSError:
        return 0
