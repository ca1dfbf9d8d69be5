"""Rows of a table into the partitions of a log directory, at the offsets that they had.

Batches are appended as a follower appends them, with gaps between their offsets. An interrupted load continues at
the end of each log, which has the first of its rows. `LoadJournal` has the topics of the load.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsetfs.common.name_patterns import NamePattern
from offsetfs.storage import I32_MAX, INTERNAL_TOPICS, OFFSET_MAX, Log, LogDirectory, LogReader, TopicPartition, files
from offsetfs.storage.directory import LOAD_JOURNAL
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import NO_TIMESTAMP, build_at
from offsetfs.tables.databases.layout import TableError
from offsetfs.tables.databases.messages_table import MessagesTable, TableProgress
from offsetfs.tables.databases.record_rows import Headers, headers_of

JOURNAL_BYTES_MAX = 16 << 20
BATCH_BYTES, BATCH_RECORDS = 256 << 10, 4096
"""About how many bytes and records a batch has before compression."""
_SPAN_MAX = I32_MAX
"""The largest difference of two offsets in a batch."""
_ROW_BYTES = 64
ABSENT_PARTITIONS_MAX = 10_000
"""Partitions below the last one without rows and progress, at most: each gets a directory."""
_LEADER_EPOCH = 0

Fields = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers and timestamp of a record."""


@dataclass(frozen=True, slots=True)
class LoadJournal:
    """The topics that a load has begun, in a file, so that the next call continues with them.

        .offsetfs-table-load.json    {"source": "sqlite:///orders.db messages", "topics": ["orders", "users"]}

    The file is written and synced before the first partition is created, and removed when all rows are on disk. A topic
    that is not in it belongs to another origin and is never written to.
    """

    source: str
    """The URL without its password, and the table."""
    topics: tuple[str, ...]


def read_journal(directory: str) -> LoadJournal | None:
    """Return the journal of an unfinished load; None if there is none. TableError, OSError."""
    path = os.path.join(directory, LOAD_JOURNAL)
    try:
        content = json.loads(files.read_file(path, JOURNAL_BYTES_MAX))
        source, topics = content["source"], content["topics"]
        if not isinstance(source, str) or not all(isinstance(topic, str) for topic in topics):
            raise ValueError("it has other values")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} is not the journal of a load: {error}; remove it, and the topics that were loaded"
        ) from None
    return LoadJournal(source, tuple(topics))


def write_journal(directory: str, source: str, topics: Sequence[str]) -> None:
    """Record the topics of a load that begins; on disk after return. OSError."""
    files.replace_file(os.path.join(directory, LOAD_JOURNAL), json.dumps({"source": source, "topics": topics}).encode())


def remove_journal(directory: str) -> None:
    """Record that the load is complete; on disk after return. OSError."""
    files.remove_file(os.path.join(directory, LOAD_JOURNAL))
    files.sync_directory(directory)


def load_table(
    directory: LogDirectory,
    table: MessagesTable,
    patterns: Sequence[NamePattern],
    settings: Mapping[str, str],
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, list[int]]:
    """Load the topics that a pattern matches, a broker's own only if a pattern is their name; return how many records
    each partition has got by this call.

    `settings` are those of the new topics. On disk on return. TableError before anything is changed for topics that
    have records, invalid names, an unfinished load of another table; and at a row that is no record.
    StorageError, OSError.
    """
    progress = table.progress()
    wanted = _wanted(table, patterns, progress)
    begun = _check(directory, table, wanted)
    names = sorted({partition.topic for partition in wanted})
    write_journal(directory.path, _source(table), sorted({*names, *begun}))
    for topic in names:
        _create(directory, topic, wanted, settings, progress)
    loaded: dict[str, list[int]] = {topic: [] for topic in names}
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        on_progress(done)

    for partition in wanted:
        loaded[partition.topic].append(_load_partition(directory.log(partition), table, partition, add))
    incomplete = unfinished_topics(begun, names)
    if incomplete:
        write_journal(directory.path, _source(table), incomplete)
    else:
        remove_journal(directory.path)
    return loaded


def unfinished_topics(begun: Sequence[str], loaded: Collection[str]) -> list[str]:
    """Return the topics of an unfinished load that are not among those that are loaded."""
    return sorted(set(begun) - set(loaded))


def _source(table: MessagesTable) -> str:
    return f"{table.database.identity} {table.name}"


def _wanted(
    table: MessagesTable, patterns: Sequence[NamePattern], progress: Mapping[TopicPartition, TableProgress]
) -> list[TopicPartition]:
    partitions = sorted(
        partition for partition in table.partitions() | progress.keys() if is_wanted(partition.topic, patterns)
    )
    if not partitions:
        raise TableError(f"{table.database.name}: {table.name} has no rows of these topics")
    return partitions


def is_wanted(topic: str, patterns: Sequence[NamePattern]) -> bool:
    """Whether a pattern matches a topic; a broker's own is asked for by its name only."""
    if topic in INTERNAL_TOPICS:
        return any(pattern.pattern == topic for pattern in patterns)
    return any(pattern.fullmatch(topic) for pattern in patterns)


