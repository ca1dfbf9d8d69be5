"""The table of messages and the table of its progress, in any database.

Rows of a partition are added with the progress of the partition in one transaction, and only where the progress is what
the caller last saw: a second sync of the same partition changes nothing. A partition that has rows and no progress, as
after a progress that was deleted, is completed: rows that are there are compared by their id and not added again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import InvalidName
from offsetfs.tables.databases.database import Database
from offsetfs.tables.databases.layout import (
    COLUMNS,
    CONTENT,
    DECODING_ERROR,
    OFFSET,
    PARTITION,
    PAYLOAD,
    PLACE,
    PROGRESS_COLUMNS,
    TIME,
    TOPIC,
    UUID,
    VALUE_BYTES,
    TableError,
    UnstorableRecord,
)
from offsetfs.tables.databases.record_rows import RecordRows
from offsetfs.tables.databases.table_location import TableName, parse_table_name

if TYPE_CHECKING:
    from offsetfs.tables.databases.typed_columns import TypedColumn

_OF_PARTITION = f"{TOPIC} = ? AND {PARTITION} = ?"
_BETWEEN = f"{_OF_PARTITION} AND {OFFSET} >= ? AND {OFFSET} < ?"


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The progress of the rows of a partition."""

    topic_id: bytes | None
    next_offset: int


