"""Decoded values in Spark: the driver finds the schemas, and tasks get them with their ranges.

`key` is typed like `value`, if the topic has a schema for keys, unless a schema of the user has it as binary.

The columns are those of one version of the topic's schema. A query begins with the newest one. With a schema of the
user, or of a stream that goes on, it is the newest version that has these fields with these types.

| Arrow | Spark |
|---|---|
| struct, list, map | struct, array, map with keys that are text |
| text, dictionary of text, null | string |
| timestamp in UTC, without a zone | timestamp, timestamp_ntz; in nanoseconds long |
| time of day | int (milliseconds), long (microseconds or nanoseconds), as of `from_avro` |
| decimal, date, numbers, bytes | the same; unsigned numbers the next larger type |
| duration | long, in the unit of Arrow |
| interval | struct of months, days, nanoseconds |
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
from pyspark.sql import types as spark

from offsetfs.pipeline.log_directories import ScanDirectories
from offsetfs.pipeline.read_options import OptionError, ReadOptions
from offsetfs.pipeline.schema import VALUE_ERROR
from offsetfs.schemas.decoding import DirectorySchemas, NoSchema, RecordDecoder, TopicDecoder, joined_reasons
from offsetfs.schemas.formats import InvalidSchema, SchemaReader, SchemasDiffer, reader_of
from offsetfs.schemas.masks import MaskError, Masks, parse_masks
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD
from offsetfs.schemas.registry_schemas import open_registry
from offsetfs.schemas.schema_files import FileSchema, SchemaFileError, read_schema_files
from offsetfs.schemas.schemas_topic import SCHEMAS_TOPIC
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig, sentence
from offsetfs.tables.arrow import HEADERS, SCHEMA
from offsetfs.tables.arrow_casts import cast_values

PLANNED_BYTES_MAX = 2 << 20
"""The compressed schemas that a task gets; if they are larger, each task reads them itself."""

_BEYOND_SPARK = "the value has a time or number that Spark cannot hold"


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """The column of decoded values, or keys."""

    reader: SchemaReader
    """Its type, which may be chosen by the values of the topic: tasks must not choose again."""
    fields: tuple[str, ...] | None
    """Those of a record that are decoded; None: all."""


@dataclass(frozen=True, slots=True)
class PlannedDecoding:
    """What a task needs to decode records; sent to it."""

    topic: str
    values: PlannedColumn
    keys: PlannedColumn | None
    """None: keys are not decoded."""
    files: Mapping[str, FileSchema]
    masks: Masks
    registry: str | None = field(repr=False)
    """A URL or a properties file, which each task opens for what the driver has not found."""
    catalog: bytes | None
    """The schemas of the directory, pickled and compressed; None: too many."""

    def decoder(self, directory: ScanDirectories) -> RecordDecoder:
        """Return the decoder of a task."""
        schemas = _schemas_of(directory, self.files, self.masks, self.registry)
        if self.catalog is None:
            schemas.refresh()
        else:
            schemas.take(pickle.loads(zlib.decompress(self.catalog)))
        values, keys = self.values, self.keys
        return RecordDecoder(
            schemas.decoder(self.topic, values.reader, values.fields),
            None if keys is None else schemas.decoder(self.topic, keys.reader, keys.fields, KEY_FIELD),
        )


class DecodingPlan:
    """The plan of a query, in the driver."""

    def __init__(self, options: ReadOptions, schema: spark.StructType | None, directory: ScanDirectories) -> None:
        """`schema`: the columns that are wanted; None: all. `OptionError`."""
        self.topic = topic = _topic_of(options)
        self._registry = _checked_registry(options.registry_word)
        try:
            self._files, self._masks = read_schema_files(options.schema_words), parse_masks(options.mask_words)
            schemas = _schemas_of(directory, self._files, self._masks, self._registry)
            schemas.refresh()
            schemas.check_masks()
            self._values = _planned(_chosen(schemas, topic, _wanted(schema, VALUE_FIELD)), schema, VALUE_FIELD)
            self._keys = _planned_keys(schemas, topic, schema)
        except NoSchema as error:
            remedy = f"; option schemas, {error.word}, gives a schema" if error.word else ""
            raise OptionError(f"option decode: {error.reason}{remedy}") from error
        except (SchemaFileError, OSError) as error:
            raise OptionError(f"option schemas: {error}") from error
        except MaskError as error:
            raise OptionError(f"option mask: {error}") from error
        self._end = -1
        self._planned: PlannedDecoding | None = None

    @property
    def value_type(self) -> spark.DataType:
        """The type of decoded values."""
        return spark_type(self._values.reader.type)

    @property
    def key_type(self) -> spark.DataType:
        """The type of keys: binary if they are not decoded."""
        return spark.BinaryType() if self._keys is None else spark_type(self._keys.reader.type)

    def planned(self, directory: ScanDirectories) -> PlannedDecoding:
        """Return what tasks get, with the schemas that there are now."""
        end = sum(directory.log(name).next_offset for name in directory.partitions() if name.topic == SCHEMAS_TOPIC)
        if self._planned is None or end != self._end:
            schemas = _schemas_of(directory, self._files, self._masks)
            schemas.refresh()
            data: bytes | None = zlib.compress(pickle.dumps(schemas.catalog))
            data = data if data is not None and len(data) <= PLANNED_BYTES_MAX else None
            self._planned = PlannedDecoding(
                self.topic, self._values, self._keys, self._files, self._masks, self._registry, data
            )
            self._end = end
        return self._planned


def _checked_registry(word: str | None) -> str | None:
    """Return a URL or a properties file that a registry can be opened by. `OptionError`."""
    try:
        open_registry(word)
    except (InvalidConfig, OSError) as error:
        raise OptionError(f"option schemaRegistry: {sentence(error)}") from error
    return word


def _schemas_of(
    directory: ScanDirectories, files: Mapping[str, FileSchema], masks: Masks, registry: str | None = None
) -> DirectorySchemas:
    found = open_registry(registry)
    return DirectorySchemas(cast(LogDirectory, directory), files, masks, found)  # `partitions` and `log` are used


def _topic_of(options: ReadOptions) -> str:
    chosen = options.selection
    topics = {*chosen.topics, *(topic for topic, _ in chosen.partitions)}
    if len(topics) != 1 or chosen.pattern is not None:
        raise OptionError("option decode: the columns are those of one topic; name it with the option subscribe")
    return topics.pop()


def _wanted(schema: spark.StructType | None, name: str) -> spark.DataType | None:
    if schema is None:
        return None
    return next((field.dataType for field in schema.fields if field.name == name), None)


def _planned(reader: SchemaReader, schema: spark.StructType | None, name: str) -> PlannedColumn:
    wanted = _wanted(schema, name)
    fields = [field.name for field in wanted.fields] if isinstance(wanted, spark.StructType) else None
    return PlannedColumn(reader, None if fields is None else tuple(fields))


def _planned_keys(schemas: DirectorySchemas, topic: str, schema: spark.StructType | None) -> PlannedColumn | None:
    """Return the column of keys; None if they have no schema, or are wanted as they are. `OptionError`."""
    reader, wanted = schemas.key_reader(topic), _wanted(schema, KEY_FIELD)
    if wanted == spark.BinaryType() and (reader is None or not _has(reader, wanted)):
        return None
    if reader is None and wanted is None:
        return None
    if reader is None:
        raise OptionError(f"schema: keys of {topic} have no schema, so key is binary; option schemas gives one")
    return _planned(_chosen(schemas, topic, wanted, KEY_FIELD), schema, KEY_FIELD)


def _chosen(
    schemas: DirectorySchemas, topic: str, wanted: spark.DataType | None, name: str = VALUE_FIELD
) -> SchemaReader:
    """Return the columns of the newest version that has those that are wanted. `OptionError`; `NoSchema`."""
    reader = schemas.reader(topic, name)
    if wanted is None or _has(reader, wanted):
        return reader
    for known in reversed(schemas.catalog.versions(f"{topic}-{name}")):
        try:
            older = reader_of(known, schemas.catalog)
        except (InvalidSchema, SchemasDiffer):
            continue
        if _has(older, wanted):
            return older
    raise OptionError(
        f"schema: no version of the schema of {topic} has {name} as {wanted.simpleString()}; "
        f"the newest is {spark_type(reader.type).simpleString()}"
    )


def _has(reader: SchemaReader, wanted: spark.DataType) -> bool:
    kind = spark_type(reader.type)
    if not isinstance(wanted, spark.StructType) or not isinstance(kind, spark.StructType) or reader.fields is None:
        return bool(kind.simpleString() == wanted.simpleString())
    types = {field.name: field.dataType.simpleString() for field in kind.fields}
    return all(types.get(field.name) == field.dataType.simpleString() for field in wanted.fields)


# --- columns ---------------------------------------------------------------------------------------------------------

_INTERVAL = spark.StructType(
    [
        spark.StructField("months", spark.IntegerType()),
        spark.StructField("days", spark.IntegerType()),
        spark.StructField("nanoseconds", spark.LongType()),
    ]
)

_TYPES: Mapping[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.date32(): spark.DateType(),
    pa.time32("ms"): spark.IntegerType(),
    pa.time32("s"): spark.IntegerType(),
    pa.month_day_nano_interval(): _INTERVAL,
}


def spark_type(kind: pa.DataType) -> spark.DataType:
    """Return the type of Spark for decoded values."""
    if pa.types.is_struct(kind):
        return spark.StructType([spark.StructField(field.name, spark_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return spark.MapType(spark.StringType(), spark_type(kind.item_type))
    if pa.types.is_list(kind):
        return spark.ArrayType(spark_type(kind.value_type))
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        in_zone = spark.TimestampType() if kind.tz else spark.TimestampNTZType()
        return spark.LongType() if kind.unit == "ns" else in_zone
    if pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return spark.LongType()
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return spark.BinaryType()
    return _TYPES.get(kind, spark.StringType())


def decoded_columns(batch: pa.RecordBatch, decoder: RecordDecoder, schema: pa.Schema) -> dict[str, pa.Array]:
    """Return the columns of a batch that Spark wants: decoded ones, why they are null, and the others."""
    made = {name: batch.column(name) for name in batch.schema.names}
    reasons = dict[str, pa.Array]()
    for name, topic_decoder in decoders_of(schema, decoder).items():
        kind = schema.field(name).type if name in schema.names else None
        made[name], reasons[name] = _decoded(batch, topic_decoder, name, kind)
    if VALUE_ERROR in schema.names:
        made[VALUE_ERROR] = joined_reasons(reasons.get(VALUE_FIELD), reasons.get(KEY_FIELD))
    return made


def decoders_of(schema: pa.Schema, decoder: RecordDecoder) -> dict[str, TopicDecoder]:
    """Return the decoders for the columns of a query. With the reasons, all that could have one is decoded."""
    found = ((VALUE_FIELD, decoder.values), (KEY_FIELD, decoder.keys))
    return {
        name: topic_decoder
        for name, topic_decoder in found
        if topic_decoder is not None and (name in schema.names or VALUE_ERROR in schema.names)
    }


def _decoded(
    batch: pa.RecordBatch, decoder: TopicDecoder, name: str, kind: pa.DataType | None
) -> tuple[pa.Array | None, pa.Array]:
    """Return a decoded column as Spark takes it, and the reasons. `kind`: its type; None: only these are wanted."""
    column = decoder.decode(batch.column(name), batch.column(HEADERS))
    reasons = column.reasons.cast(pa.string())
    if kind is None:
        return None, reasons
    return cast_values(column.values, kind, reasons, _BEYOND_SPARK)


def raw_schema(schema: pa.Schema, decoded: Collection[str]) -> pa.Schema:
    """Return the columns of records that are read for those of a query, of which some are decoded."""
    own = [field for field in schema if field.name not in (*decoded, VALUE_ERROR, HEADERS)]
    return pa.schema([*own, *(SCHEMA.field(name) for name in decoded), SCHEMA.field(HEADERS)])