def _check(directory: LogDirectory, table: MessagesTable, wanted: Sequence[TopicPartition]) -> Sequence[str]:
    """Return the topics of an unfinished load of this table. TableError for one of another, and for other topics."""
    begun = read_journal(directory.path)
    if begun is not None and begun.source != _source(table):
        raise TableError(
            f"{directory.path} has an unfinished load of {begun.source}: run the command again, or delete its topics "
            f"({', '.join(begun.topics)}) and .offsetfs-table-load.json"
        )
    for topic in sorted({partition.topic for partition in wanted}):
        numbers = {partition.partition for partition in wanted if partition.topic == topic}
        absent = max(numbers) + 1 - len(numbers)
        if absent > ABSENT_PARTITIONS_MAX:
            raise TableError(
                f"{table.name}: {topic} has rows of partition {max(numbers)}, "
                f"and none of {absent} partitions below it; "
                "correct partition_id of the rows"
            )
    ours = () if begun is None else begun.topics
    for topic in sorted({partition.topic for partition in wanted} - set(ours)):
        if directory.mirrors(topic):
            raise TableError(f"{directory.path}: {topic} is mirrored from a cluster and takes no other records")
        for partition in directory.partitions():
            if partition.topic == topic and directory.log(partition).next_offset:
                remedy = "offsetfs delete removes the topic, or use another directory"
                raise TableError(f"{directory.path} has records of {topic}: {remedy}")
    for partition in wanted:
        if partition.topic in ours and directory.has(partition):
            _check_begun(directory.log(partition), table, partition)
    return ours


def _check_begun(log: Log, table: MessagesTable, partition: TopicPartition) -> None:
    """Raise TableError unless a log that was begun is a beginning of the rows."""
    end = log.next_offset
    records = sum(batch.header.count for batch in LogReader(log).batches())
    rows = table.count(partition, 0, end)
    if records != rows:
        raise TableError(
            f"{log.path}: {partition} has {records} records below offset {end}, and {table.name} {rows} rows: "
            f"the table was changed since the load began; delete {partition.topic} (offsetfs delete), and run the "
            "command again"
        )


def _create(
    directory: LogDirectory,
    topic: str,
    wanted: Sequence[TopicPartition],
    settings: Mapping[str, str],
    progress: Mapping[TopicPartition, TableProgress],
) -> None:
    """Create the partitions that are not there; with the topic id that the log had, unless another topic has it."""
    mine = [partition.partition for partition in wanted if partition.topic == topic]
    partitions = [TopicPartition(topic, number) for number in range(max(mine) + 1)]
    absent = [partition for partition in partitions if not directory.has(partition)]
    if not absent:
        return
    ids = {progress[partition].topic_id for partition in partitions if partition in progress} - {None}
    taken = {directory.topic_id(partition) for partition in directory.partitions()}
    topic_id = next(iter(ids)) if len(ids) == 1 and len(absent) == len(partitions) and not ids & taken else None
    directory.create_partitions(absent, settings or None, topic_id=topic_id)


def _load_partition(log: Log, table: MessagesTable, partition: TopicPartition, on_bytes: Callable[[int], None]) -> int:
    """Load the rows behind the end of the log; return how many."""
    first = table.first_offset(partition)
    if first is None:
        return 0
    if first < 0:
        raise TableError(f"{table.name}: {partition} has a row at offset {first}; offsets begin at 0")
    if not log.size_bytes and log.next_offset < first:
        log.truncate_fully(first)  # the log begins with its first record, as the source did
    count = 0
    for offsets, records, size in _batches(table, partition, log.next_offset):
        try:
            batch = build_at(records, offsets, log.config.compression, _LEADER_EPOCH)
        except ValueError as error:
            raise _no_record(table, partition, offsets[0], str(error)) from None
        log.append_replicated(batch)
        if log.next_offset != offsets[-1] + 1:
            raise StorageError(f"ends at {log.next_offset} after a batch up to {offsets[-1]}", path=log.path)
        count += len(records)
        on_bytes(size)
    log.flush()
    return count


def _batches(
    table: MessagesTable, partition: TopicPartition, start: int
) -> Iterator[tuple[list[int], list[Fields], int]]:
    """Yield offsets, records and about their bytes for each batch."""
    offsets: list[int] = []
    records: list[Fields] = []
    size = 0
    for offset, key, payload, headers, time in table.rows(partition, start):
        record = _record(table, partition, offset, key, payload, headers, time)
        row_bytes = len(record[0] or b"") + len(record[1] or b"") + len(headers or "") + _ROW_BYTES
        if offsets and (
            size + row_bytes > BATCH_BYTES or len(offsets) >= BATCH_RECORDS or offset - offsets[0] > _SPAN_MAX
        ):
            yield offsets, records, size
            offsets, records, size = [], [], 0
        offsets.append(offset)
        records.append(record)
        size += row_bytes
    if offsets:
        yield offsets, records, size


def _record(
    table: MessagesTable, partition: TopicPartition, offset: int, key: Any, payload: Any, headers: Any, time: int
) -> Fields:
    if not time >= NO_TIMESTAMP:
        raise _no_record(table, partition, offset, f"its time is {time} ms, before 1970")
    if offset >= OFFSET_MAX:
        raise _no_record(table, partition, offset, f"the largest offset is {OFFSET_MAX - 1}")
    try:
        return _bytes_of(key), _bytes_of(payload), headers_of(headers), time
    except (ValueError, TypeError) as error:
        raise _no_record(table, partition, offset, str(error)) from None


def _bytes_of(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):  # of a literal in a statement: a column of SQLite has no type
        return value.encode("utf-8", "surrogatepass")
    raise TypeError(f"{type(value).__name__} is not bytes")


def _no_record(table: MessagesTable, partition: TopicPartition, offset: int, reason: str) -> TableError:
    place = f"{table.name}: the row of {partition}, offset {offset}"
    return TableError(f"{place} is not a record: {reason}; change the row, and run the command again")
