"""PostgreSQL, through psycopg 3: rows are copied in COPY's binary format.

Compiled code would not pay: psycopg takes 3 µs of processor time for a row, the server 15 µs with its indexes.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from offsetfs.common.extras import install_command
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
    UnstorableRecord,
)
from offsetfs.tables.databases.record_rows import RecordRows
from offsetfs.tables.databases.table_location import DatabaseUrl, TableName

if TYPE_CHECKING:
    import psycopg

    from offsetfs.tables.databases.typed_columns import TypedColumn

_TYPES = {
    UUID: "UUID NOT NULL UNIQUE",
    TOPIC: "VARCHAR(249) NOT NULL",
    PARTITION: "INTEGER NOT NULL",
    OFFSET: "BIGINT NOT NULL",
    MESSAGE_KEY: "BYTEA",
    PAYLOAD: "BYTEA",
    HEADERS: "JSONB",
    PRODUCER: "BIGINT",
    TIME: "TIMESTAMPTZ(3)",
    DECODING_ERROR: "TEXT",
    VALUE_BYTES: "BYTEA",
}
_KINDS = {
    "integer": ("BIGINT", "bigint", "int8"),
    "real": ("DOUBLE PRECISION", "double precision", "float8"),
    "decimal": ("NUMERIC", "numeric", "numeric"),
    "boolean": ("BOOLEAN", "boolean", "bool"),
    "text": ("TEXT", "text", "text"),
    "bytes": ("BYTEA", "bytea", "bytea"),
    "date": ("DATE", "date", "date"),
    "time": ("TIME", "time without time zone", "time"),
    "timestamp": ("TIMESTAMPTZ", "timestamp with time zone", "timestamp"),
    "local": ("TIMESTAMP", "timestamp without time zone", "timestamp"),
    "json": ("JSONB", "jsonb", "jsonb"),
}
"""The types of columns of decoded values: as they are declared, as PostgreSQL names them, and as rows are copied."""
_LONG = struct.Struct(">q")
_EPOCH_MS = 946_684_800_000
"""2000-01-01, from which PostgreSQL counts, in microseconds."""
TIME_MIN_MS, TIME_MAX_MS = -210_866_803_200_000, 9_224_318_015_999_999
"""The times of PostgreSQL: 4714 BC to 294276 AD."""
FETCHED_ROWS = 2000
CONNECT_SECONDS = 10


class PostgresDatabase:
    """A connection to PostgreSQL."""

    def __init__(self, url: DatabaseUrl) -> None:
        """Connect; TableError, also without the extra `tables`."""
        try:
            import psycopg
        except ImportError as error:
            raise TableError(f"PostgreSQL needs psycopg 3: {install_command('tables')}") from error
        self._errors = psycopg.Error
        self.name = self.identity = url.text
        self.scheme = url.scheme
        self._url = url
        given: dict[str, Any] = dict(url.secrets)
        if url.password is not None:
            given["password"] = url.password
        if "connect_timeout" not in url.text:
            given["connect_timeout"] = CONNECT_SECONDS
        given["prepare_threshold"] = None  # a pooler such as PgBouncer may run the next transaction in another session
        given["client_encoding"] = "UTF8"  # of statements and headers here; by default it is that of the database
        with self._reported():
            self._connection = psycopg.connect(url.text, autocommit=True, application_name="offsetfs", **given)
        _register_dumpers(self._connection)
        self._copied: dict[str, str] = {}  # the types of columns of decoded values

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise TableError(f"{self.name}: {self._url.hidden(_line_of(error))}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._reported(), self._connection.transaction():
            yield

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        with self._reported():
            return self._connection.execute(_placed(statement), parameters).fetchall()

    def change(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with self._reported():
            return self._connection.execute(_placed(statement), parameters).rowcount

    def stream(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        connection = self._connection
        with self._reported(), connection.transaction(), connection.cursor("offsetfs", binary=True) as cursor:
            cursor.itersize = FETCHED_ROWS
            cursor.execute(_placed(statement), parameters)
            yield from cursor

    def quoted(self, table: TableName) -> str:
        return table.quoted()

    def insert(self, table: TableName, columns: Sequence[str], rows: RecordRows) -> None:
        names = ", ".join(TableName(column).quoted() for column in columns)
        statement = f"COPY {table.quoted()} ({names}) FROM STDIN (FORMAT BINARY)"
        if TIME in columns:
            check_times(rows)
        with self._reported(), self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.set_types([self._copied_type(column) for column in columns])
            for row in zip(*map(rows.column, columns), strict=True):
                copy.write_row(row)

    def _copied_type(self, column: str) -> str:
        declared = _TYPES.get(column)
        return self._copied[column] if declared is None else declared.split()[0].partition("(")[0].lower()

    def types(self, table: TableName) -> Mapping[str, str]:
        statement = (
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped"
        )
        return {name.lower(): kind for name, kind in self.query(statement, (table.quoted(),))}

    def fits(self, column: TypedColumn, type_name: str) -> bool:
        _, named, self._copied[column.name] = _KINDS[column.kind]
        return named == type_name

    def add_column(self, table: TableName, column: TypedColumn) -> None:
        declared, _, self._copied[column.name] = _KINDS[column.kind]
        self.change(f"ALTER TABLE {table.quoted()} ADD COLUMN {TableName(column.name).quoted()} {declared}")

    def columns(self, table: TableName) -> frozenset[str]:
        statement = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0"
        return frozenset(name for (name,) in self.query(statement, (table.quoted(),)))

    def create(self, table: TableName, columns: Sequence[str], *, is_indexed: bool) -> None:
        name, key, time = table.quoted(), TableName(f"{table.name}_key"), TableName(f"{table.name}_time")
        typed = ", ".join(f"{column} {_TYPES[column]}" for column in columns)
        number = "" if DECODING_ERROR in columns else "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        with self.transaction():
            self.change(f"CREATE TABLE IF NOT EXISTS {name} ({number}{typed}, UNIQUE ({TOPIC}, {PARTITION}, {OFFSET}))")
            if is_indexed and MESSAGE_KEY in columns:
                # A B-tree takes no key above 2,704 bytes.
                self.change(f"CREATE INDEX IF NOT EXISTS {key.quoted()} ON {name} USING hash ({MESSAGE_KEY})")
            if is_indexed and TIME in columns:
                self.change(f"CREATE INDEX IF NOT EXISTS {time.quoted()} ON {name} ({TIME})")
            self.change(
                f"CREATE TABLE IF NOT EXISTS {table.progress.quoted()} ({TOPIC} VARCHAR(249) NOT NULL, "
                f"{PARTITION} INTEGER NOT NULL, topic_id CHAR(32), next_offset BIGINT NOT NULL, "
                f"PRIMARY KEY ({TOPIC}, {PARTITION}))"
            )

    def content(self, column: str) -> str:
        if column == TIME:  # psycopg has no times beyond the year 9999
            return f"(EXTRACT(EPOCH FROM {TIME}) * 1000)::BIGINT"
        if column == HEADERS:
            return f"{HEADERS}::TEXT"
        return f"uuid_send({UUID})" if column == UUID else column

    def milliseconds(self, value: Any) -> int | None:
        return None if value is None else int(value)

    def uuid_bytes(self, value: Any) -> bytes:
        return bytes(value)

    def close(self) -> None:
        self._connection.close()


_NAMES_AND_PLACES = re.compile(r'"(?:[^"]|"")*"|\?')


def _placed(statement: str) -> bytes:
    """Return a statement as psycopg takes it: `%s` for a parameter, `%%` in the name of a table."""

    def as_psycopg(match: re.Match[str]) -> str:
        return "%s" if match[0] == "?" else match[0].replace("%", "%%")

    return _NAMES_AND_PLACES.sub(as_psycopg, statement).encode()


def _line_of(error: Exception) -> str:
    """Return the line of a message with the reason, without hints and contexts."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    reason = lines[-1] if lines[0].startswith("Multiple connection attempts failed") else lines[0]
    detail = next((line for line in lines if line.startswith("DETAIL:")), None)
    return reason if detail is None else f"{reason} ({' '.join(detail.split()[1:])})"


