"""What must not happen to rows and secrets: logs that were cut, replaced topics, unfinished loads, passwords."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.databases.table_contract import ALL, ORDERS, PAGE, Synced, log, synced
from fixtures.logs.framings import framed
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.replicated_logs import add, add_transaction

from offsetfs import cli
from offsetfs.storage import OFFSET_MAX, Log, LogDirectory, LogReader, TopicPartition, read_batch
from offsetfs.storage.directory import LOAD_JOURNAL
from offsetfs.storage.errors import MalformedBatch
from offsetfs.tables.databases import loading
from offsetfs.tables.databases.layout import TableError
from offsetfs.tables.databases.record_rows import RowSource, record_rows
from offsetfs.tables.databases.syncing import SyncOptions, TableSync
from offsetfs.tables.databases.table_location import parse_url

__all__ = ["log", "synced"]

pytestmark = pytest.mark.unit


# --- records that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [2, 2**31 - 1])
def test_a_record_whose_offset_lies_outside_of_its_batch_is_no_row(delta: int) -> None:
    """COPY of PostgreSQL took an offset above 2⁶³ for a negative one; a negative one ended in an OverflowError."""
    batch = read_batch(keyed(OFFSET_MAX - 3, Keyed(0, b"k", b"v"), Keyed(delta, b"k", b"v"), last_delta=1))
    with pytest.raises(MalformedBatch, match="outside of its batch"):
        record_rows((batch, 0, OFFSET_MAX), RowSource(ORDERS, bytes(16)))


@pytest.mark.damages
def test_a_negative_offset_ends_its_partition_with_an_error_and_no_other(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = framed(1511, "none", 2).data  # records 0, 1, -3, 3, 4
    log.append_replicated(bad)
    synced.directory.close()
    assert synced.run("--create") == 32 and synced.offsets() == []
    assert "a record whose offset lies outside of its batch" in capsys.readouterr().err


# --- deletions -------------------------------------------------------------------------------------------------------


@pytest.mark.damages
@pytest.mark.parametrize("loss", ["cut", "empty", "no directory", "no file"])
@pytest.mark.promise("`--mirror-deletes` keeps the rows of a log that was lost.")
def test_mirrored_deletes_keep_the_rows_of_a_log_that_was_lost(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str], loss: str
) -> None:
    for offset in range(0, 12, 2):
        add(log, offset, b"a", b"b")
        log.roll()
    assert synced.run("--create") == 0
    synced.directory.close()
    path = Path(synced.path, "orders-0")
    if loss == "cut":
        for each in path.iterdir():
            if each.name[:20].isdigit() and int(each.name[:20]) >= 6:
                each.unlink()
    elif loss == "empty":
        shutil.rmtree(path)
        path.mkdir()
    elif loss == "no directory":
        shutil.rmtree(path)
    elif loss == "no file":
        for each in path.glob("0*"):
            each.unlink()
    code = synced.run("--mirror-deletes")
    assert synced.offsets() == list(range(12))
    assert code == 32
    assert len(capsys.readouterr().err.splitlines()) == 1


def _lose_a_segment(synced: Synced, log: Log) -> None:
    """Remove the segment of the offsets 4 and 5 of a log of 12 records that are all rows."""
    for offset in range(0, 12, 2):
        add(log, offset, b"a", b"b")
        log.roll()
    assert synced.run("--create") == 0
    synced.directory.close()
    for each in Path(synced.path, "orders-0").glob(f"{4:020d}.*"):
        each.unlink()


@pytest.mark.damages
def test_mirrored_deletes_keep_the_rows_of_a_segment_that_was_lost_within_a_log(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    _lose_a_segment(synced, log)
    assert synced.run("--mirror-deletes") == 32
    error = capsys.readouterr().err
    assert "orders-0: the log lacks offsets from 4 to 5, and it was never compacted: they were lost" in error
    assert "offsetfs verify" in error and error.count("\n") == 1
    assert synced.offsets() == list(range(12))


@pytest.mark.damages
def test_a_hole_in_a_log_that_was_compacted_counts_as_compaction(synced: Synced, log: Log) -> None:
    synced.directory.set_cleaner_offset(ORDERS, 2)
    _lose_a_segment(synced, log)
    assert synced.run("--mirror-deletes") == 0
    assert synced.offsets() == [0, 1, 2, 3, *range(6, 12)]
    assert "a segment that is lost within a compacted log looks like compaction" in PAGE


def test_a_compaction_by_another_process_is_noticed_by_a_sync_that_follows(synced: Synced, log: Log) -> None:
    directory = LogDirectory.open(str(synced.path), read_only=True)
    assert not directory.may_lack_offsets(ORDERS)
    synced.directory.set_cleaner_offset(ORDERS, 0)
    assert directory.may_lack_offsets(ORDERS)


def test_rows_of_aborted_transactions_are_no_loss(synced: Synced, log: Log) -> None:
    add(log, 0, b"a")
    add_transaction(log, 1, b"x", b"y", sequence=0, is_commit=False)
    add(log, 4, b"b")
    synced.sync(is_committed_only=False)
    assert synced.offsets() == [0, 1, 2, 4]
    assert not synced.sync(mirrors_deletes=True).has_failed
    assert synced.offsets() == [0, 4]


def test_a_log_that_is_cut_between_its_sync_and_its_deletions_keeps_its_rows(
    synced: Synced, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for offset in range(0, 12, 2):
        add(log, offset, b"a", b"b")
    synced.sync()
    monkeypatch.setattr(TableSync, "_advance", lambda self, each: log.truncate_to(5))
    found = synced.sync(mirrors_deletes=True)
    assert found.has_failed and "it was cut or replaced" in synced.events[0]
    assert synced.offsets() == list(range(12))


def test_mirrored_deletes_name_a_partition_that_is_missing(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    add(log, 0, b"a", b"b")
    users = TopicPartition("users", 0)
    add(synced.directory.create_partition(users), 0, b"c")
    assert synced.run("--create") == 0
    synced.directory.delete_partition(ORDERS)
    add(synced.directory.log(users), 1, b"d")
    assert synced.run("--mirror-deletes", "--topic", "users") == 0
    capsys.readouterr()
    assert synced.run("--mirror-deletes") == 32
    error = capsys.readouterr().err
    assert f"orders-0: {synced.path} has no such partition: its rows stay" in error and error.count("\n") == 1
    assert "DELETE FROM \"messages\" WHERE topic_name = 'orders' AND partition_id = 0" in error
    assert (synced.offsets(), synced.offsets(users)) == ([0, 1], [0, 1])
    assert synced.run() == 0


# --- topics ----------------------------------------------------------------------------------------------------------


def test_a_partition_that_has_lost_the_id_of_its_topic_is_refused(synced: Synced, log: Log) -> None:
    add(log, 0, b"a", b"b")
    synced.sync()
    synced.directory.close()
    metadata = Path(synced.path, "orders-0", "partition.metadata")
    metadata.unlink()
    found = synced.sync()
    assert found.has_failed and "orders-0: partition.metadata is missing" in synced.events[0]


def test_the_id_of_a_topic_is_recorded_once_it_is_known(synced: Synced, log: Log) -> None:
    add(log, 0, b"a", b"b")
    synced.sync()
    topic_id = synced.directory.topic_id(ORDERS)
    assert topic_id is not None
    synced.change("UPDATE messages_progress SET topic_id = NULL")
    synced.sync()
    assert synced.query("SELECT topic_id FROM messages_progress") == [(topic_id.hex(),)]


def test_a_topic_recreated_during_a_sync_is_refused_before_it_has_an_id(synced: Synced, log: Log) -> None:
    """Kafka creates the directory first, and then writes the id into it."""
    add(log, 0, b"a", b"b")
    table = synced.table()
    with closing(table.database):
        table.create(is_indexed=True)
        directory = LogDirectory.open(str(synced.path), read_only=True)
        following = TableSync(directory, table, SyncOptions([ALL]), synced.events.append)
        following.run()
        synced.directory.delete_partition(ORDERS)
        created = synced.directory.create_partition(ORDERS)
        Path(synced.path, "orders-0", "partition.metadata").unlink(missing_ok=True)
        add(created, 0, b"x", b"y", b"z")
        directory.log(ORDERS).refresh(is_forced=True)  # as a moment later, or another reader of the directory
        for _ in range(2):
            following._discover()
            following._advance(following.partitions[ORDERS])
    assert "orders was deleted and created again" in synced.events[0]
    assert synced.offsets() == [0, 1]


def test_a_file_of_sqlite_in_the_log_directory_is_refused(
    synced: Synced, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = Path(log.path, "00000000000000000000.log")
    (tmp_path / "link").symlink_to(synced.path)
    for path in (synced.path / "x.db", segment, tmp_path / "link" / "x.db"):
        synced.url = f"sqlite:///{path}"
        assert synced.run("--create") == 1
        assert f"{path} is in the log directory" in capsys.readouterr().err
        assert cli.run(["table", "load", synced.url, str(synced.path)]) == 1
    assert segment.stat().st_size == 0 and not (synced.path / "x.db").exists()
    synced.url = "sqlite:///:memory:"
    assert synced.run("--create") == 1
    assert "in memory is lost at the end" in capsys.readouterr().err


# --- loads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def unfinished(synced: Synced, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A load of orders and users that ended within orders."""
    add(log, 0, *(b"%d" % number for number in range(9)))
    add(synced.directory.create_partition(TopicPartition("users", 0)), 0, b"a")
    synced.sync()
    target = tmp_path / "loaded"
    monkeypatch.setattr(loading, "BATCH_RECORDS", 2)
    append = Log.append_replicated
    with pytest.MonkeyPatch.context() as patch:

        def failing(self: Log, data: object) -> int:
            if self.next_offset >= 4:
                raise OSError(28, "No space left on device", self.path)
            return append(self, data)  # type: ignore[arg-type]

        patch.setattr(Log, "append_replicated", failing)
        assert cli.run(["table", "load", synced.url, str(target)]) == 2
    return target


