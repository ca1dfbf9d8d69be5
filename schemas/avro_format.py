"""Avro as a format of `schemas.formats`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetfs.schemas.avro_arrow import AvroDecoder, avro_members
from offsetfs.schemas.avro_schema import AvroType, RecordType, parsed
from offsetfs.schemas.catalog import BrokenReference, SchemaVersion
from offsetfs.schemas.formats import InvalidSchema
from offsetfs.storage.records.avro import FAULTS, DecodingFault

if TYPE_CHECKING:
    from offsetfs.schemas.catalog import SchemaCatalog
    from offsetfs.schemas.masks import TypeMember
    from offsetfs.schemas.schema_usage import Known


class AvroReader:
    """The columns of a type of Avro."""

    format = "AVRO"

    def __init__(self, kind: AvroType) -> None:
        self._kind = kind
        self.type = AvroDecoder(kind, kind).type
        self.fields = [member.name for member in kind.fields] if isinstance(kind, RecordType) else None

    def members(self) -> Iterator[TypeMember]:
        """Yield the columns with their tags."""
        return avro_members(self._kind)

    def with_fields(self, names: Sequence[str]) -> AvroReader:
        """Return a reader of some fields."""
        kind = self._kind
        assert isinstance(kind, RecordType)
        by_name = {member.name: member for member in kind.fields}
        return AvroReader(RecordType(kind.name, kind.aliases, tuple(by_name[name] for name in names)))

    def decoder(self, writer: Known, catalog: SchemaCatalog) -> AvroValueDecoder:
        """Return the decoder of a writer's schema. `InvalidSchema`; `SchemasDiffer`."""
        return AvroValueDecoder(AvroDecoder(avro_type(writer, catalog), self._kind))


class AvroValueDecoder:
    """Decodes values of a writer's schema."""

    def __init__(self, decoder: AvroDecoder) -> None:
        self._decoder = decoder

    def decode(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> tuple[pa.Array, Sequence[DecodingFault]]:
        """See `ValueDecoder.decode`."""
        return self._decoder.decode(values, rows, skip)

    def reason(self, fault: DecodingFault) -> str:
        """Return the field, and what is wrong with it."""
        place = self._decoder.place(fault)
        return f"field {place}: {FAULTS[fault.code]}" if place else FAULTS[fault.code]


def reader_of(known: Known, catalog: SchemaCatalog) -> AvroReader:
    """Return the reader of a schema. `InvalidSchema`."""
    return AvroReader(avro_type(known, catalog))


def avro_type(known: Known, catalog: SchemaCatalog) -> AvroType:
    """Return the type that a schema defines. `InvalidSchema` if it defines none, or a reference is missing."""
    texts = {}
    if isinstance(known, SchemaVersion):
        try:
            texts = {version.key: version.text for _, version in catalog.referred(known)}
        except BrokenReference as error:
            raise InvalidSchema(str(error)) from error
    return parsed(known.text, list(texts.values()))
