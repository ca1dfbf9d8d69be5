"""What a table of messages needs of a database. `postgres`, `sqlite` and `sqlalchemy_database` implement it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from offsetfs.tables.databases.record_rows import RecordRows
from offsetfs.tables.databases.table_names import TableName

Row = tuple[Any, ...]


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
        """Create the table and that of its progress, as far as they do not exist."""

    def content(self, column: str) -> str:
        """Return the expression that selects a column for `milliseconds` and `uuid_bytes`, or as it is."""

    def milliseconds(self, value: Any) -> int | None:
        """Return a time that was selected, in milliseconds since 1970."""

    def uuid_bytes(self, value: Any) -> bytes:
        """Return a UUID that was selected."""

    def close(self) -> None:
        """End the connection."""
