"""The data source and a real broker on one log directory: as Spark's Kafka source reads it, so do we, row for row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.java_client import JavaClient

from offsetfs.storage.directory.hand_over import hand_over
from offsetfs.storage.names import INTERNAL_TOPICS, TopicPartition

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = {"4.1": "", "0.10.2.2": "", "3.6.2": "mixed"}
"""Whose logs the broker is given, and how their names begin; formats v2, v0 and v1, and mixtures."""
TIME_MS = 1_795_200_000_000

CONFIGS = {"stamped": {"message.timestamp.type": "LogAppendTime"}}


@pytest.fixture(scope="module")
def kafka(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with the golden topics, and with what Kafka's Java producer wrote."""
    folder = tmp_path_factory.mktemp("beside")
    planted = {release: golden_copy(release, folder) for release in RELEASES}
    with KafkaBroker(folder / "kafka", settings={"log.retention.ms": "-1"}) as broker:
        client = JavaClient(spark, broker.address)
        topics = {"written": 3, "stamped": 1, "transacted": 2}
        for partition in (each for partitions in planted.values() for each in partitions):
            topics[partition.topic] = max(topics.get(partition.topic, 0), partition.partition + 1)
        client.create_topics(topics, CONFIGS)
        broker.stop()
        for release, partitions in planted.items():
            for partition in partitions:
                hand_over(str(folder / release), partition, str(broker.log_dir))
        broker.start()
        write(client)
        yield broker


def golden_copy(release: str, folder: Path) -> list[TopicPartition]:
    """Copy what Kafka of that release wrote, to be opened; return its partitions."""
    beside = shutil.ignore_patterns("*.txt", "*.ndjson", "*.bounds.json")
    copy = shutil.copytree(GOLDEN / f"kafka-{release}", folder / release, ignore=beside)
    found = [TopicPartition.parse(path.name) for path in sorted(copy.iterdir()) if path.is_dir()]
    return [each for each in found if each.topic not in INTERNAL_TOPICS and each.topic.startswith(RELEASES[release])]


