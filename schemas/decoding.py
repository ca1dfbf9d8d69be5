"""Keys or values of a topic, decoded by the schemas that they name into columns of Arrow.

    schemas = DirectorySchemas(directory, files)
    decoder = schemas.decoder("orders", schemas.reader("orders"), fields=("id", "amount"))
    column = decoder.decode(values)      columns of the reader's schema; a reason for each row that is not decoded

The reader's schema is one, so that all rows have the same columns; each row is read by the schema that it names, and
resolved. Rows that name the same schema are decoded together. A row whose schema is unknown, or whose bytes do not fit
it, is null and has a reason: never an error of the whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from offsetfs.schemas.catalog import SchemaCatalog
from offsetfs.schemas.formats import InvalidSchema, Reader, SchemasDiffer, ValueDecoder, decoder_of, reader_of
from offsetfs.schemas.masks import FieldMask, MaskError, Masks
from offsetfs.schemas.references import PATTERNS, VALUE_FIELD, NamedSchema, ReferenceForm, named_schema
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.schemas.schema_usage import Known, KnownSchemas
from offsetfs.schemas.schemas_topic import SCHEMAS_TOPIC, read_schemas_topic
from offsetfs.storage import LogDirectory

_COMPRESSED = "the value is compressed by its serializer, and such values are not decoded"

_ZLIB = b"\3\5"
"""The first bytes of a value that a serializer of Glue has compressed."""

DECODERS_MAX = 1000
"""Schemas of a topic whose programs are kept: protects memory."""

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"


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

    def __init__(self, directory: LogDirectory, files: Mapping[str, FileSchema], masks: Masks | None = None) -> None:
        """`files`: schemas by the name that records or topics have for them (`read_schema_files`).

        `masks`: what no decoder of these schemas shows.
        """
        self._directory, self._files = directory, files
        self.masks = Masks() if masks is None else masks
        self._catalog = SchemaCatalog()
        self._known = KnownSchemas(self._catalog, files)
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
        self._known = KnownSchemas(self._catalog, self._files)
        return True

    def reader(self, topic: str) -> Reader:
        """Return the columns of a topic's values: of its file, else of its subject's newest version. `NoSchema`."""
        subject = f"{topic}-{VALUE_FIELD}"
        schema = self._known.unnamed(topic) or self._catalog.latest(subject)
        if schema is None:
            raise NoSchema(f"there is no subject {subject}", f"{topic}=FILE")
        try:
            return reader_of(schema, self._catalog)
        except (InvalidSchema, SchemasDiffer) as error:
            raise NoSchema(f"{schema}: {error}") from error

    def decoder(self, topic: str, reader: Reader, fields: Sequence[str] | None = None) -> TopicDecoder:
        """Return a decoder of the values of a topic. `fields`: those of a record, in this order; None: all.

        `reader` is that of all fields. `MaskError` if the topic has a mask for a field that is not there.
        """
        mask = self.masks.of(topic, reader.members()) if topic in self.masks else None
        wanted = reader if fields is None else reader.with_fields(fields)
        return TopicDecoder(self._known, self._catalog, topic, VALUE_FIELD, wanted, mask)

    def check_masks(self) -> None:
        """Raise `MaskError` for a mask of a topic, or of a field, that is not there."""
        self.masks.check_topics({name.topic for name in self._directory.partitions()})
        for topic in self.masks.fields:
            try:
                self.decoder(topic, self.reader(topic))
            except NoSchema as error:
                raise MaskError(f"mask {topic}: {error.reason}") from error


class TopicDecoder:
    """Decodes keys or values of one topic. One thread at a time uses it."""

    def __init__(
        self,
        known: KnownSchemas,
        catalog: SchemaCatalog,
        topic: str,
        field: str,
        reader: Reader,
        mask: FieldMask | None = None,
    ) -> None:
        self._mask = mask
        self.is_masked = mask is not None
        """Whether raw values must not be shown."""
        self._known, self._catalog, self._topic, self._field = known, catalog, topic, field
        self._reader = reader
        self.type = reader.type
        self._decoders: dict[NamedSchema | None, ValueDecoder | str] = {}

    def decode(self, values: pa.BinaryArray) -> DecodedColumn:
        """Decode a column. `MemoryError` if its values need more than 1 GiB."""
        if values.offset:
            values = pa.concat_arrays([values])
        reasons: list[str] = []
        codes = np.full(len(values), -1, np.int32)
        decoded, rows = [], []
        for named, picks, skip, is_compressed in _groups(values, self._field):
            decoder = _COMPRESSED if is_compressed else self._decoder_of(named)
            if isinstance(decoder, str):
                codes[picks] = _code(reasons, decoder)
                continue
            path = None if named is not None and named.form == ReferenceForm.CONFLUENT else b""
            found, faults = decoder.decode(values, array("i", picks.astype(np.int32).tobytes()), skip, path)
            decoded.append(found)
            rows.append(picks)
            for fault in faults:
                codes[picks[fault.row]] = _code(reasons, f"{_written(named)}: {decoder.reason(fault)}")
        indices = pa.array(codes, mask=codes < 0)
        column = DecodedColumn(
            self._in_order(decoded, rows, len(values)),
            pa.DictionaryArray.from_arrays(indices, pa.array(reasons, pa.string())),
        )
        mask = self._mask
        return column if mask is None else DecodedColumn(mask.applied(column.values), mask.reasons(column.reasons))

    def _in_order(self, decoded: list[pa.Array], rows: list[Numbers], count: int) -> pa.Array:
        if len(decoded) == 1 and len(rows[0]) == count:
            return decoded[0]
        joined = pa.concat_arrays(decoded) if decoded else pa.nulls(0, self.type)
        places = np.full(count, -1, np.int64)
        if rows:
            places[np.concatenate(rows)] = np.arange(len(joined))
        return joined.take(pa.array(places, mask=places < 0))

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
            given = self._known.unnamed(self._topic)
            found: Sequence[Known] = () if given is None else (given,)
        else:
            found = self._known.find(named, self._topic, self._field)
        if not found:
            return "the record names no schema" if named is None else f"{_written(named)} is unknown"
        try:
            return decoder_of(found[0], self._reader, self._catalog)
        except (InvalidSchema, SchemasDiffer) as error:
            return f"{found[0]}: {error}"


def decoded_batches(batches: pa.RecordBatchReader, decoder: TopicDecoder) -> pa.RecordBatchReader:
    """Return batches with their column `value` decoded, and the reasons in a column `error` behind the others."""
    at = batches.schema.get_field_index("value")
    schema = batches.schema.set(at, pa.field("value", decoder.type)).append(pa.field("error", pa.string()))

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = decoder.decode(batch.column(at))
            parts = [*batch.columns[:at], column.values, *batch.columns[at + 1 :], column.reasons.cast(pa.string())]
            yield pa.RecordBatch.from_arrays(parts, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def _written(named: NamedSchema | None) -> str:
    return "the schema of the topic" if named is None else f"schema {named.name}"


def _code(reasons: list[str], reason: str) -> int:
    """Return the number of a reason; the same reason has the same number while it repeats."""
    if not reasons or reasons[-1] != reason:
        reasons.append(reason)
    return len(reasons) - 1


# --- rows by the schema that they name -------------------------------------------------------------------------------


def _groups(values: pa.BinaryArray, field: str) -> Iterator[tuple[NamedSchema | None, Numbers, int, bool]]:
    """Yield the rows that name the same schema, how many bytes name it, and whether what follows is compressed.

    Rows that are null are in no group.
    """
    validity, ends_held, data_held = values.buffers()
    ends = np.frombuffer(ends_held, np.int32)[: len(values) + 1].astype(np.int64)
    data = np.frombuffer(data_held, np.uint8) if data_held is not None and data_held.size else np.zeros(1, np.uint8)
    starts, sizes = ends[:-1], np.diff(ends)
    left = np.flatnonzero(np.asarray(values.is_valid())) if validity is not None else np.arange(len(values))
    for number, pattern in enumerate(PATTERNS[field]):
        if pattern.header is not None or not len(left):
            continue
        size = pattern.most
        is_long = sizes[left] >= size
        matched = left[is_long]
        heads = data[starts[matched][:, None] + np.arange(size)]
        for place, byte in enumerate(pattern.prefix):
            keeps = heads[:, place] == byte
            matched, heads = matched[keeps], heads[keeps]
        if not len(matched):
            continue
        for named, rows in _by_name(field, number, matched, heads, size):
            yield named, rows, size, pattern.prefix == _ZLIB
        left = np.setdiff1d(left, matched, assume_unique=True)
    if len(left):
        yield None, left, 0, False


def _by_name(
    field: str, number: int, rows: Numbers, heads: np.ndarray[tuple[int, int], np.dtype[np.uint8]], size: int
) -> Iterator[tuple[NamedSchema | None, Numbers]]:
    if (heads == heads[0]).all():
        yield named_schema(field, number, heads[0].tobytes()), rows
        return
    names, places = np.unique(np.ascontiguousarray(heads).view(f"V{size}").ravel(), return_inverse=True)
    for name in range(len(names)):
        yield named_schema(field, number, names[name].tobytes()), rows[places == name]
