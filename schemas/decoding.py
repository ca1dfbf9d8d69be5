"""Keys or values of a topic, decoded by the schemas that they name into columns of Arrow.

    schemas = DirectorySchemas(directory, files)
    decoder = schemas.decoder("orders", schemas.reader("orders"), fields=("id", "amount"))
    column = decoder.decode(values)      columns of the reader's schema; a reason for each row that is not decoded

The reader's schema is one, so that all rows have the same columns; each row is read by the schema that it names, and
resolved. Rows that name the same schema are decoded together. A row whose schema is unknown, or whose bytes do not fit
it, is null and has a reason: never an error of the whole.
"""

from __future__ import annotations

import contextlib
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion
from offsetfs.schemas.formats import (
    ChoosingReader,
    InvalidSchema,
    SchemaReader,
    SchemasDiffer,
    ValueDecoder,
    decoder_of,
    reader_of,
)
from offsetfs.schemas.masks import FieldMask, MaskError, Masks
from offsetfs.schemas.named_rows import NamedRows, Numbers, rows_by_schema
from offsetfs.schemas.newest_values import newest_values
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD, NamedSchema, ReferenceForm
from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.schemas.schema_usage import Known, KnownSchemas, name_of_unnamed
from offsetfs.schemas.schemas_topic import SCHEMAS_TOPIC, read_schemas_topic
from offsetfs.storage import AnyLogDirectory

if TYPE_CHECKING:
    from offsetfs.schemas.schema_usage import Registry

INFLATED_BYTES_MAX = 64 << 20
"""A value that its serializer has compressed: protects memory."""

DECODERS_MAX = 1000
"""Schemas of a topic whose programs are kept: protects memory."""


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """Rows in the order of the column that was decoded."""

    values: pa.Array
    """Of the reader's type; null where a row is null or not decoded."""
    reasons: pa.DictionaryArray
    """Why a row is not decoded; null for others."""


class NoSchema(ValueError):
    """No schema is known for a topic, or none that is decoded.

    `word`: what `read_schema_files` takes to give a schema; empty where that is no remedy.
    """

    def __init__(self, reason: str, word: str = "") -> None:
        super().__init__(f"{reason}; schemas=[{word!r}] gives a schema" if word else reason)
        self.reason = reason
        self.word = word