def write(client: JavaClient) -> None:
    """Write records of all shapes, by themselves and in transactions: committed, aborted, and one that stays open."""
    records = [
        (0, b"key", b"value", (), TIME_MS),
        (0, None, b"no key", (), TIME_MS + 1),
        (0, b"no value", None, (), TIME_MS - 1),
        (1, b"", b"", [("", b"")], TIME_MS + 3),
        (1, b"k", b"v", [("name", b"value"), ("name", None), ("n\u00e4me \u2713", bytes(range(256)))], TIME_MS + 4),
        (2, bytes(range(256)), bytes(100_000), (), TIME_MS + 5),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = client.producer(compression_type=codec)
        client.send(producer, "written", records)
        client.send(producer, "stamped", [(0, *each[1:]) for each in records])
        producer.close()
    for name, ending in (("a", "commit"), ("b", "abort"), ("a", "commit"), ("c", None)):
        producer = client.producer(transactional_id=f"{name}")
        producer.beginTransaction()
        client.send(producer, "transacted", [(n % 2, b"%d" % n, name.encode(), (), TIME_MS + n) for n in range(7)])
        if ending:
            getattr(producer, f"{ending}Transaction")()
            producer.close()


def ours(spark: Any, kafka: KafkaBroker, options: Mapping[str, str], *, stream: bool = False) -> Any:
    reader = spark.readStream if stream else spark.read
    return reader.format("offsetfs").options(**{"includeHeaders": "true", **options}).load(str(kafka.log_dir))


def theirs(spark: Any, kafka: KafkaBroker, options: Mapping[str, str], *, stream: bool = False) -> Any:
    reader = spark.readStream if stream else spark.read
    chosen = {
        "subscribePattern": "[^_].*",
        "includeHeaders": "true",
        "kafka.bootstrap.servers": kafka.address,
        "kafka.fetch.max.wait.ms": "10",
    }
    if "subscribe" in options or "assign" in options:
        del chosen["subscribePattern"]
    return reader.format("kafka").options(**{**chosen, **options}).load()


def rows(frame: Any) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def by_partition(rows: list[Any]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        found.setdefault((row.topic, row.partition), []).append(row.offset)
    return found


QUERIES = {
    "everything": {},
    "what is committed": {
        "subscribe": "transacted,transactions,compacted-tx2",
        "kafka.isolation.level": "read_committed",
    },
    "without headers": {"subscribe": "written", "includeHeaders": "false"},
    "from and to offsets": {
        "assign": '{"keyed":[0,2]}',
        "startingOffsets": '{"keyed":{"0":10,"2":-2}}',
        "endingOffsets": '{"keyed":{"0":-1,"2":50}}',
    },
    "between times": {
        "subscribe": "keyed,written",
        "startingTimestamp": str(TIME_MS + 4),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": str(TIME_MS + 1200),
    },
    "from a time of each partition": {
        "subscribe": "v1-none,compacted",
        "startingOffsetsByTimestamp": f'{{"v1-none":{{"0":{TIME_MS}}},"compacted":{{"0":{TIME_MS + 500}}}}}',
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "from before the beginning": {
        "subscribe": "truncated-head",
        "startingOffsets": '{"truncated-head":{"0":5}}',
        "failOnDataLoss": "false",
    },
}


def test_columns_and_their_types_are_the_same(spark: Any, kafka: KafkaBroker) -> None:
    for options in ({}, {"includeHeaders": "false"}):
        assert ours(spark, kafka, options).schema == theirs(spark, kafka, options).schema


def test_every_row_is_the_one_that_the_kafka_source_gives(spark: Any, kafka: KafkaBroker) -> None:
    for name, options in QUERIES.items():
        mine, other = rows(ours(spark, kafka, options)), rows(theirs(spark, kafka, options))
        assert by_partition(mine) == by_partition(other), name
        assert [pair for pair in zip(mine, other, strict=True) if pair[0] != pair[1]] == [], name
        assert mine, name


def test_a_stream_gives_the_rows_that_the_kafka_source_gives(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    options = {"subscribe": "keyed,transacted,written", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    found = []
    for number, source in enumerate((ours, theirs)):
        writer = source(spark, kafka, options, stream=True).writeStream.format("memory").queryName(f"seen_{number}")
        query = writer.option("checkpointLocation", str(tmp_path / str(number))).trigger(availableNow=True).start()
        query.awaitTermination()
        assert len([each for each in query.recentProgress if each["numInputRows"]]) > 1
        found.append(rows(spark.table(f"seen_{number}")))
    assert by_partition(found[0]) == by_partition(found[1])
    assert found[0] == found[1]


def test_each_reads_what_the_other_wrote(spark: Any, kafka: KafkaBroker) -> None:
    kafka.create_topic("orders", partitions=2)
    kafka.produce("orders", b"k0:0\nk1:1\nk2:2\n", "-K:", partition=0)
    kafka.produce("orders", b"k3:3\n", "-K:", "-H", "name=value", "-z", "lz4", partition=1)
    source = spark.read.format("offsetfs").option("subscribe", "orders").option("includeHeaders", "true")
    while_it_runs = source.load(str(kafka.log_dir)).orderBy("partition", "offset").collect()
    assert [(row.partition, bytes(row.key), bytes(row.value)) for row in while_it_runs] == [
        (0, b"k0", b"0"),
        (0, b"k1", b"1"),
        (0, b"k2", b"2"),
        (1, b"k3", b"3"),
    ]
    assert [(each.key, bytes(each.value)) for each in while_it_runs[3].headers] == [("name", b"value")]
    frame = spark.range(100).selectExpr("concat('k', id) AS key", "cast(id AS string) AS value")
    writer = frame.write.format("offsetfs").mode("append").option("topic", "orders")
    with pytest.raises(Exception, match=f"in use by process {kafka.pid}"):
        writer.save(str(kafka.log_dir))
    kafka.stop()
    writer.save(str(kafka.log_dir))
    kafka.start()
    assert kafka.complaints() == []
    consumed = [
        json.loads(line)
        for partition in range(2)
        for line in kafka.consume("orders", "-J", partition=partition).decode().splitlines()
    ]
    assert len(consumed) == 104
    rows = source.load(str(kafka.log_dir)).collect()
    shown = [(row.partition, row.offset, row.key.decode(), row.value.decode()) for row in rows]
    wanted = [(each["partition"], each["offset"], each["key"], each["payload"]) for each in consumed]
    assert sorted(shown) == sorted(wanted)
