"""Finds records in logs: the work of `offsetfs find`, without options and output.

    partitions ──► ranges of offsets ──► pieces ──► threads: batches ──► conditions ──► lines, in offset order

A piece is some megabytes of a partition. Threads search pieces in their order, and what they find is handed on in that
order, so the output does not depend on their speed. With a limit a partition is searched from one of its ends, and no
further than the limit; of the records of several partitions, the oldest or newest by their times remain.

Records between two times are found wherever they are: the log is read from the first record that is as new, and each
record's time is compared. Records of aborted transactions count unless the isolation is read_committed; control batches
do not.
"""

from __future__ import annotations

import heapq
import threading
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.answers.find_conditions import Condition, matching_rows
from offsetfs.answers.find_lines import LinesOf
from offsetfs.answers.ordered_work import OrderedWork
from offsetfs.storage import (
    LOG_APPEND_TIME,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AnyLogDirectory,
    Batch,
    BatchGroup,
    LogReader,
    LogView,
    TopicPartition,
)
from offsetfs.storage.errors import OffsetOutOfRange, StorageError
from offsetfs.storage.records import COLUMNS, MAGIC, OFFSET_DELTA, TIMESTAMP_DELTA

if TYPE_CHECKING:
    from offsetfs.answers.find_where import WhereCondition

PIECE_BYTES = 8 << 20
"""About the bytes of log that a thread searches at a time."""
BATCHES_MAX = 64
"""After how many batches records are handed on, even if they are few."""
LINES_BYTES_MAX = 1 << 20
"""After how many bytes of lines they are handed on."""
DAMAGE_SHOWN_MAX = 20
"""Places of damage that are kept for messages; all are counted."""


