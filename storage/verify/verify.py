"""Verifying a log directory, or some of its partitions, without changing anything.

`Verification.run` looks at every byte of every log, every entry of every index, every snapshot and checkpoint, and says
each contradiction as a `Finding`; it never stops at the first. It works beside a running broker and on a directory that
may only be read. The parts:

    verify      the directory: checkpoints, names, whether somebody is writing
    partition   a partition: its files, its segments in their order
    files       what each file of a partition is
    segment     a segment: its batches in their order, told to all that follow
    walk        every byte of a log, from one sound batch to the next
    stretches   the same, of a log that several have looked into
    quiet       batches of which there is nothing to say, passed over by the block
    batches     what must hold inside a batch
    indexes     offset, time and transaction index, told of each batch
    producers   sequences and snapshots, told of each batch
    epochs      leader epochs, told of each batch

docs/use/verify.md lists the findings. Mending is `repair`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from offsetfs.storage import checkpoint, files, lock
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, META_PROPERTIES, CleanShutdown
from offsetfs.storage.directory.directory_listing import check_log_directory
from offsetfs.storage.errors import InvalidCheckpoint, InvalidName, StorageError, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.batch import PAYLOAD_BYTES_MAX
from offsetfs.storage.settings.topic_settings import TOPICS, TopicSettings
from offsetfs.storage.verify.finding import FindingReporter, Report
from offsetfs.storage.verify.partition import PartitionCheck
from offsetfs.storage.verify.partition_context import PartitionContext, VerificationCounts
from offsetfs.storage.verify.segment_inspection import SegmentInspection

_OFFSETS = {
    checkpoint.RECOVERY_POINTS: "everything is verified at the next start",
    checkpoint.HIGH_WATERMARKS: "a broker begins at the start of each log",
    checkpoint.LOG_STARTS: "records that were deleted may come back",
    checkpoint.CLEANER_OFFSETS: "a broker cleans everything anew",
}
_NAMED_MAX = 3
_MOVED = re.compile(r"(.+)-(delete|future|stray)\Z")

OnProgress = Callable[[int, int], None]
"""Called with the bytes of logs that were read, and the bytes in all."""


class Verification:
    """The verification of one log directory, whole, or of the `partitions` named."""

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
        """Raises `NotALogDirectory`, `UnknownPartition`, OSError: there is nothing to look at.

        `inspected`: what others have found out about segments, by partition and base offset.
        """
        check_log_directory(path, read_only=True)
        self.path = path
        self.tally = VerificationCounts()
        self._report = report
        self._on_progress = on_progress
        self._is_whole = partitions is None
        self._inflated_bytes_max = inflated_bytes_max
        self._inspected = inspected
        self.partitions = self._all_partitions() if partitions is None else list(partitions)
        for partition in self.partitions:
            if not files.is_directory(self._file(str(partition))):
                raise UnknownPartition(f"no partition {partition}", path=path)
        self._done, self._total = 0, 0

    def run(self, *, into_partitions: bool = True) -> VerificationCounts:
        """Look at everything, or only at what lies beside the partitions; findings are said as they are found."""
        holder = lock.holder(self.path)
        is_clean = CleanShutdown.read(self.path) is not None
        self._total = sum(_log_bytes(self._file(str(partition))) for partition in self.partitions)
        offsets = {name: self._offsets(name) for name in _OFFSETS}
        if self._is_whole:
            self._look_around(is_clean=is_clean, is_live=holder is not None, offsets=offsets)
        common = PartitionContext(
            is_live=holder is not None, is_clean=is_clean, inflated_bytes_max=self._inflated_bytes_max
        )
        for partition in self.partitions if into_partitions else ():
            self._verify(partition, self._circumstances(common, partition, offsets))
        return self.tally

    def _verify(self, partition: TopicPartition, circumstances: PartitionContext) -> None:
        path = self._file(str(partition))
        try:
            inspected = self._inspected.get(partition, {})
            PartitionCheck(path, circumstances, self._report, self.tally, self._add_bytes, inspected).run()
        except OSError as error:
            if circumstances.is_live and not files.is_directory(path):
                return  # deleted meanwhile
            place = error.filename if isinstance(error.filename, str) else path
            FindingReporter(self._report, place).damage(
                "cannot-read", f"{error.strerror or error}; its neighbours were read"
            )

    @staticmethod
    def _circumstances(
        common: PartitionContext, partition: TopicPartition, offsets: dict[str, dict[TopicPartition, int]]
    ) -> PartitionContext:
        return replace(
            common,
            recovery_point=offsets[checkpoint.RECOVERY_POINTS].get(partition),
            high_watermark=offsets[checkpoint.HIGH_WATERMARKS].get(partition),
            log_start=offsets[checkpoint.LOG_STARTS].get(partition),
            cleaner=offsets[checkpoint.CLEANER_OFFSETS].get(partition),
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
        parsed = (_parsed(name) for name in files.names(self.path))
        return sorted(each for each in parsed if each is not None and files.is_directory(self._file(str(each))))

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self._file(name))
        except InvalidCheckpoint as error:
            self._reporter(name).damage("checkpoint", f"{error.reason}: {_OFFSETS[name]}")
            return {}

    def _look_around(self, *, is_clean: bool, is_live: bool, offsets: dict[str, dict[TopicPartition, int]]) -> None:
        """Say what is wrong with the directory, apart from its partitions."""
        if not is_clean and not is_live:
            meaning = (
                f"no {CLEAN_SHUTDOWN}: the last writer did not close it; "
                "the next writer will check what was not yet synced"
            )
            FindingReporter(self._report, self.path).notice("not-closed", meaning)
        try:
            checkpoint.read_properties(self._file(META_PROPERTIES))
        except InvalidCheckpoint as error:
            FindingReporter(self._report, error.path or self._file(META_PROPERTIES)).damage("checkpoint", error.reason)
        problem = TopicSettings(self.path).problem
        if problem is not None:
            reason = problem.reason if isinstance(problem, StorageError) else str(problem.strerror)
            self._reporter(TOPICS).damage("checkpoint", reason)
        self._topic_ids()
        if is_live:
            return
        for name in sorted(files.names(self.path)):
            self._look_at_name(name)
        for name, known in offsets.items():
            absent = [str(partition) for partition in sorted(known.keys() - set(self.partitions))]
            if absent:
                more = ", …" if len(absent) > _NAMED_MAX else ""
                named = ", ".join(absent[:_NAMED_MAX]) + more
                self._reporter(name).notice("unknown-partition", f"{len(absent)} that are not here: {named}")

    def _look_at_name(self, name: str) -> None:
        if name.endswith(".tmp"):
            self._reporter(name).notice("left-over", "a file that was about to replace another")
        elif files.is_directory(self._file(name)) and _parsed(name) is None:
            if _MOVED.match(name):
                self._reporter(name).notice("left-over", "a partition that a broker set aside; it settles it")
            elif name not in ("remote-log-index-cache", "lost+found"):
                self._reporter(name).notice("foreign-directory", "is no partition: a broker refuses to start over it")

    def _topic_ids(self) -> None:
        """Say where partitions of a topic carry different ids: a broker takes some of them for another topic's."""
        seen: dict[str, bytes] = {}
        for partition in self.partitions:
            path = os.path.join(self._file(str(partition)), checkpoint.PARTITION_METADATA)
            try:
                topic_id = checkpoint.read_topic_id(path)
            except (InvalidCheckpoint, OSError):
                continue  # the partition says so
            if topic_id is not None and seen.setdefault(partition.topic, topic_id) != topic_id:
                meaning = f"another id than other partitions of {partition.topic}"
                FindingReporter(self._report, path).damage("topic-id", meaning)


def _parsed(name: str) -> TopicPartition | None:
    try:
        return TopicPartition.parse(name)
    except InvalidName:
        return None


def _log_bytes(path: str) -> int:
    """Return the bytes of the logs in a partition, 0 when it cannot be listed."""
    try:
        logs = [os.path.join(path, name) for name in files.names(path) if name.endswith(".log")]
        return sum(files.status(log).st_size for log in logs)
    except OSError:
        return 0
