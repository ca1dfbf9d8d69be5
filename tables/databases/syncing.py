"""Keeps a table in step with partitions of a log directory, which is only read.

    log     0 … 41 │ 42 … 99 │ 100 …         next_offset 42 in the progress
                     added in one transaction, with next_offset 100

Each partition continues at the offset of its progress. With read_committed, rows end at the last stable offset and
have no records of aborted transactions, so that what is a row stays a record. A partition that fails stops at its last
commit, and the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetfs.common.ending import EndingEvent
from offsetfs.common.name_patterns import NamePattern
from offsetfs.storage import (
    BatchSlice,
    Log,
    LogDirectory,
    LogReader,
    LogView,
    TopicPartition,
)
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.tables.databases.deletions import RowDeletions
from offsetfs.tables.databases.layout import SyncRefused, UnstorableRecord
from offsetfs.tables.databases.loading import is_wanted
from offsetfs.tables.databases.messages_table import MessagesTable
from offsetfs.tables.databases.record_rows import RecordRows, RowSource, origin_of, record_rows

if TYPE_CHECKING:
    from offsetfs.tables.databases.decoding import TableDecoding

CHUNK_ROWS, CHUNK_BYTES = 50_000, 16 << 20
"""About how many rows, or bytes of payload, a transaction has: a commit costs a sync of the database."""
POLL_S = 0.1
"""The interval at which a following sync checks for appends: writes of other processes are not announced."""
LISTING_S = 5.0
"""The interval at which a following sync checks for new partitions and deleted records."""

OnEvent = Callable[[str], None]
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """The options of a sync."""

    topics: Sequence[NamePattern]
    """A topic whose whole name one of them matches."""
    is_committed_only: bool = True
    skips_gaps: bool = False
    """Whether a sync continues behind records that are lost or cannot be read."""
    mirrors_deletes: bool = False
    uses_producers: bool = True


@dataclass(slots=True)
class SyncedPartition:
    """The progress of a partition."""

    partition: TopicPartition
    source: RowSource
    topic_id: bytes | None
    next_offset: int
    present_until: int | None
    """The last offset of rows that are in the table without a progress, see `MessagesTable.without_present`."""
    rows: int = 0
    """Added by this process."""
    deleted: int = 0
    has_failed: bool = False
    deletions: RowDeletions = field(default_factory=RowDeletions)
    checked: Log | None = None
    """The log whose topic id was compared: another object may be that of another topic."""


class TableSync:
    """The partitions of a log directory, and their rows."""

    def __init__(
        self,
        directory: LogDirectory,
        table: MessagesTable,
        options: SyncOptions,
        on_event: OnEvent,
        on_progress: OnProgress = lambda done, total: None,
        decoding: TableDecoding | None = None,
    ) -> None:
        """`on_event` is called with a sentence where a partition fails or records are skipped."""
        self._directory = directory
        self._table = table
        self._options = options
        self._on_event = on_event
        self._on_progress = on_progress
        self._decoding = decoding
        self._done = self._total = 0
        self.partitions: dict[TopicPartition, SyncedPartition] = {}
        self._refused: set[TopicPartition] = set()

    @property
    def has_failed(self) -> bool:
        """Whether a partition could not be synchronized."""
        return bool(self._refused) or any(partition.has_failed for partition in self.partitions.values())

    def run(self) -> None:
        """Add all records that the partitions have now; TableError."""
        self._discover()
        self._total = sum(self._size_of(partition) for partition in self.partitions.values())
        for partition in self.partitions.values():
            self._advance(partition)
        self._mirror_deletes()

    def follow(self, is_ending: EndingEvent) -> None:
        """Add records as they are written, until the event is set; TableError."""
        self.run()
        waited = 0.0
        while not is_ending.wait(POLL_S):
            waited += POLL_S
            if waited >= LISTING_S:
                self._discover()
                self._mirror_deletes()
                waited = 0.0
            for partition in self.partitions.values():
                if is_ending.is_set():
                    return
                self._advance(partition)

    # --- partitions --------------------------------------------------------------------------------------------------

    def _discover(self) -> None:
        """Take in partitions that are not known yet."""
        present = self._directory.partitions()
        new = [partition for partition in present if self._is_wanted(partition)]
        if not new and not self._options.mirrors_deletes:
            return
        progress = self._table.progress()
        if self._options.mirrors_deletes:
            for partition in sorted(progress.keys() - set(present)):
                if self._is_wanted(partition):
                    self._refuse(partition, self._missing(partition))
        for partition in new:
            recorded = progress.get(partition)
            try:
                topic_id = self._directory.topic_id(partition)
                start = self._directory.log(partition).log_start_offset
            except (StorageError, OSError) as error:
                self._refuse(partition, sentence(error))
                continue
            if recorded is None:
                present_until = self._table.last_offset(partition)
                self._table.begin(partition, topic_id, start)
                found_offset = start
            else:
                if recorded.topic_id is not None and recorded.topic_id != topic_id:
                    self._refuse(
                        partition, self._recreated(partition) if topic_id is not None else self._without_id(partition)
                    )
                    continue
                if recorded.topic_id is None and topic_id is not None:
                    self._table.set_topic_id(partition, topic_id)
                present_until, found_offset = self._table.last_offset(partition), recorded.next_offset
            if present_until is not None and present_until < found_offset:
                present_until = None
            source = RowSource(partition, origin_of(partition.topic, topic_id), self._options.uses_producers)
            self.partitions[partition] = SyncedPartition(partition, source, topic_id, found_offset, present_until)

    def _is_wanted(self, partition: TopicPartition) -> bool:
        if partition in self.partitions or partition in self._refused:
            return False
        return is_wanted(partition.topic, self._options.topics)

    def _recreated(self, partition: TopicPartition) -> str:
        name, progress, topic = self._table.sql, self._table.sql_progress, partition.topic
        return (
            f"{topic} was deleted and created again: the rows are of another topic of that name; choose another "
            f"--table, or delete them: DELETE FROM {name} WHERE topic_name = '{topic}', and the same in {progress}"
        )

    def _missing(self, partition: TopicPartition) -> str:
        name, progress, topic = self._table.sql, self._table.sql_progress, partition.topic
        return (
            f"{self._directory.path} has no such partition: its rows stay, because it may have been lost; if it was "
            f"deleted, DELETE FROM {name} WHERE topic_name = '{topic}' AND partition_id = {partition.partition}, and "
            f"the same in {progress}"
        )

    def _without_id(self, partition: TopicPartition) -> str:
        return (
            "partition.metadata is missing, so that it is unknown whether the rows are of this topic; restore it, or "
            f"set topic_id to NULL in {self._table.sql_progress}"
        )

    def _refuse(self, partition: TopicPartition, reason: str) -> None:
        self._refused.add(partition)
        self._on_event(f"{partition}: {reason}")

    # --- rows --------------------------------------------------------------------------------------------------------

    def _advance(self, synced: SyncedPartition) -> None:
        """Add what a partition has now. What fails is reported once, and the partition is left alone then."""
        if synced.has_failed:
            return
        try:
            for start, stop, rows in self._chunks(synced):
                self._table.add(synced.partition, start, stop, rows)
                synced.next_offset = stop
                synced.rows += sum(map(len, rows))
        except UnstorableRecord as error:
            synced.has_failed = True
            self._on_event(str(error))
        except (SyncRefused, StorageError, OSError) as error:
            synced.has_failed = True
            self._on_event(f"{synced.partition}: {sentence(error)}")

    def _chunks(self, synced: SyncedPartition) -> Iterator[tuple[int, int, list[RecordRows]]]:
        """Yield offsets from, to before, and the rows of each transaction."""
        view = self._view_of(synced)
        end = view.end_offset()
        start = synced.next_offset
        if end <= start:
            _check_end(view.log, start)
            return
        if self._decoding is not None:
            self._decoding.refresh()
        reader = LogReader(
            view.log,
            start=start,
            stop=end,
            isolation=view.isolation,
            on_damage=self._on_gap(synced) if self._options.skips_gaps else None,
            on_lost=self._on_gap(synced) if self._options.skips_gaps else None,
        )
        gathered: list[RecordRows] = []
        count = size = 0
        reached = start
        try:
            for slice_ in self._counted(reader.slices()):
                rows = self._rows_of(slice_, synced)
                gathered.append(rows)
                count, size = count + len(rows), size + len(slice_[0].payload())
                reached = min(slice_[0].header.next_offset, end)
                if count >= CHUNK_ROWS or size >= CHUNK_BYTES:
                    yield start, reached, gathered
                    start, gathered, count, size = reached, [], 0, 0
        except (StorageError, OSError):
            if start < reached:  # the rows before damage are no worse for it
                yield start, reached, gathered
            raise
        if start < end:
            yield start, end, gathered

    def _rows_of(self, piece: BatchSlice, synced: SyncedPartition) -> RecordRows:
        rows = self._absent_rows(piece, synced)
        if self._decoding is not None and rows:
            self._decoding.fill(rows)
        return rows

    def _absent_rows(self, piece: BatchSlice, synced: SyncedPartition) -> RecordRows:
        rows = record_rows(piece, synced.source)
        if synced.present_until is None or not rows:
            return rows
        if rows.offsets[0] > synced.present_until:
            synced.present_until = None
            return rows
        return self._table.without_present(rows)

    def _view_of(self, synced: SyncedPartition) -> LogView:
        """Return the log of now; SyncRefused if the topic was created again."""
        return LogView(self._log_of(synced), is_committed_only=self._options.is_committed_only)

    def _log_of(self, synced: SyncedPartition) -> Log:
        log = self._directory.log(synced.partition)
        log.refresh()
        if log.is_gone:
            log = self._directory.log(synced.partition)
        if log is not synced.checked:
            # Without an id, it is one that is just being created: Kafka writes the id behind the directory.
            if synced.topic_id is not None and self._directory.topic_id(synced.partition) != synced.topic_id:
                raise SyncRefused(self._recreated(synced.partition))
            synced.checked = log
        return log

    def _on_gap(self, synced: SyncedPartition) -> Callable[[StorageError], None]:
        return lambda error: self._on_event(f"{synced.partition}: left out: {error}")

    # --- deletions ---------------------------------------------------------------------------------------------------

    def _mirror_deletes(self) -> None:
        if not self._options.mirrors_deletes:
            return
        for partition in self.partitions.values():
            if partition.has_failed:
                continue
            try:
                view = self._view_of(partition)
                _check_end(view.log, partition.next_offset)  # what a cut log lacks was not deleted by retention
                partition.deleted += partition.deletions.apply(
                    self._table,
                    partition.partition,
                    view,
                    partition.next_offset,
                    may_lack_offsets=self._directory.may_lack_offsets(partition.partition),
                )
            except (SyncRefused, StorageError, OSError) as error:
                partition.has_failed = True
                self._on_event(f"{partition.partition}: {sentence(error)}")

    # --- progress ----------------------------------------------------------------------------------------------------

    def _size_of(self, synced: SyncedPartition) -> int:
        log = self._directory.log(synced.partition)
        return LogReader(log, start=max(synced.next_offset, log.log_start_offset)).size_bytes()

    def _counted(self, slices: Iterable[BatchSlice]) -> Iterator[BatchSlice]:
        for slice_ in slices:
            self._done += slice_[0].header.size
            self._on_progress(self._done, max(self._total, self._done))
            yield slice_


def _check_end(log: Log, next_offset: int) -> None:
    """Raise SyncRefused for a log that has not all offsets of which there are rows."""
    log_end = log.log_end_offset()
    if log_end < next_offset:
        raise SyncRefused(
            f"the log ends at offset {log_end} and the table at {next_offset}: it was cut or replaced; "
            "delete the rows beyond it and set next_offset in the progress, or choose another --table"
        )
