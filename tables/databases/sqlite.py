"""SQLite, through Python's sqlite3: a file, and inserts of a batch at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from offsetfs.tables.databases.layout import (
    DECODING_ERROR,
    HEADERS,
    MESSAGE_KEY,
    OFFSET,
    PARTITION,
    PAYLOAD,
    PRODUCER,
    TIME,
    TOPIC,
    UUID,
    VALUE_BYTES,
    Row,
    TableError,
)
from offsetfs.tables.databases.record_rows import RecordRows
from offsetfs.tables.databases.table_location import DatabaseUrl, TableName

if TYPE_CHECKING:
    from offsetfs.tables.databases.typed_columns import TypedColumn

_TYPES = {
    UUID: "BLOB NOT NULL UNIQUE",
    TOPIC: "TEXT NOT NULL",
    PARTITION: "INTEGER NOT NULL",
    OFFSET: "INTEGER NOT NULL",
    MESSAGE_KEY: "BLOB",
    PAYLOAD: "BLOB",
    HEADERS: "TEXT",
    PRODUCER: "INTEGER",
    TIME: "INTEGER",
    DECODING_ERROR: "TEXT",
    VALUE_BYTES: "BLOB",
}
_KINDS = {
    "integer": "INTEGER",
    "real": "REAL",
    "decimal": "DECIMAL_TEXT",
    "boolean": "BOOLEAN_INT",
    "text": "TEXT",
    "bytes": "BLOB",
    "date": "DATE_TEXT",
    "time": "TIME_TEXT",
    "timestamp": "TIMESTAMP_TEXT",
    "local": "LOCAL_TEXT",
    "json": "JSON_TEXT",
}
"""The types of columns of decoded values. SQLite takes TEXT and INT from any name; the rest of it is for `fits`."""
BUSY_SECONDS = 30.0
"""The time for which a transaction waits for that of another process."""


CACHE_KIB = 64 << 10
"""Pages in memory: with SQLite's own 2 MiB each transaction writes pages of the indexes several times."""


class SqliteDatabase:
    """A connection to a file of SQLite."""

    def __init__(self, url: DatabaseUrl, *, may_create: bool, remedy: str = "--create creates it") -> None:
        """Open the file, and with `may_create` create it; TableError, which ends with `remedy` for a missing file."""
        self.name = url.text
        self.scheme = url.scheme
        path = url.path
        self.identity = f"sqlite:///{os.path.abspath(path)}"
        is_new = not os.path.exists(path)
        if is_new and not may_create:
            raise TableError(f"{self.name}: there is no such file; {remedy}")
        folder = os.path.dirname(path) or "."
        if is_new and not os.path.isdir(folder):
            raise TableError(f"{self.name}: there is no folder {folder}; create it")
        with self._reported():
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
            try:
                if is_new:  # readers and the sync do not wait for each other
                    self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
            except BaseException:
                self._connection.close()
                raise

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            raise TableError(f"{self.name}: {error}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._reported():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        with self._reported():
            return self._connection.execute(statement, parameters).fetchall()

    def change(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with self._reported():
            return self._connection.execute(statement, parameters).rowcount

    def stream(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        with self._reported(), contextlib.closing(self._connection.execute(statement, parameters)) as cursor:
            yield from cursor

    def quoted(self, table: TableName) -> str:
        return table.quoted()

    def insert(self, table: TableName, columns: Sequence[str], rows: RecordRows) -> None:
        names = ", ".join(TableName(column).quoted() for column in columns)
        statement = f"INSERT INTO {table.quoted()} ({names}) VALUES ({', '.join('?' * len(columns))})"
        with self._reported():
            self._connection.executemany(statement, zip(*map(rows.column, columns), strict=True))

    def columns(self, table: TableName) -> frozenset[str]:
        place = (table.name, table.schema or "main")
        return frozenset(name for (name,) in self.query("SELECT name FROM pragma_table_info(?, ?)", place))

    def create(self, table: TableName, columns: Sequence[str], *, is_indexed: bool) -> None:
        typed = ", ".join(f"{column} {_TYPES[column]}" for column in columns)
        number = "" if DECODING_ERROR in columns else "id INTEGER PRIMARY KEY, "
        with self.transaction():
            self.change(
                f"CREATE TABLE IF NOT EXISTS {table.quoted()} ({number}{typed}, "
                f"UNIQUE ({TOPIC}, {PARTITION}, {OFFSET}))"
            )
            for suffix, column in ("_key", MESSAGE_KEY), ("_time", TIME):
                if is_indexed and column in columns:
                    index, on = TableName(table.name + suffix, table.schema), TableName(table.name)
                    self.change(f"CREATE INDEX IF NOT EXISTS {index.quoted()} ON {on.quoted()} ({column})")
            self.change(
                f"CREATE TABLE IF NOT EXISTS {table.progress.quoted()} ({TOPIC} TEXT NOT NULL, "
                f"{PARTITION} INTEGER NOT NULL, topic_id TEXT, "
                f"next_offset INTEGER NOT NULL, PRIMARY KEY ({TOPIC}, {PARTITION})) WITHOUT ROWID"
            )

    def types(self, table: TableName) -> Mapping[str, str]:
        place = (table.name, table.schema or "main")
        rows = self.query("SELECT name, type FROM pragma_table_info(?, ?)", place)
        return {name.lower(): kind for name, kind in rows}

    def fits(self, column: TypedColumn, type_name: str) -> bool:
        return _KINDS[column.kind] == type_name

    def add_column(self, table: TableName, column: TypedColumn) -> None:
        name = TableName(column.name).quoted()
        self.change(f"ALTER TABLE {table.quoted()} ADD COLUMN {name} {_KINDS[column.kind]}")

    def content(self, column: str) -> str:
        return column

    def milliseconds(self, value: Any) -> int | None:
        return None if value is None else int(value)

    def uuid_bytes(self, value: Any) -> bytes:
        return bytes(value) if isinstance(value, bytes) else str(value).encode()  # a column has no type

    def close(self) -> None:
        with self._reported():
            self._connection.close()
