"""SQL over a log: statements of `offsetfs sql` in an open session, beside kcat with DuckDB behind it, and Spark.

The sessions, ours and Spark's, are open before the statement is timed; kcat and DuckDB are started for it. All three
read the same topic, which kcat wrote into a real broker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import logs
from bench import Bench
from commands import UNWAITING, kcat, seconds
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast
from pipelines import spark_session

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.tables.sql.session import SqlSession

PARTITIONS = 4
_KEYS = 100_000
_COUNT = 'SELECT "partition", count(*) FROM records GROUP BY 1'
_GROUP = "SELECT key, count(*) FROM records GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10"

_DUCKDB = """
import duckdb, sys
columns = "{'partition': 'INTEGER', 'key': 'VARCHAR'}"
rows = duckdb.sql(f"FROM read_json('/dev/stdin', format='newline_delimited', columns={columns})")
print(duckdb.sql(sys.argv[1].replace("records", "rows")).fetchall())
"""


def _topic(bench: Bench) -> str:
    """Return the topic with keyed lines, over four partitions."""

    def lines() -> Path:
        path = bench.new("keyed-for-sql")
        rest = logs.line(0)[12:-1].decode()
        with path.open("w") as file:
            for start in range(0, bench.count, 100_000):
                part = range(start, min(start + 100_000, bench.count))
                file.write("".join([f"k{n * 2_654_435_761 % _KEYS}\t{n:011d} {rest}\n" for n in part]))
        return path

    def fill(name: str) -> float:
        source = bench.once(("keyed-for-sql", bench.count), lines)
        return seconds(f"exec {kcat('-P', bench.broker(), name, None)} -K '\t' < \"$1\"", source)

    return bench.topic("sql", fill, PARTITIONS)


@contextlib.contextmanager
def _opened(path: str | Path, topic: str, query: str) -> Iterator[tuple[Measure, list[Any]]]:
    directory = LogDirectory.open(os.fspath(path), read_only=True)
    with contextlib.closing(directory), SqlSession(directory) as session:
        statement = query.replace("records", f'"{topic}"')
        found = list(session.run(statement).rows)

        def measure(number: int) -> float:
            start = time.perf_counter()
            list(session.run(statement).rows)
            return time.perf_counter() - start

        yield measure, found


def _ours(query: str) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with _opened(bench.broker().log_dir, _topic(bench), query) as (measure, found):
            if query == _COUNT:
                assert sum(count for _, count in found) == bench.count, found
            yield measure

    return opened


def _kcat(query: str) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        topic = _topic(bench)
        consume = kcat("-C", bench.broker(), topic, None, f"-o beginning -e -q -J {UNWAITING}")
        yield lambda number: seconds(f'{consume} | "$1" -c "$2" "$3" > /dev/null', sys.executable, _DUCKDB, query)

    return opened


def _spark(query: str) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark, statement = spark_session(bench), query.replace('"', "`")
        source = {"format": "offsetfs", "options": {"subscribe": _topic(bench)}, "path": bench.broker().log_dir}
        spark.result("query", source=source, statement=statement)
        yield lambda number: spark.seconds("query", source=source, statement=statement)

    return opened


# --- an hour of a month ----------------------------------------------------------------------------------------------

_MONTH_S = 30 * 24 * 3600
_TOPIC = "month"


@contextlib.contextmanager
def _window(bench: Bench) -> Iterator[Measure]:
    """Count the records of the last hour of a month, in a log of so many batches of 1 MiB."""
    path = bench.new("month")
    path.mkdir()
    end_ms = int(time.time() * 1000)
    directory = LogDirectory.open(os.fspath(path), defaults={"retention.ms": "-1"})
    with contextlib.closing(directory):
        log = directory.create_partition(TopicPartition(_TOPIC, 0))
        builder = BatchBuilder(logs.OWN_BATCH_BYTES)
        text = b"".join(map(logs.line, range(logs.OWN_BATCH_BYTES // logs.LINE_BYTES)))
        for number in range(bench.count):
            builder.split(text, 0, len(text), end_ms - _MONTH_S * 1000 * (bench.count - 1 - number) // bench.count)
            log.append(builder.seal())
            builder.reset()
    since = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(end_ms / 1000 - 3600))
    query = f"SELECT count(*) FROM records WHERE \"timestamp\" > TIMESTAMPTZ '{since}'"
    try:
        with _opened(path, _TOPIC, query) as (measure, found):
            assert 0 < found[0][0] < log.next_offset, found
            yield measure
    finally:
        shutil.rmtree(path)


def _row(name: str, what: str, query: str, limit: float) -> Row:
    return Row(
        name,
        what,
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=20_000,
        ours=Contender("`offsetfs sql`", _ours(query)),
        peers=(
            Peer(Contender("`kcat -J | duckdb`", _kcat(query)), times_as_fast(10)),
            Peer(Contender("Spark SQL over the same files", _spark(query)), times_as_fast(1)),
        ),
        limit=limit,
    )


ROWS = (
    _row(
        "sql-count", "Records of each partition of a topic of 4: `SELECT partition, count(*) … GROUP BY 1`", _COUNT, 0.5
    ),
    _row(
        "sql-group",
        "The ten most frequent of 100,000 keys: `SELECT key, count(*) … GROUP BY 1 ORDER BY 2`",
        _GROUP,
        1.0,
    ),
    Row(
        "sql-window",
        "The last hour of a month, in a log of 10 GiB: `WHERE timestamp > …`",
        unit="s",
        of="batches of 1 MiB",
        count=10_240,
        count_quick=1_500,
        ours=Contender("`offsetfs sql`", _window),
        limit=0.05,
    ),
)