@dataclass(frozen=True, slots=True)
class FindBounds:
    """The records that are looked at: offsets `[start, stop)`, times `[start_ms, stop_ms)`; None: without a bound."""

    start: int | None = None
    stop: int | None = None
    start_ms: int | None = None
    stop_ms: int | None = None

    @property
    def has_times(self) -> bool:
        return self.start_ms is not None or self.stop_ms is not None

    def may_have(self, batch: Batch) -> bool:
        """Whether the header of a batch permits records within the times.

        A header has the latest time. Only with LogAppendTime that is also the earliest.
        """
        header = batch.header
        if not self.has_times or header.magic < MAGIC or header.max_timestamp < 0:
            return True
        is_late = self.stop_ms is not None and header.max_timestamp >= self.stop_ms
        if is_late and header.timestamp_type == LOG_APPEND_TIME:
            return False
        return self.start_ms is None or header.max_timestamp >= self.start_ms

    def has_time(self, timestamp: int) -> bool:
        """Whether a time is within both; a record of v0 has none (-1), and is within none."""
        return (
            timestamp >= 0
            and (self.start_ms is None or timestamp >= self.start_ms)
            and (self.stop_ms is None or timestamp < self.stop_ms)
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """How many records are wanted, and whether the newest ones, newest first."""

    count: int
    is_newest: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    partition: TopicPartition
    reader: LogReader
    size_bytes: int
    offsets: frozenset[int] | None = None
    """The offsets that a condition in SQL has found; None: without one."""


TimedLine = tuple[int, bytes]
"""The time of a record, and its line."""


class _Found(NamedTuple):
    """What a thread has found since its last report: records as (time, line), and their number."""

    partition: TopicPartition
    read_bytes: int
    records: list[TimedLine]
    number: int


@dataclass
class Search:
    """One search. `lines` or `count` runs it, once; then the other attributes say what was left out."""

    directory: AnyLogDirectory
    partitions: Sequence[TopicPartition]
    conditions: Sequence[Condition] = ()
    bounds: FindBounds = FindBounds()
    is_committed_only: bool = False
    on_progress: Callable[[int, int], None] = lambda done, total: None
    threads: int | None = None
    """The number of threads; None: as many as there are processors."""
    where: WhereCondition | None = None
    """A condition in SQL."""
    found: int = 0
    """The records that were found."""
    damaged: int = 0
    """The places that could not be read."""
    damage: list[StorageError | OSError] = field(default_factory=list)
    """The first of these."""
    notes: list[str] = field(default_factory=list)
    """What was not looked at for other reasons: records that were removed meanwhile, or are only in remote storage."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: set[tuple[str | None, int | None]] = field(default_factory=set)
    _satisfied: set[TopicPartition] = field(default_factory=set)

    def lines(self, lines_of: LinesOf, limit: Limit | None = None) -> Generator[list[bytes], None, None]:
        """Yield lines, one for each record that is found: partition by partition, in offset order, as soon as found.

        With `limit`: so many, the oldest or the newest ones by time, of all partitions together.
        """
        every = self._limited(lines_of, limit) if limit else (matches.records for matches in self._run(lines_of, None))
        for records in every:
            if records:
                self.found += len(records)
                yield [line for _, line in records]

    def count(self) -> int:
        """Return the number of records that are found."""
        if self.where is not None and not self.conditions:
            self.found = sum(self.where.count(topic, names, self.bounds) for topic, names in self._topics().items())
            self.notes += self.where.notes()
            return self.found
        for found in self._run(None, None):
            self.found += found.number
        return self.found

    # --- the order of the output ---------------------------------------------------------------------------------

    def _limited(self, lines_of: LinesOf, limit: Limit) -> Iterator[list[TimedLine]]:
        by_partition = groupby(self._run(lines_of, limit), key=lambda found: found.partition)
        if len(self.partitions) == 1:  # nothing to wait for
            for partition, found in by_partition:
                yield from self._first_of(partition, found, limit.count)
            return
        best = heapq.nlargest if limit.is_newest else heapq.nsmallest
        kept: list[TimedLine] = []
        for partition, found in by_partition:  # times of a partition need not rise
            records = chain.from_iterable(self._first_of(partition, found, limit.count))
            kept = best(limit.count, chain(kept, records), key=lambda timed: timed[0])
        yield kept

    def _first_of(self, partition: TopicPartition, found: Iterator[_Found], left: int) -> Iterator[list[TimedLine]]:
        """Yield the first records of a partition. Its other pieces are not searched as soon as there are enough."""
        for matches in found:
            records = matches.records[:left]
            left -= len(records)
            if left == 0:
                self._satisfied.add(partition)
            yield records

    # --- the search ----------------------------------------------------------------------------------------------

    def _run(self, lines_of: LinesOf | None, limit: Limit | None) -> Iterator[_Found]:
        if self.where is not None:  # its threads are those of DuckDB
            for piece in self._wanted(self._pieces_at(self.where, limit)):
                yield from self._searched(piece, lines_of, limit)
            self.notes += self.where.notes()
            return
        pieces = self._pieces(limit)
        total = sum(piece.size_bytes for piece in pieces)
        work = OrderedWork(self._wanted(pieces), lambda piece: self._searched(piece, lines_of, limit))
        done = 0
        for found in work.results(self.threads):
            done += found.read_bytes
            self.on_progress(done, max(total, done))
            yield found

    def _wanted(self, pieces: Iterable[_Piece]) -> Iterator[_Piece]:
        return (piece for piece in pieces if piece.partition not in self._satisfied)

    def _topics(self) -> dict[str, list[TopicPartition]]:
        return {topic: list(group) for topic, group in groupby(self.partitions, key=lambda partition: partition.topic)}

    def _pieces_at(self, where: WhereCondition, limit: Limit | None) -> Iterator[_Piece]:
        """Yield the pieces around the offsets that a condition finds, as it finds them; the newest first at its end."""
        is_newest = limit is not None and limit.is_newest
        for topic, partitions in self._topics().items():
            if limit is None or not is_newest:
                found = where.offsets(topic, partitions, self.bounds)
            elif self.conditions:  # how many offsets must be looked at is not known
                found = reversed(list(where.offsets(topic, partitions, self.bounds)))
            else:
                found = where.offsets(topic, partitions, self.bounds, limit.count)
            for name, offsets in found:
                reader = self._reader(name, offsets[0], offsets[-1] + 1)
                yield _Piece(name, reader, 0, frozenset(offsets))

    def _reader(self, name: TopicPartition, start: int, stop: int) -> LogReader:
        return LogReader(
            self.directory.log(name),
            start=start,
            stop=stop,
            isolation=READ_COMMITTED if self.is_committed_only else READ_UNCOMMITTED,
            on_damage=self.note_damage,
            on_lost=lambda error: self._note_loss(name, error),
        )

    def _pieces(self, limit: Limit | None) -> list[_Piece]:
        pieces: list[_Piece] = []
        for name in self.partitions:
            try:
                of_partition = list(self._pieces_of(name))
            except (StorageError, OSError) as error:
                self.note_damage(error)
                continue
            pieces += reversed(of_partition) if limit is not None and limit.is_newest else of_partition
        return pieces

    def _pieces_of(self, name: TopicPartition) -> Iterator[_Piece]:
        log = self.directory.log(name)
        if log.remote_note is not None:
            self.notes.append(f"{name}: {log.remote_note}")
        view = LogView(log, is_committed_only=self.is_committed_only, on_damage=self.note_damage)
        start, stop = log.log_start_offset, view.end_offset()
        if self.bounds.start is not None and self.bounds.start > stop:
            self.notes.append(f"{name} ends at offset {stop}, before offset {self.bounds.start}")
        if self.bounds.start_ms is not None:
            first = view.find_timestamp(self.bounds.start_ms)
            start = stop if first is None else max(start, first[0])
        start = max(start, self.bounds.start or 0)
        stop = stop if self.bounds.stop is None else min(stop, self.bounds.stop)
        if start >= stop:
            return
        whole = LogReader(log, start=start, stop=stop, isolation=view.isolation)
        for first_offset, end_offset, size in whole.cut(PIECE_BYTES):
            yield _Piece(name, self._reader(name, first_offset, end_offset), size)

    def _searched(self, piece: _Piece, lines_of: LinesOf | None, limit: Limit | None) -> Iterator[_Found]:
        """Yield what a piece has; with a limit at the end, and no more than that."""
        lines = None if lines_of is None else lines_of(piece.partition)
        gathered: list[TimedLine] = []
        batches = size = count = 0
        is_newest = limit is not None and limit.is_newest
        try:
            for batch, first, stop in piece.reader.groups():
                if piece.partition in self._satisfied:
                    break
                batches += 1
                for part, rows, numbers in self._matching(batch, first, stop, piece.offsets):
                    count += len(numbers)
                    if lines is not None:
                        made = self._lines(part, lines, rows, numbers)
                        gathered += made
                        size += sum(len(line) for _, line in made)
                batch.drop_payload()
                if limit is not None:
                    if is_newest:
                        del gathered[: -limit.count]
                    elif len(gathered) >= limit.count:
                        break
                elif count and (size >= LINES_BYTES_MAX or batches >= BATCHES_MAX):
                    yield _Found(piece.partition, 0, gathered, count)
                    gathered, batches, size, count = [], 0, 0, 0
        except (StorageError, OSError) as error:
            self.note_damage(error)
        yield _Found(piece.partition, piece.size_bytes, gathered[::-1] if is_newest else gathered, count)

    def _matching(
        self, batch: Batch, first: int, stop: int, wanted: frozenset[int] | None
    ) -> Iterator[tuple[Batch, array[int], array[int]]]:
        """Yield the rows of a batch, and the numbers of those that are found, if there are some.

        Of a group in which records cannot be read, each batch.
        """
        if not self.bounds.may_have(batch):
            return
        try:
            rows, numbers = matching_rows(batch, self.conditions)
            if numbers and not (first <= batch.base_offset and batch.header.next_offset <= stop):
                base = batch.header.base_offset
                offsets = rows[OFFSET_DELTA::COLUMNS]
                numbers = array("q", (number for number in numbers if first <= base + offsets[number] < stop))
            if numbers and wanted is not None:
                base = batch.header.base_offset
                numbers = array(
                    "q", (number for number in numbers if base + rows[number * COLUMNS + OFFSET_DELTA] in wanted)
                )
            if numbers and self.bounds.has_times:
                numbers = array("q", (number for number in numbers if self.bounds.has_time(_time(batch, rows, number))))
        except StorageError as error:
            if not isinstance(batch, BatchGroup):
                self.note_damage(error)
                return
            for single in batch.batches():
                yield from self._matching(single, first, stop, wanted)
            return
        if numbers:
            yield batch, rows, numbers

    def _lines(
        self,
        batch: Batch,
        lines: Callable[[Batch, array[int], array[int]], list[bytes]],
        rows: array[int],
        numbers: array[int],
    ) -> list[TimedLine]:
        if isinstance(batch, BatchGroup):
            parts = batch.parts(numbers)
            return [line for part, found in parts for line in self._lines(part, lines, part.rows(), found)]
        try:
            made = lines(batch, rows, numbers)
        except StorageError as error:
            self.note_damage(error)
            return []
        return [(_time(batch, rows, number), line) for number, line in zip(numbers, made, strict=True)]

    # --- what was not looked at ----------------------------------------------------------------------------------

    def note_damage(self, error: StorageError | OSError) -> None:
        """Note what cannot be read, once; from any thread."""
        place = (
            (error.path, error.position) if isinstance(error, StorageError) else (error.filename, error.errno or None)
        )
        with self._lock:
            if place in self._places:  # two pieces met the same batch
                return
            if len(self._places) < DAMAGE_SHOWN_MAX:
                self.damage.append(error)
            self._places.add(place)
            self.damaged += 1

    def _note_loss(self, name: TopicPartition, error: StorageError) -> None:
        reason = "the partition was deleted while it was read"
        if isinstance(error, OffsetOutOfRange):
            reason = f"records before offset {error.log_start_offset} were removed while it was read"
        with self._lock:
            if (note := f"{name}: {reason}") not in self.notes:
                self.notes.append(note)


def _time(batch: Batch, rows: array[int], number: int) -> int:
    return batch.timestamp_of(rows[number * COLUMNS + TIMESTAMP_DELTA])
