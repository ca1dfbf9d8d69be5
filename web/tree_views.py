"""What the page shows of a log directory, its topics and partitions, as JSON: names, offsets, sizes, times, settings.

Names and sizes of all topics come from one survey of the directories, without opening a log. Times come from time
indexes. A number that is not known is None, never zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from offsetfs.answers.doctor.survey import PartitionSurvey, survey
from offsetfs.storage import (
    INTERNAL_TOPICS,
    LOG_APPEND_TIME,
    METADATA_TOPIC,
    Log,
    LogDirectories,
    LogReader,
    LogView,
    TopicPartition,
)
from offsetfs.storage.directory import LOG_STARTS
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.storage.maintenance import dirty_range, kept_files
from offsetfs.storage.segments import Segment
from offsetfs.web.http_server import HttpError

SEGMENTS_MAX = 2000
"""The segments of a partition that are shown, the newest ones."""
ABORTED_MAX = 1000
"""The aborted transactions of a partition that are shown, the first ones."""
LOOKUPS_MAX = 2000
"""The look-ups in time indexes for one histogram."""
BARS_MIN = 8

Value = TypeVar("Value")
Json = dict[str, Any]


def overview(directory: LogDirectories) -> Json:
    """Return all topics, by name, with sums over their partitions. OSError if a directory cannot be listed."""
    found: defaultdict[str, list[tuple[PartitionSurvey, int]]] = defaultdict(list)
    unreadable: defaultdict[str, int] = defaultdict(int)
    for log_directory in directory.directories:
        surveyed = survey(log_directory.path)
        starts = surveyed.checkpoints.get(LOG_STARTS, {})
        for partition in surveyed.partitions:
            found[partition.partition.topic].append((partition, starts.get(partition.partition, 0)))
        for name in surveyed.unreadable:
            unreadable[name.topic] += 1
    return {
        "directory": directory.path,
        "topics": [_topic_sums(name, found[name], unreadable[name]) for name in sorted({*found, *unreadable})],
        "left_out": [f"{path}: {sentence(error)}" for path, error in directory.failures.items()],
    }


def _topic_sums(topic: str, found: Sequence[tuple[PartitionSurvey, int]], unreadable: int) -> Json:
    ranges = [_range_of(partition, start) for partition, start in found]
    latest = [segment.latest[0] for partition, _ in found for segment in partition.segments if segment.latest]
    return {
        "topic": topic,
        "is_internal": topic in INTERNAL_TOPICS or topic == METADATA_TOPIC,
        "partitions": len(found) + unreadable,
        "unreadable": unreadable,
        "size_bytes": sum(partition.bytes for partition, _ in found),
        "segments": sum(len(partition.segments) for partition, _ in found),
        "offsets": _sum(ranges),
        "latest_ms": max(latest, default=None),
    }


def _range_of(partition: PartitionSurvey, start: int) -> int | None:
    if not partition.segments or partition.end is None:
        return None
    return max(partition.end - max(start, partition.segments[0].base), 0)


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


# --- a topic ---------------------------------------------------------------------------------------------------------


def partitions_of(directory: LogDirectories, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic; `HttpError` if there is none."""
    partitions = directory.partitions_of(topic)
    if not partitions:
        raise HttpError(404, f"there is no topic {topic}: the overview lists the topics")
    return partitions


def log_of(directory: LogDirectories, name: TopicPartition) -> Log:
    """Return a log with what other processes wrote. `HttpError` if there is no such partition; StorageError; OSError.

    404 is also the answer if it is deleted at this moment.
    """
    if not directory.has(name):
        raise HttpError(404, f"there is no partition {name}: the page of its topic lists the partitions")
    log = directory.log(name)
    log.refresh(is_forced=True)
    return directory.log(name) if log.is_gone else log


