"""The ranges of partitions that a query reads: resolved once, then frozen.

An offset is resolved as Spark's Kafka source resolves it: a time for the whole query before times of partitions before
offsets. A user who names offsets or times partition by partition names every partition that is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from offsetfs.common.name_patterns import NamePattern
from offsetfs.pipeline.log_directories import ScanDirectories
from offsetfs.pipeline.read_options import EARLIEST, Bound, ByPartition, OptionError, ReadOptions, Selection
from offsetfs.storage import INTERNAL_TOPICS, Log, LogView, TopicPartition

_log = logging.getLogger(__name__)


class DataLoss(Exception):
    """Requested records do not exist, or no longer; `failOnDataLoss=false` reads the rest."""


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The offsets `[start, end)` of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = field(default=None, compare=False)
    """The id of the topic when the range was planned; None: unknown, as in plans of earlier versions."""

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def ends_of(ranges: Iterable[Range]) -> dict[TopicPartition, int]:
    """Return the offset before which each partition of some ranges is read."""
    ends: dict[TopicPartition, int] = {}
    for part in ranges:
        ends[part.name] = max(part.end, ends.get(part.name, 0))
    return ends


def selected(directory: ScanDirectories, selection: Selection) -> list[TopicPartition]:
    """Return the selected partitions, sorted. `OptionError` if a named partition does not exist."""
    present = directory.partitions()
    if selection.partitions:
        wanted = sorted(TopicPartition(*pair) for pair in selection.partitions)
        missing = [partition for partition in wanted if partition not in present]
        if missing:
            raise OptionError(f"option assign: {directory.path} has no partition {missing[0]}")
        return wanted
    if selection.topics:
        missing_topics = set(selection.topics) - {partition.topic for partition in present}
        if missing_topics:
            raise OptionError(f"option subscribe: {directory.path} has no topic {min(missing_topics)}")
        return [partition for partition in present if partition.topic in selection.topics]
    if selection.pattern is not None:
        pattern = NamePattern(selection.pattern)
        return [partition for partition in present if pattern.fullmatch(partition.topic)]
    return [partition for partition in present if partition.topic not in INTERNAL_TOPICS]


def is_another(present: str | None, known: str | None) -> bool:
    """Whether two topic ids are those of different topics; None: unknown."""
    return present is not None and known is not None and present != known


def lose_topic(name: TopicPartition, options: ReadOptions) -> None:
    """Raise `DataLoss` for a partition of a topic that was created again, unless the query permits losses."""
    if options.fails_on_data_loss:
        raise DataLoss(f"{name}: the topic was deleted and created again; failOnDataLoss=false goes on")


def view_of(directory: ScanDirectories, partition: TopicPartition, options: ReadOptions) -> LogView:
    """Return a partition as the query's isolation level sees it."""
    return LogView(directory.log(partition), is_committed_only=options.is_committed_only)


def resolve(directory: ScanDirectories, options: ReadOptions) -> list[Range]:
    """Return what a batch query reads. `OptionError`, `DataLoss`; empty ranges are left out."""
    partitions = selected(directory, options.selection)
    for which, bound in ("starting", options.start), ("ending", options.end):
        check_named(partitions, bound, which)
    ranges = []
    for partition in partitions:
        view = view_of(directory, partition, options)
        start, end = start_of(view, options), end_of(view, options)
        if start > end and options.fails_on_data_loss:
            raise DataLoss(
                f"{partition}: the range ends at offset {end}, before its start {start};"
                " failOnDataLoss=false reads nothing there"
            )
        if start < end:
            ranges.append(Range(partition.topic, partition.partition, start, end, directory.topic_id(partition)))
    return ranges


def check_named(partitions: list[TopicPartition], bound: Bound, which: str) -> None:
    """Raise `OptionError` if partitions are named one by one, and they are not exactly those that are read."""
    read = {(partition.topic, partition.partition) for partition in partitions}
    for name, named in ("Offsets", bound.offsets), ("OffsetsByTimestamp", bound.timestamps_ms):
        if named is None:
            continue
        different = sorted(read ^ set(named))
        if different:
            topic, number = different[0]
            fault = "does not name" if different[0] in read else "names, though it is not read,"
            raise OptionError(f"option {which}{name} {fault} {topic}-{number}")


def start_of(view: LogView, options: ReadOptions) -> int:
    """Return the offset where reading the partition begins.

    Logs a warning if it is the first offset in the files, and older records are only in remote storage.
    """
    start = _start_of(view, options)
    _warn_of_remote(view.log, start)
    return start


def _warn_of_remote(log: Log, start: int) -> None:
    if log.remote_note is not None and start <= log.log_start_offset:
        first = log.log_start_offset
        _log.warning("offsetfs: %s: %s; reading begins at offset %d", log.partition, log.remote_note, first)


def _start_of(view: LogView, options: ReadOptions) -> int:
    log, bound = view.log, options.start
    timestamp = _timestamp_of(view, bound)
    if timestamp is not None:
        first = view.find_timestamp(timestamp)
        if first is None and options.without_time == "error":
            raise OptionError(
                f"{log.partition} has no record at or after {timestamp}; startingOffsetsByTimestampStrategy=latest"
                " begins at its end then"
            )
        return view.end_offset() if first is None else max(first[0], log.log_start_offset)
    return _within(view, _offset_of(view, bound), options)


def end_of(view: LogView, options: ReadOptions) -> int:
    """Return the offset before which reading the partition ends."""
    timestamp = _timestamp_of(view, options.end)
    if timestamp is not None:
        first = view.find_timestamp(timestamp)
        return view.end_offset() if first is None else first[0]
    return _within(view, _offset_of(view, options.end), options)


def _timestamp_of(view: LogView, bound: Bound) -> int | None:
    return bound.timestamp_ms if bound.timestamp_ms is not None else _named(bound.timestamps_ms, view)


def _offset_of(view: LogView, bound: Bound) -> int:
    offset = _named(bound.offsets, view)
    offset = bound.default if offset is None else offset
    if offset >= 0:
        return offset
    return view.log.log_start_offset if offset == EARLIEST else view.end_offset()


def _named(named: ByPartition | None, view: LogView) -> int | None:
    partition = view.log.partition
    return None if named is None else named.get((partition.topic, partition.partition))


def _within(view: LogView, offset: int, options: ReadOptions) -> int:
    """Return the offset if the partition has it; else the nearest one, unless that is a loss."""
    first, last = view.log.log_start_offset, view.end_offset()
    if not first <= offset <= last and options.fails_on_data_loss:
        fault = "is below the first one left" if offset < first else "is beyond the end"
        raise DataLoss(
            f"{view.log.partition}: offset {offset} {fault}, {first if offset < first else last};"
            " failOnDataLoss=false reads what is there"
        )
    return min(max(offset, first), last)
