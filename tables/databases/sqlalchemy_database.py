"""Other databases, through SQLAlchemy Core. MySQL and MariaDB have types of their own here and are tried by tests."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from offsetfs.common.extras import install_command
from offsetfs.storage.records import NO_TIMESTAMP
from offsetfs.tables.databases.layout import (
    DECODING_ERROR,
    HEADERS,
    MESSAGE_KEY,
    OFFSET,
    PARTITION,
    PAYLOAD,
    PLACE,
    PRODUCER,
    TIME,
    TOPIC,
    TOPIC_LENGTH_MAX,
    UUID,
    VALUE_BYTES,
    Row,
    TableError,
    UnstorableRecord,
)
from offsetfs.tables.databases.record_rows import RecordRows
from offsetfs.tables.databases.table_location import DatabaseUrl, TableName

if TYPE_CHECKING:
    import sqlalchemy

    from offsetfs.tables.databases.typed_columns import TypedColumn

_EPOCH = datetime(1970, 1, 1)
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
"""The driver where the URL names none: that of the extra `tables`."""
_OTHER_FIELDS_BYTES = 2048
"""The bound of the rest of a statement that adds one row: its words, and the fields that are not counted."""
_NUMBER_BYTES = 100
"""The bound of a field that is neither bytes nor text: a decimal has up to 76 digits."""
KEY_PREFIX = 255
"""The bytes of a key that an index of MySQL has."""


class SqlalchemyDatabase:
    """A connection of SQLAlchemy."""

    def __init__(self, url: DatabaseUrl) -> None:
        """Connect; TableError, also without the extra `tables` or the driver of the database."""
        try:
            import sqlalchemy
        except ImportError as error:
            raise TableError(f"{url.scheme} needs SQLAlchemy: {install_command('tables')}") from error
        self._sqlalchemy = sqlalchemy
        self.name = self.identity = url.text
        self.scheme = url.scheme
        self._url = url
        try:
            parsed = sqlalchemy.make_url(url.text).set(drivername=_DRIVERS.get(url.scheme, url.scheme))
            if url.password is not None:
                parsed = parsed.set(password=url.password)
            parsed = parsed.update_query_dict(dict(url.secrets))
            # Headers are JSON texts already.
            texts: dict[str, Any] = {"json_serializer": str} if url.scheme in _DRIVERS else {}
            engine = sqlalchemy.create_engine(parsed, **texts)
        except (sqlalchemy.exc.ArgumentError, ImportError) as error:
            remedy = "SQLAlchemy has no such database, or its driver is not installed"
            raise TableError(f"{self.name}: {remedy}: {url.hidden(_line_of(error))}") from error
        with self._reported():
            self._connection = engine.connect()
        preparer = self._connection.dialect.identifier_preparer
        self._quotes = preparer.initial_quote, preparer.final_quote
        opening, closing = map(re.escape, self._quotes)
        self._names_and_places = re.compile(rf"{opening}(?:[^{closing}]|{closing}{closing})*{closing}|\?")
        self._transaction: sqlalchemy.Transaction | None = None
        self._packet_bytes: int | None = None
        if self._connection.dialect.name in _DRIVERS:
            self._packet_bytes = int(self.query("SELECT @@max_allowed_packet")[0][0])
        self._tables: dict[tuple[TableName, tuple[str, ...]], sqlalchemy.Table] = {}

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (self._sqlalchemy.exc.SQLAlchemyError, OverflowError) as error:
            raise TableError(f"{self.name}: {self._url.hidden(_line_of(error))}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._reported():
            self._connection.rollback()  # ends that of the queries before: its snapshot would be an old one
            with self._connection.begin() as self._transaction:
                try:
                    yield
                finally:
                    self._transaction = None

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        with self._reported():
            rows = [tuple(row) for row in self._execute(statement, parameters)]
            if self._transaction is None:
                self._connection.rollback()
            return rows

    def change(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with self._reported():
            return self._execute(statement, parameters).rowcount

    def _execute(self, statement: str, parameters: Sequence[object]) -> sqlalchemy.CursorResult[Any]:
        numbers = itertools.count()

        def as_text(match: re.Match[str]) -> str:
            """Return the placeholder of a parameter; escape a colon in the name of a table."""
            return f":p{next(numbers)}" if match[0] == "?" else match[0].replace(":", "\\:")

        named = self._names_and_places.sub(as_text, statement)
        values = {f"p{number}": value for number, value in enumerate(parameters)}
        return self._connection.execute(self._sqlalchemy.text(named), values)

    def stream(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        with self._reported():
            before = self._connection
            try:
                self._connection = before.execution_options(stream_results=True, max_row_buffer=2000)
                with self._execute(statement, parameters) as result:
                    for row in result:
                        yield tuple(row)
            finally:
                self._connection = before.execution_options(stream_results=False)
                self._connection.rollback()

    def quoted(self, table: TableName) -> str:
        return table.quoted(*self._quotes)

    def insert(self, table: TableName, columns: Sequence[str], rows: RecordRows) -> None:
        self._check_sizes(columns, rows)
        lists = [_column(column, rows) for column in columns]
        made = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
        with self._reported():
            self._connection.execute(self._messages(table, columns).insert(), made)

    def _check_sizes(self, columns: Sequence[str], rows: RecordRows) -> None:
        """Raise UnstorableRecord for a row that is larger than a packet: MySQL would end the connection."""
        if self._packet_bytes is None:
            return
        wanted: list[Sequence[Any]] = [
            rows.column(column) for column in (MESSAGE_KEY, PAYLOAD, HEADERS, *rows.typed) if column in columns
        ]
        for offset, *fields in zip(rows.offsets, *wanted, strict=True):
            size = sum(len(field) if isinstance(field, bytes | str) else _NUMBER_BYTES for field in fields)
            if size * 2 + _OTHER_FIELDS_BYTES > self._packet_bytes:
                size = sum(map(self._sent_bytes, fields)) + _OTHER_FIELDS_BYTES
            if size > self._packet_bytes:
                raise UnstorableRecord(
                    f"{rows.partition}, offset {offset}: a row of {size} bytes is above max_allowed_packet of the "
                    f"database, {self._packet_bytes}; raise it there, or leave out columns with --columns"
                )

    def _sent_bytes(self, value: Any) -> int:
        """Return the bytes that a value takes in a statement: PyMySQL writes bytes in hexadecimal, or with escapes."""
        if not isinstance(value, bytes | str):
            return _NUMBER_BYTES
        escape = getattr(self._connection.connection.dbapi_connection, "escape", None)
        if escape is None:
            return 2 * len(value)
        literal = escape(value)
        return len(literal.encode("utf-8", "surrogateescape") if isinstance(literal, str) else literal)

    def columns(self, table: TableName) -> frozenset[str]:
        with self._reported():
            inspector = self._sqlalchemy.inspect(self._connection)
            try:
                columns = inspector.get_columns(self._exact(table.name), table.schema and self._exact(table.schema))
            except self._sqlalchemy.exc.NoSuchTableError:
                return frozenset()
            finally:
                self._connection.rollback()
        return frozenset(str(column["name"]) for column in columns)

    def _exact(self, name: str) -> sqlalchemy.quoted_name:
        return self._sqlalchemy.quoted_name(name, quote=True)

    def create(self, table: TableName, columns: Sequence[str], *, is_indexed: bool) -> None:
        sql = self._sqlalchemy
        messages = self._messages(table, columns)
        if is_indexed:
            if MESSAGE_KEY in columns:
                name = self._exact(f"{table.name}_key")
                sql.Index(name, messages.c[MESSAGE_KEY], mysql_length=KEY_PREFIX, mariadb_length=KEY_PREFIX)
            if TIME in columns:
                sql.Index(self._exact(f"{table.name}_time"), messages.c[TIME])
        sql.Table(
            self._exact(table.progress.name),
            messages.metadata,
            sql.Column(TOPIC, self._topic(), primary_key=True),
            sql.Column(PARTITION, sql.Integer, primary_key=True, autoincrement=False),
            sql.Column("topic_id", sql.String(32)),
            sql.Column("next_offset", sql.BigInteger, nullable=False),
            schema=messages.schema,
        )
        with self._reported():
            messages.metadata.create_all(self._connection)
            for index in messages.indexes:  # of a table that was there
                if not self._has_index(table, str(index.name)):
                    index.create(self._connection)
            self._connection.commit()
        self._tables.clear()

    def _has_index(self, table: TableName, name: str) -> bool:
        if self.scheme.partition("+")[0] not in _DRIVERS:
            return self._sqlalchemy.inspect(self._connection).has_index(table.name, name, table.schema)
        # SQLAlchemy reads SHOW CREATE TABLE, and overlooks names with a backquote.
        result = self._execute(
            "SELECT COUNT(*) FROM information_schema.statistics "
            "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND index_name = ?",
            (table.schema, table.name, name),
        )
        return bool(result.scalar())

    def _messages(self, table: TableName, columns: Sequence[str]) -> sqlalchemy.Table:
        key = (table, tuple(columns))
        if key not in self._tables:
            sql = self._sqlalchemy
            number = sql.Column("id", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True)
            self._tables[key] = sql.Table(
                self._exact(table.name),
                sql.MetaData(),
                *([] if DECODING_ERROR in columns else [number]),
                *(self._typed(column) for column in columns),
                sql.UniqueConstraint(TOPIC, PARTITION, OFFSET),
                schema=None if table.schema is None else self._exact(table.schema),
            )
        return self._tables[key]

    def _typed(self, column: str) -> sqlalchemy.Column[Any]:
        from sqlalchemy.dialects import mysql

        sql = self._sqlalchemy
        both = ("mysql", "mariadb")
        types: dict[str, sqlalchemy.types.TypeEngine[Any]] = {
            UUID: sql.LargeBinary(16).with_variant(mysql.BINARY(16), *both),
            TOPIC: self._topic(),
            PARTITION: sql.Integer(),
            OFFSET: sql.BigInteger(),
            MESSAGE_KEY: sql.LargeBinary().with_variant(mysql.LONGBLOB(), *both),
            PAYLOAD: sql.LargeBinary().with_variant(mysql.LONGBLOB(), *both),
            HEADERS: sql.Text().with_variant(mysql.JSON(none_as_null=True), *both),
            PRODUCER: sql.BigInteger(),
            TIME: sql.DateTime().with_variant(mysql.DATETIME(fsp=3), *both),
            DECODING_ERROR: sql.Text(),
            VALUE_BYTES: sql.LargeBinary().with_variant(mysql.LONGBLOB(), *both),
        }
        types.setdefault(column, sql.types.NullType())  # of a decoded value, which is passed as it is
        typed: sqlalchemy.Column[Any] = sql.Column(
            self._exact(column), types[column], unique=column == UUID or None, nullable=column not in (UUID, *PLACE)
        )
        return typed

    def _topic(self) -> sqlalchemy.types.TypeEngine[Any]:
        from sqlalchemy.dialects import mysql

        # Names of topics are ASCII, and those that differ in case are different topics.
        exact = mysql.VARCHAR(TOPIC_LENGTH_MAX, charset="ascii", collation="ascii_bin")
        return self._sqlalchemy.String(TOPIC_LENGTH_MAX).with_variant(exact, "mysql", "mariadb")

    def types(self, table: TableName) -> Mapping[str, str]:
        with self._reported():
            inspector = self._sqlalchemy.inspect(self._connection)
            found = inspector.get_columns(self._exact(table.name), table.schema and self._exact(table.schema))
            self._connection.rollback()
        return {str(column["name"]).lower(): _type_name(str(column["type"])) for column in found}

    def fits(self, column: TypedColumn, type_name: str) -> bool:
        is_text = column.kind == "json" and type_name == _KINDS["text"].split()[0]  # MariaDB has no type for JSON
        return is_text or _type_name(_declared(column)) == type_name

    def add_column(self, table: TableName, column: TypedColumn) -> None:
        name = self.quoted(TableName(column.name))
        self.change(f"ALTER TABLE {self.quoted(table)} ADD COLUMN {name} {_declared(column)}")
        self._connection.commit()

    def content(self, column: str) -> str:
        return column

    def milliseconds(self, value: Any) -> int | None:
        if value is None:
            return None
        if isinstance(value, str):  # of a driver without a type for times
            value = datetime.fromisoformat(value)
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return int((value - _EPOCH) // timedelta(milliseconds=1))

    def uuid_bytes(self, value: Any) -> bytes:
        return bytes(value)

    def close(self) -> None:
        with self._reported():
            self._connection.close()
            self._connection.engine.dispose()


_KINDS = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "decimal": "DECIMAL",
    "boolean": "BOOLEAN",
    "text": "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "bytes": "LONGBLOB",
    "date": "DATE",
    "time": "TIME(6)",
    "timestamp": "DATETIME(6)",
    "local": "DATETIME(6)",
    "json": "JSON",
}
"""The types of columns of decoded values, in MySQL and MariaDB."""


def _declared(column: TypedColumn) -> str:
    size = f"({column.precision}, {column.scale})" if column.kind == "decimal" else ""
    return _KINDS[column.kind] + size


def _type_name(text: str) -> str:
    """Return a type without what may change, or what servers show in different ways."""
    base = text.upper().partition(" ")[0] if not text.upper().startswith("DECIMAL") else text.upper()
    name = base if base.startswith("DECIMAL") else base.partition("(")[0]
    return "BOOLEAN" if name in ("TINYINT", "BOOL") else name


def _column(name: str, rows: RecordRows) -> Sequence[object]:
    if name != TIME:
        return rows.column(name)
    return [
        None if time == NO_TIMESTAMP else _time(rows, offset, time)
        for offset, time in zip(rows.offsets, rows.timestamps, strict=True)
    ]


def _time(rows: RecordRows, offset: int, milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise UnstorableRecord(
            f"{rows.partition}, offset {offset}: the timestamp {milliseconds} is beyond the times of the database; "
            f"leave out {TIME} with --columns"
        ) from None


def _line_of(error: Exception) -> str:
    """Return the reason of an error: that of the driver, without statement and parameters."""
    original = getattr(error, "orig", None)
    arguments = () if original is None else original.args
    reason = str(arguments[-1] if arguments else error)
    return reason.splitlines()[0] if reason else type(error).__name__
