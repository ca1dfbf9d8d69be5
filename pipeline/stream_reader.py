"""The stream reader: the offsets of a stream, the end of its next micro-batch, and the tasks of one.

An offset of the stream is a JSON object, `{"orders": {"0": 42}}`, as in Spark's Kafka source. Spark stores it in the
checkpoint; the only state here is the end at which `availableNow` was requested. A partition that is created later is
read from its beginning. Without a starting offset a stream begins at the earliest record, because Spark asks again for
the start if the first batch did not complete, and the latest offset would be another one by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from offsetfs.pipeline.log_directories import ScanDirectories, opened
from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.pipeline.reader import read, splits_of
from offsetfs.pipeline.scan_range import DataLoss, Range, check_named, selected, start_of, view_of
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import UnknownPartition

Offsets = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, reads them in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType, *, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._schema = schema
        self._now = now
        self._target: Offsets | None = None
        self._triggered: float | None = None  # when a micro-batch was last let go, by `now`

    def initialOffset(self) -> Offsets:
        with opened(self._options.paths, self._options.access) as directory:
            partitions = selected(directory, self._options.selection)
            check_named(partitions, self._options.start, "starting")
            found: Offsets = {}
            for each in partitions:
                start = start_of(view_of(directory, each, self._options), self._options)
                found.setdefault(each.topic, {})[str(each.partition)] = start
            return found

    def getDefaultReadLimit(self) -> ReadLimit:
        least, most = self._options.records_per_trigger_min, self._options.records_per_trigger_max
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        end = self._target if self._target is not None else self._ends()
        with opened(self._options.paths, self._options.access) as directory:
            begins = self._begins(directory, start, end)
        if self._waits(begins, end, limit):
            return start
        return _limited(begins, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else _no_less(begins, end)

    def _waits(self, begins: Offsets, end: Offsets, limit: ReadLimit) -> bool:
        """Whether more records must arrive before the next micro-batch: as in Kafka's source not for the first one, and
        at most for `maxTriggerDelay`. A limit of "all" means that the stream is about to end.
        """
        least, now = self._options.records_per_trigger_min, self._now()
        if least is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        is_early = self._triggered is not None and now - self._triggered < self._options.trigger_delay_max_ms / 1000
        if is_early and sum(_ahead(begins, end).values()) < least:
            return True
        self._triggered = now
        return False

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def reportLatestOffset(self) -> Offsets:
        return self._ends()

    def _ends(self) -> Offsets:
        found: Offsets = {}
        with opened(self._options.paths, self._options.access) as directory:
            for each in selected(directory, self._options.selection):
                end = view_of(directory, each, self._options).end_offset()
                found.setdefault(each.topic, {})[str(each.partition)] = end
        return found

    def _begins(self, directory: ScanDirectories, start: Offsets, end: Offsets) -> Offsets:
        """Return the offset at which each partition of `end` is read next: a new one from its log start.

        A new partition that was deleted since has nothing left to read; `partitions` reports it.
        """
        begins: Offsets = {}
        for topic, numbers in end.items():
            for number, stop in numbers.items():
                left = start.get(topic, {}).get(number)
                if left is None:
                    try:
                        left = directory.log(TopicPartition(topic, int(number))).log_start_offset
                    except UnknownPartition:
                        left = stop
                begins.setdefault(topic, {})[number] = left
        return begins

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        with opened(self._options.paths, self._options.access) as directory:
            begins = self._begins(directory, start, end)
            self._check_none_is_gone(start, end)
            ranges = [
                self._range(directory, Range(topic, int(number), begins[topic][number], stop))
                for topic, numbers in sorted(end.items())
                for number, stop in sorted(numbers.items(), key=lambda each: int(each[0]))
            ]
            return splits_of(directory, [each for each in ranges if each.start < each.end], self._options)

    def _check_none_is_gone(self, start: Offsets, end: Offsets) -> None:
        for topic, each in start.items():
            for number in each:
                if number not in end.get(topic, {}):
                    self._lose(TopicPartition(topic, int(number)))

    def _lose(self, partition: TopicPartition) -> None:
        """Raise `DataLoss` for a partition that was deleted, unless the query permits losses."""
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{partition} was deleted while it was followed; failOnDataLoss=false goes on")

    def _range(self, directory: ScanDirectories, wanted: Range) -> Range:
        """Return the remaining part of a range.

        `DataLoss` if retention removed records, or if the log was truncated, deleted or created again.
        """
        try:
            log = directory.log(wanted.name)
        except UnknownPartition:
            self._lose(wanted.name)
            return Range(wanted.topic, wanted.partition, wanted.end, wanted.end)
        start = max(wanted.start, log.log_start_offset)
        end = min(wanted.end, log.next_offset)
        if (start > wanted.start or end < wanted.end) and self._options.fails_on_data_loss:
            raise DataLoss(
                f"{wanted.name}: the stream goes from {wanted.start} to {wanted.end}, and there is {start} to {end};"
                " failOnDataLoss=false reads what is there"
            )
        return Range(wanted.topic, wanted.partition, start, max(end, start))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(partition, self._options, self._schema)

    def commit(self, end: Offsets) -> None:
        """Do nothing: the checkpoint has the offsets."""

    def stop(self) -> None:
        """Do nothing: no file is open between calls."""


def _no_less(begins: Offsets, end: Offsets) -> Offsets:
    """Return `end`, but not below `begins`: `partitions` reports a truncated log."""
    return {
        topic: {number: max(stop, begins[topic][number]) for number, stop in each.items()}
        for topic, each in end.items()
    }


def _ahead(begins: Offsets, end: Offsets) -> dict[tuple[str, str], int]:
    """Return how many offsets each partition has left."""
    return {
        (topic, number): max(stop - begins[topic][number], 0)
        for topic, each in end.items()
        for number, stop in each.items()
    }


def _limited(begins: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """Return the offsets after about `rows_max` records, divided by how many each partition has left."""
    ahead = _ahead(begins, end)
    total = sum(ahead.values())
    if total <= rows_max:
        return _no_less(begins, end)
    left, reached = rows_max, {topic: dict(each) for topic, each in begins.items()}
    for (topic, number), waiting in sorted(ahead.items(), key=lambda each: each[1]):
        if waiting:
            share = min(waiting, max(left * waiting // total, 1), left)
            reached[topic][number] += share
            left, total = left - share, total - waiting
    return reached
