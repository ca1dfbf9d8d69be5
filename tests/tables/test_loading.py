"""Rows of a table become a log again: the same partitions, offsets, times, keys, values and headers."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.databases.table_contract import ALL, HEADERS, ORDERS, Synced, log, synced
from fixtures.logs.replicated_logs import PRODUCER, TIME, add, add_transaction

from offsetfs import cli
from offsetfs.common.name_patterns import NamePattern
from offsetfs.storage import INTERNAL_TOPICS, READ_COMMITTED, Log, LogDirectory, LogReader, Record, TopicPartition
from offsetfs.storage.directory import LOAD_JOURNAL, MirroredTopic, MirrorFile
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.databases import loading
from offsetfs.tables.databases.loading import load_table, write_journal

__all__ = ["log", "synced"]

pytestmark = pytest.mark.unit


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "loaded"


@pytest.fixture
def filled(synced: Synced, log: Log) -> Synced:
    """Gaps, transactions, old formats, all kinds of keys, values and headers; a partition that begins at 1000."""
    records: list[Any] = [(b"k", b"v", HEADERS, TIME), (None, b"", (), TIME - 5), (b"", None, (("h", b"1"),), -1)]
    log.append_replicated(bytes(build(records, base_offset=3, leader_epoch=0, codec="zstd")))
    add_transaction(log, 6, b"x", b"y", sequence=0, is_commit=False)
    add_transaction(log, 9, b"c", b"d", sequence=2, is_commit=True)
    for offset in range(20, 40, 3):
        add(log, offset, b"%d" % offset, timestamp_type="LogAppendTime")
    add(log, 5_000_000_000, b"far")
    late = synced.directory.create_partition(TopicPartition("orders", 2))
    late.truncate_fully(1000)
    add(late, 1000, b"a", b"b", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
    synced.directory.create_partition(TopicPartition("users", 0))
    synced.sync()
    return synced


def load(filled: Synced, target: Path, *words: str) -> int:
    return cli.run(["table", "load", filled.url, str(target), *words])


def shown(path: Path, partition: TopicPartition) -> list[tuple[Any, ...]]:
    with closing(LogDirectory.open(str(path), read_only=True)) as directory:
        found = LogReader(directory.log(partition), isolation=READ_COMMITTED).records()
        return [fields(each) for each in found]


def fields(record: Record) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, record.headers


def test_the_records_are_the_same(filled: Synced, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(filled, target) == 0
    assert capsys.readouterr().out == "orders: 2 partitions, 15 records\nusers: 1 partition, 0 records\n"
    for partition in filled.directory.partitions():
        assert shown(target, partition) == shown(filled.path, partition)
    with closing(LogDirectory.open(str(target), read_only=True)) as directory:
        assert [str(each) for each in directory.partitions()] == ["orders-0", "orders-1", "orders-2", "users-0"]
        assert directory.topic_id(ORDERS) == filled.directory.topic_id(ORDERS)
        late = directory.log(TopicPartition("orders", 2))
        assert (late.log_start_offset, late.next_offset) == (1000, 1002)
    assert not (target / LOAD_JOURNAL).exists()
    assert cli.run(["verify", str(target)]) == 0


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "4.1"])
@pytest.mark.promise(
    "`offsetfs table load` makes a log of the rows with the same partitions, offsets, times, keys, values and headers."
)
def test_logs_of_real_brokers_come_back(
    golden: Path, tmp_path: Path, target: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    source, url = golden.parent / f"kafka-{version}", f"sqlite:///{tmp_path}/golden.db"
    assert cli.run(["table", "sync", str(source), url, "--create"]) == 0
    assert cli.run(["table", "load", url, str(target)]) == 0
    with closing(LogDirectory.open(str(source), read_only=True)) as directory:
        partitions = [each for each in directory.partitions() if each.topic not in INTERNAL_TOPICS]
    assert partitions
    for partition in partitions:
        assert shown(target, partition) == shown(source, partition)


def test_a_log_that_was_loaded_has_the_rows_of_the_first(filled: Synced, target: Path, tmp_path: Path) -> None:
    assert load(filled, target) == 0
    again = f"sqlite:///{tmp_path}/again.db"
    assert cli.run(["table", "sync", str(target), again, "--create", "--topic", "orders", "--uuid", "offset"]) == 0
    statement = (
        "SELECT topic_name, partition_id, message_offset, message_key, payload, headers, created_at "
        "FROM messages ORDER BY 1, 2, 3"
    )
    tables = [sqlite3.connect(url.removeprefix("sqlite:///")) for url in (filled.url, again)]
    first, second = (each.execute(statement).fetchall() for each in tables)
    assert first == second and len(first) == 15
    for each in tables:
        each.close()


def test_settings_and_topics_of_a_load(filled: Synced, target: Path) -> None:
    assert load(filled, target, "--topic", "orders", "-o", "compression.type=lz4", "-o", "cleanup.policy=compact") == 0
    with closing(LogDirectory.open(str(target))) as directory:
        assert {each.topic for each in directory.partitions()} == {"orders"}
        assert directory.settings_of("orders") == {"compression.type": "lz4", "cleanup.policy": "compact"}
        (codec,) = {each.header.codec_name for each in LogReader(directory.log(ORDERS)).batches()}
        assert codec == "lz4"


def test_a_topic_that_has_records_is_refused_before_anything_is_changed(
    filled: Synced, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load(filled, target, "--topic", "orders") == 0
    assert load(filled, target) == 32
    assert f"{target} has records of orders: offsetfs delete removes the topic" in capsys.readouterr().err
    with closing(LogDirectory.open(str(target), read_only=True)) as directory:
        assert {each.topic for each in directory.partitions()} == {"orders"}
    assert not (target / LOAD_JOURNAL).exists()


def test_a_mirrored_topic_is_refused(filled: Synced, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target.mkdir()
    with closing(LogDirectory.open(str(target))) as directory:
        directory.set_mirror(MirrorFile("cluster", "broker:9092", {"orders": MirroredTopic("")}))
    assert load(filled, target) == 32
    assert "orders is mirrored from a cluster" in capsys.readouterr().err


@pytest.fixture
def interrupted(
    filled: Synced, target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Synced]:
    """A load that ended after its third batch, each of two records."""
    append, count = Log.append_replicated, 0

    def failing(self: Log, data: Any) -> int:
        nonlocal count
        count += 1
        if count > 3:
            raise OSError(errno.ENOSPC, "No space left on device", self.path)
        return append(self, data)

    monkeypatch.setattr(loading, "BATCH_RECORDS", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "append_replicated", failing)
        assert load(filled, target) == 2
    remedy = "No space left on device; what is loaded stays, and the same command goes on there"
    assert remedy in capsys.readouterr().err
    yield filled


def test_a_load_that_failed_goes_on_where_it_ended(
    interrupted: Synced, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(shown(target, ORDERS)) == 6
    assert load(interrupted, target) == 0
    assert capsys.readouterr().out.startswith("orders: 2 partitions, 9 records\n")
    for partition in interrupted.directory.partitions():
        assert shown(target, partition) == shown(interrupted.path, partition)


def test_a_load_that_was_killed_before_its_first_partition_goes_on(filled: Synced, target: Path) -> None:
    target.mkdir()
    write_journal(str(target), f"{filled.url} messages", ["orders", "users"])
    assert load(filled, target) == 0
    assert shown(target, ORDERS) == shown(filled.path, ORDERS)


def test_an_unfinished_load_of_another_table_is_refused(
    interrupted: Synced, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["table", "sync", str(interrupted.path), interrupted.url, "--create", "--table", "other"]) == 0
    assert load(interrupted, target, "--table", "other") == 32
    assert "has an unfinished load of sqlite:///" in capsys.readouterr().err
    (target / LOAD_JOURNAL).write_text("{")
    assert load(interrupted, target) == 32
    assert "is not the journal of a load" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("payload = 5", "int is not bytes"),
        ("created_at = -5", "its time is -5 ms, before 1970"),
        ("headers = '{}'", "headers are a list"),
        ('headers = \'[{"key":1,"value":null}]\'', "a header has key or key_b64"),
        ("headers = '['", "Expecting value"),
        ("message_offset = 9223372036854775807", "the largest offset is"),
    ],
)
def test_a_row_that_is_no_record_is_named(
    filled: Synced, target: Path, capsys: pytest.CaptureFixture[str], change: str, reason: str
) -> None:
    filled.change(f"UPDATE messages SET {change} WHERE message_offset = 4")
    assert load(filled, target) == 32
    error = capsys.readouterr().err
    assert "messages: the row of orders-0, offset " in error and reason in error
    filled.change("DELETE FROM messages WHERE message_offset IN (4, 9223372036854775807)")
    assert load(filled, target) == 0
    assert [each[0] for each in shown(target, ORDERS)][:2] == [3, 5]


def test_rows_of_other_tables(filled: Synced, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(filled, target, "--topic", "order") == 32
    assert "messages has no rows of these topics" in capsys.readouterr().err
    filled.change("UPDATE messages SET topic_name = 'a topic' WHERE message_offset = 4")
    assert load(filled, target) == 32
    assert (
        "messages has rows of 'a topic', partition 0: topic 'a topic' holds a character other than"
        in capsys.readouterr().err
    )
    words = ["--create", "--columns", "payload", "--table", "values_only"]
    assert filled.run(*words) == 0
    assert load(filled, target, "--table", "values_only") == 32
    assert "the table values_only has no column message_key, headers, created_at" in capsys.readouterr().err


def test_a_directory_that_is_open_elsewhere_is_refused(filled: Synced, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(filled, filled.path) == 32
    assert ": in use by process " in capsys.readouterr().err


def test_the_progress_is_reported(filled: Synced, target: Path) -> None:
    target.mkdir()
    table, sizes = filled.table(), list[int]()
    with closing(table.database), closing(LogDirectory.open(str(target))) as directory:
        load_table(directory, table, [NamePattern("orders"), ALL], {}, sizes.append)
    assert sizes == sorted(sizes) and sizes[-1] > 0


def insert(url: str, values: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        columns = "topic_name, partition_id, message_offset, message_key, payload, created_at, message_uuid"
        connection.execute(f"INSERT INTO messages ({columns}) VALUES ({values})")


def test_internal_topics_are_loaded_only_by_their_name(
    synced: Synced, log: Log, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A load of all topics wrote __consumer_offsets, from which a broker takes the groups of its clients."""
    add(log, 0, b"a")
    synced.sync()
    for topic in sorted(INTERNAL_TOPICS):
        insert(synced.url, f"'{topic}', 0, 0, NULL, x'00', 0, randomblob(16)")
    for words in ((), ("--topic", ".*"), ("--topic", "__consumer_offset.")):
        code = load(synced, target, *words)
        assert code == (32 if words[1:] == ("__consumer_offset.",) else 0)
        assert not list(target.glob("__*")), words
        if code == 0:
            for each in target.glob("orders-*/0*"):
                each.unlink()
            cli.run(["delete", str(target), "orders", "--yes"])
    capsys.readouterr()
    assert load(synced, target / "named", "--topic", "__consumer_offsets") == 0
    assert capsys.readouterr().out == "__consumer_offsets: 1 partition, 1 record\n"


