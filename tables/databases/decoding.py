"""Rows with decoded values: a column for each field of a topic's schema, added to the table when the schema grows.

The columns are those of the newest version, which is looked up before records are read: a record cannot be older than
the schema that it names. A value that is not decoded, or that the database cannot hold, keeps its bytes in `payload`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetfs.schemas.decoding import DirectorySchemas, NoSchema, TopicDecoder
from offsetfs.schemas.formats import SchemaReader
from offsetfs.schemas.masks import MaskError, Masks
from offsetfs.schemas.python_values import python_values
from offsetfs.schemas.references import VALUE_FIELD
from offsetfs.schemas.registry_client import RETRY_S
from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory
from offsetfs.tables.arrow import header_column
from offsetfs.tables.databases.layout import DECODING_ERROR, VALUE_BYTES, TableError
from offsetfs.tables.databases.messages_table import MessagesTable
from offsetfs.tables.databases.record_rows import RecordRows, headers_of
from offsetfs.tables.databases.typed_columns import TypedColumn, stored_rows, typed_columns

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
        self._reader: SchemaReader | None = None
        self._decoder: TopicDecoder
        self.not_decoded = 0
        """Records whose values are in no column."""
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
        subject = f"{self._topic}-{VALUE_FIELD}"
        with contextlib.suppress(RegistryError):  # the columns stay as they are
            return self._registry.latest(subject) != self._registry.latest(subject, is_fresh=True)
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
        try:
            self._decoder = self._schemas.decoder(topic, self._reader)
        except MaskError as error:
            raise TableError(str(error)) from error
        self._columns = typed_columns(self._reader.type)
        self._table.grow(self._columns)

    def fill(self, rows: RecordRows) -> None:
        """Add the columns of the decoded values to rows. Those that are decoded lose their payload."""
        headers = header_column(map(headers_of, rows.headers)) if any(rows.headers) else None
        column = self._decoder.decode(pa.array(rows.values, pa.binary()), headers)
        scheme = self._table.database.scheme
        typed, reasons = stored_rows(self._columns, list(python_values(column)), scheme)
        is_masked = self._decoder.is_masked
        values = rows.values
        rows.values = [
            None if is_masked or reason is None else value for value, reason in zip(values, reasons, strict=True)
        ]
        rows.typed = {**typed, DECODING_ERROR: reasons, **({} if is_masked else {VALUE_BYTES: values})}
        self.not_decoded += sum(reason is not None for reason in reasons)