class DirectorySchemas:
    """The schemas of a directory, and decoders by them. They follow its topic `_schemas` when `refresh` is called."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        files: Mapping[str, FileSchema],
        masks: Masks | None = None,
        registry: Registry | None = None,
    ) -> None:
        """`files`: schemas by the name that records or topics have for them (`read_schema_files`).

        `masks`: what no decoder of these schemas shows. `registry`: is asked for schemas that are in neither.
        """
        self._directory, self._files, self._registry = directory, files, registry
        self.masks = Masks() if masks is None else masks
        self._catalog = SchemaCatalog()
        self._known = KnownSchemas(self._catalog, files, registry)
        self._end = -1

    def refresh(self) -> bool:
        """Read the schemas again if there are new ones. Return whether there are. OSError of the disk."""
        names = [name for name in self._directory.partitions() if name.topic == SCHEMAS_TOPIC]
        logs = [self._directory.log(name) for name in names]
        for log in logs:
            log.refresh(is_forced=True)
        end = sum(log.next_offset for log in logs)
        if end == self._end:
            return False
        self._end = end
        read = read_schemas_topic(self._directory)
        self._catalog = SchemaCatalog() if read is None else read.catalog
        self._known = KnownSchemas(self._catalog, self._files, self._registry)
        return True

    @property
    def catalog(self) -> SchemaCatalog:
        """The schemas of the topic `_schemas`, as of the last `refresh`."""
        return self._catalog

    def take(self, catalog: SchemaCatalog) -> None:
        """Use schemas that were read elsewhere."""
        self._catalog, self._known = catalog, KnownSchemas(catalog, self._files, self._registry)

    def has_schema(self, topic: str, field: str) -> bool:
        """Return whether there is a schema of keys or values of a topic. `NoSchema` if a registry does not say."""
        try:
            return self._known.reader(topic, field) is not None
        except RegistryError as error:
            raise NoSchema(str(error)) from error

    def writer(
        self, topic: str, named: NamedSchema | None = None, field: str = VALUE_FIELD
    ) -> tuple[Known, SchemaCatalog]:
        """Return the schema for new keys or values, by name or the newest, and those it refers to. `NoSchema`."""
        if named is None:
            schema = self.newest(topic, field)
            return schema, self._known.catalog_of(schema)
        try:
            found = self._known.find(named, topic, field)
        except RegistryError as error:
            raise NoSchema(str(error)) from error
        if not found:
            raise NoSchema(f"schema {named.name} is unknown", f"{named.name}=FILE")
        return found[0], self._known.catalog_of(found[0])

    def all_of(self, topic: str, field: str) -> Sequence[tuple[Known, SchemaCatalog]]:
        """Return the schemas of keys or values: the topic's file, and the versions of its subject, the newest first.

        With each, the catalog of those it refers to. `NoSchema` if a registry does not say.
        """
        try:
            newest = self._known.reader(topic, field)
        except RegistryError as error:
            raise NoSchema(str(error)) from error
        versions: list[Known] = [*reversed(self._catalog.versions(f"{topic}-{field}"))]
        found = versions if newest is None or newest in versions else [newest, *versions]
        return [(version, self._known.catalog_of(version)) for version in found]

    def newest(self, topic: str, field: str = VALUE_FIELD) -> Known:
        """Return the schema of keys or values: the topic's file, else the newest of its subject. `NoSchema`."""
        try:
            schema = self._known.reader(topic, field)
        except RegistryError as error:
            raise NoSchema(str(error)) from error
        if schema is None:
            raise NoSchema(f"there is no subject {topic}-{field}", f"{name_of_unnamed(topic, field)}=FILE")
        return schema

    def reader(self, topic: str, field: str = VALUE_FIELD) -> SchemaReader:
        """Return the columns of the newest schema of keys or values; of several types, the commonest. `NoSchema`."""
        made = self.reader_of(self.newest(topic, field))
        if not isinstance(made, ChoosingReader) or made.is_certain:
            return made
        try:
            return self._chosen(made, topic, field)
        except SchemasDiffer as error:
            raise NoSchema(str(error)) from error

    def key_reader(self, topic: str) -> SchemaReader | None:
        """Return the columns of keys; None if they have no schema, or none that is decoded: keys stay bytes then."""
        try:
            return self.reader(topic, KEY_FIELD)
        except NoSchema:
            return None

    def record_decoder(self, topic: str) -> RecordDecoder:
        """Return a decoder of values by their newest schema, and of keys. `NoSchema` of values; `MaskError`."""
        values, keys = self.decoder(topic, self.reader(topic)), self.key_reader(topic)
        return RecordDecoder(values, None if keys is None else self.decoder(topic, keys, field=KEY_FIELD))

    def reader_of(self, schema: Known) -> SchemaReader:
        """Return the columns of a schema. `NoSchema`."""
        try:
            return reader_of(schema, self._known.catalog_of(schema))
        except (InvalidSchema, SchemasDiffer) as error:
            raise NoSchema(f"{schema}: {error}") from error

    def _chosen(self, reader: ChoosingReader, topic: str, field: str) -> SchemaReader:
        """Return the reader of the type that most of the newest values are."""
        values, headers = newest_values(self._directory, topic, field)

        def find(rows: NamedRows) -> tuple[Known, SchemaCatalog] | None:
            named = rows.named
            known: Sequence[Known | None] = [self._known.unnamed(topic, field)]
            with contextlib.suppress(RegistryError):
                known = known if named is None else self._known.find(named, topic, field)
            schema = known[0] if known else None
            return None if schema is None else (schema, self._known.catalog_of(schema))

        return reader.of_most(rows_by_schema(values, headers, field), values, find)

    def decoder(
        self, topic: str, reader: SchemaReader, fields: Sequence[str] | None = None, field: str = VALUE_FIELD
    ) -> TopicDecoder:
        """Return a decoder of the keys or values of a topic. `fields`: those of a record, in this order; None: all.

        `reader` is that of all fields. Masks are of values. `MaskError` if the topic has a mask for a field that is not
        there.
        """
        is_masked = field == VALUE_FIELD and topic in self.masks
        mask = self.masks.of(topic, reader.members(), self._tags(topic)) if is_masked else None
        wanted = reader if fields is None else reader.with_fields(fields)
        return TopicDecoder(self._known, topic, field, wanted, mask)

    def _tags(self, topic: str) -> list[tuple[str, str]]:
        """Return the tags in the metadata of all versions: what was tagged once is hidden with its tag. `MaskError`."""
        versions: list[Known] = [*self._catalog.versions(f"{topic}-{VALUE_FIELD}")]
        try:
            newest = self._known.reader(topic, VALUE_FIELD)  # of a registry
        except RegistryError as error:  # a tag that is not known would hide nothing
            raise MaskError(f"mask {topic}: {error}") from error
        versions += () if newest is None else (newest,)
        return [tag for version in versions if isinstance(version, SchemaVersion) for tag in version.tags]

    def check_masks(self) -> None:
        """Raise `MaskError` for a mask of a topic, or of a field, that is not there."""
        self.masks.check_topics({name.topic for name in self._directory.partitions()})
        for topic in self.masks.fields:
            try:
                self.decoder(topic, self.reader(topic))
            except NoSchema as error:
                raise MaskError(f"mask {topic}: {error.reason}") from error


