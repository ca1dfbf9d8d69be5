"""`offsetfs table` at a shell: wrong calls, databases that refuse, following, and the sentences of its page."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.databases.table_contract import ALL, ORDERS, Synced, log, synced
from fixtures.logs.replicated_logs import PRODUCER, TIME, add, add_marker
from fixtures.mirrors.process import wait_until

from offsetfs import cli
from offsetfs.common.ending import EndingEvent
from offsetfs.storage import Log, LogDirectory, TopicPartition, read_batch
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.databases import syncing
from offsetfs.tables.databases.layout import COLUMNS, TableError
from offsetfs.tables.databases.postgres import check_times
from offsetfs.tables.databases.record_rows import RowSource, header_json, headers_of, message_uuids, record_rows
from offsetfs.tables.databases.syncing import SyncOptions, TableSync
from offsetfs.tables.databases.table_location import parse_url

__all__ = ["log", "synced"]

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "use" / "tables.md").read_text()


@pytest.fixture
def filled(synced: Synced, log: Log) -> Synced:
    add(log, 0, b"a", b"b")
    return synced


# --- wrong calls


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--topic", "("], 1, "--topic: '(' is not a regular expression"),
        (["--no-index"], 1, "--no-index: goes with --create"),
        (["--create", "--columns", "key,payload"], 1, "there is no column key; the columns are message_uuid, "),
        (["--create", "--table", ""], 1, "'' is not a name of a table: write NAME or SCHEMA.NAME, such as messages"),
        (["--create", "--table", "a.b.c"], 1, "a part that has a dot or begins with a quote goes into double quotes"),
        (["--create", "--table", '"a'], 1, "is not a name of a table: write NAME"),
        (["--create", "--table", "a "], 1, "'a ' is not a name of a table: it begins or ends with a space"),
        (["--create", "--table", "a\nb"], 1, "it has a character that is not printable"),
        (["--create", "--table", "s.t"], 1, "'s.t' is not a name of a table: SQLite has one schema, main"),
        (["--create", "--table", "sqlite_x"], 1, "SQLite keeps names that begin with sqlite_ for itself"),
        (
            ["--create", "--topic", "order*"],
            1,
            "no topic of these names, which are regular expressions: write 'order.*'",
        ),
        (
            ["--create", "--topic", "*"],
            1,
            "'*' is not a regular expression: no argument for repetition operator: *; write .* for",
        ),
        (["--create", "--topic", "order"], 1, "has no topic of these names; did you mean orders?"),
        (["--create", "--password-file", "/nowhere"], 1, "--password-file: /nowhere: No such file or directory"),
        (["--decode"], 1, "--decode: a table has the fields of one topic; give one --topic, and no --columns"),
        (["--decode", "--topic", "orders", "--columns", "payload"], 1, "give one --topic, and no --columns"),
        (["--mask", "orders:id"], 1, "--schema, --schema-registry and --mask: go with --decode"),
        (["--keep-bytes"], 1, "--keep-bytes: goes with --decode"),
        (
            ["--decode", "--topic", "orders", "--keep-bytes", "--mask", "orders:id"],
            1,
            "--keep-bytes: shows what --mask hides: leave one out",
        ),
        (["--create", "--decode", "--topic", "order"], 1, "has no topic of these names; did you mean orders?"),
        (["--create", "--decode", "--topic", "orders"], 32, "there is no subject orders-value; --schema orders=FILE"),
        (["--create", "--decode", "--topic", "orders", "--mask", "x:y"], 32, "mask x: there is no such topic"),
        (["--create", "--decode", "--topic", "orders", "--mask", "x"], 1, "mask 'x' is not TOPIC:FIELD[,FIELD]"),
        (["--create", "--decode", "--topic", "orders", "--schema", "x"], 1, "--schema: x: is neither NAME=FILE nor"),
        ([], 32, "there is no such file; --create creates it"),
    ],
)
def test_wrong_calls(
    filled: Synced, capsys: pytest.CaptureFixture[str], words: list[str], code: int, reason: str
) -> None:
    assert filled.run(*words) == code
    error = capsys.readouterr().err
    assert reason in error and error.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("orders.db", "has no scheme; write postgresql://USER@HOST/DATABASE, sqlite:///FILE or mysql://"),
        ("sqlite://orders.db", "write sqlite:///file.db"),
        ("sqlite:///", "write sqlite:///file.db"),
        ("postgresql://app:secret@host:port/db", "the URL of the database cannot be read"),
        ("nonsense://app:secret@host/db", "SQLAlchemy has no such database, or its driver is not installed"),
        ("postgresql://app:secret@127.0.0.1:1/db?connect_timeout=2", "Connection refused"),
        ("mysql://app:secret@127.0.0.1:1/db", "Can't connect to MySQL server on '127.0.0.1'"),
    ],
)
def test_urls_that_cannot_be_used(filled: Synced, capsys: pytest.CaptureFixture[str], url: str, reason: str) -> None:
    filled.url = url
    assert filled.run("--create") in (1, 32)
    error = capsys.readouterr().err
    assert reason in error and "secret" not in error
    assert cli.run(["table", "load", url, str(filled.path.parent / "loaded")]) in (1, 32)
    assert "secret" not in capsys.readouterr().err


def test_a_load_of_a_missing_file_names_no_option_of_sync(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/missing.db"
    assert cli.run(["table", "load", url, str(tmp_path / "loaded")]) == 32
    error = capsys.readouterr().err
    assert (
        error == f"offsetfs table load: {url}: there is no such file; give a file that offsetfs table sync has filled\n"
    )
    assert not (tmp_path / "loaded").exists()


def test_messages_of_a_table_name_the_command(filled: Synced, capsys: pytest.CaptureFixture[str]) -> None:
    assert filled.run("--no-index") == 1
    assert capsys.readouterr().err == "offsetfs table sync: --no-index: goes with --create\n"
    filled.url = "postgresql://app:secret@127.0.0.1:1/db?connect_timeout=2"
    assert filled.run() == 32
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.startswith("offsetfs table sync: ") for line in lines), lines


def test_passwords_are_taken_out_of_urls() -> None:
    found = parse_url("postgresql://app:p%40ss@host:5432/db?sslmode=require")
    assert (found.text, found.password) == ("postgresql://app@host:5432/db?sslmode=require", "p@ss")
    found = parse_url("postgres://app@host/db?password=s3cret&application_name=x", "other")
    assert (found.text, found.password) == ("postgresql://app@host/db?application_name=x", "other")
    assert "other" not in repr(found) and found.hidden("the other one") == "the *** one"


def test_a_file_that_is_no_database_is_refused(filled: Synced, capsys: pytest.CaptureFixture[str]) -> None:
    Path(filled.url.removeprefix("sqlite:///")).write_bytes(b"something else" * 100)
    assert filled.run("--create") == 32
    assert "file is not a database" in capsys.readouterr().err


def test_a_table_of_others_is_refused(filled: Synced, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(filled.url.removeprefix("sqlite:///"))) as database:
        database.execute("CREATE TABLE messages (id INTEGER, payload TEXT)")
    assert filled.run() == 32
    assert "the table messages has no column message_uuid, topic_name" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["message_key", "message_uuid,message_key", "payload"])
def test_columns_of_a_table_are_not_left_null(
    filled: Synced, log: Log, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    assert filled.run("--create") == 0
    add(log, 2, b"c")
    for words in ([], ["--create"]):
        assert filled.run("--columns", columns, *words) == 32
        error = capsys.readouterr().err
        assert "headers, producer_id, created_at as well, which --columns leaves out" in error
        assert error.count("\n") == 1
    assert filled.offsets() == [0, 1]


def test_a_folder_of_sqlite_that_is_not_there_is_named(filled: Synced, capsys: pytest.CaptureFixture[str]) -> None:
    filled.url = "sqlite:////no/such/orders.db"
    assert filled.run("--create") == 32
    assert "there is no folder /no/such; create it" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["psycopg", "sqlalchemy"])
def test_a_driver_that_is_not_installed_is_named_with_its_extra(
    filled: Synced, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    filled.url = {"psycopg": "postgresql", "sqlalchemy": "mysql"}[module] + "://app@127.0.0.1:1/db"
    assert filled.run() == 2
    assert " -m pip install " in capsys.readouterr().err


@pytest.mark.long
def test_the_help_imports_no_driver() -> None:
    program = (
        "import sys; from offsetfs import cli; cli.run(['table', 'sync', '--help']); print('loaded:', *sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = set(printed.partition("loaded:")[2].split())
    assert "offsetfs.cli.commands.table" in loaded
    assert not {"psycopg", "sqlalchemy", "sqlite3", "pymysql", "offsetfs.tables.databases.syncing"} & loaded


# --- what fails meanwhile


def test_a_database_that_is_full_keeps_what_was_committed(
    filled: Synced, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.sync()
    monkeypatch.setattr(syncing, "CHUNK_BYTES", 50_000)
    for number in range(20):
        add(log, log.next_offset, bytes([number]) * 20_000)
    table = filled.table()
    with closing(table.database) as database:
        pages = database.query("PRAGMA page_count")[0][0]
        database.query(f"PRAGMA max_page_count = {pages + 40}")
        failing = TableSync(LogDirectory.open(str(filled.path), read_only=True), table, SyncOptions([ALL]), print)
        with pytest.raises(TableError, match="database or disk is full"):
            failing.run()
    kept = filled.offsets()
    assert 2 < len(kept) < 22 and kept == list(range(len(kept)))
    filled.sync()
    assert filled.offsets() == list(range(22))


def test_records_that_were_deleted_before_they_were_rows(
    filled: Synced, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    assert filled.run("--create") == 0
    add(log, 2, b"c")
    add(log, 3, b"d")
    log.delete_records(3)
    assert filled.run() == 32
    assert "orders-0: " in capsys.readouterr().err
    assert filled.run("--on-gap", "skip") == 0
    assert "orders-0: left out: " in capsys.readouterr().err
    assert filled.offsets() == [0, 1, 3]


def test_a_log_that_was_cut_is_refused(filled: Synced, log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    assert filled.run("--create") == 0
    log.truncate_to(1)
    assert filled.run() == 32
    assert "orders-0: the log ends at offset 1 and the table at 2: it was cut or replaced" in capsys.readouterr().err


def test_two_records_of_one_producer_sequence_stop_the_sync(
    synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    for offset in (0, 5):  # a client that began again at 0 in the same epoch
        add(log, offset, b"a", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
    assert synced.run("--create") == 32
    error = capsys.readouterr().err
    assert "UNIQUE constraint failed: messages.message_uuid; two records have the same producer" in error
    assert "--uuid offset makes ids of offsets" in error
    assert synced.offsets() == []
    assert synced.run("--uuid", "offset") == 0
    assert synced.offsets() == [0, 5]


# --- follow


def test_a_sync_that_follows_adds_records_as_they_come(
    filled: Synced, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "POLL_S", 0.001)
    monkeypatch.setattr(syncing, "LISTING_S", 0.002)
    filled.sync()
    is_ending, failures = EndingEvent(), list[BaseException]()

    def follow() -> None:
        try:
            table = filled.table()
            with closing(table.database):
                directory = LogDirectory.open(str(filled.path), read_only=True)
                options = SyncOptions([ALL], mirrors_deletes=True)
                TableSync(directory, table, options, filled.events.append).follow(is_ending)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        add(log, 2, b"c", producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
        add(log, 3, b"d")
        users = TopicPartition("users", 0)
        add(filled.directory.create_partition(users), 0, b"x")
        wait_until(lambda: bool(failures) or filled.offsets(users) == [0], "a new topic")
        assert filled.offsets() == [0, 1]
        add_marker(log, 4, is_commit=True)
        wait_until(lambda: bool(failures) or filled.offsets() == [0, 1, 2, 3], "a transaction that is committed")
        log.delete_records(2)
        wait_until(lambda: bool(failures) or filled.offsets() == [2, 3], "records that are deleted")
    finally:
        is_ending.set()
        thread.join()
        is_ending.close()
    assert failures == [] and filled.events == []


@pytest.mark.long
def test_a_signal_ends_a_sync_that_follows(filled: Synced) -> None:
    words = [sys.executable, "-m", "offsetfs", "table", "sync", str(filled.path), filled.url, "--create", "--follow"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: os.path.exists(filled.url.removeprefix("sqlite:///")) and _has_rows(filled), "rows")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "orders: 1 partition, 2 rows added\n", "")


def _has_rows(filled: Synced) -> bool:
    try:
        return len(filled.offsets()) == 2
    except TableError:
        return False


# --- ids and headers


def test_ids_are_unique_where_sequences_begin_again() -> None:
    topic = bytes(16)
    first = message_uuids(topic, 0, 0, [0, 1], (7, 0, 0))
    again = message_uuids(topic, 0, 2**31, [0, 1], (7, 0, 0))
    wrapped = message_uuids(topic, 0, 2**31 - 1, [0, 1], (7, 0, 2**31 - 1))
    offsets = message_uuids(topic, 0, 2**31 - 1, [0, 1], None)
    others = [message_uuids(topic, 1, 0, [0], (7, 0, 0)), message_uuids(topic, 0, 0, [0], (7, 1, 0))]
    found = [*first, *again, *wrapped, *offsets, *(each for ids in others for each in ids)]
    assert len(set(found)) == len(found) - 1  # the second of `wrapped` is the first of `again`: the same record
    assert wrapped[1] == again[0]
    assert all(each[6] >> 4 == 8 and each[8] >> 6 == 2 for each in found)


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ([(b"trace", b"abc"), (b"trace", None)], '[{"key":"trace","value":"abc"},{"key":"trace","value":null}]'),
        ([(b"raw", b"\xff")], '[{"key":"raw","value_b64":"/w=="}]'),
        ([(b"\xff", b"")], '[{"key_b64":"/w==","value":""}]'),
        ([(b'q"\\\n', b"\0")], '[{"key":"q\\"\\\\\\n","value_b64":"AA=="}]'),
        ([("ä".encode(), "\u2028😀".encode())], '[{"key":"ä","value":"\u2028😀"}]'),
    ],
)
def test_headers_as_json(headers: list[tuple[bytes, bytes | None]], text: str) -> None:
    assert header_json(headers) == text
    wanted = tuple((name.decode("utf-8", "surrogateescape"), value) for name, value in headers)
    assert headers_of(text) == wanted


def test_a_time_beyond_those_of_postgres_is_named() -> None:
    batch = read_batch(bytes(build([(b"k", b"v", (), 2**62)], base_offset=3)))
    rows = record_rows((batch, 0, 10), RowSource(ORDERS, bytes(16)))
    with pytest.raises(TableError, match="orders-0, offset 3: the timestamp 4611686018427387904 is beyond the times"):
        check_times(rows)


# --- the page


@pytest.mark.long
def test_the_page_has_every_column_and_option() -> None:
    for column in COLUMNS:
        assert f"| `{column}` |" in PAGE
    help_text = subprocess.run(
        [sys.executable, "-m", "offsetfs", "table", "sync", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for option in set(re.findall(r"--[a-z-]+", help_text)) - {"--help"}:
        assert f"`{option}" in PAGE, option


def test_the_queries_of_the_page_work(synced: Synced, log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.append_replicated(bytes(build([(b"k", b"v", (("trace", b"abc"),), TIME)], base_offset=0, leader_epoch=0)))
    assert synced.run("--create", "--topic", "orders") == 0
    assert capsys.readouterr().out == "orders: 1 partition, 1 row added\n"
    assert synced.query("SELECT count(*), max(message_offset) FROM messages") == [(1, 0)]
    assert synced.query("SELECT headers FROM messages") == [('[{"key":"trace","value":"abc"}]',)]
