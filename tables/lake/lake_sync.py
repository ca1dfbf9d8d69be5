"""Keeps a lakehouse table in step with partitions of a log directory, which is only read.

    log     0 … 41 │ 42 … 99 │ 100 …         next offset 42 in the table
                     files, then one commit with next offset 100

A commit has about `COMMIT_BYTES` of log, of one partition after the other, each sorted by offset. Each partition
continues at the offset that the table has for it. With read_committed, rows end at the last stable offset and have no
records of aborted transactions. A partition that fails stops at its last readable record, and the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetfs.common.ending import EndingEvent
from offsetfs.storage import BatchSlice, Log, LogDirectory, LogReader, LogView, TopicPartition
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.tables.arrow import record_batches
from offsetfs.tables.databases.layout import SyncRefused, TableError
from offsetfs.tables.databases.loading import is_wanted
from offsetfs.tables.databases.syncing import SyncOptions
from offsetfs.tables.lake.data_files import DataFiles
from offsetfs.tables.lake.lake_columns import RAW, RECORD, LakeDecoding, raw_columns
from offsetfs.tables.lake.lake_location import LakeProgress, Overtaken

if TYPE_CHECKING:
    from offsetfs.tables.lake.delta_table import DeltaTable
    from offsetfs.tables.lake.iceberg_table import IcebergTable

COMMIT_BYTES = 512 << 20
"""About how many bytes of log a commit has: a run that is killed repeats less than that."""
_OVERTAKEN_MAX = 20
"""Commits in a row that another run has overtaken, after which a run ends."""

OnEvent = Callable[[str], None]
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class LakePartition:
    """The progress of a partition."""

    partition: TopicPartition
    progress: LakeProgress | None
    """As the table has it; None before the first commit."""
    topic: int | None
    next_offset: int
    rows: int = 0
    """Added by this process."""
    has_failed: bool = False
    checked: Log | None = None
    """The log whose topic id was compared: another object may be that of another topic."""


@dataclass(slots=True)
class _Range:
    """Offsets of one partition in one commit."""

    synced: LakePartition
    view: LogView
    start: int
    stop: int
    reached: int
    """Where the next commit continues."""
    rows: int = 0
    failure: Exception | None = None


class LakeSync:
    """The partitions of a log directory, and their rows in a table."""

    def __init__(
        self,
        directory: LogDirectory,
        table: IcebergTable | DeltaTable,
        options: SyncOptions,
        file_bytes: int,
        on_event: OnEvent,
        on_progress: OnProgress = lambda done, total: None,
        decoding: LakeDecoding | None = None,
    ) -> None:
        """`table` is open. `file_bytes`: the size at which a data file ends. `options`: deletions are not mirrored.

        `on_event` is called with a sentence where a partition fails or records are skipped."""
        self._directory, self._table, self._options = directory, table, options
        self._file_bytes = file_bytes
        self._on_event, self._on_progress = on_event, on_progress
        self._decoding = decoding
        self._done = self._total = 0
        self.partitions: dict[TopicPartition, LakePartition] = {}
        self._refused: set[TopicPartition] = set()

    @property
    def has_failed(self) -> bool:
        """Whether a partition could not be synchronized."""
        return bool(self._refused) or any(partition.has_failed for partition in self.partitions.values())

    def follow(self, is_ending: EndingEvent, interval_s: float) -> None:
        """Add records as they are written, in a commit each interval, until the event is set; TableError."""
        self.run(is_ending)
        while not is_ending.wait(interval_s):
            self.run(is_ending)

    def run(self, is_ending: EndingEvent | None = None) -> None:
        """Add all records that the partitions have now; TableError. Ends after the commit in which the event is set."""
        self._discover()
        ends = {}
        for partition in self._active():
            view = self._view_of(partition)
            if view is not None:
                ends[partition.partition] = view.end_offset()
                self._total += LogReader(view.log, start=partition.next_offset, stop=view.end_offset()).size_bytes()
        overtaken = 0
        while (is_ending is None or not is_ending.is_set()) and (ranges := self._planned(ends)):
            try:
                self._copy(ranges)
                overtaken = 0
            except Overtaken as error:
                overtaken += 1
                if overtaken == _OVERTAKEN_MAX:
                    raise TableError(f"{self._table.name}: {error}; end the other run, and repeat this one") from error
                self._take_progress()

    # --- partitions --------------------------------------------------------------------------------------------------

    def _active(self) -> list[LakePartition]:
        return [partition for partition in self.partitions.values() if not partition.has_failed]

    def _discover(self) -> None:
        """Take in partitions that are not known yet."""
        new = [
            partition
            for partition in self._directory.partitions()
            if partition not in self.partitions
            and partition not in self._refused
            and is_wanted(partition.topic, self._options.topics)
        ]
        progress = self._table.progress(new) if new else {}
        for partition in new:
            try:
                topic = _beginning(self._directory.topic_id(partition))
                start = self._directory.log(partition).log_start_offset
            except (StorageError, OSError) as error:
                self._refuse(partition, sentence(error))
                continue
            recorded = progress.get(partition)
            if recorded is not None and recorded.topic not in (None, topic):
                self._refuse(partition, _recreated(partition, topic))
                continue
            next_offset = start if recorded is None else recorded.next_offset
            self.partitions[partition] = LakePartition(partition, recorded, topic, next_offset)

    def _take_progress(self) -> None:
        """Continue where another run has ended."""
        progress = self._table.progress(self.partitions)
        for partition in self._active():
            recorded = progress.get(partition.partition)
            if recorded is not None and recorded != partition.progress:
                partition.progress, partition.next_offset = recorded, recorded.next_offset

    def _refuse(self, partition: TopicPartition, reason: str) -> None:
        self._refused.add(partition)
        self._on_event(f"{partition}: {reason}")

    def _fail(self, synced: LakePartition, error: Exception) -> None:
        synced.has_failed = True
        self._on_event(f"{synced.partition}: {sentence(error)}")

    def _view_of(self, synced: LakePartition) -> LogView | None:
        """Return the log of now; None, after a report, for one that cannot continue the rows."""
        partition = synced.partition
        try:
            log = self._directory.log(partition)
            log.refresh()
            if log.is_gone:
                log = self._directory.log(partition)
            if log is not synced.checked:
                topic = _beginning(self._directory.topic_id(partition))
                if synced.topic is not None and topic != synced.topic:
                    raise SyncRefused(_recreated(partition, topic))
                synced.checked = log
            end = log.log_end_offset()
            if end < synced.next_offset:
                raise SyncRefused(
                    f"the log ends at offset {end} and the table at {synced.next_offset}: it was cut or replaced; "
                    "choose another table"
                )
        except (SyncRefused, StorageError, OSError) as error:
            self._fail(synced, error)
            return None
        return LogView(log, is_committed_only=self._options.is_committed_only)

    # --- commits -----------------------------------------------------------------------------------------------------

    def _planned(self, ends: dict[TopicPartition, int]) -> list[_Range]:
        """Return what the next commit has, up to the ends; nothing if all is in the table."""
        planned, budget = list[_Range](), COMMIT_BYTES
        for synced in self._active():
            end = ends.get(synced.partition, 0)
            if budget < COMMIT_BYTES >> 3 or end <= synced.next_offset:
                continue
            view = self._view_of(synced)
            if view is None:
                continue
            start = synced.next_offset
            try:
                pieces = LogReader(view.log, start=start, stop=end, isolation=view.isolation).cut(budget)
            except OSError as error:
                self._fail(synced, error)
                continue
            stop, budget = pieces[0][1] if len(pieces) > 1 else end, budget - (pieces[0][2] if pieces else 0)
            planned.append(_Range(synced, view, start, stop, start))
        return planned

    def _copy(self, ranges: Sequence[_Range]) -> None:
        """Write the rows of ranges, and commit them. Overtaken; TableError."""
        if self._decoding is not None:
            self._decoding.refresh()
        self._table.grow(RAW if self._decoding is None else self._decoding.columns)
        files = self._table.data_files(self._file_bytes)
        try:
            for span in ranges:
                self._write(span, files)
            written = files.finish()
        except BaseException as error:
            files.discard()
            if isinstance(error, pa.ArrowException | OSError):  # those of the log are in the range
                raise TableError(f"{self._table.name}: {sentence(error)}") from error
            raise
        before = {span.synced.partition: span.synced.progress for span in ranges if span.synced.progress is not None}
        after = {
            span.synced.partition: LakeProgress(span.reached, span.synced.topic)
            for span in ranges
            if span.reached > span.start
        }
        try:
            if after:
                self._table.commit(written, before, after)
        except Overtaken:
            files.discard()
            raise
        for span in ranges:
            if span.synced.partition in after:
                span.synced.progress, span.synced.next_offset = after[span.synced.partition], span.reached
                span.synced.rows += span.rows
            if span.failure is not None:
                self._fail(span.synced, span.failure)

    def _write(self, range_: _Range, files: DataFiles) -> None:
        """Write the rows of a range as far as they can be read."""
        partition, decoding = range_.synced.partition, self._decoding
        skip = self._on_gap(partition) if self._options.skips_gaps else None

        def fail(error: StorageError) -> None:
            range_.failure = range_.failure or error

        for batch in record_batches(self._slices(range_, skip), partition, RECORD, skip or fail):
            made = raw_columns(batch, partition) if decoding is None else decoding.decoded(batch, partition)
            columns = [
                made[field.name] if field.name in made else pa.nulls(len(batch), field.type) for field in files.schema
            ]
            files.add(pa.RecordBatch.from_arrays(columns, schema=files.schema))
            range_.rows += len(batch)

    def _slices(self, range_: _Range, skip: Callable[[StorageError], None] | None) -> Iterator[BatchSlice]:
        """Yield what can be read; a failure ends the range where it is."""
        view = range_.view
        reader = LogReader(
            view.log,
            start=range_.start,
            stop=range_.stop,
            isolation=view.isolation,
            on_damage=skip,
            on_lost=skip,
        )
        try:
            for slice_ in reader.slices():
                header = slice_[0].header
                yield slice_
                if range_.failure is not None:  # of its records
                    return
                range_.reached = min(header.next_offset, range_.stop)
                self._done += header.size
                self._on_progress(self._done, max(self._total, self._done))
            range_.reached = range_.stop
        except (StorageError, OSError) as error:
            range_.failure = error

    def _on_gap(self, partition: TopicPartition) -> Callable[[StorageError], None]:
        return lambda error: self._on_event(f"{partition}: left out: {error}")


def _beginning(topic_id: bytes | None) -> int | None:
    return None if topic_id is None else int.from_bytes(topic_id[:8], "big") >> 1


def _recreated(partition: TopicPartition, topic: int | None) -> str:
    if topic is None:
        return "partition.metadata is missing, so that it is unknown whether the rows are of this topic; restore it"
    return (
        f"{partition.topic} was deleted and created again: the rows are of another topic of that name; "
        "choose another table"
    )
