"""Searches with a condition in SQL, and what they find as a file: lines of JSON, CSV, Parquet.

CSV and Parquet have the columns of `offsetfs sql`. The rows stream through DuckDB's COPY in groups of some megabytes.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from offsetfs.answers.find import Search
from offsetfs.answers.find_lines import Lines, LinesOf
from offsetfs.common.extras import install_command
from offsetfs.storage import Batch, TopicPartition
from offsetfs.web.http_server import HttpError
from offsetfs.web.record_views import RecordsOf, SearchTexts, search_of

if TYPE_CHECKING:
    from offsetfs.tables.sql.session import SqlSession

Started = Callable[[Callable[[], None]], None]
"""Gets what interrupts a statement; raises `SearchEnded` if nobody waits for it any more."""

MEDIA_TYPES = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
"""The formats of a download."""


@contextlib.contextmanager
def searching(records: RecordsOf, texts: SearchTexts, started: Started) -> Iterator[Search]:
    """Yield the search that texts mean, to be run once. `HttpError` for wrong ones, also while it runs."""
    search = search_of(records, texts)
    if texts.where is None:
        yield search
        return
    with _session(records, "where", is_committed_only=texts.is_committed_only) as session:
        from offsetfs.answers.find_where import WhereCondition
        from offsetfs.tables.sql.session import SqlError

        started(session.interrupt)
        session.show_progress(lambda done, total: search.on_progress(done, total))
        try:
            topics = dict.fromkeys(partition.topic for partition in search.partitions)
            search.where = WhereCondition(session, texts.where, topics)
            yield search
        except SqlError as error:
            raise HttpError(400, f"where: {str(error).partition(chr(10))[0]}") from error
        for damage in session.damage:
            search.note_damage(damage)


def send_found(records: RecordsOf, search: Search, kind: str, put: Callable[[bytes], None], started: Started) -> None:
    """Put all that a search finds, whole, in one of `MEDIA_TYPES`. `HttpError` without the packages for it."""
    if kind == "ndjson":
        for lines in search.lines(records.lines_of):
            put(b"".join(lines))
        return
    with _session(records, kind) as session:
        import pyarrow as pa

        from offsetfs.tables.sql.topic_table import SCAN_SCHEMA

        def batches() -> Iterator[pa.RecordBatch]:
            for lines in search.lines(_columns_of(records)):
                for line in filter(None, lines):
                    yield pa.ipc.read_record_batch(pa.py_buffer(line), SCAN_SCHEMA)

        started(session.interrupt)
        session.copy_records(batches, kind, put)


def check_download(kind: str) -> None:
    """Raise `HttpError` if the packages for a format are missing."""
    if kind != "ndjson":
        try:
            from offsetfs.tables.sql.session import SqlSession  # noqa: F401
        except ModuleNotFoundError as error:
            raise _missing(kind, error) from error


def _missing(what: str, error: ModuleNotFoundError) -> HttpError:
    return HttpError(501, f"{what} needs {error.name}: {install_command('sql')}")


def _session(records: RecordsOf, what: str, *, is_committed_only: bool = False) -> SqlSession:
    try:
        from offsetfs.tables.sql.session import SqlSession
    except ModuleNotFoundError as error:
        raise _missing(what, error) from error
    return SqlSession(
        records.directory,
        isolation="read_committed" if is_committed_only else "read_uncommitted",
        skips_damage=True,
        files=(),
        schemas=records.files,
        masks=records.masks,
    )


def _columns_of(records: RecordsOf) -> LinesOf:
    """Return what writes found records of a batch as one Arrow message, in place of the line of the first of them."""
    import pyarrow as pa

    from offsetfs.tables.arrow import record_batch
    from offsetfs.tables.sql.topic_table import SCAN_SCHEMA, without_values

    def of_partition(name: TopicPartition) -> Lines:
        def lines(batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
            made = record_batch(batch, name, SCAN_SCHEMA).take(pa.array(numbers))
            if name.topic in records.masked:
                made = without_values(made)
            return [bytes(made.serialize()), *[b""] * (len(numbers) - 1)]

        return lines

    return of_partition
