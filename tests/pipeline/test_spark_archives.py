"""Spark on an archive in object storage: the rows, streams and jobs of the log directory that was archived."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs import archived_logs
from fixtures.stores import hdfs_cluster, s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults
from pyspark.sql import types as spark_types

import offsetfs
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.cli import run
from offsetfs.pipeline.kept_columns import kept_types
from offsetfs.pipeline.read_options import OptionError

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.glob("kafka-*") if path.is_dir())
_NUMBERS = itertools.count()

Archived = Callable[[Path], str]


@pytest.fixture
def archived(faults: S3Faults) -> Archived:
    """Returns the URL of an archive of a log directory; another call for the same directory archives it again."""
    urls: dict[Path, str] = {}

    def archive(path: Path) -> str:
        url = urls.setdefault(path, f"s3://{s3_server.BUCKET}/spark-{next(_NUMBERS)}")
        archived_logs.archive(ObjectStore(url, StoreSettings(timeout_s=20)), path)
        faults.forget()
        return url

    return archive


def logs(path: Path, *counts: int, first: int = 0) -> Path:
    """Append so many records to each partition of the topic orders, which is made if it is missing."""
    path.mkdir(exist_ok=True)
    with offsetfs.open(path, "a") as data:
        if not first:
            data.create("orders", len(counts))
        for partition, count in enumerate(counts):
            lines = b"".join(b"%d\n" % number for number in range(first, first + count))
            data.partition(f"orders-{partition}").append_lines(lines, timestamp=1000)
    return path


def frame(spark: Any, path: object, **options: object) -> Any:
    return spark.read.format("offsetfs").options(**options).load(str(path))


def rows(found: Any) -> list[Any]:
    return sorted(map(repr, found.collect()))


def test_columns_of_a_stream_are_kept_in_object_storage(faults: S3Faults) -> None:
    place, first, newer = f"s3a://{s3_server.BUCKET}/columns", spark_types.IntegerType(), spark_types.LongType()
    key = spark_types.StringType()
    assert kept_types(place, "orders", (first, key)) == (first, key)
    assert kept_types(place.replace("s3a", "s3"), "orders", (newer, key)) == (first, key)
    with pytest.raises(OptionError, match=r"^option schemaLocation: .* has the columns of orders; give another"):
        kept_types(place, "users", (newer, key))
    with pytest.raises(OptionError, match=r"^option schemaLocation: .*no-such-bucket"):
        kept_types("s3://no-such-bucket/columns", "orders", (newer, key))


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "isolation"),
    [*((version, "read_uncommitted") for version in VERSIONS), ("kafka-4.1", "read_committed")],
)
def test_every_golden_record_is_the_row_that_the_directory_gives(
    spark: Any, archived: Archived, version: str, isolation: str
) -> None:
    url = archived(GOLDEN / version)
    options = {"includeHeaders": "true", "isolation": isolation, "partitionBytes": 100_000}
    from_archive, from_directory = frame(spark, url, **options), frame(spark, GOLDEN / version, **options)
    assert from_archive.schema == from_directory.schema
    found = rows(from_archive)
    assert found == rows(from_directory)
    assert found


def test_an_archive_and_a_directory_are_one_set_of_partitions(spark: Any, archived: Archived, tmp_path: Path) -> None:
    url = archived(logs(tmp_path / "archived", 5))
    (tmp_path / "local").mkdir()
    with offsetfs.open(tmp_path / "local", "a") as data:
        data.create("payments")[0].append(b"here")
    both = frame(spark, f"{url.replace('s3://', 's3a://')},{tmp_path / 'local'}")
    assert {(row.topic, row["count"]) for row in both.groupBy("topic").count().collect()} == {
        ("orders", 5),
        ("payments", 1),
    }


def test_a_frame_is_a_snapshot_and_the_next_one_has_what_was_archived_since(
    spark: Any, archived: Archived, tmp_path: Path
) -> None:
    url = archived(logs(tmp_path, 5, 5))
    before = frame(spark, url)
    assert before.count() == 10
    assert archived(logs(tmp_path, 3, 3, first=5)) == url
    assert before.count() == 10
    assert frame(spark, url).count() == 16


def test_a_task_fetches_only_its_range(spark: Any, archived: Archived, faults: S3Faults, tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a", settings={"segment.bytes": "2000000"}) as data:
        (orders,) = data.create("orders")
        for _ in range(8):
            orders.extend(offsetfs.NewRecord(bytes(1000)) for _ in range(1000))
    url = archived(tmp_path)
    assert frame(spark, url, startingOffsets='{"orders":{"0":7990}}').count() == 10
    found = faults.requests()
    assert sum(each.received for each in found) < 1_200_000  # of 8 MB: a batch has one
    assert not [each for each in found if each.key.endswith(".part") and "/00000000000000000000-" in each.key]


# --- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_with_what_was_archived_since(spark: Any, archived: Archived, tmp_path: Path) -> None:
    url = archived(logs(tmp_path / "logs", 5, 5))

    def copied() -> list[bytes]:
        stream = spark.readStream.format("offsetfs").option("subscribe", "orders").load(url)
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "copy"))
        assert query.awaitTermination(60)
        return sorted(bytes(row.value) for row in spark.read.parquet(str(tmp_path / "copy")).collect())

    assert copied() == sorted(b"%d" % number for number in range(5) for _ in range(2))
    archived(logs(tmp_path / "logs", 3, 3, first=5))
    assert copied() == sorted(b"%d" % number for number in range(8) for _ in range(2))


def test_a_running_stream_sees_what_is_archived_meanwhile(spark: Any, archived: Archived, tmp_path: Path) -> None:
    url = archived(logs(tmp_path / "logs", 5))
    stream = spark.readStream.format("offsetfs").load(url).writeStream.format("memory").queryName("followed")
    query = stream.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        assert spark.table("followed").count() == 5
        archived(logs(tmp_path / "logs", 4, first=5))
        query.processAllAvailable()
        assert spark.table("followed").count() == 9
    finally:
        query.stop()


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_stats_are_those_of_the_directory(spark: Any, archived: Archived) -> None:
    from offsetfs.pipeline.jobs.stats import stats

    assert stats(spark, archived(GOLDEN / "kafka-4.1")) == stats(spark, str(GOLDEN / "kafka-4.1"))


def test_verify_counts_what_it_counts_in_the_directory(spark: Any, archived: Archived, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.verify import verify

    path = logs(tmp_path, 500, 700)
    ours, theirs = verify(spark, archived(path)), verify(spark, str(path))
    assert (ours.damage, ours.findings) == (0, ())
    assert (ours.tally.records, ours.tally.batches) == (theirs.tally.records, theirs.tally.batches)


def test_export_writes_the_files_of_the_directory(spark: Any, archived: Archived, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.export import export

    path = logs(tmp_path / "logs", 50, 70)
    export(spark, archived(path), str(tmp_path / "ours"))
    export(spark, str(path), str(tmp_path / "theirs"))
    names = [
        {each.relative_to(at) for each in at.rglob("*.parquet")} for at in (tmp_path / "ours", tmp_path / "theirs")
    ]
    assert names[0] == names[1]
    assert rows(spark.read.parquet(str(tmp_path / "ours"))) == rows(spark.read.parquet(str(tmp_path / "theirs")))


def test_commands_of_jobs_take_the_url_of_an_archive(
    spark: Any, archived: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = archived(logs(tmp_path / "logs", 50, 70))
    assert run(["spark", "stats", url, "--topic", "orders", "--json"]) == 0
    assert [each["records"] for each in json.loads(capsys.readouterr().out)["partitions"]] == [50, 70]
    assert run(["spark", "verify", url, "orders-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 70
    assert run(["spark", "export", url, str(tmp_path / "parquet"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records_made"] == 120
    assert run(["spark", "stats", url, "--topic", "absent"]) == 1
    assert f"absent: {url} has no such topic" in capsys.readouterr().err
    for words in (["compact", url], ["reindex", url], ["import", __file__, url, "t", "--partitions", "1"]):
        assert run(["spark", *words]) == 1
        refused = capsys.readouterr().err
        assert f"{url}: a job that writes needs a directory" in refused
        assert refused.count("\n") == 1, refused


def test_verify_reports_the_damage_of_an_archive(spark: Any, archived: Archived, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.verify import verify

    url = archived(logs(tmp_path, 500, 700))
    store = ObjectStore(url, StoreSettings(timeout_s=20))
    (damaged,) = [each.key for each in store.objects("orders-1") if each.key.endswith(".part")]
    data = bytearray(store.read(damaged))
    data[len(data) // 2] ^= 1
    store.put(damaged, bytes(data))
    found = verify(spark, url)
    assert found.damage
    assert all(f"{url}/orders-1/" in each.path for each in found.findings), found.findings
    assert found.tally.records >= 500


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_writes_refuses_an_archive(spark: Any, archived: Archived, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.compact import compact
    from offsetfs.pipeline.jobs.export import export
    from offsetfs.pipeline.jobs.import_files import import_files
    from offsetfs.pipeline.jobs.reindex import reindex
    from offsetfs.pipeline.jobs.repartition import repartition
    from offsetfs.pipeline.jobs.tail import tail
    from offsetfs.pipeline.jobs.workers import JobFailed

    url, path = archived(logs(tmp_path / "logs", 5)), str(tmp_path / "logs")
    (tmp_path / "lines").write_text("one\n")
    attempts: list[Callable[[], object]] = [
        lambda: (
            frame(spark, path).select("value").write.format("offsetfs").mode("append").option("topic", "t").save(url)
        ),
        lambda: compact(spark, url),
        lambda: reindex(spark, url),
        lambda: import_files(spark, str(tmp_path / "lines"), url, "t", partitions=1),
        lambda: repartition(spark, path, "orders", url, "wide", 2),
        lambda: export(spark, path, url),
    ]
    for attempt in attempts:
        with pytest.raises(Exception, match=f"{url}: .* needs a directory that the driver and all executors see"):
            attempt()
    with pytest.raises(JobFailed, match=r"Spark lacks the jar hadoop-aws, .* to --conf spark\.jars\.packages"):
        tail(spark, path, url, is_once=True)


def test_export_and_tail_write_to_hdfs_by_date(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.lake import export_lake, selection
    from offsetfs.pipeline.jobs.tail import tail
    from offsetfs.pipeline.jobs.workers import JobFailed

    day, begin = 86_400_000, 1_782_864_000_000  # 2026-07-01 in UTC
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a", settings={"retention.ms": "-1"}) as data:
        (orders,) = data.create("orders")
        for number in range(8):
            orders.append(b"%d" % number, timestamp=begin + number * day // 2)

    def days(directory: str) -> list[tuple[int, str]]:
        rows = spark.read.parquet(directory).orderBy("offset").collect()
        assert {row.topic for row in rows} == {"orders"}
        return [(row.offset, str(row.date)) for row in rows]

    wanted = [(number, f"2026-07-0{1 + number // 2}") for number in range(8)]
    with hdfs_cluster.running() as hdfs:
        hdfs.make_directory("/lake", 0o777)
        lake = f"hdfs://{hdfs.rpc_address}/lake"
        options = selection(["orders"], start_ms=begin + day, end_ms=begin + 3 * day)
        write = functools.partial(export_lake, spark, str(path), is_by_date=True, compression="zstd")
        assert write(f"{lake}/some", options).records == 4
        assert days(f"{lake}/some") == wanted[2:6]
        for taken in f"{lake}/some", str(path):
            with pytest.raises(JobFailed, match="has files: give a new directory; offsetfs spark tail --once adds"):
                write(taken, options)
        assert write(str(tmp_path / "all"), selection([])).records == 8
        assert days(str(tmp_path / "all")) == wanted
        follow = functools.partial(tail, spark, str(path), f"{lake}/followed", start_ms=begin + day, is_by_date=True)
        assert follow(is_once=True).records == 6
        with offsetfs.open(path, "a") as data:
            data.partition("orders-0").append(b"8", timestamp=begin)
        assert follow(is_once=True, isolation="read_committed").records == 1
        assert days(f"{lake}/followed") == [*wanted[2:], (8, "2026-07-01")]


def test_an_archive_in_hdfs_has_the_rows_of_the_directory_and_is_verified(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.verify import verify

    path = logs(tmp_path / "logs", 300, 200)
    with hdfs_cluster.running() as hdfs:
        url = f"webhdfs://{hdfs.addresses[0]}/kafka"
        archived_logs.archive(ObjectStore(url, StoreSettings(timeout_s=20)), path)
        found = rows(frame(spark, url))
        assert len(found) == 500
        assert found == rows(frame(spark, path))
        verified = verify(spark, url)
        assert (verified.damage, verified.findings, verified.tally.records) == (0, (), 500)


def test_a_place_without_an_archive_is_one_sentence(spark: Any, faults: S3Faults) -> None:
    with pytest.raises(Exception, match=r"is not an archive of offsetfs: it has no object offsetfs-archive\.json"):
        frame(spark, f"s3://{s3_server.BUCKET}/nothing").count()


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [s3_faults.SLOW_DOWN, s3_faults.INTERNAL, s3_faults.REFUSED, s3_faults.CUT])
def test_a_query_goes_on_through_faults_of_the_storage(
    spark: Any, archived: Archived, faults: S3Faults, tmp_path: Path, fault: str
) -> None:
    url = archived(logs(tmp_path, 500, 500))
    faults.inject(Rule(fault, ("GET",), share=0.2))
    assert frame(spark, url).count() == 1000
    assert {each.fault for each in faults.requests()} == {"", fault}


def test_wrong_bytes_are_never_rows(spark: Any, archived: Archived, faults: S3Faults, tmp_path: Path) -> None:
    damaged, sound = archived(logs(tmp_path / "damaged", 500)), archived(logs(tmp_path / "sound", 500))
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), key=r"\.part$", count=1))
    assert frame(spark, sound).count() == 500  # a block is fetched again
    # Another archive: the worker that answers may hold the blocks of the first one, which are verified.
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), key=r"\.part$"))
    with pytest.raises(Exception, match="the object is damaged: its bytes do not match their checksum"):
        frame(spark, damaged).count()
    faults.inject()
    assert frame(spark, damaged).count() == 500


def test_a_query_ends_within_the_timeout_if_nothing_answers(
    spark: Any, archived: Archived, faults: S3Faults, tmp_path: Path
) -> None:
    url = archived(logs(tmp_path, 500))
    faults.inject(Rule(s3_faults.SILENT, ("GET",), key=r"\.part$"))
    with pytest.raises(Exception, match="no successful answer within 2 s"):
        frame(spark, url, timeout="2").count()
    faults.inject()
    assert frame(spark, url).count() == 500
