"""What `spark.read.format("offsetfs")` shows: rows, snapshots, ranges, damage, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import offsetfs

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))


def read(spark: Any, path: Path, options: Mapping[str, object] | None = None, schema: str | None = None) -> Any:
    reader = spark.read.format("offsetfs").options(**(options or {}))
    return (reader.schema(schema) if schema else reader).load(str(path))


def logs(path: Path, *counts: int, topic: str = "orders") -> Path:
    """Make a topic with so many records in each partition; value n is "n"."""
    with offsetfs.open(path, "a") as data:
        for partition, count in zip(data.create(topic, len(counts)), counts, strict=True):
            partition.append_lines(b"".join(b"%d\n" % number for number in range(count)), timestamp=1000)
    return path


def values(frame: Any) -> list[bytes]:
    return [bytes(row.value) for row in frame.orderBy("partition", "offset").collect()]


# --- rows ------------------------------------------------------------------------------------------------------------


def expected_rows(*, committed: bool) -> list[tuple[object, ...]]:
    kinds = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
    rows = []
    for name in PARTITIONS:
        topic, number = name.rsplit("-", 1)
        for line in (GOLDEN / f"{name}.expected.ndjson").read_text().splitlines():
            row = json.loads(line)
            if committed and not row["committed"]:
                continue
            value = row.get("value_sha256") or digest(decoded(row["value_b64"]))
            headers = [(header, decoded(text)) for header, text in row["headers"]]
            kind = kinds[row["timestamp_type"]]
            key = decoded(row["key_b64"])
            rows.append((topic, int(number), row["offset"], row["timestamp"], kind, key, value, headers))
    return sorted(rows, key=lambda each: each[:3])


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def digest(value: bytes | None) -> str | None:
    return None if value is None else hashlib.sha256(value).hexdigest()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_golden_record_is_the_row_that_a_kafka_client_would_give(spark: Any, isolation: str) -> None:
    frame = read(spark, GOLDEN, {"includeHeaders": "true", "isolation": isolation, "partitionBytes": 20_000})
    shown = frame.selectExpr("*", "unix_millis(timestamp) AS milliseconds").collect()
    rows = [
        (
            row.topic,
            row.partition,
            row.offset,
            row.milliseconds,
            row.timestampType,
            None if row.key is None else bytes(row.key),
            digest(None if row.value is None else bytes(row.value)),
            [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers or []],
        )
        for row in shown
    ]
    wanted = expected_rows(committed=isolation == "read_committed")
    assert sorted(rows, key=lambda each: each[:3]) == wanted


def test_columns_are_those_of_the_kafka_source(spark: Any) -> None:
    assert read(spark, GOLDEN, {"includeHeaders": "true"}).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


def test_a_schema_prunes(spark: Any, tmp_path: Path) -> None:
    frame = read(spark, logs(tmp_path, 3), schema="offset long, value binary")
    assert frame.columns == ["offset", "value"]
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_old_message_formats_are_rows_as_well(spark: Any) -> None:
    frame = read(spark, Path(__file__).parents[1] / "golden" / "kafka-0.10.2.2", {"includeHeaders": "true"})
    assert frame.count() > 0
    assert {row.headers for row in frame.limit(20).collect()} == {None}


# --- snapshots and ranges --------------------------------------------------------------------------------------------


def test_a_frame_is_a_snapshot(spark: Any, tmp_path: Path) -> None:
    frame = read(spark, logs(tmp_path, 5))
    assert frame.count() == 5
    with offsetfs.open(tmp_path, "a") as data:
        data.partition("orders-0").append(b"later")
    assert frame.count() == 5
    assert read(spark, tmp_path).count() == 6


def test_a_filter_of_one_query_is_none_of_the_next(spark: Any, tmp_path: Path) -> None:
    frame = read(spark, logs(tmp_path, 100))
    assert frame.where("offset >= 90").count() == 10
    assert frame.count() == 100


RANGES = {
    "offsets of each partition": (
        {"startingOffsets": '{"orders":{"0":2,"1":-2}}', "endingOffsets": '{"orders":{"0":4,"1":-1}}'},
        [b"2", b"3", b"0", b"1"],
    ),
    "a time before offsets": ({"startingTimestamp": "1", "startingOffsets": '{"orders":{"0":4,"1":1}}'}, None),
    "one partition": ({"assign": '{"orders":[1]}'}, [b"0", b"1"]),
    "a pattern": ({"subscribePattern": "ord.*"}, None),
    "an end by time": ({"endingTimestamp": "1000"}, []),
    "an end that no record reaches": ({"endingTimestamp": "5000"}, None),
    "a start that none reaches": (
        {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"},
        [],
    ),
    "a start that is gone": (
        {"startingOffsets": '{"orders":{"0":77,"1":1}}', "failOnDataLoss": "false"},
        [b"1"],
    ),
    "tasks by records": ({"maxRecordsPerPartition": "2"}, None),
}


def test_ranges_are_resolved_as_the_kafka_source_does(spark: Any, tmp_path: Path) -> None:
    logs(tmp_path, 5, 2)
    everything = [b"0", b"1", b"2", b"3", b"4", b"0", b"1"]
    found = {name: values(read(spark, tmp_path, options)) for name, (options, _) in RANGES.items()}
    assert found == {name: everything if wanted is None else wanted for name, (_, wanted) in RANGES.items()}


def test_large_partitions_are_cut_and_small_ones_put_together(spark: Any, tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        for partition in data.create("many", 8):
            partition.append(b"x")
        large = data.create("large")[0]
        for _ in range(40):
            large.append_lines(b"y" * 1000 + b"\n" + b"z\n" * 20)
    frame = read(spark, tmp_path, {"subscribe": "many"})
    assert (frame.rdd.getNumPartitions(), frame.count()) == (1, 8)
    frame = read(spark, tmp_path, {"subscribe": "large", "minPartitions": 4})
    assert frame.rdd.getNumPartitions() >= 4
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(40 * 21))


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Three batches, the second of which has a byte that changed."""
    with offsetfs.open(tmp_path, "a") as data:
        partition = data.create("orders")[0]
        for value in (b"first", b"second", b"third"):
            partition.append(value)
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes().replace(b"second", b"sEcond"))
    return tmp_path


