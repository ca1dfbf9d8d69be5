"""Rows of Arrow batches on their way into staged batches: what a task of a DataFrame's write does.

A record goes to the partition that its row names, else to that of its key by Kafka's hash, else to one partition for
each Arrow batch. Columns are written as they are (`columns`), and there is no Python object per record.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.pipeline.staging import Staged, StagingFile, Target, TopicShape
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import PolicyViolation, UnknownPartition
from offsetfs.storage.records import Column, HeaderColumns, RecordColumns, encode_columns, spread_keys

NO_TIMESTAMP = -1
"""The value for a record without a timestamp, as in Kafka; a frame that was read from old messages has it."""


def stage(batches: Iterable[pa.RecordBatch], target: Target, split: int, attempt: int) -> Staged:
    """Write all records; on disk after return. An error leaves no file behind.

    Raises `RecordTooLarge`, `UnknownPartition`, `PolicyViolation` (a compacted topic, and no key), ValueError, OSError.
    """
    staging = StagingFile(target, split, attempt)
    try:
        for number, batch in enumerate(batches):
            if batch.num_rows:
                take(staging, batch, split + number)
        return staging.finish()
    except BaseException:
        staging.abandon()
        raise


def take(staging: StagingFile, batch: pa.RecordBatch, turn: int) -> None:
    """Take all rows of an Arrow batch. `turn` selects the partition of rows without a key. Raises as `stage`."""
    target, columns = staging.target, _columns_of(batch)
    for topic, rows in _by_topic(batch, target):
        shape = target.topics.get(topic)
        if shape is None:
            raise UnknownPartition(f"no topic {topic}; the option partitions makes one", path=target.path)
        if shape.needs_key and (columns.keys is None or not _are_valid(columns.keys, rows)):
            raise PolicyViolation(f"{topic} is compacted and takes no record without a key", path=target.path)
        for partition, picks in _by_partition(batch, columns, rows, shape, turn):
            _encode(staging, TopicPartition(topic, partition), columns, picks, shape)


def _encode(
    staging: StagingFile, partition: TopicPartition, columns: RecordColumns, picks: array[int], shape: TopicShape
) -> None:
    pick = 0
    while True:
        builder = staging.builder(partition, shape)
        encoded = encode_columns(columns, picks, pick, builder.cursor)
        if encoded.pick > pick:
            builder.grown(encoded.cursor)
        pick = encoded.pick
        if pick == len(picks):
            return
        staging.next_batch(partition, shape, encoded.record_bytes)


def _by_topic(batch: pa.RecordBatch, target: Target) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each topic and its rows."""
    if target.topic is not None:
        yield target.topic, np.arange(batch.num_rows, dtype=np.int32)
        return
    column = batch.column("topic")
    if column.null_count:
        raise ValueError("a record has no topic; give the option topic, or fill the column topic")
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
    # A slice of an Arrow array shares the buffers of the whole, and compiled code counts from their start.
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
    # One time for the whole Arrow batch, as KafkaProducer takes it at `send` for records without a timestamp.
    now = time.time_ns() // 1_000_000
    if "timestamp" not in batch.schema.names:
        return memoryview(np.full(batch.num_rows, now, np.int64))
    column = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    given = pc.fill_null(column, now * 1000).to_numpy(zero_copy_only=False)
    # Floor and not truncation: times before 1970 are negative and must be recognized as such.
    milliseconds = np.floor_divide(given, 1000)
    if len(milliseconds) and milliseconds.min() < NO_TIMESTAMP:
        raise ValueError(_before_1970(int(milliseconds.min())))
    return memoryview(milliseconds)


def _before_1970(milliseconds: int) -> str:
    moment = np.datetime64(milliseconds, "ms").astype(str).replace("T", " ")
    return (
        f"column timestamp: {moment} UTC lies before 1970, which Kafka has no timestamps for;"
        " leave these rows out, or make their timestamp null (which means now) and keep the time in the value"
    )


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