def topic_view(directory: LogDirectories, topic: str) -> Json:
    """Return the partitions of a topic, and its settings with their origin."""
    names = partitions_of(directory, topic)
    own, of_cluster = directory.settings_of(topic), directory.explicit_settings_of(topic)
    settings = directory.config_of(topic).properties()
    return {
        "topic": topic,
        "partitions": [_partition_row(directory, name) for name in names],
        "settings": [
            {
                "name": name,
                "value": value,
                "origin": "topic" if name in own else "cluster" if name in of_cluster else "default",
            }
            for name, value in sorted(settings.items())
        ],
    }


def _partition_row(directory: LogDirectories, name: TopicPartition) -> Json:
    row: Json = {"partition": name.partition}
    try:
        log = log_of(directory, name)
        return {**row, **_log_facts(log), "error": None}
    except (StorageError, OSError, HttpError) as error:
        unknown = ("start_offset", "end_offset", "high_watermark", "size_bytes", "segments", "latest_ms", "damaged")
        reason = error.message if isinstance(error, HttpError) else sentence(error)
        return {**row, **dict.fromkeys(unknown), "remote_note": None, "error": reason}


def _log_facts(log: Log) -> Json:
    latest = _latest_ms(log)
    return {
        "start_offset": log.log_start_offset,
        "end_offset": log.log_end_offset(),
        "high_watermark": log.high_watermark,
        "size_bytes": log.size_bytes,
        "segments": len(log.snapshot()),
        "latest_ms": latest,
        "damaged": len(log.damage),
        "remote_note": log.remote_note,
    }


def _known(question: Callable[[], Value]) -> Value | None:
    """Return an answer; None if damage is in its way, which other views report."""
    try:
        return question()
    except (StorageError, OSError):
        return None


# --- records by time -------------------------------------------------------------------------------------------------


