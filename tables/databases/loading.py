"""Rows of a table into the partitions of a log directory, at the offsets that they had.

Batches are appended as a follower appends them, with gaps between their offsets. A load that was interrupted goes on at
the end of each log: what is there is a beginning of its rows. `load_journal` says which topics are of the load.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from offsetfs.common.name_patterns import NamePattern
from offsetfs.storage import I32_MAX, INTERNAL_TOPICS, OFFSET_MAX, Log, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import NO_TIMESTAMP, build_at
from offsetfs.tables.databases.errors import TableError
from offsetfs.tables.databases.header_json import Headers, headers_of
from offsetfs.tables.databases.load_journal import read_journal, remove_journal, write_journal
from offsetfs.tables.databases.messages_table import MessagesTable, TableProgress

BATCH_BYTES, BATCH_RECORDS = 256 << 10, 4096
"""About how many bytes and records a batch has before compression."""
_SPAN_MAX = I32_MAX
"""The largest difference of two offsets in a batch."""
_ROW_BYTES = 64
ABSENT_PARTITIONS_MAX = 10_000
"""How many partitions below the last one may have neither rows nor a progress: a directory is made for each."""
_LEADER_EPOCH = 0

Fields = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers and timestamp of a record."""


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
    names = sorted({each.topic for each in wanted})
    write_journal(directory.path, _source(table), sorted({*names, *begun}))
    for topic in names:
        _create(directory, topic, wanted, settings, progress)
    loaded: dict[str, list[int]] = {topic: [] for topic in names}
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        on_progress(done)

    for each in wanted:
        loaded[each.topic].append(_load_partition(directory.log(each), table, each, add))
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
    found = sorted(each for each in table.partitions() | progress.keys() if is_wanted(each.topic, patterns))
    if not found:
        raise TableError(f"{table.database.name}: {table.name} has no rows of such a topic")
    return found


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
            f"{directory.path} has an unfinished load of {begun.source}: run it again, or delete its topics "
            f"({', '.join(begun.topics)}) and .offsetfs-table-load.json"
        )
    for topic in sorted({each.topic for each in wanted}):
        numbers = {each.partition for each in wanted if each.topic == topic}
        absent = max(numbers) + 1 - len(numbers)
        if absent > ABSENT_PARTITIONS_MAX:
            raise TableError(
                f"{table.name}: {topic} has rows of partition {max(numbers)}, "
                f"and none of {absent} partitions below it; "
                "correct partition_id of the rows"
            )
    ours = () if begun is None else begun.topics
    for topic in sorted({each.topic for each in wanted} - set(ours)):
        if directory.mirrors(topic):
            raise TableError(f"{directory.path}: {topic} is mirrored from a cluster and takes no other records")
        for each in directory.partitions():
            if each.topic == topic and directory.log(each).next_offset:
                remedy = "offsetfs delete removes the topic, or use another directory"
                raise TableError(f"{directory.path} has records of {topic}: {remedy}")
    for each in wanted:
        if each.topic in ours and directory.has(each):
            _check_begun(directory.log(each), table, each)
    return ours


def _check_begun(log: Log, table: MessagesTable, partition: TopicPartition) -> None:
    """Raise TableError unless a log that was begun is a beginning of the rows."""
    end = log.next_offset
    records = sum(each.header.count for each in LogReader(log).batches())
    rows = table.count(partition, 0, end)
    if records != rows:
        raise TableError(
            f"{log.path}: {partition} has {records} records below offset {end}, and {table.name} {rows} rows: "
            f"the table was changed since the load began; offsetfs delete removes {partition.topic}, then run it again"
        )


def _create(
    directory: LogDirectory,
    topic: str,
    wanted: Sequence[TopicPartition],
    settings: Mapping[str, str],
    progress: Mapping[TopicPartition, TableProgress],
) -> None:
    """Create the partitions that are not there; with the topic id that the log had, unless another topic has it."""
    mine = [each.partition for each in wanted if each.topic == topic]
    partitions = [TopicPartition(topic, number) for number in range(max(mine) + 1)]
    absent = [each for each in partitions if not directory.has(each)]
    if not absent:
        return
    ids = {progress[each].topic_id for each in partitions if each in progress} - {None}
    taken = {directory.topic_id(each) for each in directory.partitions()}
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
        raise _no_record(table, partition, offset, "there are no such offsets")
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
    raise TypeError(f"{type(value).__name__} is no bytes")


def _no_record(table: MessagesTable, partition: TopicPartition, offset: int, reason: str) -> TableError:
    place = f"{table.name}: the row of {partition}, offset {offset}"
    return TableError(f"{place} is no record: {reason}; change the row, and run it again")
