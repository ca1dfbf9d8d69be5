"""Batches of a log as Arrow record batches: whole buffers, and no Python object per record.

The rows of a batch say where its keys and values are; the engine gathers them in Arrow's layout, and numbers come from
the rows by arithmetic on columns. Columns that are equal for a whole batch need no rows: then a batch is not
decompressed. Messages of formats v0 and v1, which no broker has written since 2017, are converted record by record.

The columns are those of Spark's Kafka source:

key value        binary
topic            string
partition        int32
offset           int64
timestamp        timestamp[us, UTC]      a time beyond the year 294247 becomes the last one of it
timestampType    int32       0 CreateTime, 1 LogAppendTime, -1 none
headers          list<struct<key: string, value: binary>>; null where a record has none

Needs pyarrow and numpy. For Spark, for SQL and for the library.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from offsetfs.storage import CREATE_TIME, LOG_APPEND_TIME, Batch, BatchSlice, Record, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import (
    COLUMNS,
    HEADERS_COUNT,
    KEY,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE,
    Column,
    gather,
    gather_headers,
)

CORRUPT = "_corrupt_record"
"""A column of the Spark source only: the damage at the place of a record."""

HEADERS = "headers"

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        (HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""All columns, in their order."""

ARROW_BYTES = 1 << 20
"""About how many bytes a record batch has: smaller ones cost calls, larger ones memory in every task."""

ROW_BYTES_MIN = 8
"""The bytes that a row counts at least, so that a batch of few columns has a bounded number of rows."""

TRUSTED_COUNT_MAX = 1 << 22
"""Records that a header may count without a look at them: protects memory from a header that counts too many."""

TIME_MIN_MS, TIME_MAX_MS = -(1 << 63) // 1000 + 1, ((1 << 63) - 1) // 1000
"""The times that Arrow has in microseconds: to the year 294247. Others become the nearest of them."""

_CONSTANT = frozenset(("topic", "partition", "timestampType", CORRUPT))
"""Columns that are equal for all records of a batch."""

_NO_ROWS = array("q")

_TIMESTAMP_TYPES = {CREATE_TIME: 0, LOG_APPEND_TIME: 1}
"""The ids that Kafka's clients give to kinds of timestamps; -1 for none."""


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of some columns, in the order given; None: all. ValueError for an unknown name."""
    if columns is None:
        return SCHEMA
    for name in columns:
        if name not in SCHEMA.names:
            raise ValueError(f"there is no column {name!r}, only {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def record_batches(
    slices: Iterable[BatchSlice],
    name: TopicPartition,
    schema: pa.Schema,
    on_fault: Callable[[StorageError], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of what a `LogReader` has read, about `ARROW_BYTES` of them at a time.

    Raises what `Batch.rows` raises; with `on_fault` that is reported, and the batch left out.
    """
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch, start, end in slices:
        try:
            made = record_batch(batch, name, schema)
        except StorageError as error:
            if on_fault is None:
                raise
            on_fault(batch.placed(error))
            continue
        if not start <= batch.base_offset <= batch.header.last_offset < end:
            made = _between(batch, made, start, end)
        gathered.append(made)
        size += max(made.nbytes, ROW_BYTES_MIN * made.num_rows)
        if size >= ARROW_BYTES:
            yield _together(gathered)
            gathered, size = [], 0
    if gathered:
        yield _together(gathered)


def _together(gathered: list[pa.RecordBatch]) -> pa.RecordBatch:
    return gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered)


