"""What a log on a simulated disk was asked to do, and what it has promised at each moment in return.

A `Promise` is of one partition at one moment: the batches that were appended to it in order, how far they are on disk,
where it begins, whether it must be there. It is widened before an operation (`may be`) and narrowed when the operation
has returned (`is`), so that it holds at any moment in between. A `Timeline` has them by the number of changes that the
disk had seen, so that a power cut after any change knows what was promised then.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import HEADER_SIZE, build
from offsetfs.storage.records.format.batch_builder import RECORD_OVERHEAD_MAX, SealedBatch
from offsetfs.storage.units import Timestamp

Row = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp of a record."""

FIRST_MS = 1_700_000_000_000
_TRANSACTIONAL = 9
"""The id of the producer whose batches are of transactions."""


@dataclass(frozen=True, slots=True)
class Written:
    """A batch as it was given to `append`, and the offset that its first record has."""

    base_offset: int
    rows: tuple[Row, ...]
    producer: tuple[int, int, int] = (-1, -1, -1)
    transactional: bool = False
    marker: int | None = None
    """COMMIT or ABORT in a batch that ends the producer's transaction."""

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.rows)

    def seal(self, codec: str) -> SealedBatch:
        """Return the batch as `append` takes it."""
        records = [(key, value, (), timestamp) for key, value, timestamp in self.rows]
        producer_id, epoch, sequence = self.producer
        data = build(
            records,
            codec=codec if self.marker is None else "none",
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=self.transactional,
            control=self.marker is not None,
        )
        values_bytes = sum(len(value or b"") + 1 for _, value, _ in self.rows)
        return SealedBatch(
            memoryview(data), len(records), values_bytes, Timestamp(max(r[2] for r in self.rows)), len(data)
        )


@dataclass(frozen=True, slots=True)
class Promise:
    """What holds of a partition at one moment.

    `batches`: all that were appended, the last maybe in the making; of these the first ones are there, at least all
    below `synced`. `start` is where it begins at least, `start_max` at most. `ghosts`: batches whose append failed,
    which may be the last that is there. Where it `compacts`, what a later record replaces may be missing. `replaced`:
    offsets that a compaction may have left out for later ones, which were truncated away since.
    """

    must_exist: bool = False
    may_exist: bool = True
    batches: tuple[Written, ...] = ()
    handed: int = 0
    synced: int = 0
    start: int = 0
    start_max: int = 0
    ghosts: tuple[Written, ...] = ()
    compacts: bool = False
    replaced: frozenset[int] = frozenset()
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def end(self) -> int:
        """The offset behind the last batch."""
        return self.batches[-1].next_offset if self.batches else self.start


def transactions(batches: Sequence[Written]) -> tuple[dict[int, bool], int | None]:
    """Return whether each batch of an ended transaction was committed, by base offset, and where an open one begins."""
    fates: dict[int, bool] = {}
    under_way: list[int] = []
    for written in batches:
        if written.marker is not None:
            fates |= dict.fromkeys(under_way, written.marker == COMMIT)
            under_way = []
        elif written.transactional:
            under_way.append(written.base_offset)
    return fates, under_way[0] if under_way else None


def kept_by_compaction(batches: Sequence[Written], start: int) -> dict[int, Row]:
    """Return the records from offset `start` on that every compaction keeps: the last one of each key, by offset.

    Markers, records of aborted transactions and records that delete their key may go.
    """
    fates, _ = transactions(batches)
    rows: dict[int, Row] = {}
    for written in batches:
        if written.marker is None and fates.get(written.base_offset) is not False:
            rows |= {o: row for o, row in enumerate(written.rows, written.base_offset) if o >= start}
    latest = {row[0]: offset for offset, row in rows.items()}
    return {offset: row for offset, row in rows.items() if latest[row[0]] == offset and row[1] is not None}


ABSENT = Promise(may_exist=False)
Promises = Mapping[TopicPartition, Promise]


class Timeline:
    """The promises of all partitions, by the number of changes that the disk had seen when they came to hold."""

    def __init__(self, promises: Promises) -> None:
        self.now = dict(promises)
        self._times = [0]
        self._promises = [dict(promises)]

    def put(self, time: int, partition: TopicPartition, **changes: Any) -> None:
        """Let these fields of a partition's promise be so from `time` on."""
        self.replace(time, partition, replace(self.now.get(partition, ABSENT), **changes))

    def replace(self, time: int, partition: TopicPartition, promise: Promise) -> None:
        """Let this be the promise of a partition from `time` on."""
        self.now[partition] = promise
        if time != self._times[-1]:
            self._times.append(time)
            self._promises.append({})
        self._promises[-1] = dict(self.now)

    def at(self, time: int) -> Promises:
        """Return what holds after so many changes of the disk."""
        return self._promises[bisect_right(self._times, time) - 1]


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = FIRST_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class Author:
    """Makes up batches, no two of them alike."""

    def __init__(self, random: Random, clock: FakeClock) -> None:
        self.random = random
        self._clock = clock
        self._serial = count()
        self._sequences: dict[int, int] = {}

    def write(self, before: Sequence[Written], base_offset: int, *, records_max: int, bytes_max: int) -> Written:
        """Return a batch of a few records, for this offset, behind others; when sealed not above `bytes_max` bytes."""
        _, open_from = transactions(before)
        if open_from is not None and self.random.random() < 0.35:
            return self._end_of_transaction(base_offset)
        rows = [self._row() for _ in range(self.random.randint(1, records_max))]
        while len(rows) > 1 and HEADER_SIZE + sum(_record_size(row) for row in rows) > bytes_max:
            rows.pop()
        if self.random.random() < (0.4 if open_from is not None else 0.1):
            return Written(base_offset, tuple(rows), self._next(_TRANSACTIONAL, len(rows)), transactional=True)
        producer_id = self.random.choice((-1, -1, -1, -1, 7, 8))
        return Written(base_offset, tuple(rows), self._next(producer_id, len(rows)))

    def _end_of_transaction(self, base_offset: int) -> Written:
        kind = self.random.choice((COMMIT, ABORT))
        row = (struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), self._clock.ms)
        return Written(base_offset, (row,), (_TRANSACTIONAL, 0, -1), transactional=True, marker=kind)

    def _next(self, producer_id: int, count: int) -> tuple[int, int, int]:
        """Return id, epoch and first sequence of the next batch of a producer; -1 is none."""
        if producer_id < 0:
            return -1, -1, -1
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        return producer_id, 0, sequence

    def _row(self) -> Row:
        key = b"key-%d" % self.random.randrange(5)
        value = b"%d:%s" % (next(self._serial), self.random.randbytes(self.random.choice((0, 5, 20, 60, 200, 700))))
        is_tombstone = self.random.random() < 0.1
        return key, None if is_tombstone else value, self._clock.ms + self.random.randint(-50, 50)


def _record_size(row: Row) -> int:
    return RECORD_OVERHEAD_MAX + 10 + len(row[1] or b"")