def test_literal_texts_are_taken_as_their_bytes(
    synced: Synced, log: Log, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """INSERT … VALUES ('text') stores text in SQLite, whose columns have no types."""
    synced.run("--create")
    insert(synced.url, "'orders', 0, 0, 'schlüssel', '{\"a\": 1}', 1000, randomblob(16)")
    insert(synced.url, "'orders', 0, 1, '', 'x' || char(0), 1001, 'an id'")
    assert load(synced, target) == 0
    expected = [(0, 1000, "schlüssel".encode(), b'{"a": 1}', ()), (1, 1001, b"", b"x\0", ())]
    assert shown(target, ORDERS) == expected
    insert(synced.url, "'orders', 1, 0, NULL, 'x', '2026-11-29 12:00:00', randomblob(16)")
    assert load(synced, target / "other") == 32
    assert "created_at is '2026-11-29 12:00:00', not a number of milliseconds since 1970" in capsys.readouterr().err


def test_a_sync_beside_rows_with_literal_ids_is_refused_with_the_reason(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in an internal error."""
    synced.run("--create")
    add(log, 0, b"a")
    insert(synced.url, "'orders', 0, 0, NULL, 'a', 0, 'an id'")
    synced.change("DELETE FROM messages_progress")
    assert synced.run() == 32
    assert "has another message at offset 0 of orders-0" in capsys.readouterr().err