class MessagesTable:
    """One table of a database, with the columns that are filled."""

    __slots__ = ("_columns", "_progress", "_table", "_typed", "database", "name", "sql", "sql_progress")

    def __init__(self, database: Database, name: str, columns: Sequence[str] = COLUMNS) -> None:
        """`name` is that of --table, see `table_names`; TableError for one that the database cannot have."""
        self.database = database
        self._columns = tuple(columns)
        self._typed: tuple[str, ...] = ()
        self._table = parse_table_name(name, database.scheme)
        self.name = str(self._table)
        """The name for messages to the user."""
        self._progress = self._table.progress
        self.sql, self.sql_progress = database.quoted(self._table), database.quoted(self._progress)
        """Both tables as statements have them."""

    # --- the table itself --------------------------------------------------------------------------------------------

    def create(self, *, is_indexed: bool) -> None:
        """Create the table, its indexes and that of its progress, as far as they do not exist.

        TableError, before anything is created if a table of one of these names has other columns.
        """
        for table, wanted in self._wanted(self._columns):
            present = self.database.columns(table)
            if present:
                self._check_columns(table, wanted, present)
        self.database.create(self._table, self._columns, is_indexed=is_indexed)

    def grow(self, columns: Sequence[TypedColumn]) -> None:
        """Add the columns of decoded values that the table lacks. TableError if one is there with another type."""
        present = self.database.types(self._table)
        for column in columns:
            if column.name.lower() not in present:
                self.database.add_column(self._table, column)
            elif not self.database.fits(column, present[column.name.lower()]):
                raise TableError(
                    f"{self.database.name}: the field {column.field} is {column.kind} now, and the column "
                    f"{column.name} of {self._table} is {present[column.name.lower()]}: choose another --table"
                )
        self._typed = tuple(column.name for column in columns)

    def check(self, columns: Sequence[str] | None = None, remedy: str = "--create creates it") -> None:
        """Raise TableError unless the table and that of its progress have the columns that are used.

        Without `columns`, those that are filled: the table must have no others of ours. They would be null in its rows,
        and a load would take them for null keys, values and headers.
        """
        for table, wanted in self._wanted(columns or self._columns):
            present = self.database.columns(table)
            if not present:
                raise TableError(f"{self.database.name} has no table {table}; {remedy}")
            self._check_columns(table, wanted, present)
            left_out = [column for column in COLUMNS if column in present and column not in wanted]
            if columns is None and table == self._table and left_out:
                raise TableError(
                    f"{self.database.name}: the table {table} has {', '.join(left_out)} as well, which --columns "
                    "leaves out: leave out --columns, or choose another table with --table"
                )

    def _wanted(self, columns: Sequence[str]) -> tuple[tuple[TableName, Sequence[str]], ...]:
        """Return both tables, and the columns that each has to have."""
        return (self._table, columns), (self._progress, PROGRESS_COLUMNS)

    def _check_columns(self, table: TableName, wanted: Sequence[str], present: Collection[str]) -> None:
        options = ((DECODING_ERROR, "--decode"), (VALUE_BYTES, "--keep-bytes")) if table == self._table else ()
        for column, option in options:
            if (column in present) != (column in self._columns):
                begun = f"with {option}: add it" if column in present else f"without {option}: leave it out"
                raise TableError(
                    f"{self.database.name}: the table {table} was begun {begun}, or choose another with --table"
                )
        missing = [column for column in wanted if column not in present]
        if missing:
            raise TableError(
                f"{self.database.name}: the table {table} has no column {', '.join(missing)}; it is another table, "
                "or one of fewer --columns: choose another with --table"
            )

    # --- progress ----------------------------------------------------------------------------------------------------

    def progress(self) -> dict[TopicPartition, TableProgress]:
        """Return the progress of each partition; TableError."""
        rows = self.database.query(f"SELECT {', '.join(PROGRESS_COLUMNS)} FROM {self.sql_progress}")
        return {
            self._partition(topic, partition): TableProgress(
                None if topic_id is None else bytes.fromhex(topic_id), int(next_offset)
            )
            for topic, partition, topic_id, next_offset in rows
        }

    def begin(self, partition: TopicPartition, topic_id: bytes | None, next_offset: int) -> None:
        """Add the progress of a partition that has none; TableError."""
        text = None if topic_id is None else topic_id.hex()
        with self.database.transaction():
            self.database.change(
                f"INSERT INTO {self.sql_progress} ({', '.join(PROGRESS_COLUMNS)}) VALUES (?, ?, ?, ?)",
                (partition.topic, partition.partition, text, next_offset),
            )

    def set_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        """Record the id of a topic whose progress has none; TableError. Committed on return."""
        with self.database.transaction():
            self.database.change(
                f"UPDATE {self.sql_progress} SET topic_id = ? WHERE {_OF_PARTITION} AND topic_id IS NULL",
                (topic_id.hex(), partition.topic, partition.partition),
            )

    def add(self, partition: TopicPartition, start: int, stop: int, rows: Iterable[RecordRows]) -> None:
        """Add the rows of the offsets from `start` to before `stop`, and set the progress to `stop`; TableError.

        Committed on return: on disk as far as the database promises it.
        """
        with self.database.transaction():
            changed = self.database.change(
                f"UPDATE {self.sql_progress} SET next_offset = ? WHERE {_OF_PARTITION} AND next_offset = ?",
                (stop, partition.topic, partition.partition, start),
            )
            if changed != 1:
                raise TableError(
                    f"{self.database.name}: {partition} is no longer at offset {start} in {self._progress}: "
                    "another sync writes to the table; let one run at a time"
                )
            for part in rows:
                if part:
                    self._insert(part)

    def _insert(self, rows: RecordRows) -> None:
        try:
            self.database.insert(self._table, (*self._columns, *self._typed), rows)
        except UnstorableRecord:
            raise
        except TableError as error:
            if UUID in str(error):
                reason = "two records have the same producer, epoch and sequence"
                raise TableError(f"{error}; {reason}: --uuid offset makes ids of offsets") from error
            raise TableError(
                f"{error}; in {rows.partition}, offsets {rows.offsets[0]} to {rows.offsets[-1]}"
            ) from error

    # --- rows that are there ----------------------------------------------------------------------------------------

    def last_offset(self, partition: TopicPartition) -> int | None:
        """Return the largest offset of the rows of a partition; None if it has none. TableError."""
        statement = f"SELECT MAX({OFFSET}) FROM {self.sql} WHERE {_OF_PARTITION}"
        last = self.database.query(statement, (partition.topic, partition.partition))[0][0]
        return None if last is None else int(last)

    def without_present(self, rows: RecordRows) -> RecordRows:
        """Return the rows that are not in the table; TableError where another record is at the same offset."""
        if not rows:
            return rows
        identity = self.database.content(UUID) if UUID in self._columns else "NULL"
        place = (rows.partition.topic, rows.partition.partition, rows.offsets[0], rows.offsets[-1] + 1)
        statement = f"SELECT {OFFSET}, {identity} FROM {self.sql} WHERE {_BETWEEN}"
        present = {int(offset): stored for offset, stored in self.database.query(statement, place)}
        for offset, uuid in zip(rows.offsets, rows.uuids, strict=True):
            stored = present.get(offset)
            if stored is not None and self.database.uuid_bytes(stored) != uuid:
                raise TableError(
                    f"{self.database.name}: {self.name} has another message at offset {offset} of {rows.partition}; "
                    "its rows are of another topic of that name: delete them, or choose another --table"
                )
        if not present:
            return rows
        return rows.only([number for number, offset in enumerate(rows.offsets) if offset not in present])

    # --- deletions ---------------------------------------------------------------------------------------------------

    def delete_below(self, partition: TopicPartition, offset: int) -> int:
        """Delete the rows below an offset; return how many. TableError."""
        with self.database.transaction():
            return self.database.change(
                f"DELETE FROM {self.sql} WHERE {_OF_PARTITION} AND {OFFSET} < ?",
                (partition.topic, partition.partition, offset),
            )

    def count(self, partition: TopicPartition, start: int, stop: int) -> int:
        """Return the number of rows with offsets from `start` to before `stop`; TableError."""
        statement = f"SELECT COUNT(*) FROM {self.sql} WHERE {_BETWEEN}"
        return int(self.database.query(statement, (partition.topic, partition.partition, start, stop))[0][0])

    def delete_all_but(
        self, partition: TopicPartition, start: int, stop: int, kept: set[int], check: Callable[[Sequence[int]], None]
    ) -> int:
        """Delete the rows of a range of offsets that are not in `kept`; return how many. TableError.

        `check` is called with their offsets, ascending, before; what it raises ends the call, and nothing is deleted.
        """
        place = (partition.topic, partition.partition, start, stop)
        with self.database.transaction():
            rows = self.database.query(f"SELECT {OFFSET} FROM {self.sql} WHERE {_BETWEEN}", place)
            gone = sorted(int(offset) for (offset,) in rows if int(offset) not in kept)
            check(gone)
            for first, last in _runs(gone):
                self.database.change(f"DELETE FROM {self.sql} WHERE {_BETWEEN}", (*place[:2], first, last + 1))
        return len(gone)

    # --- reading -----------------------------------------------------------------------------------------------------

    def check_content(self) -> None:
        """Raise TableError unless the table has all that a log is made of."""
        present = self.database.columns(self._table)
        if DECODING_ERROR in present:
            if VALUE_BYTES not in present:
                raise TableError(
                    f"{self.database.name}: {self.name} has decoded values, of which no log can be made: it lacks "
                    "their bytes and schema ids; offsetfs table sync --decode --keep-bytes fills a table that has them"
                )
            self._columns = (*self._columns, DECODING_ERROR, VALUE_BYTES)
        self.check((*PLACE, *CONTENT), "offsetfs table sync --create makes one")

    def rows(self, partition: TopicPartition, start: int) -> Iterator[tuple[int, Any, Any, str | None, int]]:
        """Yield offset, key, value, headers and time (-1: none) of the rows from an offset on, in order; TableError.

        Not all at once in memory.
        """
        database = self.database
        value = VALUE_BYTES if VALUE_BYTES in self._columns else PAYLOAD
        selected = ", ".join(database.content(value if column == PAYLOAD else column) for column in CONTENT)
        statement = f"SELECT {selected} FROM {self.sql} WHERE {_OF_PARTITION} AND {OFFSET} >= ? ORDER BY {OFFSET}"
        for offset, key, payload, headers, time in database.stream(
            statement, (partition.topic, partition.partition, start)
        ):
            try:
                milliseconds = database.milliseconds(time)
            except (ValueError, TypeError):
                raise TableError(
                    f"{self.name}: the row of {partition}, offset {offset} is not a record: {TIME} is {time!r}, not a "
                    "number of milliseconds since 1970; change the row, and run the command again"
                ) from None
            yield int(offset), key, payload, headers, -1 if milliseconds is None else milliseconds

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that have rows; TableError."""
        rows = self.database.query(f"SELECT DISTINCT {TOPIC}, {PARTITION} FROM {self.sql}")
        return {self._partition(topic, partition) for topic, partition in rows}

    def _partition(self, topic: object, partition: object) -> TopicPartition:
        try:
            return TopicPartition(str(topic), int(str(partition)))
        except (InvalidName, ValueError) as error:
            raise TableError(
                f"{self.database.name}: {self.name} has rows of {topic!r}, partition {partition}: {error}"
            ) from None

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Return the smallest offset of the rows of a partition; None if it has none. TableError."""
        statement = f"SELECT MIN({OFFSET}) FROM {self.sql} WHERE {_OF_PARTITION}"
        first = self.database.query(statement, (partition.topic, partition.partition))[0][0]
        return None if first is None else int(first)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of sorted numbers without a gap."""
    begin = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[begin], numbers[place - 1]
            begin = place
