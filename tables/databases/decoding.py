"""Rows with decoded values: a column for each field of a topic's schema, added to the table when the schema grows.

The columns are those of the newest version, which is looked up before records are read: a record cannot be older than
the schema that it names. A value that is not decoded, or that the database cannot hold, keeps its bytes in `payload`.

A decoded key is the column `decoded_key`, if the topic has a schema for keys; `message_key` keeps the bytes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetfs.schemas.decoding import DirectorySchemas, NoSchema, RecordDecoder, TopicDecoder
from offsetfs.schemas.formats import SchemaReader
from offsetfs.schemas.masks import MaskError, Masks
from offsetfs.schemas.python_values import python_values
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD
from offsetfs.schemas.registry_client import RETRY_S
from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory
from offsetfs.tables.arrow import header_column
from offsetfs.tables.databases.layout import DECODING_ERROR, VALUE_BYTES, TableError
from offsetfs.tables.databases.messages_table import MessagesTable
from offsetfs.tables.databases.record_rows import RecordRows, headers_of
from offsetfs.tables.databases.typed_columns import TypedColumn, key_column, stored_keys, stored_rows, typed_columns

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
        self._table, self._topic = table, topic
        self._schemas = DirectorySchemas(directory, files, masks, registry)
        self._registry, self._now, self._asked_at = registry, now, now()
        self._columns: list[TypedColumn] = []
        self._key_column: TypedColumn | None = None
        self._reader: SchemaReader | None = None
        self._key_reader: SchemaReader | None = None
        self._decoder: RecordDecoder
        self.not_decoded = {"value": 0, "key": 0}
        """The numbers of values and keys that are in no column of their own."""
        others = sorted({partition.topic for partition in table.progress()} - {topic})
        if others:
            raise TableError(f"{table.name} has decoded rows of {others[0]}: choose another --table for {topic}")
        self._schemas.refresh()
        try:
            self._schemas.check_masks()
        except MaskError as error:
            raise TableError(str(error)) from error
        self._take()

    def refresh(self) -> None:
        """Take in a new version of the schema; TableError if its fields cannot be columns of the table."""
        if self._schemas.refresh() or self._is_newer_in_registry():
            self._take()
        elif self._registry is not None:
            self._decoder.forget_failures()

    def _is_newer_in_registry(self) -> bool:
        """Ask a registry for the newest version once in a while; return whether it has another one."""
        if self._registry is None or self._now() - self._asked_at < RETRY_S:
            return False
        self._asked_at = self._now()
        subjects = [f"{self._topic}-{field}" for field in (VALUE_FIELD, KEY_FIELD)]
        with contextlib.suppress(RegistryError):  # the columns stay as they are
            before = [self._registry.latest(subject) for subject in subjects]
            return before != [self._registry.latest(subject, is_fresh=True) for subject in subjects]
        return False

    def _take(self) -> None:
        topic = self._topic
        try:
            self._reader = self._schemas.reader(topic)
        except NoSchema as error:
            if self._reader is None:
                remedy = f"; --schema {error.word} gives a schema" if error.word else ""
                raise TableError(f"{error.reason}{remedy}") from error
            # The subject was deleted: its records keep their columns.
        self._key_reader = keys = self._schemas.key_reader(topic) or self._key_reader
        try:
            values = self._schemas.decoder(topic, self._reader)
        except MaskError as error:
            raise TableError(str(error)) from error
        self._columns = typed_columns(self._reader.type, has_keys=keys is not None)
        grown, decoder = [*self._columns], None
        if keys is not None:
            self._key_column = key_column(keys.type)
            grown.append(self._key_column)
            decoder = self._schemas.decoder(topic, keys, field=KEY_FIELD)
        self._decoder = RecordDecoder(values, decoder)
        self._table.grow(grown)

    def fill(self, rows: RecordRows) -> None:
        """Add the columns of the decoded values to rows. Those that are decoded lose their payload."""
        headers = header_column(map(headers_of, rows.headers)) if any(rows.headers) else None
        column = self._decoder.values.decode(pa.array(rows.values, pa.binary()), headers)
        scheme = self._table.database.scheme
        typed, reasons = stored_rows(self._columns, list(python_values(column)), scheme)
        is_masked = self._decoder.values.is_masked
        values = rows.values
        rows.values = [
            None if is_masked or reason is None else value for value, reason in zip(values, reasons, strict=True)
        ]
        rows.typed = {**typed, DECODING_ERROR: reasons, **({} if is_masked else {VALUE_BYTES: values})}
        self.not_decoded["value"] += sum(reason is not None for reason in reasons)
        if self._decoder.keys is not None and self._key_column is not None:
            self._fill_keys(rows, self._decoder.keys, self._key_column, headers)

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