def records_of(path: Path, partition: TopicPartition) -> int:
    with closing(LogDirectory.open(str(path), read_only=True)) as directory:
        return len(list(LogReader(directory.log(partition)).records()))


def test_a_load_of_other_topics_keeps_an_unfinished_one(
    synced: Synced, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["table", "load", synced.url, str(unfinished), "--topic", "users"]) == 0
    assert "orders is still incomplete" in capsys.readouterr().err
    assert (unfinished / LOAD_JOURNAL).exists()
    assert cli.run(["table", "load", synced.url, str(unfinished), "--topic", "orders"]) == 0
    assert records_of(unfinished, ORDERS) == 9
    assert not (unfinished / LOAD_JOURNAL).exists()


def test_an_unfinished_load_of_a_file_in_another_working_directory_is_refused(
    synced: Synced,
    unfinished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["table", "load", "sqlite:///messages.db", str(unfinished), "--topic", "users"]) == 0
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "messages.db", tmp_path / "other" / "messages.db")
    monkeypatch.chdir(tmp_path / "other")
    capsys.readouterr()
    assert cli.run(["table", "load", "sqlite:///messages.db", str(unfinished)]) == 32
    assert "has an unfinished load of sqlite:///" in capsys.readouterr().err


def test_a_load_does_not_go_on_behind_rows_that_were_changed(
    synced: Synced, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert records_of(unfinished, ORDERS) == 4
    synced.change("DELETE FROM messages WHERE message_offset = 1 AND topic_name = 'orders'")
    assert cli.run(["table", "load", synced.url, str(unfinished)]) == 32
    assert "orders-0 has 4 records below offset 4, and messages 3 rows" in capsys.readouterr().err


def test_a_row_of_a_partition_that_cannot_be_creates_no_directories(
    synced: Synced, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(log, 0, b"a", b"b")
    synced.sync()
    synced.change("UPDATE messages SET partition_id = 2147483647 WHERE message_offset = 1")
    assert cli.run(["table", "load", synced.url, str(tmp_path / "loaded")]) == 32
    assert "orders has rows of partition 2147483647, and none of 2147483646 partitions" in capsys.readouterr().err
    assert not list((tmp_path / "loaded").glob("orders-*"))


# --- passwords -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "mysql", "mariadb", "oracle"])
@pytest.mark.parametrize("password", ["12/34secret", "12?34secret", "12#34secret", "se/cret", "secr@et/x", "[secret/"])
def test_a_password_that_is_not_encoded_is_in_no_message(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str], scheme: str, password: str
) -> None:
    add(log, 0, b"a")
    synced.url = f"{scheme}://app:{password}@127.0.0.1:1/db"
    with pytest.raises(TableError) as raised:
        parse_url(synced.url)
    assert "%2F" in str(raised.value) or "cannot be read" in str(raised.value)
    for words in (
        ["sync", str(synced.path), synced.url],
        ["sync", synced.url, str(synced.path)],
        ["load", synced.url, str(synced.path)],
        ["load", str(synced.path), synced.url],
        ["sync", synced.url],
        ["sync", synced.url, synced.url],
    ):
        assert cli.run(["table", *words]) in (1, 2, 32)
        printed = capsys.readouterr()
        shown = printed.out + printed.err
        for part in ("secret", "se/cret", "12/34", "12?34", "12#34", "secr@et", "cret"):
            assert part not in shown
    assert not any("secret" in name for name in os.listdir())


def test_other_secrets_of_a_url_are_hidden() -> None:
    for scheme in "postgresql", "mysql":
        found = parse_url(f"{scheme}://app:p%2Fw@host/db?sslpassword=topsecret&passwd=secret2&sslmode=require")
        assert found.text == f"{scheme}://app@host/db?sslmode=require"
        assert "topsecret" not in repr(found) and "secret2" not in repr(found)
        assert found.hidden("p/w p%2Fw topsecret secret2") == "*** *** *** ***"
        assert dict(found.secrets) == {"sslpassword": "topsecret", "passwd": "secret2"}