@pytest.mark.damages
def test_damage_ends_a_query_with_a_sentence(spark: Any, damaged: Path) -> None:
    with pytest.raises(Exception, match=r"offset 1: checksum 0x"):
        read(spark, damaged).collect()


@pytest.mark.damages
def test_malformed_batches_are_dropped_when_that_is_asked_for(spark: Any, damaged: Path) -> None:
    assert values(read(spark, damaged, {"mode": "DROPMALFORMED"})) == [b"first", b"third"]


@pytest.mark.damages
def test_permissive_reports_unreadable_records_with_their_location(spark: Any, damaged: Path) -> None:
    rows = read(spark, damaged, {"mode": "PERMISSIVE"}).orderBy("offset").collect()
    assert [(row.offset, row._corrupt_record is None) for row in rows] == [(0, True), (1, False), (2, True)]
    assert "orders-0" in rows[1]._corrupt_record and "position" in rows[1]._corrupt_record


# --- how the work is cut ---------------------------------------------------------------------------------------------


def tasks_of(frame: Any) -> list[int]:
    """Return how many records each task reads, the fewest first."""
    from pyspark.sql.functions import spark_partition_id

    return sorted(row["count"] for row in frame.groupBy(spark_partition_id()).count().collect())


def test_min_partitions_sets_the_tasks_and_max_records_limits_each(spark: Any, tmp_path: Path) -> None:
    path = logs(tmp_path, 100, 10)
    assert len(tasks_of(read(spark, path, {"minPartitions": "8"}))) == 8
    assert tasks_of(read(spark, path, {"minPartitions": "11"})) == [10] * 11
    assert tasks_of(read(spark, path, {"maxRecordsPerPartition": "30"})) == [10, 10, 30, 30, 30]
    both = {"maxRecordsPerPartition": "30", "minPartitions": "9"}
    assert len(tasks_of(read(spark, path, both))) == 9 and max(tasks_of(read(spark, path, both))) <= 30
    assert tasks_of(read(spark, path, {"minPartitions": "1000"})) == [1] * 110


# --- several directories ---------------------------------------------------------------------------------------------


