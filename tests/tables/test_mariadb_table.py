"""Tables of MariaDB, in the real server, through SQLAlchemy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fixtures.databases import mariadb
from fixtures.databases.decoded_table_contract import DecodedTableContract
from fixtures.databases.mariadb import Mariadb
from fixtures.databases.table_contract import ORDERS, Synced, TableContract, log, synced
from fixtures.logs.replicated_logs import TIME, add

from offsetfs import cli
from offsetfs.storage import Log, TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.databases.record_rows import headers_of

__all__ = ["log", "synced"]

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with mariadb.running() as found:
        yield found


@pytest.fixture
def url(server: Mariadb) -> str:
    server.ask("DROP DATABASE offsetfs; CREATE DATABASE offsetfs")
    return f"mysql://{mariadb.USER}:{quote(mariadb.PASSWORD, safe='')}@127.0.0.1:{server.port}/offsetfs"


class TestMariadb(TableContract):
    """The contract."""

    kills = 5


class TestDecodedMariadb(DecodedTableContract):
    """The contract of decoded values."""

    kills = 3


def test_a_record_above_the_largest_packet_stops_its_partition_alone(synced: Synced, log: Log) -> None:
    (limit,) = synced.query("SELECT @@max_allowed_packet")[0]
    add(log, 0, b"a")
    add(log, 1, bytes(limit + 1))
    users = TopicPartition("users", 0)
    add(synced.directory.create_partition(users), 0, b"b")
    assert synced.sync().has_failed
    (event,) = synced.events
    assert re.match(r"orders-0, offset 1: a row of \d+ bytes is above max_allowed_packet", event)
    assert f"{limit}; raise it there, or leave out columns with --columns" in event
    assert synced.offsets(users) == [0]
    assert synced.sync(skips_gaps=True).has_failed  # it is no damage


def test_the_password_is_in_no_message(
    synced: Synced, log: Log, server: Mariadb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(log, 0, b"a")
    url = f"mariadb://{mariadb.USER}@127.0.0.1:{server.port}/offsetfs"
    (tmp_path / "wrong").write_text("mistaken\n")
    assert (
        cli.run(["table", "sync", str(synced.path), url, "--create", "--password-file", str(tmp_path / "wrong")]) == 32
    )
    assert "Access denied for user 'offsetfs'@" in capsys.readouterr().err
    (tmp_path / "right").write_text(mariadb.PASSWORD + "\n")
    for _ in range(2):
        words = ["--create", "--password-file", str(tmp_path / "right")]
        assert cli.run(["table", "sync", str(synced.path), url, *words]) == 0
    assert cli.run(["table", "sync", str(synced.path), synced.url]) == 0
    printed = capsys.readouterr()
    assert "the password in the URL is visible in ps" in printed.err
    assert "secret" not in printed.out + printed.err


def test_create_adds_the_indexes_that_a_table_lacks(synced: Synced, log: Log, server: Mariadb) -> None:
    add(log, 0, b"a")
    assert synced.run("--create", "--no-index", "--table", "order") == 0
    assert synced.run("--create", "--table", "order") == 0
    assert synced.run("--create", "--table", "order") == 0
    shown = server.ask("SHOW INDEX FROM offsetfs.`order`")
    assert shown.count("order_key") == shown.count("order_time") == 1


def test_a_table_in_another_database(synced: Synced, log: Log, server: Mariadb) -> None:
    server.ask(f"CREATE DATABASE `ev.ents`; GRANT ALL ON `ev.ents`.* TO {mariadb.USER}@'127.0.0.1'")
    add(log, 0, b"a")
    words = ["--create", "--table", '"ev.ents".Order']
    for _ in range(2):
        assert synced.run(*words) == 0
    assert server.ask("SELECT COUNT(*) FROM `ev.ents`.`Order`") == "1\n"
    assert server.ask("SELECT next_offset FROM `ev.ents`.Order_progress") == "1\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 56, "at most 55 characters"), ("\U0001f600", "has no character"), ("nowhere.t", "`nowhere`.`t`")],
)
def test_names_that_mariadb_cannot_have_create_nothing(
    synced: Synced, log: Log, server: Mariadb, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    add(log, 0, b"a")
    assert synced.run("--create", "--table", name) in (1, 32)
    assert reason in capsys.readouterr().err
    assert server.ask("SHOW TABLES IN offsetfs") == ""


@pytest.fixture
def sql_mode(server: Mariadb) -> Iterator[Callable[[str], None]]:
    """Set the modes of the server for the connections that follow."""
    before = server.ask("SELECT @@GLOBAL.sql_mode").strip()

    def change(modes: str) -> None:
        server.ask(f"SET GLOBAL sql_mode = '{modes}'")

    yield change
    server.ask(f"SET GLOBAL sql_mode = '{before}'")


@pytest.mark.parametrize("modes", ["NO_BACKSLASH_ESCAPES", "ANSI", "", "STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,ANSI"])
def test_bytes_are_the_same_whatever_the_modes_of_the_server(
    synced: Synced, log: Log, sql_mode: Callable[[str], None], modes: str
) -> None:
    sql_mode(modes)
    values = [b"it's \\ \0 \n \x1a \"\\'\"", b"\\", b"'", bytes(range(256))]
    add(log, 0, *values)
    assert synced.run("--create", "--table", "order") == 0
    assert synced.sync().partitions[ORDERS].rows == len(values)
    assert [bytes(row[2]) for row in synced.rows()] == values


def test_a_record_above_the_packet_as_it_is_sent_stops_its_partition(synced: Synced, log: Log) -> None:
    (limit,) = synced.query("SELECT @@max_allowed_packet")[0]
    add(log, 0, b"a")
    add(log, 1, b"'" * (limit // 3))  # the key has as many
    users = TopicPartition("users", 0)
    add(synced.directory.create_partition(users), 0, b"b")
    assert synced.sync().has_failed
    assert synced.events[0].startswith("orders-0, offset 1: a row of ")
    assert synced.offsets(users) == [0]


def test_a_database_of_another_character_set_has_the_same_headers(synced: Synced, log: Log, server: Mariadb) -> None:
    server.ask("ALTER DATABASE offsetfs CHARACTER SET latin1")
    headers = (("ä", "ö\U0001f600".encode()),)
    log.append_replicated(bytes(build([(b"k", b"v", headers, TIME)], base_offset=0, leader_epoch=0)))
    assert not synced.sync().has_failed
    assert [headers_of(row[3]) for row in synced.rows()] == [headers]
