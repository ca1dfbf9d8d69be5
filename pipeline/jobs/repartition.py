"""`repartition`: copies a topic into one with another number of partitions, with a map of the offsets.

A record with a key goes to the partition that Kafka's producer would choose now; one without stays with its neighbors.
Records of one key keep their order, because they are in one partition before and after. Partitions and offsets are
processed in order, and published exactly once (`publication`). The offset map is written beside the log directory:

    {"from": "orders-3", "from_offset": 8000, "to": "wide-7", "to_offset": 651}     records of `from` from there on are
                                                                                     in `to` from there on

There is about one entry per megabyte. `translate` uses it to find where consumer groups continue: at or before the
first record that they have not read.
"""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetfs.pipeline.jobs.workers import Answer, JobFailed, check_visible, spread
from offsetfs.pipeline.journal import INTENT, Job, Published, find_published
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.publication import publish, withdraw
from offsetfs.pipeline.read_options import ReadOptions, local_path
from offsetfs.pipeline.scan import scan
from offsetfs.pipeline.scan_range import Range, resolve
from offsetfs.pipeline.splits import cut
from offsetfs.pipeline.staging import Staged, StagingFile, Target
from offsetfs.pipeline.write_options import WriteOptions, topic_shapes
from offsetfs.storage import TopicPartition, files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Move:
    """The records of partition `source` from `source_offset` on are in partition `target` from `target_offset` on."""

    source: str
    source_offset: int
    target: str
    target_offset: int


@dataclass(frozen=True, slots=True)
class RepartitionResult:
    """The publication, and the path of the offset map."""

    published: Published
    offset_map: str | None
    """None when it was published before, by a run that wrote the map."""


def repartition(
    spark: SparkSession,
    source: str,
    topic: str,
    destination: str,
    new_topic: str,
    partitions: int,
    *,
    offset_map: str | None = None,
) -> RepartitionResult:
    """Write the records that `topic` has now into `new_topic`, which is made; on disk after return, the map as well.

    The map goes to `offset_map`; left out: `<new topic>.offset-map.ndjson` beside the log directory. Raises
    `JobFailed`, `OptionError`, `LogDirectoryLocked`, `RecordTooLarge`, OSError.
    """
    options = ReadOptions.parse({"path": source, "subscribe": topic, "includeHeaders": "true"})
    wanted = WriteOptions.parse({"path": destination, "topic": new_topic, "partitions": str(partitions)})
    with opened(options.paths, options.access) as directory:
        ranges = resolve(directory, options)
        tasks = [
            part
            for whole in ranges
            for parts in cut(directory, [whole], splits_min=1, bytes_per_split=options.bytes_per_split)
            for part in parts
        ]
    target = Target(wanted.path, uuid.uuid4().hex, topic_shapes(wanted), new_topic)
    job = Job(target.job, f"repartition {options.path} {topic} {new_topic}", 0)
    before = find_published(wanted.path, job)
    if before is not None:
        return RepartitionResult(before, None)
    _check_new(wanted.path, new_topic, partitions)
    for path in options.paths:
        check_visible(spark, path)
    check_visible(spark, wanted.path, is_to_write=True)
    path = local_path(offset_map or f"{wanted.path.rstrip(os.sep)}.{new_topic}.offset-map.ndjson", "the offset map")
    try:
        answers = spread(spark, functools.partial(_stage, options, target), list(enumerate(tasks)))
        names = [str(TopicPartition(new_topic, number)) for number in range(partitions)]
        files.replace_file(path, "".join(_line(move) for move in _moves(answers, names)).encode())
        published = publish(wanted.path, job, [Staged.from_json(answer["staged"]) for answer in answers])
    except BaseException:
        withdraw(wanted.path, job)
        raise
    mixed = [name for name, (start, end) in published.partitions.items() if end - start != _taken(answers)[name]]
    if mixed and not published.is_repeated:
        raise JobFailed(
            f"{mixed[0]}: another writer appended meanwhile, so the offset map {path} is wrong;"
            " delete the topic and start again"
        )
    return RepartitionResult(published, path)