def test_the_log_dirs_of_a_broker_are_read_as_one_set_of_partitions(spark: Any, tmp_path: Path) -> None:
    for name, count in ("disk-1", 3), ("disk-2", 5):
        (tmp_path / name).mkdir()
        logs(tmp_path / name, 1, count)
    shutil.rmtree(tmp_path / "disk-1" / "orders-1")
    shutil.rmtree(tmp_path / "disk-2" / "orders-0")
    disks = [str(tmp_path / name) for name in ("disk-1", "disk-2")]
    for frame in (spark.read.format("offsetfs").load(disks), read(spark, Path(",".join(disks)))):
        assert {row.partition: row["count"] for row in frame.groupBy("partition").count().collect()} == {0: 1, 1: 5}


def test_a_partition_that_two_directories_hold_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    for name in ("disk-1", "disk-2"):
        (tmp_path / name).mkdir()
        logs(tmp_path / name, 3)
    frame = spark.read.format("offsetfs").load([str(tmp_path / "disk-1"), str(tmp_path / "disk-2")])
    with pytest.raises(Exception, match=r"orders-0 is in \S+disk-1 and in \S+disk-2: load\(\) one of them"):
        frame.count()


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "an unknown option": ({"subscrybe": "orders"}, "unknown option subscrybe"),
    "a broker": ({"kafka.bootstrap.servers": "here:9092"}, "kafka.bootstrap.servers: there is no broker"),
    "two selections": ({"subscribe": "orders", "assign": "{}"}, "contradict"),
    "a topic that is not there": ({"subscribe": "nothing"}, "has no topic nothing"),
    "an offset beyond the end": ({"startingOffsets": '{"orders":{"0":9}}'}, "orders-0: offset 9 is beyond the end, 3"),
    "a partition that is not named": ({"startingOffsets": '{"other":{"0":1}}'}, "orders-0"),
}


def test_a_wrong_query_is_refused_with_one_sentence(spark: Any, tmp_path: Path) -> None:
    logs(tmp_path, 3)
    for name, (options, sentence) in REFUSED.items():
        with pytest.raises(Exception) as caught:
            read(spark, tmp_path, options).collect()
        assert sentence in str(caught.value), name
    for path, sentence in (
        (tmp_path / "nowhere", "there is no such directory"),
        (tmp_path / "orders-0", "is the directory of a partition; give its log directory"),
    ):
        with pytest.raises(Exception, match=sentence):
            read(spark, path).collect()


TABLES = {
    "CREATE TABLE t USING offsetfs OPTIONS (path '{path}')": "CREATE TEMPORARY VIEW … USING offsetfs",
    "CREATE TABLE t USING offsetfs LOCATION '{path}'": "CREATE TEMPORARY VIEW … USING offsetfs",
    "CREATE TABLE t USING offsetfs AS SELECT 'a' value": "frame.write.format('offsetfs').mode('append')",
    "INSERT INTO orders SELECT * FROM orders": "frame.write.format('offsetfs').mode('append')",
}


@pytest.mark.parametrize("statement", TABLES)
def test_statements_that_need_a_table_name_what_works_instead(spark: Any, tmp_path: Path, statement: str) -> None:
    path = logs(tmp_path, 3)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING offsetfs OPTIONS (path '{path}', subscribe 'orders')")
    with pytest.raises(Exception) as caught:
        spark.sql(statement.format(path=path)).collect()
    assert TABLES[statement] in str(caught.value)


def test_a_table_that_spark_made_all_the_same_reports_it_when_it_is_read(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE made (value binary) USING offsetfs OPTIONS (path '{logs(tmp_path, 3)}')")
    try:
        with pytest.raises(Exception, match=r"CREATE TEMPORARY VIEW … USING offsetfs"):
            spark.sql("SELECT * FROM made").collect()
    finally:
        spark.sql("DROP TABLE made")


def test_a_partition_that_was_deleted_is_a_loss(spark: Any, tmp_path: Path) -> None:
    logs(tmp_path, 3, 3)
    strict, lenient = read(spark, tmp_path), read(spark, tmp_path, {"failOnDataLoss": "false"})
    assert (strict.count(), lenient.count()) == (6, 6)
    shutil.rmtree(tmp_path / "orders-1")
    with pytest.raises(Exception, match="orders-1 was deleted"):
        strict.collect()
    assert lenient.count() == 3
