"""The batch reader and the stream reader: their ranges, and the tasks that read them.

A DataFrame is a snapshot: Spark asks for the tasks once, and what is appended afterwards is not in it. Filters are not
pushed down: Spark 4.1 to 4.3 keep a pushed filter for later queries of the same DataFrame.

An offset of a stream is a JSON object, `{"orders": {"0": 42}}`, as in Spark's Kafka source, and the topic ids of the
partitions under a name that no topic has, `"~topicIds": {"orders": {"0": "…"}}`; with decoded values and keys, their
types under `"~columns"` and `"~keyColumns"`. Spark stores it in the checkpoint; the only state here is the end at which
`availableNow` was requested. A partition that is created later is read from its beginning. Without a starting offset a
stream begins at the earliest record, because Spark asks again for the start if the first batch did not complete, and
the latest offset would have changed by then.

A topic with another id than in the checkpoint was deleted and created again. Its offsets are those of other records:
the stream ends (`DataLoss`), or with `failOnDataLoss=false` reads the new topic from its beginning. So it does where
the log ends below the offset of the checkpoint, which has no other explanation if ids are not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from offsetfs.pipeline.log_directories import ScanDirectories, opened
from offsetfs.pipeline.read_options import COLUMNS, KEY_COLUMNS, TOPIC_IDS, ReadOptions
from offsetfs.pipeline.scan_range import (
    DataLoss,
    Range,
    check_named,
    is_another,
    lose_topic,
    resolve,
    selected,
    start_of,
    view_of,
)
from offsetfs.pipeline.splits import cut
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import UnknownPartition

if TYPE_CHECKING:
    from offsetfs.pipeline.decoding import DecodingPlan, PlannedDecoding

Offsets = dict[str, dict[str, int]]
Ids = dict[str, dict[str, str]]
StreamOffset = dict[str, dict[str, Any]]
"""An offset of the stream as Spark stores it: offsets, topic ids under `TOPIC_IDS`, types under `COLUMNS`."""


class Split(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: tuple[Range, ...], decoding: PlannedDecoding | None = None) -> None:
        self.ranges = ranges
        self.decoding = decoding

    def __repr__(self) -> str:
        return f"Split({', '.join(f'{part.name}[{part.start}, {part.end})' for part in self.ranges)})"


class _TaskReader:
    """The part of both readers that runs in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._plan: DecodingPlan | None = None
        if options.decodes:
            from offsetfs.pipeline.decoding import DecodingPlan

            with opened(options.paths, options.access) as directory:
                self._plan = DecodingPlan(options, schema, directory)

    def _splits(self, directory: ScanDirectories, ranges: list[Range]) -> list[InputPartition]:
        decoding = None if self._plan is None else self._plan.planned(directory)
        return splits_of(directory, ranges, self._options, decoding)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a task needs: the plan is the driver's, and has the schemas once more."""
        return {**self.__dict__, "_plan": None}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow batches."""
        from offsetfs.pipeline.scan import scan
        from offsetfs.pipeline.schema import arrow_schema
        from offsetfs.pipeline.task_process import settle

        assert isinstance(partition, Split)
        settle()
        return scan(partition.ranges, self._options, arrow_schema(self._schema), partition.decoding)


class Reader(_TaskReader, DataSourceReader):
    """Plans in the driver, reads in the tasks."""

    def partitions(self) -> list[InputPartition]:
        # Opened for planning only: the tasks run in other processes and open the directory themselves.
        with opened(self._options.paths, self._options.access) as directory:
            return self._splits(directory, resolve(directory, self._options))


def splits_of(
    directory: ScanDirectories, ranges: list[Range], options: ReadOptions, decoding: PlannedDecoding | None = None
) -> list[InputPartition]:
    """Return the tasks that read the ranges."""
    tasks = cut(
        directory,
        ranges,
        splits_min=options.splits_min,
        bytes_per_split=options.bytes_per_split,
        records_per_split_max=options.records_per_split_max,
    )
    return [Split(parts, decoding) for parts in tasks] or [Split(())]


class StreamReader(_TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, reads them in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType, *, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(options, schema)
        self._columns: dict[str, dict[str, str]] = {}
        """The types of values and keys, by their names in an offset."""
        if options.decodes:
            from offsetfs.pipeline.kept_columns import described_columns

            names = {"value": COLUMNS, "key": KEY_COLUMNS}
            shown = (field for field in schema.fields if field.name in names)
            self._columns = {names[field.name]: described_columns(field.dataType) for field in shown}
        self._now = now
        self._target: StreamOffset | None = None
        self._triggered: float | None = None  # when a micro-batch was last let go, by `now`

    def initialOffset(self) -> StreamOffset:
        with opened(self._options.paths, self._options.access) as directory:
            partitions = selected(directory, self._options.selection)
            check_named(partitions, self._options.start, "starting")
            offsets = {
                partition: start_of(view_of(directory, partition, self._options), self._options)
                for partition in partitions
            }
            return self._with_columns(_stream_offset(directory, offsets))

    def _with_columns(self, offset: StreamOffset) -> StreamOffset:
        return {**offset, **self._columns}

    def _check_columns(self, start: StreamOffset) -> None:
        """Raise `OptionError` if the stream had other types before a restart."""
        if COLUMNS not in start:
            return
        from offsetfs.pipeline.kept_columns import check_columns

        for name, column in ((COLUMNS, "value"), (KEY_COLUMNS, "key")):
            if name in self._columns:  # before keys were decoded, they were binary
                check_columns(start.get(name, {"": "binary"}), self._columns[name], column)

    def getDefaultReadLimit(self) -> ReadLimit:
        least, most = self._options.records_per_trigger_min, self._options.records_per_trigger_max
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        self._check_columns(start)
        target = self._target if self._target is not None else self._ends()
        with opened(self._options.paths, self._options.access) as directory:
            begins = self._begins(directory, start, target)
        end = _offsets(target)
        if self._waits(begins, end, limit):
            return start
        reached = _limited(begins, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else _no_less(begins, end)
        return self._with_columns(_with_ids(reached, target.get(TOPIC_IDS, {})))

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

    def reportLatestOffset(self) -> StreamOffset:
        return self._ends()

    def _ends(self) -> StreamOffset:
        with opened(self._options.paths, self._options.access) as directory:
            partitions = selected(directory, self._options.selection)
            ends = {partition: view_of(directory, partition, self._options).end_offset() for partition in partitions}
            return self._with_columns(_stream_offset(directory, ends))

    def _begins(self, directory: ScanDirectories, start: StreamOffset, end: StreamOffset) -> Offsets:
        """Return the offset at which each partition of `end` is read next. `DataLoss` as of the module."""
        begins: Offsets = {}
        for topic, numbers in _offsets(end).items():
            for number, stop in numbers.items():
                name = TopicPartition(topic, int(number))
                is_again = is_another(_id_of(end, name), _id_of(start, name))
                begins.setdefault(topic, {})[number] = self._begin(
                    directory, name, start.get(topic, {}).get(number), stop, is_again=is_again
                )
        return begins

    def _begin(
        self, directory: ScanDirectories, name: TopicPartition, left: int | None, stop: int, *, is_again: bool
    ) -> int:
        """Return where a partition is read next up to `stop`: a new one, and one created again, from its log start.

        One that was deleted since has nothing left to read; `partitions` reports it.
        """
        if left is not None and left <= stop and not is_again:
            return left
        try:
            log_start = directory.log(name).log_start_offset
        except UnknownPartition:
            return stop
        if is_again:
            lose_topic(name, self._options)
        elif left is not None:
            self._lose_end(name, left, stop)
        return min(log_start, stop)

    def _lose_end(self, name: TopicPartition, left: int, end: int) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(
                f"{name}: the stream goes on at {left}, and the log ends at {end}: it was cut, or the topic was created"
                " again; failOnDataLoss=false reads it from its beginning"
            )

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        self._check_columns(start)
        with opened(self._options.paths, self._options.access) as directory:
            begins = self._begins(directory, start, end)
            self._check_none_is_gone(_offsets(start), end)
            ranges = [
                self._range(directory, Range(topic, int(number), begins[topic][number], stop, _id_of(end, name)))
                for topic, numbers in sorted(_offsets(end).items())
                for number, stop in sorted(numbers.items(), key=lambda item: int(item[0]))
                for name in (TopicPartition(topic, int(number)),)
            ]
            return self._splits(directory, [part for part in ranges if part.start < part.end])

    def _check_none_is_gone(self, start: Offsets, end: StreamOffset) -> None:
        for topic, numbers in start.items():
            for number in numbers:
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
        nothing = replace(wanted, start=wanted.end)
        try:
            log = directory.log(wanted.name)
        except UnknownPartition:
            self._lose(wanted.name)
            return nothing
        if is_another(directory.topic_id(wanted.name), wanted.topic_id):
            lose_topic(wanted.name, self._options)
            return nothing
        start = max(wanted.start, log.log_start_offset)
        end = min(wanted.end, log.next_offset)
        if (start > wanted.start or end < wanted.end) and self._options.fails_on_data_loss:
            raise DataLoss(
                f"{wanted.name}: the stream goes from {wanted.start} to {wanted.end}, and there is {start} to {end};"
                " failOnDataLoss=false reads what is there"
            )
        return replace(wanted, start=start, end=max(end, start))

    def commit(self, end: StreamOffset) -> None:
        """Do nothing: the checkpoint has the offsets."""

    def stop(self) -> None:
        """Do nothing: no file is open between calls."""


def _stream_offset(directory: ScanDirectories, offsets: Mapping[TopicPartition, int]) -> StreamOffset:
    """Return an offset of the stream, with the topic ids of its partitions as they are now."""
    by_topic: Offsets = {}
    ids: Ids = {}
    for name, offset in offsets.items():
        by_topic.setdefault(name.topic, {})[str(name.partition)] = offset
        topic_id = directory.topic_id(name)
        if topic_id is not None:
            ids.setdefault(name.topic, {})[str(name.partition)] = topic_id
    return _with_ids(by_topic, ids)


def _with_ids(offsets: Offsets, ids: Ids) -> StreamOffset:
    return {**offsets, TOPIC_IDS: ids} if ids else {**offsets}


def _offsets(offset: StreamOffset) -> Offsets:
    return {topic: numbers for topic, numbers in offset.items() if topic not in (TOPIC_IDS, COLUMNS, KEY_COLUMNS)}


def _id_of(offset: StreamOffset, name: TopicPartition) -> str | None:
    """Return the topic id of a partition; None if it has none, or the checkpoint is of an earlier version."""
    topic_id: str | None = offset.get(TOPIC_IDS, {}).get(name.topic, {}).get(str(name.partition))
    return topic_id


def _no_less(begins: Offsets, end: Offsets) -> Offsets:
    """Return `end`, but not below `begins`: `partitions` reports a truncated log."""
    return {
        topic: {number: max(stop, begins[topic][number]) for number, stop in numbers.items()}
        for topic, numbers in end.items()
    }


def _ahead(begins: Offsets, end: Offsets) -> dict[tuple[str, str], int]:
    """Return how many offsets each partition has left."""
    return {
        (topic, number): max(stop - begins[topic][number], 0)
        for topic, numbers in end.items()
        for number, stop in numbers.items()
    }


def _limited(begins: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """Return the offsets after about `rows_max` records, divided by how many each partition has left."""
    ahead = _ahead(begins, end)
    total = sum(ahead.values())
    if total <= rows_max:
        return _no_less(begins, end)
    left, reached = rows_max, {topic: dict(numbers) for topic, numbers in begins.items()}
    for (topic, number), waiting in sorted(ahead.items(), key=lambda item: item[1]):
        if waiting:
            share = min(waiting, max(left * waiting // total, 1), left)
            reached[topic][number] += share
            left, total = left - share, total - waiting
    return reached
