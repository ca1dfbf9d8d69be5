"""Records into a table: `offsetfs table sync`, and the loop that one would write instead, into the same table."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import logs
from bench import Bench
from commands import seconds
from fixtures.databases import postgres
from logs import PRODUCER_BATCH_BYTES
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast

from offsetfs.tables.databases.database import open_database
from offsetfs.tables.databases.messages_table import MessagesTable
from offsetfs.tables.databases.table_location import parse_url

SYNC = 'exec "$1" -m offsetfs table sync "$2" "$3" > /dev/null'
LOOP = 'exec "$1" "$4" "$2" "$3"'
INSERT_LOOP = Path(__file__).with_name("insert_loop.py")

_Place = Callable[[Bench, int], str]
"""Returns the URL of an empty database for a round."""


def _sqlite(bench: Bench, number: int) -> str:
    return f"sqlite:///{bench.new('database')}"


def _postgres(bench: Bench, number: int) -> str:
    server = bench.once("postgres", lambda: bench.until_the_end.enter_context(postgres.running({"fsync": "on"})))
    server.ask("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return f"postgresql://{postgres.USER}@127.0.0.1:{server.port}/postgres"


def _into(place: _Place, script: str) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log = bench.filled(PRODUCER_BATCH_BYTES)

        def measure(number: int) -> float:
            url = place(bench, number)
            with contextlib.closing(open_database(parse_url(url), may_create=True)) as database:
                MessagesTable(database, "messages").create(is_indexed=True)
                taken = seconds(script, sys.executable, log, url, INSERT_LOOP)
                (count,) = database.query("SELECT count(*) FROM messages")[0]
            assert count == bench.count, f"{count} rows of {bench.count} records"
            return taken

        yield measure

    return opened


def _row(name: str, what: str, place: _Place, count: int) -> Row:
    return Row(
        name,
        what,
        unit="s",
        of="records",
        count=count,
        count_quick=2_000,
        ours=Contender("offsetfs table sync", _into(place, SYNC)),
        peers=(Peer(Contender("read and executemany", _into(place, LOOP)), times_as_fast(1.5)),),
        record_bytes=logs.LINE_BYTES,
    )


ROWS = (
    _row(
        "table-sqlite", "a partition into an empty table of SQLite with all indexes, start included", _sqlite, 200_000
    ),
    _row("table-postgres", "the same, PostgreSQL", _postgres, 200_000),
)
