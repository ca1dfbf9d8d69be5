"""Rows with decoded values: a column for each field of a topic's schema, added to the table when the schema grows.

A value that is not decoded, or that the database cannot hold, keeps its bytes in `payload`.

A decoded key is the column `decoded_key`, if the topic has a schema for keys; `message_key` keeps the bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetfs.schemas.decoding import NoSchema, TopicDecoder
from offsetfs.schemas.masks import MaskError, Masks
from offsetfs.schemas.python_values import python_values
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory
from offsetfs.tables.arrow import header_column
from offsetfs.tables.databases.layout import DECODING_ERROR, VALUE_BYTES, TableError, schema_error
from offsetfs.tables.databases.messages_table import MessagesTable
from offsetfs.tables.databases.record_rows import RecordRows, headers_of
from offsetfs.tables.databases.typed_columns import TypedColumn, key_column, stored_keys, stored_rows, typed_columns
from offsetfs.tables.topic_schema import TopicSchema

if TYPE_CHECKING:
    from offsetfs.schemas.registry_schemas import RegistrySchemas


class TableDecoding:
    """Decodes the values of one topic for a table."""

    def __init__(
        self,
        directory: LogDirectory,
        table: MessagesTable,
        topic: str,
        files: Mapping[str, FileSchema],
        masks: Masks,
        registry: RegistrySchemas | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Add the columns that the table lacks; TableError. `registry`: is asked for what the directory lacks."""
        self._table = table
        self._columns: list[TypedColumn] = []
        self._key_column: TypedColumn | None = None
        self.not_decoded = {"value": 0, "key": 0}
        """The numbers of values and keys that are in no column of their own."""
        others = sorted({partition.topic for partition in table.progress()} - {topic})
        if others:
            raise TableError(f"{table.name} has decoded rows of {others[0]}: choose another --table for {topic}")
        try:
            self._schema = TopicSchema(directory, topic, files, masks, registry, now=now)
        except (NoSchema, MaskError) as error:
            raise schema_error(error) from error
        self._take()

    def refresh(self) -> None:
        """Take in a new version of the schema; TableError if its fields cannot be columns of the table."""
        try:
            is_new = self._schema.refresh()
        except MaskError as error:
            raise schema_error(error) from error
        if is_new:
            self._take()

    def _take(self) -> None:
        keys = self._schema.key_reader
        self._columns = typed_columns(self._schema.reader.type, has_keys=keys is not None)
        grown = [*self._columns]
        if keys is not None:
            self._key_column = key_column(keys.type)
            grown.append(self._key_column)
        self._table.grow(grown)

    def fill(self, rows: RecordRows) -> None:
        """Add the columns of the decoded values to rows. Those that are decoded lose their payload."""
        headers = header_column(map(headers_of, rows.headers)) if any(rows.headers) else None
        column = self._schema.decoder.values.decode(pa.array(rows.values, pa.binary()), headers)
        scheme = self._table.database.scheme
        typed, reasons = stored_rows(self._columns, list(python_values(column)), scheme)
        is_masked = self._schema.decoder.values.is_masked
        values = rows.values
        rows.values = [
            None if is_masked or reason is None else value for value, reason in zip(values, reasons, strict=True)
        ]
        rows.typed = {**typed, DECODING_ERROR: reasons, **({} if is_masked else {VALUE_BYTES: values})}
        self.not_decoded["value"] += sum(reason is not None for reason in reasons)
        if self._schema.decoder.keys is not None and self._key_column is not None:
            self._fill_keys(rows, self._schema.decoder.keys, self._key_column, headers)

    def _fill_keys(
        self, rows: RecordRows, decoder: TopicDecoder, column: TypedColumn, headers: pa.ListArray | None
    ) -> None:
        keys = decoder.decode(pa.array(rows.keys, pa.binary()), headers)
        stored, reasons = stored_keys(column, python_values(keys), self._table.database.scheme)
        rows.typed[column.name] = stored
        rows.typed[DECODING_ERROR] = [
            f"key: {of_key}" if of_value is None and of_key is not None else of_value
            for of_value, of_key in zip(rows.typed[DECODING_ERROR], reasons, strict=True)
        ]
        self.not_decoded["key"] += sum(reason is not None for reason in reasons)
