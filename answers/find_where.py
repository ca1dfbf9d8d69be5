"""Records that meet a condition in SQL: their offsets, which DuckDB finds.

The columns are those of `offsetfs sql`: of a topic with a schema the fields of its values, with the columns of a record
beside them where no field has the name; else those of the topic, with `value_json`. Bounds and partitions are part of
the statement, so that DuckDB pushes them down to the ranges that are read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
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


def matching_offsets(
    session: SqlSession, topic: str, partitions: Iterable[TopicPartition], condition: str, bounds: FindBounds
) -> Iterator[tuple[TopicPartition, list[int]]]:
    """Yield offsets that are near to each other, partition by partition, ascending.

    Raises as `SqlSession.run`: `SqlError` for a wrong condition.
    """
    source = _source(session, topic, condition)
    numbers = {each.partition for each in partitions}
    tests = [f"({condition}\n)", f'"partition" IN ({", ".join(map(str, sorted(numbers)))})', *_bounds(bounds)]
    rows = session.run(f'SELECT "partition", "offset" FROM {source} WHERE {" AND ".join(tests)}').rows
    # A condition with brackets of its own, such as `true) OR (true`, can evade the tests behind it.
    stop = sys.maxsize if bounds.stop is None else bounds.stop
    wanted = (row for row in rows if row[0] in numbers and (bounds.start or 0) <= int(str(row[1])) < stop)
    for number, of_partition in groupby(wanted, key=lambda row: row[0]):
        name = TopicPartition(topic, int(str(number)))
        for offsets in _groups(int(str(offset)) for _, offset in of_partition):
            yield name, offsets


def _source(session: SqlSession, topic: str, condition: str) -> str:
    """Return what the condition is asked of: the decoded values, or the records of the topic. `SqlError`."""
    table = session.table_of(topic)
    decoded = session.decoded_table_of(topic)
    if decoded is None:
        return table
    fields = {str(row[0]) for row in session.run(f"DESCRIBE {decoded}").rows}
    own = ", ".join(f"{quoted('_' + name)} AS {quoted(name)}" for name in _OWN if name not in fields)
    # A field of one of the names hides the column that the statement itself needs: then the topic is asked.
    if {"partition", "offset", "timestamp"} & fields:
        return table
    of_fields = f"(SELECT *, {own} FROM {decoded})"
    try:
        session.run(f"DESCRIBE SELECT 1 FROM {of_fields} WHERE ({condition}\n)")
    except SqlError as error:
        try:
            session.run(f"DESCRIBE SELECT 1 FROM {table} WHERE ({condition}\n)")
        except SqlError:
            raise error from None
        return table
    return of_fields


def _bounds(bounds: FindBounds) -> Sequence[str]:
    tests = []
    for column, operator, value in (
        ('"offset"', ">=", bounds.start),
        ('"offset"', "<", bounds.stop),
        ('"timestamp"', ">=", bounds.start_ms),
        ('"timestamp"', "<", bounds.stop_ms),
    ):
        if value is not None:
            shown = str(value) if column == '"offset"' else f"make_timestamptz({value * 1000})"
            tests.append(f"{column} {operator} {shown}")
    return tests


def _groups(offsets: Iterable[int]) -> Iterator[list[int]]:
    group: list[int] = []
    for offset in offsets:
        if group and (offset - group[-1] > _GAP_MAX or len(group) >= _TOGETHER_MAX):
            yield group
            group = []
        group.append(offset)
    if group:
        yield group