_IN_HEADERS = frozenset((ReferenceForm.CONFLUENT_HEADER, ReferenceForm.APICURIO_HEADER))


class TopicDecoder:
    """Decodes keys or values of one topic. One thread at a time uses it.

    A number as a key may have the first bytes of a reference. So keys of a topic without a schema for them are decoded
    only by a header, or by a known schema that is not one of values.
    """

    def __init__(
        self,
        known: KnownSchemas,
        topic: str,
        field: str,
        reader: SchemaReader,
        mask: FieldMask | None = None,
    ) -> None:
        self._mask = mask
        self.is_masked = mask is not None
        """Whether raw values must not be shown."""
        self._known, self._topic, self._field = known, topic, field
        self._reader = reader
        self.type = reader.type
        self._decoders: dict[NamedSchema | None, ValueDecoder | str] = {}
        self._has_schema: bool | None = None

    @property
    def has_schema(self) -> bool:
        """Whether the topic had a schema for its keys, or values, when this was first asked for."""
        if self._has_schema is None:
            try:
                self._has_schema = self._known.reader(self._topic, self._field) is not None
            except RegistryError:
                self._has_schema = False
        return self._has_schema

    @property
    def has_failed(self) -> bool:
        """Whether a row named a schema that is unknown, or of no use."""
        return any(isinstance(decoder, str) for decoder in self._decoders.values())

    def would_decode_more(self, known: KnownSchemas) -> bool:
        """Return whether a row failed by a schema that is in `known` now."""
        newer = TopicDecoder(known, self._topic, self._field, self._reader)
        failed = [named for named, decoder in self._decoders.items() if isinstance(decoder, str)]
        return any(not isinstance(newer._made(named), str) for named in failed)

    def forget_failures(self) -> None:
        """Look again for schemas that were unknown."""
        self._decoders = {named: decoder for named, decoder in self._decoders.items() if not isinstance(decoder, str)}

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray | None = None) -> DecodedColumn:
        """Decode a column. `headers`: those of the records, which may name schemas; None: they have none.

        `MemoryError` if the values need more than 1 GiB.
        """
        if values.offset:
            values = pa.concat_arrays([values])
        made = _Column(len(values), self.type)
        unknown: list[Numbers] = []
        for found in rows_by_schema(values, headers, self._field):
            decoder = self._decoder_of(found.named)
            if isinstance(decoder, str):
                made.fail(found.rows, decoder)
                if self._may_be_unnamed(found):
                    unknown.append(found.rows)
            elif found.is_compressed:
                for rows, inflated in _inflated(values, found, made):
                    picks = np.arange(len(rows))
                    self._decode(decoder, inflated, picks, NamedRows(found.named, rows), made)
            else:
                self._decode(decoder, values, found.rows, found, made)
        if unknown:
            self._try_unnamed(values, np.concatenate(unknown), made)
        column, mask = made.finished(), self._mask
        return column if mask is None else DecodedColumn(mask.applied(column.values), mask.reasons(column.reasons))

    def _decode(
        self, decoder: ValueDecoder, values: pa.BinaryArray, picks: Numbers, found: NamedRows, made: _Column
    ) -> None:
        decoded, faults = decoder.decode(values, _int32(picks), found.skip, found.path)
        made.add(decoded, found.rows)
        for fault in faults:
            made.fail(found.rows[fault.row], f"{_written(found.named)}: {decoder.reason(fault)}")

    def _may_be_unnamed(self, found: NamedRows) -> bool:
        """Return whether rows that name an unknown schema may only seem to, and the user gave one for the topic."""
        if found.named is None or found.is_in_header or self._known.unnamed(self._topic, self._field) is None:
            return False
        try:
            return not self._known.find(found.named, self._topic, self._field)
        except RegistryError:
            return True

    def _try_unnamed(self, values: pa.BinaryArray, rows: Numbers, made: _Column) -> None:
        """Decode values by the schema that the user gave for the topic; those that do not fit stay as they are."""
        decoder = self._decoder_of(None)
        if isinstance(decoder, str):
            return
        decoded, faults = decoder.decode(values, _int32(rows), 0, b"")
        fits = np.ones(len(rows), bool)
        fits[[fault.row for fault in faults]] = False
        made.add(decoded, rows)
        made.succeed(rows[fits])

    def _decoder_of(self, named: NamedSchema | None) -> ValueDecoder | str:
        """Return the decoder for rows that name a schema, or why there is none."""
        decoder = self._decoders.get(named)
        if decoder is None:
            if len(self._decoders) >= DECODERS_MAX:
                self._decoders.clear()
            decoder = self._decoders[named] = self._made(named)
        return decoder

    def _made(self, named: NamedSchema | None) -> ValueDecoder | str:
        if named is None:
            given = self._known.unnamed(self._topic, self._field)
            found: Sequence[Known] = () if given is None else (given,)
        else:
            try:
                found = self._found(named)
            except RegistryError as error:
                return f"{_written(named)} is unknown: {error}"
        if not found:
            return "the record names no schema" if named is None else f"{_written(named)} is unknown"
        try:
            return decoder_of(found[0], self._reader, self._known.catalog_of(found[0]))
        except (InvalidSchema, SchemasDiffer) as error:
            return f"{found[0]}: {error}"

    def _found(self, named: NamedSchema) -> Sequence[Known]:
        if self._field == VALUE_FIELD or named.form in _IN_HEADERS or self.has_schema:
            return self._known.find(named, self._topic, self._field)
        found = self._known.find(named, self._topic, self._field, asks_registry=False)
        is_of_values = f"-{VALUE_FIELD}"
        return [
            version
            for version in found
            if isinstance(version, SchemaVersion) and not version.subject.endswith(is_of_values)
        ]


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """Decodes the records of a topic."""

    values: TopicDecoder
    keys: TopicDecoder | None
    """None: keys have no schema, and stay bytes."""

    def forget_failures(self) -> None:
        """Look again for schemas that were unknown."""
        for decoder in (self.values, self.keys):
            if decoder is not None:
                decoder.forget_failures()


