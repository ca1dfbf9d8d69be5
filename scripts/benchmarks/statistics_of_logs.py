"""`offsetfs stats` at both depths, beside reading the file, `offsetfs verify`, and a query of DuckDB over the topic."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import logs
import upkeep
from bench import Bench
from commands import seconds
from logs import PARTITION
from measuring import Contender, Measure, Peer, Row, times_as_fast

from offsetfs.storage import LogDirectory
from offsetfs.tables.sql.session import SqlSession

_QUERY = (
    "SELECT count(*), count(key), approx_count_distinct(key), max(octet_length(value)), "
    "approx_quantile(octet_length(value), [0.5, 0.99]), count(*) FILTER (value IS NULL) FROM "
    f'"{PARTITION.topic}"'
)


@contextlib.contextmanager
def _cat(bench: Bench) -> Iterator[Measure]:
    directory = bench.filled(logs.PRODUCER_BATCH_BYTES) / str(PARTITION)
    yield lambda number: seconds('cat "$1"/*.log > /dev/null', directory)


@contextlib.contextmanager
def _duckdb(bench: Bench) -> Iterator[Measure]:
    directory = LogDirectory.open(os.fspath(bench.filled(logs.PRODUCER_BATCH_BYTES)), read_only=True)
    with contextlib.closing(directory), SqlSession(directory) as session:

        def measure(number: int) -> float:
            start = time.perf_counter()
            assert next(iter(session.run(_QUERY).rows))[0] == bench.count
            return time.perf_counter() - start

        yield measure


ROWS = (
    Row(
        "stats",
        "Records, codecs, times and gaps by headers, start included: `offsetfs stats`",
        unit="s",
        of="records",
        count=10_000_000,
        count_quick=50_000,
        ours=Contender("`offsetfs stats`", upkeep.offsetfs_command("stats")),
        peers=(
            Peer(Contender("`offsetfs verify`", upkeep.offsetfs_command("verify")), times_as_fast(1)),
            Peer(Contender("`cat`", _cat), times_as_fast(1), is_goal=False),
        ),
    ),
    Row(
        "stats-values",
        "Sizes and keys of all records, start included: `offsetfs stats --values`",
        unit="s",
        of="records",
        count=10_000_000,
        count_quick=50_000,
        ours=Contender("`offsetfs stats --values`", upkeep.offsetfs_command("stats", "--values")),
        peers=(
            Peer(Contender("these numbers by DuckDB, in an open session of `offsetfs sql`", _duckdb), times_as_fast(1)),
        ),
    ),
)