def histogram(
    directory: LogDirectories, names: Sequence[TopicPartition], start_ms: int | None, stop_ms: int | None, bars: int
) -> Json:
    """Return how many offsets and about how many bytes lie between times, by look-ups in the indexes.

    The first record at or after a time bounds a bar, so that records that came late count for the time before them.
    Of a topic with many partitions there are fewer bars; of one with very many, only the first partitions count.
    """
    looked_at = names[: LOOKUPS_MAX // BARS_MIN]
    bars = max(min(bars, LOOKUPS_MAX // max(len(looked_at), 1)), BARS_MIN)
    unseen = [f"{len(names) - len(looked_at)} more partitions"] if len(looked_at) < len(names) else []
    logs: list[Log] = []
    for name in looked_at:
        try:
            logs.append(log_of(directory, name))
        except (StorageError, OSError, HttpError) as error:
            unseen.append(f"{name}: {error}")
    low = start_ms if start_ms is not None else min(_times(_first_ms, logs), default=None)
    high = stop_ms if stop_ms is not None else max(_times(_latest_ms, logs), default=-1) + 1
    if low is None or low >= high:
        return {"bars": [], "partitions": len(logs), "unseen": unseen}
    bars = min(bars, high - low)
    bounds = [low + (high - low) * number // bars for number in range(bars + 1)]
    counts, sizes = [0] * bars, [0] * bars
    for log in logs:
        try:
            view = LogView(log)
            offsets = [_offset_at(view, bound) for bound in bounds]
            places = [_bytes_before(log, offset) for offset in offsets]
        except (StorageError, OSError) as error:
            unseen.append(f"{log.partition}: {sentence(error)}")
            continue
        for number in range(bars):
            counts[number] += max(offsets[number + 1] - offsets[number], 0)
            sizes[number] += max(places[number + 1] - places[number], 0)
    return {
        "bars": [
            {"start_ms": first, "stop_ms": stop, "offsets": count, "size_bytes": size}
            for (first, stop), count, size in zip(pairwise(bounds), counts, sizes, strict=True)
        ],
        "partitions": len(logs),
        "unseen": unseen,
    }


def _times(question: Callable[[Log], int | None], logs: Sequence[Log]) -> list[int]:
    return [time for time in map(question, logs) if time is not None]


def _first_ms(log: Log) -> int | None:
    """Return the time of the first record that has one."""
    found = _known(lambda: LogView(log).find_timestamp(0))
    return None if found is None else found[1]


def _latest_ms(log: Log) -> int | None:
    """Return the largest time."""
    found = _known(log.max_timestamp)
    return None if found is None or found[1] < 0 else found[1]


def _offset_at(view: LogView, time: int) -> int:
    found = view.find_timestamp(time)
    return view.end_offset() if found is None else found[0]


def _bytes_before(log: Log, offset: int) -> int:
    """Return the bytes before an offset, to an interval of the offset index: differences add up to the log."""
    return LogReader(log, start=log.log_start_offset, stop=offset).size_bytes() if offset > log.log_start_offset else 0


# --- a partition -----------------------------------------------------------------------------------------------------


def partition_view(directory: LogDirectories, name: TopicPartition) -> Json:
    """Return the segments of a partition, and what is to be seen on them: index entries, gaps, aborts, damage."""
    log = log_of(directory, name)
    segments = [*log.snapshot()]
    shown = segments[-SEGMENTS_MAX:]
    end = log.log_end_offset()
    ends = [segment.base_offset for segment in shown[1:]] + [end]
    aborted = _known(lambda: log.aborted_in_indexes(log.log_start_offset, end))
    dirty = _known(lambda: dirty_range(directory.directory_of(name), log))
    return {
        "topic": name.topic,
        "partition": name.partition,
        **_log_facts(log),
        "last_stable_offset": _known(log.last_stable_offset),
        "segments": [_segment_row(segment, stop) for segment, stop in zip(shown, ends, strict=True)],
        "segments_left_out": len(segments) - len(shown),
        "aborted": None
        if aborted is None
        else [
            {"producer_id": producer, "first_offset": first, "marker_offset": marker}
            for producer, first, marker in aborted[:ABORTED_MAX]
        ],
        "aborted_left_out": 0 if aborted is None else max(len(aborted) - ABORTED_MAX, 0),
        "damage": [
            {"path": damage.path, "position": damage.position, "offset": damage.offset, "reason": damage.reason}
            for damage in log.damage
        ],
        "compaction": None if dirty is None else dirty.fields(),
        "cut": kept_files(log.path),
    }


def _segment_row(segment: Segment, stop: int) -> Json:
    """Return a segment that reaches to the offset `stop`, where the next one begins or the log ends."""
    latest = _known(segment.max_timestamp)
    following = _known(lambda: _following(segment))
    entries = _known(lambda: _entries(segment))
    return {
        "base_offset": segment.base_offset,
        "end_offset": following,
        "missing_behind": None if following is None else max(stop - following, 0),
        "size_bytes": segment.size,
        "first_ms": _known(lambda: _first_of(segment)),
        "latest_ms": None if latest is None or latest[0] < 0 else latest[0],
        "index_entries": None if entries is None else entries[0],
        "time_index_entries": None if entries is None else entries[1],
    }


def _first_of(segment: Segment) -> int | None:
    """Return the time of the first record that is left; of LogAppendTime, of its batch."""
    for _, header in segment.headers():
        if header.timestamp_type == LOG_APPEND_TIME:
            return header.max_timestamp
        # The cleaner stores the time of a deletion in place of the first record's.
        return None if header.has_delete_horizon or header.base_timestamp < 0 else header.base_timestamp
    return None


def _following(segment: Segment) -> int:
    """Return the offset after the last batch, whose header is near to the last index entry."""
    end = segment.base_offset
    for _, header in _last_headers(segment):
        end = header.next_offset
    return end


def _last_headers(segment: Segment) -> Iterator[Any]:
    return segment.headers(segment.last_indexed_position())


def _entries(segment: Segment) -> tuple[int, int]:
    opened = segment.open_files()
    return opened.index.count, opened.time_index.count
