"""A topic as a table of DuckDB.

DuckDB takes a `pyarrow.dataset.Dataset` for a table and calls `scanner` with the columns that a statement needs and the
part of its WHERE that can be pushed down. What is returned here instead of a scanner reads only the ranges that can
match, a batch at a time, as DuckDB asks for them: a LIMIT ends the reading.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from offsetfs.storage import INTERNAL_TOPICS, AnyLogDirectory, BatchSlice, LogReader, LogView, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.tables.arrow import SCHEMA, record_batches
from offsetfs.tables.sql.pruning import Pruning, names_in, stamped_within

_log = logging.getLogger(__name__)

_NAMES = ("partition", *(name for name in SCHEMA.names if name != "partition"))

SCAN_SCHEMA = pa.schema([SCHEMA.field(name) for name in _NAMES])
"""For count(*) DuckDB asks for the first column: `partition` needs no look at the records of a batch."""


@dataclass(frozen=True, slots=True)
class ScannedRange:
    """A range of a partition that a scan reads: offsets `[start, stop)`, about `size_bytes` of segments."""

    partition: TopicPartition
    start: int
    stop: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The columns and ranges that one scan of a topic reads, and the totals of all partitions."""

    topic: str
    columns: tuple[str, ...]
    ranges: tuple[ScannedRange, ...]
    partitions: int
    size_bytes: int


@dataclass(slots=True)
class ScanContext:
    """The shared context of the scans of one statement."""

    directory: AnyLogDirectory
    is_committed_only: bool = False
    masked: Collection[str] = ()
    """Topics whose raw values are null."""
    is_plan_only: bool = False
    """Whether scans are noted and return no records: for EXPLAIN."""
    scans: list[Scan] | None = None
    """The list that gets the scans, if there is one."""
    damage: list[StorageError] | None = None
    """The list that gets the errors of unreadable batches; None: the first error ends the scan."""
    notes: dict[TopicPartition, str] = field(default_factory=dict)
    """Records that the scanned partitions lack, because they are only in remote storage."""
    failure: Exception | None = None
    """The error that ended a scan: DuckDB passes on its text only."""
    on_progress: Callable[[int, int], None] | None = None
    """Called with the bytes that the scans of a statement have read, and about how many they are going to read."""
    read_bytes: int = 0
    total_bytes: int = 0

    def begin(self) -> None:
        """Forget what the statement before has read."""
        self.failure, self.read_bytes, self.total_bytes = None, 0, 0

    def counted(self, slices: Iterable[BatchSlice]) -> Iterator[BatchSlice]:
        """Yield slices, and count their bytes."""
        for slice_ in slices:
            self.read_bytes += slice_[0].header.size
            yield slice_

    def report(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.read_bytes, max(self.total_bytes, self.read_bytes))


