"""Records that meet a condition in SQL: their offsets, which DuckDB finds.

The columns are those of `offsetfs sql`: of a topic with a schema the fields of its values, with the columns of a record
beside them where no field has the name; else those of the topic, with `value_json`. Bounds and partitions are part of
the statement, so that DuckDB pushes them down to the ranges that are read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from offsetfs.answers.find import FindBounds
from offsetfs.storage import TopicPartition
from offsetfs.tables.sql.names import quoted
from offsetfs.tables.sql.session import SqlError, SqlSession

_OWN = ("partition", "offset", "timestamp", "key", "headers")
_GAP_MAX = 500
"""Offsets that are this far apart are read separately."""
_TOGETHER_MAX = 10_000
"""Offsets that are read together, at most."""


class WhereCondition:
    """A condition in SQL, of the records of topics. Its methods raise `SqlError` for a wrong one."""

    def __init__(self, session: SqlSession, text: str, topics: Iterable[str]) -> None:
        """`SqlError` if it cannot be asked of one of the topics, so that a search prints nothing before that."""
        if not text.strip():
            raise SqlError("the condition is empty; give one, such as 'amount > 100'")
        self._session = session
        self._text = text
        session.run("SET TimeZone = 'UTC'")  # a text without a zone means what it means in --from
        self._sources = {topic: self._source(topic) for topic in topics}

    def notes(self) -> list[str]:
        """Return what was not looked at: records that are only in remote storage."""
        return [f"{name}: {note}" for name, note in self._session.notes.items()]

    def offsets(
        self, topic: str, partitions: Sequence[TopicPartition], bounds: FindBounds, newest: int | None = None
    ) -> Iterator[tuple[TopicPartition, list[int]]]:
        """Yield offsets that are near to each other, partition by partition, ascending.

        With `newest` only the last so many of each partition, in memory for no more than these, the last group first.
        """
        if newest is None:
            yield from self._groups(topic, partitions, bounds)
            return
        for partition in partitions:
            yield from self._groups(topic, [partition], bounds, newest)

    def count(self, topic: str, partitions: Sequence[TopicPartition], bounds: FindBounds) -> int:
        """Return the number of records that meet the condition."""
        source = self._sources[topic]
        found = f"SELECT * FROM {source.table} WHERE ({self._text}\n)"
        tests = " AND ".join(_bounds(source, partitions, bounds))
        return sum(int(str(row[0])) for row in self._session.run(f"SELECT count(*) FROM ({found}) WHERE {tests}").rows)

    def _groups(
        self, topic: str, partitions: Sequence[TopicPartition], bounds: FindBounds, newest: int | None = None
    ) -> Iterator[tuple[TopicPartition, list[int]]]:
        source = self._sources[topic]
        tests = " AND ".join((f"({self._text}\n)", *_bounds(source, partitions, bounds)))
        limit = "" if newest is None else f" ORDER BY {source.column('offset')} DESC LIMIT {newest}"
        columns = f"{source.column('partition')}, {source.column('offset')}"
        statement = f"SELECT {columns} FROM {source.table} WHERE {tests}{limit}"
        rows = self._session.run(statement).rows
        # A condition with brackets of its own, such as `true) OR (true`, can evade the tests behind it.
        numbers = {partition.partition for partition in partitions}
        stop = sys.maxsize if bounds.stop is None else bounds.stop
        wanted = (row for row in rows if row[0] in numbers and (bounds.start or 0) <= int(str(row[1])) < stop)
        for number, of_partition in groupby(wanted, key=lambda row: row[0]):
            name = TopicPartition(topic, int(str(number)))
            for offsets in _near(int(str(offset)) for _, offset in of_partition):
                yield name, sorted(offsets)

    def _source(self, topic: str) -> _Source:
        """Return what the condition is asked of: the decoded values, or the records of the topic. `SqlError`."""
        session = self._session
        records = _Source(session.table_of(topic))
        decoded = session.decoded_table_of(topic)
        if decoded is None:
            self._check(topic, records)
            return records
        fields = {str(row[0]).lower() for row in session.run(f"DESCRIBE {decoded}").rows}  # names have no case in SQL
        own = "".join(f", {quoted('_' + name)} AS {quoted(name)}" for name in _OWN if name not in fields)
        values = _Source(f"(SELECT *{own} FROM {decoded})", "_")
        try:
            self._check(topic, values)
        except SqlError as error:
            try:
                self._check(topic, records)
            except SqlError:
                raise error from None
            return records
        return values

    def _check(self, topic: str, source: _Source) -> None:
        """`SqlError` with the topic if the condition cannot be asked of a source."""
        try:
            self._session.run(f"DESCRIBE SELECT 1 FROM {source.table} WHERE ({self._text}\n)")
        except SqlError as error:
            raise SqlError(f"{topic}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Source:
    """A table, or a statement in brackets, and what stands before the names of the columns that a record has itself."""

    table: str
    prefix: str = ""

    def column(self, name: str) -> str:
        """Return a column of records. Fields of values never have the name: they may have that without the prefix."""
        return quoted(self.prefix + name)


def _bounds(source: _Source, partitions: Sequence[TopicPartition], bounds: FindBounds) -> Sequence[str]:
    numbers = ", ".join(str(partition.partition) for partition in partitions)
    tests = [f"{source.column('partition')} IN ({numbers})"]
    for column, operator, value in (
        ("offset", ">=", bounds.start),
        ("offset", "<", bounds.stop),
        ("timestamp", ">=", bounds.start_ms),
        ("timestamp", "<", bounds.stop_ms),
    ):
        if value is not None:
            shown = str(value) if column == "offset" else f"make_timestamptz({value * 1000})"
            tests.append(f"{source.column(column)} {operator} {shown}")
    return tests


def _near(offsets: Iterable[int]) -> Iterator[list[int]]:
    group: list[int] = []
    for offset in offsets:
        if group and (abs(offset - group[-1]) > _GAP_MAX or len(group) >= _TOGETHER_MAX):
            yield group
            group = []
        group.append(offset)
    if group:
        yield group
