"""What `df.write.format("offsetfs")` leaves in a log: each record once, in its partition, in its order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.records.format.partitioner import partition_of

pytestmark = pytest.mark.spark


def write(frame: Any, path: Path, **options: object) -> None:
    frame.write.format("offsetfs").mode("append").options(**{"topic": "orders", "partitions": 3, **options}).save(
        str(path)
    )


def records(path: Path) -> dict[str, list[offsetfs.Record]]:
    with offsetfs.open(path) as data:
        return {partition.name: list(partition.read()) for partition in data.partitions()}


def staged(path: Path) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith(".offsetfs-staged")]


@pytest.mark.promise("Spark writes, imports and repartitions keep the order of records with the same key.")
def test_keyed_records_go_where_kafka_would_put_them_and_keep_their_order(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(3000, numPartitions=3).selectExpr("concat('k', id % 50) AS key", "cast(id AS string) AS value")
    write(frame, tmp_path)
    found = records(tmp_path)
    assert sum(map(len, found.values())) == 3000
    for name, rows in found.items():
        assert {partition_of(row.key or b"", 3) for row in rows} <= {int(name[-1])}
        for key in {row.key for row in rows}:
            numbers = [int(row.value or b"") for row in rows if row.key == key]
            assert numbers == sorted(numbers)
    assert staged(tmp_path) == []


def test_all_columns_arrive(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT cast('k' AS binary) key, cast('v' AS binary) value, 'orders' topic, 2 partition, "
        "timestamp_millis(1234) timestamp, array(named_struct('key', 'h', 'value', cast('x' AS binary)), "
        "named_struct('key', 'h', 'value', cast(NULL AS binary))) headers "
        "UNION ALL SELECT NULL, NULL, 'orders', 2, timestamp_millis(-1), NULL"
    ).coalesce(1)
    write(frame, tmp_path)
    rows = [(row.key, row.value, row.timestamp, row.headers) for row in records(tmp_path)["orders-2"]]
    assert rows == [(b"k", b"v", 1234, (("h", b"x"), ("h", None))), (None, None, -1, ())]


def test_what_is_read_from_one_directory_can_be_written_to_another(spark: Any, golden: Path, tmp_path: Path) -> None:
    frame = (
        spark.read.format("offsetfs").option("subscribe", "keyed").option("includeHeaders", "true").load(str(golden))
    )
    write(frame.drop("offset", "timestampType"), tmp_path, topic="keyed", partitions=4)
    with offsetfs.open(golden) as data:
        wanted = {
            each.name: [(r.key, r.value, r.timestamp, r.headers) for r in each.read()]
            for each in data.partitions("keyed")
        }
    assert {
        name: [(r.key, r.value, r.timestamp, r.headers) for r in rows] for name, rows in records(tmp_path).items()
    } == wanted


def test_a_version_is_written_once(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'a' value")
    for version in (7, 7, 6, 8):
        write(frame, tmp_path, txnAppId="daily", txnVersion=version)
    assert sum(map(len, records(tmp_path).values())) == 2


def test_a_task_that_fails_leaves_nothing_behind(spark: Any, tmp_path: Path) -> None:
    write(spark.sql("SELECT 'a' value"), tmp_path)
    frame = spark.range(10).selectExpr("if(id = 9, raise_error('no'), cast(id AS string)) AS value")
    with pytest.raises(Exception, match="no"):
        write(frame, tmp_path)
    assert sum(map(len, records(tmp_path).values())) == 1
    assert staged(tmp_path) == []


def test_the_process_that_holds_the_directory_is_named(spark: Any, tmp_path: Path) -> None:
    write(spark.sql("SELECT 'a' value"), tmp_path)
    directory = LogDirectory.open(str(tmp_path))
    try:
        with pytest.raises(Exception, match=f"in use by process {os.getpid()}"):
            write(spark.sql("SELECT 'b' value"), tmp_path)
    finally:
        directory.close()


REFUSED = {
    "no topic": ("SELECT 'a' value", {"topic": ""}, "topic"),
    "a column that there is not": ("SELECT 'a' value, 1 color", {}, "column color cannot be written"),
    "a number as a value": ("SELECT 1 value", {}, "column value is int; cast it to binary or string"),
    "half a name": ("SELECT 'a' value", {"txnAppId": "x"}, "txnAppId and txnVersion go together"),
    "a partition beyond the last": ("SELECT 'a' value, 9 partition", {}, "the topic has no partition 9, only 3"),
    "a time before 1970": (
        "SELECT 'a' value, timestamp '1950-01-01 00:00:00' timestamp",
        {},
        "column timestamp: 1950-01-01 00:00:00.000 UTC lies before 1970",
    ),
    "a broker's own topic": ("SELECT 'a' value", {"topic": "__consumer_offsets"}, "a broker's own"),
}


def test_a_wrong_write_is_refused_with_one_sentence(spark: Any, tmp_path: Path) -> None:
    write(spark.sql("SELECT 'a' value"), tmp_path)
    for name, (query, options, sentence) in REFUSED.items():
        with pytest.raises(Exception) as caught:
            write(spark.sql(query), tmp_path, **options)
        assert sentence in str(caught.value), name
    assert sum(map(len, records(tmp_path).values())) == 1


def test_save_as_table_names_what_works_instead(spark: Any) -> None:
    writer = spark.sql("SELECT 'a' value").write.format("offsetfs").mode("append").option("topic", "t")
    with pytest.raises(Exception, match=r"frame\.write\.format\('offsetfs'\)\.mode\('append'\)"):
        writer.saveAsTable("saved")


def test_save_as_table_with_a_path_appends_once_and_leaves_a_useless_table(spark: Any, tmp_path: Path) -> None:
    """Spark hands the same over as for save(), so that it cannot be refused, and no option to a query of the table."""
    write(spark.sql("SELECT 'a' value"), tmp_path)
    writer = spark.sql("SELECT 'b' value").write.format("offsetfs").mode("append").option("topic", "orders")
    writer.option("path", str(tmp_path)).saveAsTable("with_a_path")
    try:
        with pytest.raises(Exception, match=r"saveAsTable and INSERT INTO do not work.* CREATE TEMPORARY VIEW"):
            spark.table("with_a_path").collect()
    finally:
        spark.sql("DROP TABLE with_a_path")
    assert sorted(row.value or b"" for rows in records(tmp_path).values() for row in rows) == [b"a", b"b"]


# --- streams ---------------------------------------------------------------------------------------------------------


def follow(spark: Any, source: Path, target: Path, checkpoint: Path, **options: object) -> list[int]:
    """Carry over what there is; return the rows of each micro-batch."""
    frame = spark.readStream.format("offsetfs").options(**options).load(str(source)).select("key", "value", "timestamp")
    writer = frame.writeStream.format("offsetfs").option("topic", "copy").option("partitions", 2)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(target))
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_a_stream_goes_on_where_its_checkpoint_states(spark: Any, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    write(spark.range(90).selectExpr("cast(id % 7 AS string) key", "cast(id AS string) value"), source)
    assert follow(spark, source, target, checkpoint, maxOffsetsPerTrigger=40) == [40, 40, 10]
    write(spark.range(90, 100).selectExpr("cast(id % 7 AS string) key", "cast(id AS string) value"), source)
    assert follow(spark, source, target, checkpoint) == [10]
    found = [int(row.value or b"") for rows in records(target).values() for row in rows]
    assert sorted(found) == list(range(100))
    assert staged(target) == []


def test_a_micro_batch_that_is_committed_again_is_there_once(spark: Any, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    write(spark.range(30).selectExpr("cast(id AS string) value"), source)
    follow(spark, source, target, checkpoint)
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    follow(spark, source, target, checkpoint)
    assert sum(map(len, records(target).values())) == 30


def test_a_stream_reports_records_removed_by_retention(spark: Any, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    frame = spark.range(30).selectExpr("cast(id AS string) value")
    write(frame, source, partitions=1)
    follow(spark, source, target, checkpoint)
    write(frame, source)
    directory = LogDirectory.open(str(source))
    directory.log(directory.partitions()[0]).delete_records(45)
    directory.close()
    with pytest.raises(Exception, match="the stream goes from 30 to 60, and there is 45 to 60"):
        follow(spark, source, target, checkpoint)
    assert follow(spark, source, target, checkpoint, failOnDataLoss="false") == [15]
