"""Tables of PostgreSQL, in the real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest
from postgres import Postgres
from replicated_logs import TIME, add
from table_contract import HEADERS, Synced, TableContract, log, synced

from offsetfs.storage import Log, TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.postgres import TIME_MAX_MS

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
