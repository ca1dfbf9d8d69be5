"""Tables of PostgreSQL, in the real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.databases import postgres
from fixtures.databases.decoded_table_contract import DecodedTableContract
from fixtures.databases.postgres import Postgres
from fixtures.databases.table_contract import HEADERS, ORDERS, Synced, TableContract, log, synced
from fixtures.logs.replicated_logs import TIME, add

from offsetfs.storage import Log, TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.databases.postgres import TIME_MAX_MS

__all__ = ["log", "synced"]

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres.running() as found:
        yield found


@pytest.fixture
def url(server: Postgres) -> str:
    server.ask("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return f"postgresql://{postgres.USER}@127.0.0.1:{server.port}/postgres"


class TestPostgres(TableContract):
    """The contract."""


class TestDecodedPostgres(DecodedTableContract):
    """The contract of decoded values."""

    kills = 3


def test_times_beyond_the_year_9999(synced: Synced, log: Log, tmp_path: Path) -> None:
    times = [253_402_300_800_000, TIME_MAX_MS, 0, 1]
    log.append_replicated(bytes(build([(b"k", b"v", (), time) for time in times], base_offset=0, leader_epoch=0)))
    synced.sync()
    assert [row[4] for row in synced.rows()] == times


def test_headers_are_found_by_their_content(synced: Synced, log: Log, server: Postgres) -> None:
    records = [(b"k", b"v", headers, TIME) for headers in (HEADERS, (("trace", b"abc"),), ())]
    log.append_replicated(bytes(build(records, base_offset=0, leader_epoch=0)))
    synced.sync()
    wanted = """'[{"key":"trace","value":"abc"}]'"""
    assert server.ask(f"SELECT message_offset FROM messages WHERE headers @> {wanted}") == "1\n"


def test_a_login_that_is_refused(synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    add(log, 0, b"a")
    synced.url = synced.url.replace(f"//{postgres.USER}@", "//stranger:secret@")
    assert synced.run("--create") == 32
    error = capsys.readouterr().err
    assert 'role "stranger" does not exist' in error and "secret" not in error


def test_a_user_who_may_not_insert(
    synced: Synced, log: Log, server: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    add(log, 0, b"a")
    assert synced.run("--create") == 0
    add(log, 1, b"b")
    server.ask(
        "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA public TO reader; "
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
    )
    synced.url = synced.url.replace(f"//{postgres.USER}@", "//reader@")
    assert synced.run() == 32
    assert "permission denied for table messages_progress" in capsys.readouterr().err
    assert synced.offsets() == [0]


def test_a_record_that_cannot_be_stored_stops_its_partition_alone(synced: Synced, log: Log) -> None:
    log.append_replicated(bytes(build([(b"k", b"v", (), 2**62)], base_offset=0, leader_epoch=0)))
    users = TopicPartition("users", 0)
    add(synced.directory.create_partition(users), 0, b"a")
    assert synced.sync().has_failed
    assert synced.events[0].startswith(f"orders-0, offset 0: the timestamp {2**62} is beyond the times of PostgreSQL")
    assert (synced.offsets(), synced.offsets(users)) == ([], [0])


def test_a_table_in_a_schema(synced: Synced, log: Log, server: Postgres) -> None:
    server.ask('DROP SCHEMA IF EXISTS "Sales" CASCADE; CREATE SCHEMA "Sales"')
    add(log, 0, b"a")
    for _ in range(2):
        assert synced.run("--create", "--table", "Sales.order") == 0
    assert server.ask('SELECT count(*), min(next_offset) FROM "Sales"."order", "Sales".order_progress') == "1|1\n"
    assert server.ask("SELECT indexname FROM pg_indexes WHERE schemaname = 'Sales' ORDER BY 1").split() == [
        "order_key",
        "order_message_uuid_key",
        "order_pkey",
        "order_progress_pkey",
        "order_time",
        "order_topic_name_partition_id_message_offset_key",
    ]


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [("x" * 55, 1, "at most 54 bytes"), ("ä" * 28, 1, "at most 54 bytes"), ("nowhere.t", 32, 'schema "nowhere"')],
)
def test_names_that_postgres_cannot_have_create_nothing(
    synced: Synced, log: Log, server: Postgres, capsys: pytest.CaptureFixture[str], name: str, code: int, reason: str
) -> None:
    add(log, 0, b"a")
    assert synced.run("--create", "--table", name) == code
    assert reason in capsys.readouterr().err
    assert server.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0\n"


def test_names_of_54_bytes_have_their_own_progress(synced: Synced, log: Log) -> None:
    add(log, 0, b"a")
    for last in "ab":
        assert synced.run("--create", "--table", "x" * 53 + last) == 0
    assert synced.query(f"SELECT count(*) FROM {'x' * 53}b_progress") == [(1,)]


def test_a_database_of_another_encoding_has_the_same_headers(synced: Synced, log: Log, server: Postgres) -> None:
    server.ask("DROP DATABASE IF EXISTS latin")
    server.ask("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    synced.url = f"postgresql://{postgres.USER}@127.0.0.1:{server.port}/latin"
    log.append_replicated(bytes(build([(b"k", b"v", (("ä", "ö".encode()),), TIME)], base_offset=0, leader_epoch=0)))
    assert synced.run("--create", "--table", "größe") == 0
    (found,) = synced.query("SELECT headers->0->>'key' = U&'\\00e4', headers->0->>'value' = U&'\\00f6' FROM \"größe\"")
    assert found == (True, True)


def test_no_statement_is_prepared_which_a_pooler_of_transactions_would_lose(synced: Synced, log: Log) -> None:
    add(log, 0, b"a")
    synced.sync()
    table = synced.table()
    with closing(table.database) as database:
        for _ in range(20):
            assert table.last_offset(ORDERS) == 0
        assert database.query("SELECT count(*) FROM pg_prepared_statements") == [(0,)]
