"""The interface of a database for a table of messages, which `postgres`, `sqlite` and `sqlalchemy_database` implement.

`open_database` imports a driver when its database is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from offsetfs.tables.databases.layout import Row
from offsetfs.tables.databases.record_rows import RecordRows
from offsetfs.tables.databases.table_location import POSTGRES, SQLITE, DatabaseUrl, TableName

if TYPE_CHECKING:
    from offsetfs.tables.databases.typed_columns import TypedColumn


class Database(Protocol):
    """One connection. Every method raises TableError for what the database refuses.

    Statements have `?` where a parameter is. Names of tables in them are those that `quoted` returns.
    """

    scheme: str
    """The scheme of the URL."""

    @property
    def name(self) -> str:
        """The URL without its password, for messages."""

    @property
    def identity(self) -> str:
        """The same for the same database, whatever the working directory is; without the password."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commit what is done within the block when it ends, and nothing of it after an exception."""

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return all rows."""

    def change(self, statement: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement without a result; return how many rows it has changed."""

    def stream(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        """Yield rows as they arrive: the result may be larger than memory. Nothing else runs until it is closed."""

    def quoted(self, table: TableName) -> str:
        """Return the name of a table as statements have it."""

    def insert(self, table: TableName, columns: Sequence[str], rows: RecordRows) -> None:
        """Insert rows, within a transaction."""

    def columns(self, table: TableName) -> frozenset[str]:
        """Return the names of the columns of a table; none if there is no such table."""

    def create(self, table: TableName, columns: Sequence[str], *, is_indexed: bool) -> None:
        """Create the table and that of its progress, as far as they do not exist.

        A table of decoded values (`DECODING_ERROR` is among the columns) has no `id`, which may be a field.
        """

    def types(self, table: TableName) -> Mapping[str, str]:
        """Return the types of the columns as the database names them, by the names in lower case."""

    def fits(self, column: TypedColumn, type_name: str) -> bool:
        """Return whether a column of this type, as `types` names it, takes the values of another."""

    def add_column(self, table: TableName, column: TypedColumn) -> None:
        """Add a column, null in the rows that are there."""

    def content(self, column: str) -> str:
        """Return the expression that selects a column for `milliseconds` and `uuid_bytes`, or as it is."""

    def milliseconds(self, value: Any) -> int | None:
        """Return a time that was selected, in milliseconds since 1970."""

    def uuid_bytes(self, value: Any) -> bytes:
        """Return a UUID that was selected."""

    def close(self) -> None:
        """End the connection."""


def open_database(url: DatabaseUrl, *, may_create: bool, remedy: str = "--create creates it") -> Database:
    """Connect. A missing file of SQLite is created with `may_create`; otherwise the TableError ends with `remedy`."""
    if url.scheme == SQLITE:
        from offsetfs.tables.databases.sqlite import SqliteDatabase

        return SqliteDatabase(url, may_create=may_create, remedy=remedy)
    if url.scheme == POSTGRES:
        from offsetfs.tables.databases.postgres import PostgresDatabase

        return PostgresDatabase(url)
    from offsetfs.tables.databases.sqlalchemy_database import SqlalchemyDatabase

    return SqlalchemyDatabase(url)