def joined_reasons(values: pa.Array | None, keys: pa.Array | None) -> pa.StringArray:
    """Return why a value is not decoded, or else a key, with `key: ` in front. None: it was not to be decoded."""
    found = [] if values is None else [values.cast(pa.string())]
    found += [] if keys is None else [pc.binary_join_element_wise("key", keys.cast(pa.string()), ": ")]
    return found[0] if len(found) == 1 else pc.coalesce(*found)


class _Column:
    """A decoded column that is being made."""

    def __init__(self, count: int, kind: pa.DataType) -> None:
        self._count, self._type = count, kind
        self._reasons: list[str] = []
        self._codes = np.full(count, -1, np.int32)
        self._decoded: list[pa.Array] = []
        self._rows: list[Numbers] = []

    def add(self, decoded: pa.Array, rows: Numbers) -> None:
        self._decoded.append(decoded)
        self._rows.append(rows)

    def fail(self, rows: Numbers | int, reason: str) -> None:
        """Set the reason of rows; that of the last call has one entry while it repeats."""
        if not self._reasons or self._reasons[-1] != reason:
            self._reasons.append(reason)
        self._codes[rows] = len(self._reasons) - 1

    def succeed(self, rows: Numbers) -> None:
        self._codes[rows] = -1

    def finished(self) -> DecodedColumn:
        indices = pa.array(self._codes, mask=self._codes < 0)
        reasons = pa.DictionaryArray.from_arrays(indices, pa.array(self._reasons, pa.string()))
        return DecodedColumn(self._in_order(), reasons)

    def _in_order(self) -> pa.Array:
        decoded, rows = self._decoded, self._rows
        if len(decoded) == 1 and len(rows[0]) == self._count:
            return decoded[0]
        joined = pa.concat_arrays(decoded) if decoded else pa.nulls(0, self._type)
        places = np.full(self._count, -1, np.int64)
        if rows:
            places[np.concatenate(rows)] = np.arange(len(joined))
        return joined.take(pa.array(places, mask=places < 0))


