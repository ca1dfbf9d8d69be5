"""Records as lines of JSON with decoded values, for the files in `decoded/` of a partition.

    {"topic":"orders","partition":0,"offset":42,"timestamp":1795253676123,"timestamp_type":"CreateTime",   (one line)
     "key":"k","value":{"id":7},"headers":[],"value_schema":{"id":3,"subject":"orders-value","version":1}}

A value that is not decoded is there in the form of `records.ndjson`, with the reason in `value_error`.
`key_schema` names the schema of a decoded key; `key_error` is there only if the topic has a schema for keys.

Whole batches, and no Python object per record of format v2.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.schemas.column_json import JsonColumns
from offsetfs.schemas.decoding import TopicDecoder
from offsetfs.schemas.json_texts import SCHEMA, TEXT, MaskedTexts
from offsetfs.schemas.named_rows import may_name_schema
from offsetfs.schemas.references import KEY_FIELD
from offsetfs.storage import LOG_APPEND_TIME, Batch, Record, TopicPartition
from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.records import (
    COLUMNS,
    HEADERS_COUNT,
    HEADERS_POSITION,
    KEY,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE,
    Column,
    gather,
    gather_headers,
    line_prefix,
)
from offsetfs.storage.views import MadeLines

_HEADER = pa.struct([("key", pa.binary()), ("value", pa.binary())])
_HEADERS = pa.list_(_HEADER)
_NULL = pa.scalar(b"null", pa.binary())
_TYPES = ("CreateTime", LOG_APPEND_TIME)

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True, slots=True)
class _Columns:
    """Records as columns of equal length."""

    offsets: pa.Array
    timestamps: pa.Array
    timestamp_types: pa.Array
    keys: pa.Array
    values: pa.BinaryArray
    headers: pa.Array


class DecodedLines:
    """The lines of one partition. Thread-safe: one thread at a time decodes."""

    def __init__(
        self,
        name: TopicPartition,
        decoder: TopicDecoder | MaskedTexts,
        keys: TopicDecoder,
        *,
        is_base64: bool = False,
    ) -> None:
        """`decoder`, and `keys` for these, are of `JsonTexts`. `is_base64`: all bytes are in base64."""
        self._prefix = line_prefix(name.topic, name.partition).removeprefix(b"{").removesuffix(b'":')
        self._decoder = decoder
        self._keys = keys
        self._is_base64 = is_base64
        self._lock = threading.Lock()

    def values(self, batches: Sequence[Batch]) -> MadeLines:
        """Return the decoded value of each record; an object with the raw one and the reason if it is not decoded.

        `UNREADABLE` if a batch cannot be read, `DecompressionLimit` if the lines take too much memory.
        """
        return self._values(_batch_columns(batches)) if batches else MadeLines(b"", ())

    def records(self, batches: Sequence[Batch]) -> MadeLines:
        """Return a line for each record. Raises as `values`."""
        return self._records(_batch_columns(batches)) if batches else MadeLines(b"", ())

    def value_of(self, record: Record) -> bytes:
        """Return the line of the value of one record."""
        return self._values(_record_columns([record])).data

    def line_of(self, record: Record) -> bytes:
        """Return the line of one record."""
        return self._records(_record_columns([record])).data

    def _values(self, of: _Columns) -> MadeLines:
        texts, _, raw, reasons = self._decoded(self._decoder, of.values, _with_texts(of.headers))
        columns = JsonColumns(self._is_base64)
        columns.begin(len(texts), is_choice=True)
        members = [columns.add(texts, is_text=True)]
        if reasons is not None:
            fields = [pa.field("value", pa.binary()), pa.field("value_error", pa.string())]
            members.append(
                columns.add(pa.StructArray.from_arrays([raw, reasons], fields=fields, mask=reasons.is_null()))
            )
        columns.end(members)
        return MadeLines(*columns.lines())

    def _records(self, of: _Columns) -> MadeLines:
        headers = _with_texts(of.headers)
        texts, schemas, raw, reasons = self._decoded(self._decoder, of.values, headers)
        columns = JsonColumns(self._is_base64)
        columns.begin(len(texts))
        members = [
            columns.add(of.offsets, self._prefix),
            columns.add(of.timestamps, "timestamp"),
            columns.add(of.timestamp_types, "timestamp_type"),
        ]
        about_keys = self._add_keys(columns, members, of.keys, headers)
        members.append(columns.add(texts, "value", is_omitted=True, is_text=True))
        if reasons is not None:
            members.append(columns.add(raw, "value", is_omitted=True))
        members.append(columns.add(of.headers, "headers"))
        if reasons is not None:
            members.append(columns.add(reasons, "value_error", is_omitted=True))
        members.append(columns.add(schemas, "value_schema", is_omitted=True, is_text=True))
        for name, column in about_keys.items():
            members.append(columns.add(column, name, is_omitted=True, is_text=name == "key_schema"))
        columns.end(members)
        return MadeLines(*columns.lines())

    def _add_keys(
        self, columns: JsonColumns, members: list[int], keys: pa.BinaryArray, headers: pa.ListArray | None
    ) -> dict[str, pa.Array]:
        """Add the keys, and return the columns that say how they were decoded."""
        if not self._keys.has_schema and not may_name_schema(keys, headers, KEY_FIELD):  # most topics
            members.append(columns.add(keys, "key"))
            return {}
        texts, schemas, raw, reasons = self._decoded(self._keys, keys, headers)
        members.append(columns.add(texts, "key", is_omitted=True, is_text=True))
        if reasons is None:
            return {"key_schema": schemas}
        members.append(columns.add(raw, "key", is_omitted=True))
        schemas = pc.if_else(reasons.is_valid(), pa.scalar(None, pa.binary()), schemas)
        return {**({"key_error": reasons} if self._keys.has_schema else {}), "key_schema": schemas}

    def _decoded(
        self, decoder: TopicDecoder | MaskedTexts, values: pa.BinaryArray, headers: pa.ListArray | None
    ) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array | None]:
        """Return the texts, which are null where a value is not decoded; schemas; the values of these rows; reasons.

        The reasons are None if all values are decoded.
        """
        try:
            with self._lock:
                column = decoder.decode(values, headers)
        except (MemoryError, pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise DecompressionLimit("decoded values take more than 1 GiB") from error
        texts, schemas = column.values.field(TEXT), column.values.field(SCHEMA)
        if column.values.null_count:
            texts, schemas = column.values.flatten()
        if values.null_count:
            texts = pc.if_else(values.is_null(), _NULL, texts)
        reasons = column.reasons
        if reasons.null_count == len(reasons):
            return texts, schemas, values, None
        reasons = reasons.dictionary_decode()
        if decoder.is_masked:
            return texts, schemas, pa.nulls(len(values), pa.binary()), reasons
        return texts, schemas, pc.if_else(reasons.is_valid(), values, pa.scalar(None, pa.binary())), reasons


# --- batches and records as columns ----------------------------------------------------------------------------------


def _batch_columns(batches: Sequence[Batch]) -> _Columns:
    if any(batch.header.is_old for batch in batches):
        return _record_columns(itertools.chain.from_iterable(batch.records() for batch in batches))
    payloads, found = [batch.payload() for batch in batches], [batch.rows() for batch in batches]
    numbers = [np.frombuffer(table, np.int64).reshape(-1, COLUMNS) for table in found]
    counts = [len(table) for table in numbers]
    table, rows, payload = numbers[0], found[0], payloads[0]
    if len(batches) > 1:  # one gathering for all: each costs as much as some dozens of records
        starts = np.repeat(np.cumsum([0, *map(len, payloads)])[:-1], counts)
        table = np.concatenate(numbers)
        for place in (KEY, VALUE, HEADERS_POSITION):
            table[:, place] += starts
        rows, payload = array("q", table.tobytes()), b"".join(payloads)
    headers = [batch.header for batch in batches]
    has_append_time = np.repeat([header.timestamp_type == LOG_APPEND_TIME for header in headers], counts)
    created = table[:, TIMESTAMP_DELTA] + np.repeat([header.base_timestamp for header in headers], counts)
    appended = np.repeat([header.max_timestamp for header in headers], counts)
    return _Columns(
        pa.array(table[:, OFFSET_DELTA] + np.repeat([header.base_offset for header in headers], counts)),
        pa.array(np.where(has_append_time, appended, created)),
        pa.DictionaryArray.from_arrays(pa.array(has_append_time.astype(np.int32)), pa.array(_TYPES)),
        _binary(gather(payload, rows, KEY), len(table)),
        _binary(gather(payload, rows, VALUE), len(table)),
        _headers_of(payload, rows, table),
    )


def _binary(column: Column, count: int) -> pa.BinaryArray:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    return pa.Array.from_buffers(pa.binary(), count, [validity, pa.py_buffer(column.ends), pa.py_buffer(column.data)])


def _headers_of(payload: Any, rows: array[int], table: Numbers) -> pa.Array:
    if not table[:, HEADERS_COUNT].any():
        ends = pa.py_buffer(bytes(4 * (len(table) + 1)))
        return pa.Array.from_buffers(_HEADERS, len(table), [None, ends], children=[pa.nulls(0, _HEADER)])
    headers = gather_headers(payload, rows)
    total = headers.ends[-1]
    parts = [_binary(headers.names, total), _binary(headers.values, total)]
    structs = pa.StructArray.from_arrays(parts, fields=list(_HEADER))
    return pa.Array.from_buffers(_HEADERS, len(table), [None, pa.py_buffer(headers.ends)], children=[structs])


def _with_texts(headers: pa.ListArray) -> pa.ListArray | None:
    """Return headers with names as texts, as a decoder takes them; None if there are none."""
    pairs = headers.values
    if not len(pairs):
        return None
    names = pairs.field(0)
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
    named = pa.StructArray.from_arrays([texts, pairs.field(1)], names=["key", "value"])
    return pa.ListArray.from_arrays(headers.offsets, named)


def _record_columns(found: Iterable[Record]) -> _Columns:
    records = list(found)
    headers = [
        [{"key": name.encode("utf-8", "surrogateescape"), "value": value} for name, value in record.headers]
        for record in records
    ]
    return _Columns(
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp for record in records], pa.int64()),
        pa.array([record.timestamp_type for record in records], pa.string()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(headers, _HEADERS),
    )
