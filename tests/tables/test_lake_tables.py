"""`offsetfs table sync` into Iceberg and Delta Lake, read by polars, DuckDB and the libraries of the formats."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fixtures.databases.lake_rows import files_of, foreign_row, library_rows, library_table, opened, rows_of
from fixtures.logs.replicated_logs import add, add_transaction
from fixtures.logs.schema_records import schema_record, write_log, write_schemas

from offsetfs import cli
from offsetfs.common.name_patterns import NamePattern
from offsetfs.storage import Log, LogDirectory, TopicPartition
from offsetfs.tables.databases.syncing import SyncOptions
from offsetfs.tables.lake import data_files
from offsetfs.tables.lake.lake_location import Overtaken
from offsetfs.tables.lake.lake_sync import LakeSync

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
KILLED_SYNCS = Path(__file__).parents[1] / "fixtures" / "databases" / "killed_lake_syncs.py"
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(params=["iceberg", "delta"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path}/lake"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    return path


@pytest.fixture
def log(logs: Path) -> Iterator[Log]:
    with closing(LogDirectory.open(str(logs))) as directory:
        yield directory.create_partition(ORDERS)


def sync(logs: Path, place: str, *words: str) -> int:
    return cli.run(["table", "sync", str(logs), place, "--create", *words])


def offsets(place: str) -> list[int]:
    return [row["_offset"] for row in rows_of(place) if row["_topic"] == "orders"]


def expected(topic: str) -> list[tuple[Any, ...]]:
    """Return the committed records of the golden logs of a topic, as consumers of Kafka saw them."""
    found = []
    for path in sorted(GOLDEN.glob(f"{topic}-[0-9].expected.ndjson")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record.get("committed", True):
                headers = [(name, _bytes(value)) for name, value in record["headers"]]
                key, value = _bytes(record["key_b64"]), _bytes(record["value_b64"])
                found.append((record["offset"], record["timestamp"], key, value, headers or None))
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def as_records(rows: list[dict[str, Any]], topic: str) -> list[tuple[Any, ...]]:
    return [
        (
            row["_offset"],
            round(row["_timestamp"].timestamp() * 1000),
            row["_key"],
            row["_value"],
            [(each["key"], each["value"]) for each in row["_headers"] or ()] or None,
        )
        for row in rows
        if row["_topic"] == topic
    ]


def test_rows_of_golden_logs_are_what_consumers_of_kafka_saw(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sync(GOLDEN, place) == 0
    assert "keyed: 4 partitions, 400 rows added" in capsys.readouterr().out
    rows, library = rows_of(place), library_rows(place)
    topics = sorted({row["_topic"] for row in rows})
    assert len(rows) == len(library) == 8234 and {"java", "transactions", "compacted-tx", "wide"} <= set(topics)
    for topic in topics:
        if topic != "wide":  # has no such file
            assert as_records(rows, topic) == as_records(library, topic) == expected(topic), topic
    files = files_of(place)
    with closing(duckdb.connect()) as connection:
        count, keys, nulls = connection.execute(
            "SELECT count(*), count(DISTINCT (_topic, _partition, _offset)), count(*) FILTER (_headers IS NULL) "
            f"FROM read_parquet({files})"
        ).fetchone() or (0, 0, 0)
        assert (count, keys) == (8234, 8234) and nulls == sum(row["_headers"] is None for row in rows) > 0
    assert sync(GOLDEN, place) == 0 and "java: 1 partition, 0 rows added" in capsys.readouterr().out
    assert files_of(place) == files


def test_a_sync_goes_on_where_the_table_ends(place: str, logs: Path, log: Log) -> None:
    add(log, 0, b"a", b"b")
    add_transaction(log, 2, b"c", sequence=0, is_commit=False)
    assert sync(logs, place) == 0 and offsets(place) == [0, 1]
    assert opened(place).progress([ORDERS])[ORDERS].next_offset == 4
    add(log, 4, b"d")
    foreign_row(place)
    assert sync(logs, place) == 0 and offsets(place) == [0, 1, 4]
    assert len(rows_of(place)) == 4


def test_a_commit_behind_another_of_the_same_records_adds_nothing(place: str, logs: Path, log: Log) -> None:
    add(log, 0, b"a", b"b")
    opened(place, may_create=True)
    directory = LogDirectory.open(str(logs), read_only=True)
    events: list[str] = []
    late = LakeSync(directory, opened(place), SyncOptions([NamePattern(".*")]), 1 << 20, events.append)
    late._discover()
    ranges = late._planned({ORDERS: 2})
    foreign_row(place)
    assert sync(logs, place) == 0
    with pytest.raises(Overtaken):
        late._copy(ranges)
    add(log, 2, b"c")
    late.run()
    assert offsets(place) == [0, 1, 2] and events == [] and late.partitions[ORDERS].rows == 1
    folder = Path(place.partition(":")[2])
    assert len(list(folder.rglob("*.parquet"))) == len(files_of(place)) == 3  # what was overtaken is removed


def test_a_commit_behind_one_of_another_program_keeps_both(place: str, logs: Path, log: Log) -> None:
    add(log, 0, b"a")
    opened(place, may_create=True)
    table = opened(place)
    foreign_row(place)
    events: list[str] = []
    directory = LogDirectory.open(str(logs), read_only=True)
    LakeSync(directory, table, SyncOptions([NamePattern(".*")]), 1 << 20, events.append).run()
    assert offsets(place) == [0] and len(rows_of(place)) == 2 and events == []


@pytest.mark.long
def test_killed_syncs_leave_each_record_once(place: str, logs: Path) -> None:
    words = [sys.executable, str(KILLED_SYNCS), str(logs), place, "3", "10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert 0 <= int(done.stdout) <= 10


def test_lost_records_stop_a_partition_unless_they_are_skipped(
    place: str, logs: Path, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    add(log, 0, b"a")
    assert sync(logs, place) == 0
    add(log, 1, b"b", b"c")
    log.delete_records(2)
    assert sync(logs, place) == 32
    assert "orders-0: " in capsys.readouterr().err and offsets(place) == [0]
    assert sync(logs, place, "--on-gap", "skip") == 0
    assert "orders-0: left out: " in capsys.readouterr().err and offsets(place) == [0, 2]


@pytest.mark.damages
def test_damage_stops_a_partition_behind_its_last_record(
    place: str, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(LogDirectory.open(str(logs))) as directory:
        log = directory.create_partition(ORDERS)
        add(log, 0, b"a")
        good = log.size_bytes
        add(log, 1, b"b")
        add(log, 2, b"c")
    with open(logs / "orders-0" / f"{0:020}.log", "r+b") as file:
        file.seek(good + 65)
        file.write(b"\xff")
    assert sync(logs, place) == 32 and "orders-0: " in capsys.readouterr().err and offsets(place) == [0]
    assert sync(logs, place, "--on-gap", "skip") == 0 and offsets(place) == [0, 2]


def test_a_topic_that_was_created_again_is_refused(place: str, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for count in (2, 3):
        with closing(LogDirectory.open(str(logs))) as directory:
            add(directory.create_partition(ORDERS), 0, *[b"x"] * count)
        assert sync(logs, place) == (0 if count == 2 else 32)
        with closing(LogDirectory.open(str(logs))) as directory:
            directory.delete_partition(ORDERS)
    assert "orders was deleted and created again" in capsys.readouterr().err and offsets(place) == [0, 1]


def test_a_log_that_was_cut_is_refused(place: str, logs: Path, log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    add(log, 0, b"a", b"b")
    add(log, 2, b"c")
    assert sync(logs, place) == 0
    log.truncate_to(2)
    assert sync(logs, place) == 32 and "the log ends at offset 2 and the table at 3" in capsys.readouterr().err
    assert offsets(place) == [0, 1, 2]


ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"%s"}%s]}'
KIND = '{"name":"kind","type":["null",{"type":"enum","name":"K","symbols":["A","B"]}],"default":null}'
ITEM = '{"type":"record","name":"I","fields":[{"name":"n","type":"float"}]}'
NESTED = '{"name":"_value","type":{"type":"array","items":' + ITEM + '},"default":[]}'


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def test_decoded_columns_grow_with_the_schema(place: str, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_schemas(logs, [schema_record("orders-value", 1, 1, ORDER % ("int", "," + KIND))])
    write_log(logs, "orders-0", [(b"k", framed(1, b"\x02\x02\x02"), ()), (b"k", b"raw", ()), (b"k", None, ())])
    assert sync(logs, place, "--topic", "orders", "--decode") == 0
    assert "1 value not decoded; _error has the reasons" in capsys.readouterr().err
    write_schemas(logs, [schema_record("orders-value", 2, 2, ORDER % ("long", f",{KIND},{NESTED}"))])
    data = b"\x80\x80\x80\x80\x20" + b"\0" + b"\x02" + b"\0\0\x80\x3f" + b"\0"
    write_log(logs, "orders-0", [(b"k", framed(2, data), ()), (b"k", framed(1, b"\x04\0"), ())])
    assert sync(logs, place, "--topic", "orders", "--decode") == 0
    rows = rows_of(place)
    assert [row["id"] for row in rows] == [1, None, None, 1 << 32, 2]
    assert [row["kind"] for row in rows] == ["B", None, None, None, None]
    assert [row["_value"] for row in rows] == [None, b"raw", None, None, None]
    assert rows[1]["_error"] == "the record names no schema" and rows[0]["_error"] is None
    assert rows[0]["_value_1"] is None and rows[3]["_value_1"] == [{"n": 1.0}]
    capsys.readouterr()
    assert sync(logs, place) == 32 and "has decoded rows of orders: choose another table" in capsys.readouterr().err


def test_a_type_that_a_column_cannot_become_is_refused(
    place: str, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_schemas(logs, [schema_record("orders-value", 1, 1, ORDER % ("string", ""))])
    write_log(logs, "orders-0", [(b"k", framed(1, b"\x02a"), ())])
    assert sync(logs, place, "--topic", "orders", "--decode", "--keep-bytes") == 0
    assert rows_of(place)[0]["_value"] == framed(1, b"\x02a")
    write_schemas(logs, [schema_record("orders-value", 2, 2, ORDER % ("int", ""))])
    write_log(logs, "orders-0", [(b"k", framed(2, b"\x02"), ())])
    capsys.readouterr()
    assert sync(logs, place, "--topic", "orders", "--decode") == 32
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "id" in error and len(rows_of(place)) == 1


def test_days_and_sizes_divide_the_files(place: str, logs: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    from offsetfs.storage.records.format.batch import build

    day = 86_400_000
    times = [-1, 0, day - 1, day, 5 * day, 0]
    records = [(b"k%d" % number, bytes(100), (), time) for number, time in enumerate(times)]
    log.append_replicated(bytes(build(records, base_offset=0, leader_epoch=0)))
    assert sync(logs, place, "--by-day") == 0
    with closing(duckdb.connect()) as connection:
        found = [
            connection.execute(f"SELECT list(_offset) FROM read_parquet('{path}', hive_partitioning=false)").fetchone()
            for path in files_of(place)
        ]
    assert sorted(row[0] for row in found if row) == [[0], [1, 2, 5], [3], [4]]
    assert offsets(place) == [0, 1, 2, 3, 4, 5]
    monkeypatch.setattr(data_files, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(data_files, "OPEN_FILES_MAX", 1)
    for offset in range(6, 9):
        add(log, offset, b"a")
    assert sync(logs, place, "--file-size", "1") == 0 and offsets(place) == list(range(9))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["iceberg:"], "iceberg: has no place: write iceberg:/WAREHOUSE, iceberg:CATALOG or delta:/TABLE"),
        (["iceberg:s3://b/w"], "a warehouse in an object store needs a catalog: describe it in ~/.pyiceberg.yaml"),
        (["iceberg:/a?b"], "the path of a warehouse has none of ? # %; choose another directory"),
        (["delta:/x", "--columns", "payload"], "--columns: does not go with iceberg: and delta:"),
        (["delta:/x", "--table", "a"], "--table: the place of delta: is that of the table; leave --table out"),
        (["sqlite:///x.db", "--by-day"], "--by-day: goes with iceberg: and delta:"),
        (["iceberg:/x", "--table", "a.b.c"], "'a.b.c' is not a name of a table"),
    ],
)
def test_wrong_calls_are_refused(
    words: list[str], reason: str, logs: Path, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["table", "sync", str(logs), *words]) == 1
    assert reason in capsys.readouterr().err


def test_tables_that_are_missing_or_of_others_are_refused(
    place: str, logs: Path, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(log, 0, b"a")
    assert cli.run(["table", "sync", str(logs), place]) == 32
    assert "--create creates it" in capsys.readouterr().err
    assert sync(logs, place.replace(str(tmp_path / "lake"), str(logs / "lake"))) == 1
    assert "is in the log directory; choose a file outside of it" in capsys.readouterr().err
    assert sync(logs, place) == 0
    if place.startswith("iceberg"):
        with library_table(place).transaction() as transaction:
            transaction.remove_properties("offsetfs.topic")
    else:
        library_table(place).alter.set_table_description("mine")
    assert sync(logs, place) == 32 and "is a table of another program; choose another" in capsys.readouterr().err


def test_a_rolled_back_table_of_iceberg_is_filled_again(logs: Path, log: Log, tmp_path: Path) -> None:
    place = f"iceberg:{tmp_path}/lake"
    add(log, 0, b"a")
    assert sync(logs, place) == 0
    first = library_table(place).current_snapshot().snapshot_id
    add(log, 1, b"b")
    assert sync(logs, place) == 0
    with library_table(place).manage_snapshots() as snapshots:
        snapshots.rollback_to_snapshot(first)
    assert offsets(place) == [0]
    assert sync(logs, place) == 0 and offsets(place) == [0, 1]


def test_the_progress_outlives_expired_snapshots_of_iceberg(logs: Path, log: Log, tmp_path: Path) -> None:
    place = f"iceberg:{tmp_path}/lake"
    add(log, 0, b"a")
    assert sync(logs, place) == 0
    first = library_table(place).current_snapshot().snapshot_id
    foreign_row(place)
    library_table(place).maintenance.expire_snapshots().by_id(first).commit()
    add(log, 1, b"b")
    assert sync(logs, place) == 0 and offsets(place) == [0, 1]