def _between(batch: Batch, made: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    offsets = _numbers(batch.rows())[:, OFFSET_DELTA] + batch.header.base_offset
    return made.filter(pa.array((offsets >= start) & (offsets < end)))


def record_batch(batch: Batch, name: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """Return all records of one batch, with the columns of `schema`."""
    if batch.header.is_old:
        return _from_records(batch.records(), name, schema)
    if _CONSTANT.issuperset(schema.names) and 0 <= batch.header.count <= TRUSTED_COUNT_MAX:
        rows, count = _NO_ROWS, batch.header.count
    else:
        rows = batch.rows()
        count = len(rows) // COLUMNS
    made = []
    for field in schema:
        if field.name == "topic":
            made.append(pa.repeat(pa.scalar(name.topic, field.type), count))
        elif field.name == "partition":
            made.append(pa.repeat(pa.scalar(name.partition, field.type), count))
        elif field.name == "timestampType":
            made.append(pa.repeat(pa.scalar(_TIMESTAMP_TYPES.get(batch.header.timestamp_type, -1), field.type), count))
        elif field.name == CORRUPT:
            made.append(pa.nulls(count, field.type))
        else:
            made.append(_COLUMNS[field.name](batch, rows, field.type))
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _numbers(rows: array[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.frombuffer(rows, np.int64).reshape(-1, COLUMNS)


def _keys(batch: Batch, rows: array[int], kind: pa.DataType) -> pa.Array:
    return _binary(gather(batch.payload(), rows, KEY), len(rows) // COLUMNS, kind)


def _values(batch: Batch, rows: array[int], kind: pa.DataType) -> pa.Array:
    return _binary(gather(batch.payload(), rows, VALUE), len(rows) // COLUMNS, kind)


def _binary(column: Column, count: int, kind: pa.DataType) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(column.ends), pa.py_buffer(column.data)])


def _offsets(batch: Batch, rows: array[int], kind: pa.DataType) -> pa.Array:
    return _int64(_numbers(rows)[:, OFFSET_DELTA] + batch.header.base_offset, kind)


def _int64(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], kind: pa.DataType) -> pa.Array:
    """Return an array over the numbers themselves: `pa.array` takes as long as the rest of a small batch."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _timestamps(batch: Batch, rows: array[int], kind: pa.DataType) -> pa.Array:
    header, count = batch.header, len(rows) // COLUMNS
    if header.timestamp_type == LOG_APPEND_TIME:
        milliseconds = np.full(count, header.max_timestamp, np.int64)
    else:
        milliseconds = _numbers(rows)[:, TIMESTAMP_DELTA] + header.base_timestamp
    # Spark's timestamps count microseconds. Kafka takes any time of a producer: without limits, the product wraps.
    within = np.maximum(np.minimum(milliseconds, TIME_MAX_MS), TIME_MIN_MS)  # np.clip takes ten times as long
    return _int64(within * 1000, kind)


def _headers(batch: Batch, rows: array[int], kind: pa.DataType) -> pa.Array:
    """Return the headers; a record that has none has a null, as Spark's Kafka source says it."""
    counts = _numbers(rows)[:, HEADERS_COUNT]
    if not counts.any():
        return pa.nulls(len(counts), kind)
    headers = gather_headers(batch.payload(), rows)
    total, (name, value) = headers.ends[-1], kind.value_type
    names = _text(_binary(headers.names, total, pa.binary()))
    values = _binary(headers.values, total, value.type)
    structs = pa.StructArray.from_arrays([names, values], fields=[name, value])
    present = pa.array(counts > 0)
    return pa.Array.from_buffers(
        kind, len(counts), [present.buffers()[1], pa.py_buffer(headers.ends)], children=[structs]
    )


def _valid(name: str) -> str:
    """Return a name of a header with bytes that are no UTF-8 replaced, as in the column."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def header_column(of_records: Iterable[Sequence[tuple[str, bytes | None]]]) -> pa.ListArray:
    """Return the headers of records as the column has them."""
    headers = [[{"key": _valid(name), "value": value} for name, value in pairs] or None for pairs in of_records]
    return pa.array(headers, SCHEMA.field(HEADERS).type)


def _text(names: pa.Array) -> pa.Array:
    """Return bytes as text; what is no UTF-8 is replaced, as Java does it."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        # As Java's String constructor, so that a query over Kafka's source gives the same names.
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


_COLUMNS: dict[str, Callable[[Batch, array[int], pa.DataType], pa.Array]] = {
    "key": _keys,
    "value": _values,
    "offset": _offsets,
    "timestamp": _timestamps,
    HEADERS: _headers,
}


def _from_records(records: list[Record], name: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    made: dict[str, list[object]] = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "topic": [name.topic] * len(records),
        "partition": [name.partition] * len(records),
        "offset": [record.offset for record in records],
        "timestamp": [min(max(record.timestamp, TIME_MIN_MS), TIME_MAX_MS) * 1000 for record in records],
        "timestampType": [_TIMESTAMP_TYPES.get(record.timestamp_type, -1) for record in records],
        HEADERS: [None] * len(records),
        CORRUPT: [None] * len(records),
    }
    arrays = [pa.array(made[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
