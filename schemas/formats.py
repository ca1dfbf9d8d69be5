"""Formats of schemas, and the one way to their decoders.

    reader = reader_of(known, catalog)            columns, as the schema of the reader defines them
    decoder = reader.decoder(known, catalog)      values of a writer's schema, as these columns
    array, faults = decoder.decode(values, rows, skip, path)

A format is a module with a function `reader_of(known, catalog) -> SchemaReader`. It is imported when a schema of that
type is first used.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

if TYPE_CHECKING:
    from offsetfs.schemas.catalog import SchemaCatalog
    from offsetfs.schemas.masks import TypeMember
    from offsetfs.schemas.named_rows import NamedRows
    from offsetfs.schemas.schema_usage import Known

FORMATS = {
    "AVRO": "offsetfs.schemas.avro_format",
    "JSON": "offsetfs.schemas.json_format",
    "PROTOBUF": "offsetfs.schemas.protobuf_format",
}
"""The modules, by the type that a registry has for a schema."""


class InvalidSchema(ValueError):
    """The text is not a schema of its type, or cannot be columns. The message names the place in the schema."""


class SchemasDiffer(ValueError):
    """Values of the writer's schema cannot be read by the reader's. The message names the field."""


class ValueFault(Protocol):
    """A value that does not fit its schema."""

    @property
    def row(self) -> int:
        """The position in the `rows` that were decoded."""


class ValueDecoder(Protocol):
    """Decodes values of one writer's schema into the columns of a reader. One thread at a time uses it."""

    def decode(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> tuple[pa.Array, Sequence[ValueFault]]:
        """Return the decoded values of `rows` (int32), without their first `skip` bytes, and faults in order.

        `path`: that of a Protobuf message, as Confluent encodes it; None: it is in each value, behind `skip`; empty:
        there is none, the message is the first of its schema. Other formats ignore it. A null stays a null. A value
        that does not fit is a null and has one fault. `values` is no slice. `MemoryError` if the result needs more
        than 1 GiB.
        """

    def reason(self, fault: Any) -> str:
        """Return what is wrong with a value, and in which field; without content of the value."""


class SchemaReader(Protocol):
    """The columns into which values are decoded."""

    @property
    def format(self) -> str:
        """The key in `FORMATS`; empty where values of all formats are decoded."""

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values. Those of a record are a struct."""

    @property
    def fields(self) -> Sequence[str] | None:
        """The names of the fields, in their order; None where values are no records."""

    def members(self) -> Iterable[TypeMember]:
        """Return the columns and those within them, for masks."""

    def with_fields(self, names: Sequence[str]) -> SchemaReader:
        """Return a reader of some fields of a record, in this order. Others are not decoded."""

    def decoder(self, writer: Known, catalog: SchemaCatalog) -> ValueDecoder:
        """Return the decoder of a writer's schema of the same format. `InvalidSchema`; `SchemasDiffer`."""


@runtime_checkable
class DividingDecoder(ValueDecoder, Protocol):
    """A decoder of values of several types, which have columns of their own."""

    def divided(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> Iterator[tuple[Any, ValueDecoder, str]]:
        """Yield positions in `rows` (NumPy), the decoder of the type that they are, and the type's name.

        The name is empty for the type that values of the schema are by default. Arguments as of `decode`.
        """


@runtime_checkable
class ChoosingReader(SchemaReader, Protocol):
    """A reader whose schema has several types, of which values say which they are."""

    @property
    def is_certain(self) -> bool:
        """Whether values can only be of this type."""

    def of_most(
        self,
        rows: Iterable[NamedRows],
        values: pa.BinaryArray,
        find: Callable[[NamedRows], tuple[Known, SchemaCatalog] | None],
    ) -> SchemaReader:
        """Return the reader of the type that most of some values are.

        `find` returns the schema that rows name, and the catalog that has those to which it refers.
        """


def reader_of(known: Known, catalog: SchemaCatalog) -> SchemaReader:
    """Return the reader of a schema. `catalog` has the schemas it refers to. `InvalidSchema`; `SchemasDiffer`."""
    module = FORMATS.get(known.type)
    if module is None:
        raise InvalidSchema(f"the schema is {known.type}, and only {', '.join(FORMATS)} is decoded")
    made: SchemaReader = importlib.import_module(module).reader_of(known, catalog)
    return made


def decoder_of(writer: Known, reader: SchemaReader, catalog: SchemaCatalog) -> ValueDecoder:
    """Return the decoder of a writer's schema. `InvalidSchema`; `SchemasDiffer`."""
    if writer.type not in FORMATS:
        raise InvalidSchema(f"the schema is {writer.type}, and only {', '.join(FORMATS)} is decoded")
    if reader.format and writer.type != reader.format:
        raise SchemasDiffer(f"the schema is {writer.type}, that of the reader is {reader.format}")
    return reader.decoder(writer, catalog)