class _Reader:
    """The part of a scanner that DuckDB uses."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    @property
    def projected_schema(self) -> pa.Schema:
        return self._reader.schema

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


class FoundTable(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Records that something else finds, with the columns of a topic. Each scan finds them again."""

    def __init__(self, batches: Callable[[], Iterable[pa.RecordBatch]], context: ScanContext) -> None:
        self._found = batches
        self._context = context

    @property
    def schema(self) -> pa.Schema:
        return SCAN_SCHEMA

    def scanner(self, columns: Sequence[str] | None = None, **_: object) -> _Reader:
        shown = list(SCAN_SCHEMA.names if columns is None else columns)
        schema = pa.schema([SCAN_SCHEMA.field(name) for name in shown])
        return _Reader(pa.RecordBatchReader.from_batches(schema, self._batches(shown)))

    def _batches(self, shown: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._found():
                yield batch.select(shown)
        except Exception as error:
            self._context.failure = error
            raise


class TopicTable(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The records of a topic, all partitions one after the other; of all topics but internal ones if it is None."""

    prefix = ""
    """Stands before the names of the columns that a record has by itself."""
    shows_raw = True
    """Whether values are shown as they are."""

    def __init__(self, topic: str | None, context: ScanContext, schema: pa.Schema = SCAN_SCHEMA) -> None:
        self._topic = topic
        self._context = context
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def conversion(self, needed: Sequence[str]) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch]]:
        """Return the columns of records that are read for those of the table, and what makes these of them."""
        return self._schema_of(needed), lambda batch: batch

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> _Reader:
        """Return the reader of a scan. Logs are looked up now; records are read as DuckDB asks for them."""
        shown = list(self._schema.names if columns is None else columns)
        needed = [*shown, *sorted(names_in(filter, self._schema.names) - set(shown))]
        try:
            batches = self._batches(shown, needed, filter)
        except Exception as error:
            self._context.failure = error
            raise
        return _Reader(pa.RecordBatchReader.from_batches(self._schema_of(shown), batches))

    def _batches(self, shown: list[str], needed: list[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        context = self._context
        pruning = Pruning(filter, self._schema if self.prefix else SCHEMA, self.prefix)
        readers: list[tuple[TopicPartition, int, int, LogReader]] = []
        views = self._views()
        start_ms = pruning.start_ms()
        for name, view in views:
            if not pruning.partition_can_match(name):
                continue
            first = view.log.log_start_offset
            if start_ms is not None:
                place = view.find_timestamp(start_ms)
                first = view.end_offset() if place is None else max(first, place[0])
            for start, stop in pruning.offsets(name, first, view.end_offset()):
                reader = LogReader(
                    view.log, start=start, stop=stop, isolation=view.isolation, on_damage=self._on_damage()
                )
                readers.append((name, start, stop, reader))
        if context.scans is not None:
            ranges = tuple(ScannedRange(name, a, b, reader.size_bytes()) for name, a, b, reader in readers)
            size = sum(LogReader(view.log).size_bytes() for _, view in views)
            context.scans.append(Scan(self._topic or "all topics", tuple(needed), ranges, len(views), size))
        if context.on_progress is not None:
            context.total_bytes += sum(reader.size_bytes() for _, _, _, reader in readers)
        if context.is_plan_only:
            return iter(())
        times = start_ms, pruning.end_ms()
        return self._read([(name, reader) for name, _, _, reader in readers], shown, needed, filter, times)

    def _read(
        self,
        readers: list[tuple[TopicPartition, LogReader]],
        shown: list[str],
        needed: list[str],
        filter: pc.Expression | None,
        times: tuple[int | None, int | None],
    ) -> Iterator[pa.RecordBatch]:
        context, on_damage = self._context, self._on_damage()
        schema, converted = self.conversion(needed)
        try:
            for name, reader in readers:
                slices = context.counted(reader.slices())
                if times != (None, None):
                    slices = (slice_ for slice_ in slices if stamped_within(slice_[0].header, *times))
                for batch in record_batches(slices, name, schema, on_damage):
                    context.report()
                    is_withheld = self.shows_raw and name.topic in context.masked
                    shown_batch = converted(without_values(batch) if is_withheld else batch)
                    filtered = shown_batch if filter is None else shown_batch.filter(filter)
                    if filtered.num_rows:
                        yield filtered.select(shown)
        except Exception as error:
            context.failure = error
            raise

    def _views(self) -> list[tuple[TopicPartition, LogView]]:
        """Return the partitions as they are now, also beside another writer."""
        context, views = self._context, list[tuple[TopicPartition, LogView]]()
        directory = context.directory
        for name in directory.partitions():
            if name.topic != self._topic and (self._topic is not None or name.topic in INTERNAL_TOPICS):
                continue
            log = directory.log(name)
            log.refresh()
            if log.is_gone:
                log = directory.log(name)
            if log.remote_note is not None:
                context.notes[name] = log.remote_note
            # A search by time steps over what it cannot read, and that may hold what the condition asks for.
            on_damage = self._on_damage() or _raise
            views.append((name, LogView(log, is_committed_only=context.is_committed_only, on_damage=on_damage)))
        return views

    def _on_damage(self) -> Callable[[StorageError], None] | None:
        damage = self._context.damage
        return None if damage is None else damage.append

    def _schema_of(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self._schema.field(column) for column in columns])


def without_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records with null in place of their values."""
    at = batch.schema.get_field_index("value")
    return batch if at < 0 else batch.set_column(at, batch.schema.field(at), pa.nulls(len(batch), pa.binary()))


def _raise(error: StorageError) -> None:
    raise error
