"""The columns of a lakehouse table.

    _topic _partition _offset _timestamp _key _headers     every table
    _value      bytes of the value; of a decoded table, of the values that are not decoded
    _error      decoded tables: why a value is in none of the columns of its fields
    …           decoded tables: a column for each field of the schema; `value` if the values are not records

Fields have types that both formats have. Integers and floats have 64 bits, as in the tables of databases, so that a
schema that widens them needs no other column. Arrow's types become:

    unsigned 64 bits        decimal(20, 0)
    text, enums, nulls      string
    durations, times        integers in their unit; timestamps in nanoseconds as well
    other timestamps        microseconds, in UTC or without a zone
    intervals               struct of months, days, nanoseconds
    structs without fields  boolean: whether there is one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.schemas.decoding import NoSchema
from offsetfs.schemas.masks import MaskError, Masks
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.tables.arrow import SCHEMA
from offsetfs.tables.arrow_casts import cast_values
from offsetfs.tables.databases.layout import schema_error
from offsetfs.tables.databases.typed_columns import VALUE
from offsetfs.tables.sql.decoded_tables import distinct
from offsetfs.tables.topic_schema import TopicSchema

if TYPE_CHECKING:
    from offsetfs.schemas.registry_schemas import RegistrySchemas

RECORD = pa.schema([SCHEMA.field(name) for name in ("partition", "offset", "timestamp", "key", "headers", "value")])
"""The columns of records that are read."""

RAW = pa.schema([pa.field("_topic", pa.string()), *(field.with_name(f"_{field.name}") for field in RECORD)])
"""The columns of a table without decoding."""

_ERROR = "_error"
_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())])
_BEYOND = "the value has a time or number that the table cannot hold"


def raw_columns(batch: pa.RecordBatch, partition: TopicPartition) -> dict[str, pa.Array]:
    """Return the columns of a table for records with the columns `RECORD`."""
    topic = pa.repeat(pa.scalar(partition.topic, pa.string()), len(batch))
    return {"_topic": topic, **{f"_{name}": batch.column(name) for name in RECORD.names}}


class LakeDecoding:
    """The columns of decoded values of one topic."""

    def __init__(
        self,
        directory: LogDirectory,
        topic: str,
        files: Mapping[str, FileSchema],
        masks: Masks,
        registry: RegistrySchemas | None = None,
        *,
        keeps_bytes: bool = False,
    ) -> None:
        """TableError. `keeps_bytes`: `_value` has the bytes of decoded values, too."""
        self.topic = topic
        self._keeps_bytes = keeps_bytes
        self.not_decoded = 0
        """Records whose values are in no column."""
        try:
            self._schema = TopicSchema(directory, topic, files, masks, registry)
        except (NoSchema, MaskError) as error:
            raise schema_error(error) from error

    def refresh(self) -> None:
        """Take in a new version of the schema; TableError."""
        try:
            self._schema.refresh()
        except MaskError as error:
            raise schema_error(error) from error

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table."""
        fields = self._fields()
        own = [*RAW, pa.field(_ERROR, pa.string())]
        names = distinct([*(field.name for field in own), *(field.name for field in fields)])[len(own) :]
        return pa.schema(
            [*own, *(pa.field(name, lake_type(field.type)) for name, field in zip(names, fields, strict=True))]
        )

    def _fields(self) -> Sequence[pa.Field]:
        reader = self._schema.reader
        if reader.fields is None:
            return [pa.field(VALUE, reader.type)]
        return [reader.type.field(number) for number in range(reader.type.num_fields)]

    def decoded(self, batch: pa.RecordBatch, partition: TopicPartition) -> dict[str, pa.Array]:
        """Return the columns of the table for records with the columns `RECORD`."""
        made, columns, decoder = raw_columns(batch, partition), self.columns, self._schema.decoder.values
        fields = list(columns)[len(RAW) + 1 :]
        column = decoder.decode(batch.column("value"), batch.column("headers"))
        reasons = column.reasons.cast(pa.string())
        if self._schema.reader.fields is None:
            values, reasons = cast_values(column.values, fields[0].type, reasons, _BEYOND)
            made[fields[0].name] = values
        else:
            kind = pa.struct([field.with_name(str(number)) for number, field in enumerate(fields)])
            values, reasons = cast_values(column.values, kind, reasons, _BEYOND)
            made |= zip((field.name for field in fields), values.flatten(), strict=True)
        made[_ERROR] = reasons
        self.not_decoded += len(reasons) - reasons.null_count
        if decoder.is_masked:
            made["_value"] = pa.nulls(len(batch), pa.binary())
        elif not self._keeps_bytes:
            made["_value"] = pc.if_else(reasons.is_valid(), made["_value"], pa.scalar(None, pa.binary()))
        return made


def lake_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column for values of a type of Arrow."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([field.with_type(lake_type(field.type)) for field in kind]) if kind.num_fields else pa.bool_()
    if types.is_map(kind):
        return pa.map_(pa.string(), lake_type(kind.item_type))
    if types.is_list(kind):
        return pa.list_(pa.field("element", lake_type(kind.value_type)))
    if types.is_interval(kind):
        return _INTERVAL
    if types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if types.is_timestamp(kind):
        return pa.int64() if kind.unit == "ns" else pa.timestamp("us", kind.tz and "UTC")
    if types.is_time32(kind):
        return pa.int32()
    if types.is_integer(kind) or types.is_time64(kind) or types.is_duration(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_boolean(kind) or types.is_decimal(kind) or types.is_date32(kind):
        return kind
    return pa.binary() if types.is_binary(kind) or types.is_fixed_size_binary(kind) else pa.string()