def decoded_batches(batches: pa.RecordBatchReader, decoder: RecordDecoder, shown: pa.Schema) -> pa.RecordBatchReader:
    """Return batches with `value` and `key` decoded, and the reasons in a column `error` behind the others.

    `batches` has the column `headers`, and all of `shown`, which the result has: `value`, or a `key` that is decoded.
    """
    decoders = {
        name: topic_decoder
        for name, topic_decoder in ((KEY_FIELD, decoder.keys), (VALUE_FIELD, decoder.values))
        if name in shown.names and topic_decoder is not None
    }
    fields = [
        pa.field(shown_field.name, decoders[shown_field.name].type) if shown_field.name in decoders else shown_field
        for shown_field in shown
    ]
    schema = pa.schema([*fields, pa.field("error", pa.string())])

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {
                name: topic_decoder.decode(batch.column(name), batch.column("headers"))
                for name, topic_decoder in decoders.items()
            }
            parts = [columns[name].values if name in columns else batch.column(name) for name in shown.names]
            found = {name: column.reasons for name, column in columns.items()}
            reasons = joined_reasons(found.get(VALUE_FIELD), found.get(KEY_FIELD))
            yield pa.RecordBatch.from_arrays([*parts, reasons], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def _written(named: NamedSchema | None) -> str:
    return "the schema of the topic" if named is None else f"schema {named.name}"


def _int32(numbers: Numbers) -> array[int]:
    return array("i", numbers.astype(np.int32).tobytes())


# --- compressed values -----------------------------------------------------------------------------------------------


def _inflated(values: pa.BinaryArray, found: NamedRows, made: _Column) -> Iterator[tuple[Numbers, pa.BinaryArray]]:
    """Yield rows with their inflated values, a part of them at a time; a value that cannot be inflated fails."""
    rows: list[int] = []
    parts: list[bytes] = []
    size = 0
    for row in found.rows.tolist():
        try:
            inflated = _inflate(values[row].as_py()[found.skip :])
        except ValueError as error:
            made.fail(row, f"{_written(found.named)}: {error}")
            continue
        rows.append(row)
        parts.append(inflated)
        size += len(inflated)
        if size >= INFLATED_BYTES_MAX:
            yield np.array(rows), pa.array(parts, pa.binary())
            rows, parts, size = [], [], 0
    if rows:
        yield np.array(rows), pa.array(parts, pa.binary())


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, INFLATED_BYTES_MAX)
    except zlib.error:
        raise ValueError("the value is not compressed with zlib, as its second byte says") from None
    if len(inflated) == INFLATED_BYTES_MAX and not inflater.eof:
        raise ValueError(f"the value inflates to more than {INFLATED_BYTES_MAX} bytes")
    if not inflater.eof:
        raise ValueError("the compressed value ends too early")
    return inflated
