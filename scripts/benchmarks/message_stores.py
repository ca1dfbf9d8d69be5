"""The three places for messages that `files_or_tables` compares: a log directory, PostgreSQL, SQLite.

All three are used from Python, in the way that their manuals recommend for many messages: the library of offsetfs,
psycopg 3 with COPY and prepared statements, sqlite3 with prepared statements and a write-ahead log. Every write that is
measured is on disk when it returns: sync of the log, commit of the database with its defaults for durability.
"""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import psycopg
from fixtures.databases import postgres

import offsetfs
from offsetfs import cli
from offsetfs.appending import NewRecord
from offsetfs.common.name_patterns import NamePattern
from offsetfs.storage import LogDirectory, LogView, TopicPartition
from offsetfs.storage.views import KeyIndex
from offsetfs.tables.databases.database import open_database
from offsetfs.tables.databases.messages_table import MessagesTable
from offsetfs.tables.databases.syncing import SyncOptions, TableSync
from offsetfs.tables.databases.table_location import parse_url

TOPIC = "orders"
ORDERS = TopicPartition(TOPIC, 0)
DAY_MS = 86_400_000
DAYS = 10
TIME_MS = 1_795_000_000_000 - 1_795_000_000_000 % DAY_MS
KEYS = 100_000
REGIONS = ("north", "east", "south", "west", "center")
BATCH = 1_000
"""The messages of a batch, each batch on disk before the next."""
COLUMNS = "message_uuid, topic_name, partition_id, message_offset, message_key, payload, created_at"
_NEXT_OFFSET = (
    "(SELECT COALESCE(MAX(message_offset), -1) + 1 FROM small WHERE topic_name = 'small' AND partition_id = 0)"
)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages that can be made again from their number; ten days of them, whatever their count."""

    count: int

    def time(self, number: int) -> int:
        return TIME_MS + number * DAYS * DAY_MS // self.count

    def key(self, number: int) -> bytes:
        return b"customer-%05d" % (number * 7919 % min(KEYS, self.count))

    def value(self, number: int) -> bytes:
        region = REGIONS[number * 31 % len(REGIONS)]
        return b'{"id":%d,"region":"%s","amount":%d,"note":"%s"}' % (
            *(number, region.encode(), number * 37 % 1000),
            b"order of the day, paid by card"[: 20 + number % 11],
        )


class Store(Protocol):
    """A place for messages."""

    name: str

    def append_one(self, numbers: range) -> None:
        """Append messages one at a time, each of them durable."""

    def append_batches(self, numbers: range) -> None:
        """Append batches of `BATCH` messages, each of them durable."""

    def load(self) -> None:
        """Append all messages, as fast as it goes; durable at the end."""

    def stream(self) -> int:
        """Return the bytes of all keys and values, in the order of offsets."""

    def by_offset(self, offsets: Sequence[int]) -> int: ...
    def by_time(self, times: Sequence[int]) -> int: ...
    def by_key(self, keys: Sequence[bytes]) -> int: ...
    def query(self) -> dict[str, tuple[int, int]]:
        """Return how many messages of the fifth day there are, and the sum of their amounts, by region."""

    def bytes_on_disk(self) -> int: ...
    def delete_first_day(self) -> None: ...
    def writer(self, number: int) -> Callable[[range], None]:
        """Return an `append_one` for a thread."""


def fifth_day() -> tuple[int, int]:
    return TIME_MS + 4 * DAY_MS, TIME_MS + 5 * DAY_MS


class FilesStore:
    """A log directory, in this process."""

    def __init__(self, folder: Path, messages: Messages, codec: str = "uncompressed") -> None:
        self.name = "files" if codec == "uncompressed" else f"files, {codec}"
        self.path = folder / f"log-{codec}"
        self.path.mkdir()
        self._messages = messages
        settings = {"segment.bytes": str(16 << 20), "compression.type": codec, "retention.ms": "-1"}
        # Batches as producers make them by default: a look-up reads one.
        settings["max.message.bytes"] = str(16 << 10)
        self.data = offsetfs.open(self.path, "a", settings=settings)
        self.data.create(TOPIC, 1)
        self.data.create("small", 1)
        self.orders, self.small = self.data.partition("orders-0"), self.data.partition("small-0")
        self._index: KeyIndex | None = None

    def _records(self, numbers: range) -> Iterator[NewRecord]:
        made = self._messages
        for number in numbers:
            yield NewRecord(made.value(number), made.key(number), (), made.time(number))

    def append_one(self, numbers: range) -> None:
        for record in self._records(numbers):
            self.small.extend([record])
            self.small.sync()

    def append_batches(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, BATCH):
            self.small.extend(self._records(range(start, min(start + BATCH, numbers.stop))))
            self.small.sync()

    def load(self) -> None:
        self.orders.extend(self._records(range(self._messages.count)))
        self.orders.sync()

    def stream(self) -> int:
        return sum(len(each.key or b"") + len(each.value or b"") for each in self.orders.read())

    def stream_values(self) -> None:
        """Read the values alone, as lines."""
        for _ in self.orders.values():
            pass

    def by_offset(self, offsets: Sequence[int]) -> int:
        found = (self.orders.record(offset) for offset in offsets)
        return sum(len(each.value or b"") for each in found if each is not None)

    def by_time(self, times: Sequence[int]) -> int:
        offsets = [self.orders.offset_at(datetime.fromtimestamp(time / 1000, UTC)) for time in times]
        return self.by_offset(offsets)

    def by_key(self, keys: Sequence[bytes]) -> int:
        index = self._index
        assert index is not None
        locations = (index.find(key) for key in keys)
        return self.by_offset([each.offset for each in locations if each is not None])

    def build_index(self) -> None:
        """Build the index behind `by-key/` of a mount."""
        log = LogDirectory.open(str(self.path), read_only=True).log(ORDERS)
        self._index = KeyIndex(LogView(log), str(self.path / "keys"), lambda error: None)
        while not self._index.refresh():
            pass

    def query(self) -> dict[str, tuple[int, int]]:
        start, stop = (datetime.fromtimestamp(time / 1000, UTC) for time in fifth_day())
        found: dict[str, tuple[int, int]] = {}
        for record in self.orders.read(start, stop):
            value = json.loads(record.value or b"{}")
            count, amount = found.get(value["region"], (0, 0))
            found[value["region"]] = count + 1, amount + value["amount"]
        return found

    def bytes_on_disk(self) -> int:
        return sum(each.stat().st_blocks * 512 for each in (self.path / str(ORDERS)).iterdir())

    def delete_first_day(self) -> None:
        offset = self.orders.offset_at(datetime.fromtimestamp((TIME_MS + DAY_MS) / 1000, UTC))
        self.data.close()
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.run(["delete-records", str(self.path), f"orders-0={offset}", "--yes"]) == 0
            assert cli.run(["clean", str(self.path)]) == 0

    def writer(self, number: int) -> Callable[[range], None]:
        return self.append_one

    def close(self) -> None:
        self.data.close()


class ServedFiles:
    """`offsetfs serve` in this process, and producers over the Kafka protocol with acks=all."""

    def __init__(self, folder: Path, messages: Messages, stack: contextlib.ExitStack) -> None:
        (folder / "served").mkdir()
        self._messages = messages
        self._broker = stack.enter_context(offsetfs.serve(folder / "served"))

    def writer(self, number: int) -> Callable[[range], None]:
        """Return what produces messages one at a time, each of them durable."""
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self._broker.bootstrap_servers, "acks": "all", "linger.ms": 0}
        producer = Producer({**settings, "enable.idempotence": False})

        def write(numbers: range) -> None:
            failures: list[object] = []
            for each in numbers:
                producer.produce(
                    "small",
                    self._messages.value(each),
                    self._messages.key(each),
                    on_delivery=lambda error, message: failures.append(error) if error else None,
                )
                if producer.flush(30) or failures:
                    raise RuntimeError(f"not delivered: {failures}")

        return write


class SqlQuery:
    """`offsetfs sql` on the log directory, a process for each query."""

    STATEMENT = (
        "SELECT value_json->>'region', count(*), sum(CAST(value_json->>'amount' AS BIGINT)) FROM orders "
        'WHERE "timestamp" >= to_timestamp({}) AND "timestamp" < to_timestamp({}) GROUP BY 1'
    )

    def __init__(self, path: Path) -> None:
        self._path = path

    @staticmethod
    def is_available() -> bool:
        return "sql" in cli.VERBS

    def query(self) -> dict[str, tuple[int, int]]:
        start, stop = (time // 1000 for time in fifth_day())
        words = [sys.executable, "-m", "offsetfs", "sql", str(self._path), self.STATEMENT.format(start, stop)]
        done = subprocess.run([*words, "--format", "csv"], capture_output=True, text=True, check=True)
        rows = (line.split(",") for line in done.stdout.splitlines()[1:])
        return {region: (int(count), int(amount)) for region, count, amount in rows}


class PostgresStore:
    """A real server with its defaults, and the table of `offsetfs table sync`."""

    name = "PostgreSQL"

    def __init__(self, server: postgres.Postgres, files: FilesStore, messages: Messages) -> None:
        self._url = f"postgresql://{postgres.USER}@127.0.0.1:{server.port}/postgres"
        self._files = files
        self._messages = messages
        _create(self._url)
        self._connection = psycopg.connect(self._url, autocommit=True)

    def append_one(self, numbers: range) -> None:
        _insert_into_postgres(self._connection, self._messages, numbers)

    def append_batches(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, BATCH):
            rows = _rows(self._messages, range(start, min(start + BATCH, numbers.stop)))
            statement = f"COPY small ({COLUMNS}) FROM STDIN"
            with self._connection.cursor() as cursor, cursor.copy(statement) as copy:  # a transaction of its own
                for row in rows:
                    copy.write_row((row[0].hex(), *row[1:6], datetime.fromtimestamp(row[6] / 1000, UTC)))

    def load(self) -> None:
        _sync(self._files.path, self._url)
        self._connection.execute("VACUUM ANALYZE messages")

    def stream(self) -> int:
        statement = "COPY (SELECT message_key, payload FROM messages ORDER BY message_offset) TO STDOUT (FORMAT BINARY)"
        total = 0
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["bytea", "bytea"])
            for key, value in copy.rows():
                total += len(key) + len(value)
        return total

    def _found(self, statement: str, parameters: Sequence[Any]) -> int:
        return sum(
            len(row[0])
            for each in parameters
            for row in self._connection.execute(statement, (each,), prepare=True, binary=True)
        )

    def by_offset(self, offsets: Sequence[int]) -> int:
        return self._found(
            f"SELECT payload FROM messages WHERE topic_name = '{TOPIC}' AND partition_id = 0 AND message_offset = %s",
            offsets,
        )

    def by_time(self, times: Sequence[int]) -> int:
        return self._found(
            "SELECT payload FROM messages WHERE created_at >= %s ORDER BY created_at LIMIT 1",
            [datetime.fromtimestamp(time / 1000, UTC) for time in times],
        )

    def by_key(self, keys: Sequence[bytes]) -> int:
        return self._found(
            "SELECT payload FROM messages WHERE message_key = %s ORDER BY message_offset DESC LIMIT 1", keys
        )

    def query(self) -> dict[str, tuple[int, int]]:
        start, stop = (datetime.fromtimestamp(time / 1000, UTC) for time in fifth_day())
        found = self._connection.execute(
            "SELECT value->>'region', count(*), sum((value->>'amount')::bigint) FROM (SELECT "
            "convert_from(payload, 'UTF8')::jsonb AS value FROM messages WHERE created_at >= %s AND created_at < %s) "
            "AS day GROUP BY 1",
            (start, stop),
        )
        return {region: (count, int(amount)) for region, count, amount in found}

    def bytes_on_disk(self) -> int:
        row = self._connection.execute("SELECT pg_total_relation_size('messages')").fetchone()
        assert row is not None
        return int(row[0])

    def delete_first_day(self) -> None:
        bound = datetime.fromtimestamp((TIME_MS + DAY_MS) / 1000, UTC)
        self._connection.execute("DELETE FROM messages WHERE created_at < %s", (bound,))

    def reclaim(self) -> None:
        self._connection.execute("VACUUM FULL messages")

    def writer(self, number: int) -> Callable[[range], None]:
        def write(numbers: range) -> None:
            with psycopg.connect(self._url, autocommit=True) as connection:
                _add_to_postgres(connection, self._messages, numbers)

        return write

    def close(self) -> None:
        self._connection.close()


def _insert_into_postgres(connection: psycopg.Connection[Any], messages: Messages, numbers: range) -> None:
    statement = f"INSERT INTO small ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, to_timestamp(%s / 1000.0))"
    for row in _rows(messages, numbers):
        connection.execute(statement, (row[0].hex(), *row[1:]), prepare=True)


def _add_to_postgres(connection: psycopg.Connection[Any], messages: Messages, numbers: range) -> None:
    """Add messages at the next offsets, which no writer knows beforehand: one transaction each, one after the other.

    The lock is what makes max + 1 right: without it, writers that meet get the same offset, and all but one try again.
    """
    statement = f"INSERT INTO small ({COLUMNS}) SELECT %s, %s, %s, {_NEXT_OFFSET}, %s, %s, to_timestamp(%s / 1000.0)"
    for row in _rows(messages, numbers):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(1)", prepare=True)
            connection.execute(statement, (row[0].hex(), *row[1:3], *row[4:]), prepare=True)


class SqliteStore:
    """A file with a write-ahead log, synced at each commit."""

    name = "SQLite"

    def __init__(self, folder: Path, files: FilesStore, messages: Messages) -> None:
        self.path = folder / "messages.db"
        self._url = f"sqlite:///{self.path}"
        self._files = files
        self._messages = messages
        _create(self._url)
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def append_one(self, numbers: range) -> None:
        _insert_into_sqlite(self._connection, self._messages, numbers, 1)

    def append_batches(self, numbers: range) -> None:
        _insert_into_sqlite(self._connection, self._messages, numbers, BATCH)

    def load(self) -> None:
        _sync(self._files.path, self._url)
        self._connection.execute("ANALYZE")

    def stream(self) -> int:
        statement = (
            f"SELECT message_key, payload FROM messages WHERE topic_name = '{TOPIC}' AND partition_id = 0 "
            "ORDER BY message_offset"
        )
        return sum(len(key) + len(value) for key, value in self._connection.execute(statement))

    def _found(self, statement: str, parameters: Sequence[Any]) -> int:
        return sum(len(row[0]) for each in parameters for row in self._connection.execute(statement, (each,)))

    def by_offset(self, offsets: Sequence[int]) -> int:
        return self._found(
            f"SELECT payload FROM messages WHERE topic_name = '{TOPIC}' AND partition_id = 0 AND message_offset = ?",
            offsets,
        )

    def by_time(self, times: Sequence[int]) -> int:
        return self._found("SELECT payload FROM messages WHERE created_at >= ? ORDER BY created_at LIMIT 1", times)

    def by_key(self, keys: Sequence[bytes]) -> int:
        return self._found(
            "SELECT payload FROM messages WHERE message_key = ? ORDER BY message_offset DESC LIMIT 1", keys
        )

    def query(self) -> dict[str, tuple[int, int]]:
        found = self._connection.execute(
            "SELECT value->>'region', count(*), sum(value->>'amount') FROM (SELECT CAST(payload AS TEXT) AS value "
            "FROM messages WHERE created_at >= ? AND created_at < ?) GROUP BY 1",
            fifth_day(),
        )
        return {region: (count, amount) for region, count, amount in found}

    def bytes_on_disk(self) -> int:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(each.stat().st_blocks * 512 for each in self.path.parent.glob(f"{self.path.name}*"))

    def delete_first_day(self) -> None:
        self._connection.execute("DELETE FROM messages WHERE created_at < ?", (TIME_MS + DAY_MS,))

    def reclaim(self) -> None:
        self._connection.execute("VACUUM")

    def writer(self, number: int) -> Callable[[range], None]:
        def write(numbers: range) -> None:
            with contextlib.closing(self._connect()) as connection:
                _add_to_sqlite(connection, self._messages, numbers)

        return write

    def close(self) -> None:
        self._connection.close()


def _insert_into_sqlite(connection: sqlite3.Connection, messages: Messages, numbers: range, batch: int) -> None:
    statement = f"INSERT INTO small ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    for start in range(numbers.start, numbers.stop, batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, _rows(messages, range(start, min(start + batch, numbers.stop))))
        connection.execute("COMMIT")


def _add_to_sqlite(connection: sqlite3.Connection, messages: Messages, numbers: range) -> None:
    """Add messages at the next offsets, one transaction each."""
    statement = f"INSERT INTO small ({COLUMNS}) SELECT ?, ?, ?, {_NEXT_OFFSET}, ?, ?, ?"
    for row in _rows(messages, numbers):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(statement, (*row[:3], *row[4:]))
        connection.execute("COMMIT")


def _rows(messages: Messages, numbers: range) -> Iterator[tuple[bytes, str, int, int, bytes, bytes, int]]:
    for number in numbers:
        identity = number.to_bytes(16, "big")
        yield identity, "small", 0, number, messages.key(number), messages.value(number), messages.time(number)


def _create(url: str) -> None:
    with contextlib.closing(open_database(parse_url(url), may_create=True)) as database:
        for name in "messages", "small":
            MessagesTable(database, name).create(is_indexed=True)


def _sync(path: Path, url: str) -> None:
    directory = LogDirectory.open(str(path), read_only=True)
    with contextlib.closing(open_database(parse_url(url), may_create=False)) as database:
        options = SyncOptions([NamePattern(TOPIC)])
        synced = TableSync(directory, MessagesTable(database, "messages"), options, print)
        synced.run()
        assert not synced.has_failed


def written_by(store: Store | ServedFiles, writers: int, each: int, begin: int) -> None:
    """Append `each` messages one at a time in each of so many threads, from message `begin` on."""
    failures: list[BaseException] = []

    def run(number: int, write: Callable[[range], None]) -> None:
        try:
            write(range(begin + number * each, begin + (number + 1) * each))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number, store.writer(number))) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