_DUMPERS: dict[str, Callable[[object, Any], bytes]] = {
    "uuid": lambda _, uuid: uuid,
    "jsonb": lambda _, text: b"\x01" + text.encode(),  # the version of the format
    "timestamptz": lambda _, time_ms: _LONG.pack((time_ms - _EPOCH_MS) * 1000),
}
"""Dumpers for COPY of types that psycopg takes as objects only: UUID, Jsonb, and datetime, which ends in 9999."""


def _register_dumpers(connection: psycopg.Connection[Any]) -> None:
    from psycopg.adapt import Dumper
    from psycopg.postgres import types
    from psycopg.pq import Format

    for name, dump in _DUMPERS.items():
        content = {"format": Format.BINARY, "oid": types[name].oid, "dump": dump}
        connection.adapters.register_dumper(None, type(name, (Dumper,), content))  # None: for `set_types` alone


def check_times(rows: RecordRows) -> None:
    """Raise UnstorableRecord for a time that PostgreSQL does not have."""
    for offset, time in zip(rows.offsets, rows.timestamps, strict=True):
        if not TIME_MIN_MS <= time <= TIME_MAX_MS:
            raise UnstorableRecord(
                f"{rows.partition}, offset {offset}: the timestamp {time} is beyond the times of PostgreSQL; "
                f"leave out {TIME} with --columns"
            )