def _check_new(path: str, topic: str, partitions: int) -> None:
    """Raise `JobFailed` unless the topic is empty and has so many partitions, or is being made by a run that died."""
    with opened((path,)) as directory:
        present = [partition for partition in directory.partitions() if partition.topic == topic]
        if len(present) != partitions:
            raise JobFailed(f"{topic} exists and has {len(present)} partitions, not {partitions}; give a new topic")
        has_records = any(directory.log(partition).next_offset for partition in present)
        if has_records and not files.exists(os.path.join(path, INTENT)):
            raise JobFailed(f"{topic} holds records already; give a new topic")


def _stage(options: ReadOptions, target: Target, numbered: tuple[int, Range]) -> Answer:
    """Stage one range; record before each Arrow batch how many records each partition has received."""
    from pyspark import TaskContext

    from offsetfs.pipeline.rows import take
    from offsetfs.pipeline.schema import arrow_schema, schema_of

    split, wanted = numbered
    context = TaskContext.get()
    staging = StagingFile(target, split, context.taskAttemptId() if context else 0)
    marks = []
    try:
        for batch in scan((wanted,), options, arrow_schema(schema_of(options))):
            if not batch.num_rows:
                continue
            taken = {str(partition): count for partition, count in staging.taken().items()}
            marks.append([batch.column("offset")[0].as_py(), taken])
            take(staging, batch.select(["key", "value", "headers", "timestamp"]), wanted.partition)
        taken = {str(partition): count for partition, count in staging.taken().items()}
        staged = staging.finish()
    except BaseException:
        staging.abandon()
        raise
    return {"staged": staged.as_json(), "source": str(wanted.name), "marks": marks, "end": wanted.end, "taken": taken}


# --- the offset map --------------------------------------------------------------------------------------------------


def _taken(answers: Sequence[Answer]) -> Counter[str]:
    """Return the number of records that each new partition has received."""
    totals: Counter[str] = Counter()
    for answer in answers:
        totals.update(answer["taken"])
    return totals


def _moves(answers: Sequence[Answer], names: Sequence[str]) -> Iterable[Move]:
    """Yield the moves: the new partitions begin at 0 and receive the tasks in order."""
    before: Counter[str] = Counter()
    for answer in answers:
        for offset, taken in (*answer["marks"], (answer["end"], answer["taken"])):
            for name in names:
                yield Move(answer["source"], offset, name, before[name] + taken.get(name, 0))
        before.update(answer["taken"])


def _line(move: Move) -> str:
    fields = {
        "from": move.source,
        "from_offset": move.source_offset,
        "to": move.target,
        "to_offset": move.target_offset,
    }
    return json.dumps(fields) + "\n"


def read_moves(path: str) -> list[Move]:
    """Read an offset map. Raises OSError, and ValueError for an invalid line."""
    with open(path) as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [Move(row["from"], row["from_offset"], row["to"], row["to_offset"]) for row in rows]


def translate(moves: Iterable[Move], committed: Mapping[str, int]) -> dict[str, int]:
    """Return where a group with these committed offsets continues in the new partitions.

    A partition without a committed offset counts as unread. No unread record is skipped; some records are read again:
    those of other partitions in between, and at most as many as lie between two entries.
    """
    first: dict[str, int] = {}
    passed: dict[tuple[str, str], Move] = {}
    lowest: dict[tuple[str, str], Move] = {}
    last: dict[str, int] = {}
    for move in moves:
        pair = move.source, move.target
        last[move.source] = max(last.get(move.source, 0), move.source_offset)
        if pair not in lowest or move.source_offset < lowest[pair].source_offset:
            lowest[pair] = move
        is_below = move.source_offset <= committed.get(move.source, 0)
        if is_below and (pair not in passed or move.source_offset >= passed[pair].source_offset):
            passed[pair] = move
    done: dict[str, int] = {}
    for (source, target), move in lowest.items():
        reached = passed.get((source, target), move)
        done[target] = max(done.get(target, 0), reached.target_offset)
        if committed.get(source, 0) < last[source]:
            first[target] = min(first.get(target, reached.target_offset), reached.target_offset)
    return {target: first.get(target, end) for target, end in done.items()}
