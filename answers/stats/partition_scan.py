"""Reads partitions in threads: the headers of all batches, or all records with their checksums.

If there are more threads than partitions, the records of one partition are read in several threads, a segment each.
Their sketches are merged, and headers are evaluated in the order of offsets.

Each partition is read as it was when its turn came. Damage is stepped over and reported with the partition.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import attrgetter
from threading import Event

from offsetfs.answers.ordered_work import OrderedWork
from offsetfs.answers.stats.header_facts import HeaderCollector, HeaderFacts
from offsetfs.answers.stats.value_facts import ValueFacts, ValueScan
from offsetfs.storage import Batch, BatchGroup, Log, LogDirectories, LogReader, TopicPartition
from offsetfs.storage.errors import UNREADABLE, StorageError, sentence
from offsetfs.storage.records import (
    CODECS,
    COLUMNS,
    HEADER_COLUMNS,
    HEADER_SIZE,
    MAGIC,
    OFFSET_DELTA,
    RUNS,
    RecordSketch,
    Rows,
)

THREADS_MAX = 16
DAMAGE_SHOWN_MAX = 100
"""The places of damage that are kept for one partition."""


@dataclass(slots=True)
class PartitionFacts:
    """What was found in one partition."""

    partition: TopicPartition
    start_offset: int = 0
    end_offset: int = 0
    log_bytes: int = 0
    """The size of all segments, which may begin below the start offset."""
    segments: int = 0
    headers: HeaderFacts = field(default_factory=HeaderFacts)
    values: ValueFacts | None = None
    """None if only headers were read."""
    inflated_bytes: Counter[str] = field(default_factory=Counter)
    """Bytes by codec, if they were not compressed; empty if only headers were read."""
    damage: list[str] = field(default_factory=list)
    damaged_places: int = 0
    remote_note: str | None = None
    failure: str | None = None
    """Why nothing or not all was read: the partition cannot be opened, or was deleted."""

    def note_damage(self, error: Exception) -> None:
        self.damaged_places += 1
        if len(self.damage) < DAMAGE_SHOWN_MAX:
            self.damage.append(sentence(error))


OnBytes = Callable[[int, int], None]
"""Called with the bytes of the logs that were read, and of all."""


class Stopped(Exception):
    """The scan was given up."""


@dataclass(slots=True)
class ScanResult:
    """All partitions, in the order in which they were given; with records read also their sums."""

    partitions: list[PartitionFacts]
    topics: dict[str, ValueFacts]
    total: ValueFacts | None


def scan_partitions(
    directory: LogDirectories,
    partitions: Sequence[TopicPartition],
    *,
    reads_values: bool = False,
    on_bytes: OnBytes = lambda done, total: None,
    threads: int | None = None,
) -> ScanResult:
    """Read the partitions, sorted by topic: headers, or all records.

    Damage and partitions that do not open are in the result. OSError only if no thread can be started. Memory: a sketch
    (`SKETCH_BYTES`) for each thread and for two topics, and some numbers for each partition.
    """
    stop = Event()
    count = threads or min(len(os.sched_getaffinity(0)), THREADS_MAX)
    found: dict[TopicPartition, PartitionFacts] = {}
    sums = _Sums(Counter(partition.topic for partition in partitions)) if reads_values else None
    done = 0
    waiting = iter(partitions)
    own_threads = count // max(len(partitions), 1)
    with ThreadPoolExecutor(count, "stats") as pool:

        def submit(number: int) -> Iterator[Future[tuple[PartitionFacts, ValueScan | None]]]:
            for partition in islice(waiting, number):
                yield pool.submit(
                    scan_partition, directory, partition, stop, reads_values=reads_values, threads=own_threads
                )

        running = set(submit(count))
        try:
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    facts, values = future.result()
                    found[facts.partition] = facts
                    if sums is not None:
                        sums.add(facts.partition.topic, values)
                    done += facts.log_bytes
                    on_bytes(done, done)
                running |= set(submit(len(ended)))
        finally:
            stop.set()
    ordered = [found[partition] for partition in partitions]
    return (
        ScanResult(ordered, {}, None) if sums is None else ScanResult(ordered, sums.topics, ValueFacts.of(sums.total))
    )


class _Sums:
    """Joins the sketches of partitions; that of a topic is kept until its last partition was read."""

    def __init__(self, left: Counter[str]) -> None:
        """`left`: the number of the partitions of each topic."""
        self.topics: dict[str, ValueFacts] = {}
        self._left = left
        self._open: dict[str, RecordSketch] = {}
        self.total = RecordSketch()

    def add(self, topic: str, values: ValueScan | None) -> None:
        sketch = self._open.setdefault(topic, RecordSketch())
        if values is not None:
            sketch.merge(values.sketch.state)
        self._left[topic] -= 1
        if not self._left[topic]:
            self.topics[topic] = ValueFacts.of(sketch)
            self.total.merge(self._open.pop(topic).state)


def scan_partition(
    directory: LogDirectories, partition: TopicPartition, stop: Event, *, reads_values: bool, threads: int = 1
) -> tuple[PartitionFacts, ValueScan | None]:
    """Read one partition, its records in up to so many threads. `Stopped` once `stop` is set."""
    facts, values = PartitionFacts(partition), ValueScan() if reads_values else None
    try:
        with directory.directory_of(partition).borrowed(partition) as log:
            values = _read(log, facts, values, stop, threads)
    except (StorageError, OSError) as error:
        facts.failure = sentence(error)
    return facts, values


def _read(log: Log, facts: PartitionFacts, values: ValueScan | None, stop: Event, threads: int) -> ValueScan | None:
    """Read a log into `facts`, and into `values` or what is returned in its place."""
    segments = log.snapshot()
    facts.start_offset, facts.end_offset = log.log_start_offset, log.next_offset
    facts.log_bytes, facts.segments = sum(segment.size for segment in segments), len(segments)
    facts.remote_note = log.remote_note
    if values is not None and threads > 1 and len(segments) > 1:
        bases = [max(segment.base_offset, facts.start_offset) for segment in segments]
        merged = _read_in_threads(log, facts, list(pairwise([*bases, facts.end_offset])), stop, threads)
        if merged is not None:
            return merged
    collector = HeaderCollector(facts.start_offset)
    reader = LogReader(
        log,
        start=facts.start_offset,
        stop=facts.end_offset,
        isolation="raw",
        on_damage=facts.note_damage,
        on_lost=facts.note_damage,
        runs=RUNS,
    )
    try:
        for rows in _header_rows(log, reader, facts) if values is None else _value_rows(reader, facts, values):
            if stop.is_set():
                raise Stopped
            collector.add(rows)
    finally:
        facts.headers = collector.finish()
        if values is not None:
            facts.values, facts.inflated_bytes = ValueFacts.of(values.sketch), values.inflated_bytes
            facts.headers.earliest_ms = values.earliest_ms
    return values


class _DamagedRange(Exception):
    """A part of a range could not be read."""


def _read_in_threads(
    log: Log, facts: PartitionFacts, ranges: Sequence[tuple[int, int]], stop: Event, threads: int
) -> ValueScan | None:
    """Read the records of ranges that are a segment each; None, and nothing in `facts`, if some cannot be read.

    What damage hides is then told by one reader, which sees how the offsets before it and behind it go on.
    """

    def read(offsets: tuple[int, int]) -> Iterator[array[int] | ValueScan]:
        part, values = PartitionFacts(facts.partition), ValueScan()
        note = part.note_damage
        start, end = offsets
        reader = LogReader(log, start=start, stop=end, isolation="raw", on_damage=note, on_lost=note, runs=RUNS)
        for rows in _value_rows(reader, part, values):
            if part.damaged_places:
                raise _DamagedRange
            yield rows
        if part.damaged_places:
            raise _DamagedRange
        yield values

    collector, merged = HeaderCollector(facts.start_offset), ValueScan()
    try:
        with contextlib.closing(OrderedWork(ranges, read).results(threads)) as results:
            for result in results:
                if stop.is_set():
                    raise Stopped
                if isinstance(result, ValueScan):
                    merged.merge(result)
                else:
                    collector.add(result)
    except (_DamagedRange, StorageError, OSError):
        return None
    facts.headers = collector.finish()
    facts.values, facts.inflated_bytes = ValueFacts.of(merged.sketch), merged.inflated_bytes
    facts.headers.earliest_ms = merged.earliest_ms
    return merged


# --- headers ---------------------------------------------------------------------------------------------------------


def _header_rows(log: Log, reader: LogReader, facts: PartitionFacts) -> Iterator[array[int]]:
    for rows in reader.headers():
        yield _from_start(log, rows, facts).numbers


def _from_start(log: Log, rows: Rows, facts: PartitionFacts) -> Rows:
    """Return the rows, the count of the first without the records below the start of the log."""
    start = facts.start_offset
    if rows.base_offset >= start or rows.first_count < 0:
        return rows
    reader = LogReader(log, start=start, stop=rows.first_end, isolation="raw", on_damage=facts.note_damage)
    return rows.beginning_at(start, sum(1 for _ in reader.records()))


# --- records ---------------------------------------------------------------------------------------------------------


def _value_rows(reader: LogReader, facts: PartitionFacts, values: ValueScan) -> Iterator[array[int]]:
    """Add the records of data to the sketch; yield the header of each batch, with the number of its records."""
    for batch, first, _ in reader.groups():
        yield from _added(batch, first, facts, values)


def _added(batch: Batch, first: int, facts: PartitionFacts, values: ValueScan) -> Iterator[array[int]]:
    header = batch.header
    try:
        if header.is_control:
            yield _row(batch, header.base_offset, header.count)
            return
        rows, base_offset = batch.rows(), int(batch.base_offset)
        if base_offset < first:
            rows, base_offset = _rows_from(rows, first - header.base_offset), first
        payload = batch.payload()
    except UNREADABLE as error:
        if isinstance(batch, BatchGroup):
            for single in batch.batches():
                yield from _added(single, first, facts, values)
            return
        facts.note_damage(batch.placed(error))
        return
    least, _ = values.sketch.add_rows(payload, rows, header.base_offset)
    if rows:
        values.note_time(batch.timestamp_of(least))
    if isinstance(batch, BatchGroup):
        for codec, size in batch.inflated_sizes():
            values.inflated_bytes[CODECS[codec]] += size
        yield batch.header.rows
        return
    values.inflated_bytes[header.codec_name] += len(payload) + (HEADER_SIZE if header.magic == MAGIC else 0)
    yield _row(batch, base_offset, len(rows) // COLUMNS)


def _rows_from(rows: array[int], delta: int) -> array[int]:
    """Return the rows from an offset delta on."""
    begin = next((row for row in range(0, len(rows), COLUMNS) if rows[row + OFFSET_DELTA] >= delta), len(rows))
    return rows[begin:]


def _row(batch: Batch, base_offset: int, count: int) -> array[int]:
    header = batch.header
    row = array("q", [batch.position or 0, *_fields_of(header)])
    row[_BASE_OFFSET], row[_LAST_DELTA], row[_COUNT] = base_offset, header.last_offset - base_offset, count
    return row


_fields_of = attrgetter(*HEADER_COLUMNS[1:])
_BASE_OFFSET, _LAST_DELTA, _COUNT = map(HEADER_COLUMNS.index, ("base_offset", "last_offset_delta", "count"))
