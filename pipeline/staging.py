"""What a task writes: whole batches in one file beside the log, for a commit to append or an abort to remove.

The file lies in the log directory, where brokers step over files, on the same file system and under a name that tells
job, split and attempt. It is on disk when the task tells of it. Batches of one partition stay in the order in which
their records came; a record goes to the partition its row names, else that of its key by Kafka's hash, else to one
partition for each run of rows. Nothing in the log has changed before the commit (`publication`).
"""

from __future__ import annotations

import os
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.storage import files
from offsetfs.storage.errors import PolicyViolation, RecordTooLarge, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import BatchBuilder
from offsetfs.storage.records.columns import Column, HeaderColumns, RecordColumns, encode_columns, spread_keys
from offsetfs.storage.records.compression import Compression

PREFIX = ".offsetfs-staged-"
BATCH_BYTES = 1 << 20
BUILDERS_BYTES = 256 << 20
"""What the open batches of a task may take together: with very many partitions each gets a smaller one."""
_BATCH_BYTES_MIN = 16 << 10


@dataclass(frozen=True, slots=True)
class TopicShape:
    """What a task must know of a topic."""

    partitions: tuple[int, ...]
    batch_bytes_max: int
    compression: Compression
    needs_key: bool


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Where a batch lies in the staged file, and how many records it has."""

    position: int
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What one task has written; `path` is None when there was nothing."""

    job: str
    split: int
    path: str | None
    batches: Mapping[TopicPartition, tuple[StagedBatch, ...]]

    @property
    def records(self) -> int:
        return sum(batch.count for batches in self.batches.values() for batch in batches)

    def as_json(self) -> dict[str, Any]:
        """Return it as values of JSON, for `from_json`."""
        return {
            "job": self.job,
            "split": self.split,
            "path": self.path,
            "batches": {
                str(partition): [[each.position, each.size, each.count] for each in batches]
                for partition, batches in self.batches.items()
            },
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Staged:
        batches = {
            TopicPartition.parse(name): tuple(StagedBatch(*each) for each in batches)
            for name, batches in fields["batches"].items()
        }
        return cls(fields["job"], fields["split"], fields["path"], batches)


@dataclass(frozen=True, slots=True)
class Target:
    """Where tasks write to, and what is known of it."""

    path: str
    job: str
    topics: Mapping[str, TopicShape]
    topic: str | None = None
    """The topic of all records; None: it is in the column `topic`."""


def stage(batches: Iterable[pa.RecordBatch], target: Target, split: int, attempt: int) -> Staged:
    """Write all records; on disk after return. An error leaves no file behind.

    Raises `RecordTooLarge`, `UnknownPartition`, `PolicyViolation` (a compacted topic, and no key), ValueError, OSError.
    """
    staging = StagingFile(target, split, attempt)
    try:
        for number, batch in enumerate(batches):
            if batch.num_rows:
                staging.take(batch, split + number)
        return staging.finish()
    except BaseException:
        staging.abandon()
        raise


def remove_staged(directory: str, job: str) -> None:
    """Remove what the tasks of a job have written, those that nobody heard of included."""
    for name in files.names(directory):
        if name.startswith(f"{PREFIX}{job}-"):
            files.remove_file(os.path.join(directory, name))


class StagingFile:
    """The staged file of a task in the making, and the open batch of each partition."""

    def __init__(self, target: Target, split: int, attempt: int) -> None:
        self.target = target
        self._split = split
        self._path = os.path.join(target.path, f"{PREFIX}{target.job}-{split}-{attempt}")
        self._file: files.File | None = None
        self._position = 0
        self._builders: dict[TopicPartition, BatchBuilder] = {}
        self._batches: dict[TopicPartition, list[StagedBatch]] = {}
        self._written: Counter[TopicPartition] = Counter()

    def taken(self) -> dict[TopicPartition, int]:
        """Return how many records each partition has got so far."""
        waiting = {partition: builder.count for partition, builder in self._builders.items()}
        return {partition: self._written[partition] + count for partition, count in waiting.items()}

    def take(self, batch: pa.RecordBatch, turn: int) -> None:
        """Take all rows of an Arrow batch. `turn` tells which partition those without a key go to.

        Raises as `stage`.
        """
        _Writing(self).take(batch, turn)

    def builder(self, partition: TopicPartition, shape: TopicShape) -> BatchBuilder:
        """Return the open batch of a partition."""
        builder = self._builders.get(partition)
        if builder is None:
            partitions = sum(len(each.partitions) for each in self.target.topics.values())
            size = min(BATCH_BYTES, max(BUILDERS_BYTES // partitions, _BATCH_BYTES_MIN), shape.batch_bytes_max)
            builder = self._builders[partition] = BatchBuilder(size, shape.compression)
        return builder

    def make_room(self, partition: TopicPartition, shape: TopicShape, record_bytes: int) -> None:
        """Begin a batch that has room for a record of this size. `RecordTooLarge` when none may."""
        builder = self.builder(partition, shape)
        if not builder.is_empty:
            self.flush(partition)
        if HEADER_SIZE + record_bytes > shape.batch_bytes_max:
            raise RecordTooLarge(f"{partition}: a record of {record_bytes} bytes", path=self.target.path)
        if HEADER_SIZE + record_bytes > builder.bytes_max:
            self._builders[partition] = BatchBuilder(HEADER_SIZE + record_bytes, shape.compression)

    def flush(self, partition: TopicPartition) -> None:
        """Write the open batch of a partition, if it holds anything."""
        builder = self._builders[partition]
        if builder.is_empty:
            return
        if self._file is None:
            self._file = files.open_file(self._path, create=True)
            self._file.truncate(0)
        sealed = builder.seal()
        self._file.write(self._position, sealed.data)
        self._batches.setdefault(partition, []).append(StagedBatch(self._position, sealed.size, sealed.count))
        self._position += sealed.size
        self._written[partition] += sealed.count
        builder.reset()

    def finish(self) -> Staged:
        """Write what is open; on disk after return."""
        for partition in self._builders:
            self.flush(partition)
        batches = {partition: tuple(each) for partition, each in self._batches.items()}
        if self._file is None:
            return Staged(self.target.job, self._split, None, batches)
        self._file.sync()
        self._file.close()
        files.sync_directory(self.target.path)
        return Staged(self.target.job, self._split, self._path, batches)

    def abandon(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            files.remove_file(self._path)


@dataclass(frozen=True, slots=True)
class _Writing:
    """Rows on their way into a staging file."""

    staging: StagingFile

    def take(self, batch: pa.RecordBatch, turn: int) -> None:
        target, columns = self.staging.target, _columns_of(batch)
        for topic, rows in _by_topic(batch, target):
            shape = target.topics.get(topic)
            if shape is None:
                raise UnknownPartition(f"no topic {topic}; the option partitions makes one", path=target.path)
            if shape.needs_key and (columns.keys is None or not _are_valid(columns.keys, rows)):
                raise PolicyViolation(f"{topic} is compacted and takes no record without a key", path=target.path)
            for partition, picks in _by_partition(batch, columns, rows, shape, turn):
                self._encode(TopicPartition(topic, partition), columns, picks, shape)

    def _encode(self, partition: TopicPartition, columns: RecordColumns, picks: array[int], shape: TopicShape) -> None:
        pick = 0
        while True:
            builder = self.staging.builder(partition, shape)
            encoded = encode_columns(columns, picks, pick, builder.lane)
            if encoded.pick > pick:
                builder.grown(encoded.lane)
            pick = encoded.pick
            if pick == len(picks):
                return
            self.staging.make_room(partition, shape, encoded.record_bytes)


def _by_topic(batch: pa.RecordBatch, target: Target) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each topic and its rows."""
    if target.topic is not None:
        yield target.topic, np.arange(batch.num_rows, dtype=np.int32)
        return
    column = batch.column("topic")
    if column.null_count:
        raise ValueError("a record without a topic: neither the option topic nor its column says one")
    encoded = column.dictionary_encode()
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    for number, topic in enumerate(encoded.dictionary.to_pylist()):
        yield topic, np.flatnonzero(indices == number).astype(np.int32)


# --- columns ---------------------------------------------------------------------------------------------------------


def _columns_of(batch: pa.RecordBatch) -> RecordColumns:
    names = batch.schema.names
    return RecordColumns(
        _binary(batch.column("key")) if "key" in names else None,
        _binary(batch.column("value")),
        _headers(batch.column("headers")) if "headers" in names else None,
        _timestamps(batch),
    )


def _binary(column: pa.Array) -> Column:
    """Return the buffers of a column of bytes or of text, which begin with its first row."""
    if column.null_count == len(column):
        zeros = bytes(4 * (len(column) + 1))
        return Column(memoryview(zeros), b"", bytes((len(column) + 7) // 8))
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    validity, ends, data = _from_start(column).buffers()
    present = None if validity is None or not column.null_count else validity
    return Column(memoryview(ends), b"" if data is None else memoryview(data), present)


def _from_start(column: pa.Array) -> pa.Array:
    """Return the same values in buffers that hold nothing before them."""
    return pa.concat_arrays([column, column.slice(0, 0)]) if column.offset else column


def _headers(column: pa.Array) -> HeaderColumns | None:
    if column.null_count == len(column):
        return None
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(column) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    names, values = column.flatten().flatten()
    return HeaderColumns(memoryview(ends), _binary(names), _binary(values))


def _timestamps(batch: pa.RecordBatch) -> memoryview:
    now = time.time_ns() // 1_000_000
    if "timestamp" not in batch.schema.names:
        return memoryview(np.full(batch.num_rows, now, np.int64))
    column = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    given = pc.fill_null(column, now * 1000).to_numpy(zero_copy_only=False)
    return memoryview(np.floor_divide(given, 1000))


def _are_valid(keys: Column, rows: np.ndarray) -> bool:
    if keys.validity is None:
        return True
    bits = np.unpackbits(np.frombuffer(keys.validity, np.uint8), bitorder="little")
    return bool(bits[rows].all())


def _by_partition(
    batch: pa.RecordBatch, columns: RecordColumns, rows: np.ndarray, shape: TopicShape, turn: int
) -> Iterator[tuple[int, array[int]]]:
    """Yield each partition and the rows that go there, in order."""
    where = np.full(batch.num_rows, -1, np.int32)
    if columns.keys is not None:
        where = np.frombuffer(spread_keys(columns.keys, batch.num_rows, len(shape.partitions)), np.int32).copy()
    where[where < 0] = turn % len(shape.partitions)
    if "partition" in batch.schema.names:
        named = pc.fill_null(batch.column("partition").cast(pa.int32()), -1).to_numpy(zero_copy_only=False)
        where = np.where(named >= 0, named, where)
    for partition in np.unique(where[rows]).tolist():
        if partition not in shape.partitions:
            raise UnknownPartition(f"the topic has no partition {partition}, only {len(shape.partitions)}")
        picks = array("i")
        picks.frombytes(rows[where[rows] == partition].astype(np.int32).tobytes())
        yield partition, picks
