"""JSON Schema as a format of `schemas.formats`.

Values are read by the reader's schema alone: a JSON text names its fields, and writers' schemas add nothing to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetfs.schemas.catalog import BrokenReference, SchemaVersion
from offsetfs.schemas.formats import InvalidSchema
from offsetfs.schemas.json_columns import JsonDecoder, members_of
from offsetfs.schemas.json_schema import JsonType, parsed
from offsetfs.storage.records.json_values import FAULTS, DecodingFault

if TYPE_CHECKING:
    from offsetfs.schemas.catalog import SchemaCatalog
    from offsetfs.schemas.masks import TypeMember
    from offsetfs.schemas.schema_usage import Known


class JsonReader:
    """The columns of a JSON Schema."""

    format = "JSON"

    def __init__(self, kind: JsonType) -> None:
        self._kind = kind
        self.type = JsonDecoder(kind).type
        self.fields = list(kind.names) if kind.kind == "object" else None

    def members(self) -> Iterator[TypeMember]:
        """Yield the columns with their tags."""
        return members_of(self._kind)

    def with_fields(self, names: Sequence[str]) -> JsonReader:
        """Return a reader of some fields."""
        by_name = dict(zip(self._kind.names, self._kind.children, strict=True))
        return JsonReader(replace(self._kind, names=tuple(names), children=tuple(by_name[name] for name in names)))

    def decoder(self, writer: Known, catalog: SchemaCatalog) -> JsonValueDecoder:
        """Return the decoder of any writer's schema."""
        return JsonValueDecoder(JsonDecoder(self._kind))


class JsonValueDecoder:
    """Decodes values."""

    def __init__(self, decoder: JsonDecoder) -> None:
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


def reader_of(known: Known, catalog: SchemaCatalog) -> JsonReader:
    """Return the reader of a schema. `InvalidSchema` if it is none, or a reference is missing."""
    references: dict[str, str] = {}
    if isinstance(known, SchemaVersion):
        try:
            references = {reference.name: version.text for reference, version in catalog.referred(known)}
        except BrokenReference as error:
            raise InvalidSchema(str(error)) from error
    return JsonReader(parsed(known.text, references))
