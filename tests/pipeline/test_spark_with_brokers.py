"""Spark's own Kafka source and sink with Kafka 4.4 and with `offsetfs serve`: the same rows from both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.broker.served import CLUSTERS, Cluster, running
from fixtures.kafka.java_client import JavaClient

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(request.param, tmp_path_factory.mktemp("cluster")) as broker:
        yield broker


def write(spark: Any, cluster: Cluster, topic: str, first: int, end: int) -> None:
    """Write rows by Spark's sink: key, value and header are the number."""
    columns = [
        "string(id % 7) AS key",
        "string(id) AS value",
        "array(struct('n' AS key, binary(string(id)) AS value)) AS headers",
    ]
    frame = spark.range(first, end, numPartitions=2).selectExpr(*columns)
    options = {"kafka.bootstrap.servers": cluster.address, "topic": topic, "includeHeaders": "true"}
    frame.write.format("kafka").options(**options).save()


def source(reader: Any, cluster: Cluster, topic: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": cluster.address, "subscribe": topic, "includeHeaders": "true", **options}
    return reader.format("kafka").options(**given).load()


def values(frame: Any) -> list[int]:
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def test_the_kafka_sink_and_source_of_spark(spark: Any, cluster: Cluster) -> None:
    JavaClient(spark, cluster.address).create_topics({"rows": 2}, {})
    write(spark, cluster, "rows", 0, 300)
    found = source(spark.read, cluster, "rows").collect()
    part = {
        "startingOffsets": json.dumps({"rows": {"0": 3, "1": 5}}),
        "endingOffsets": json.dumps({"rows": {"0": 7, "1": 8}}),
    }
    offsets = {number: sorted(row.offset for row in found if row.partition == number) for number in range(2)}
    ranges = source(spark.read, cluster, "rows", **part).collect()
    middle = str(sorted(row.timestamp.timestamp() for row in found)[0] * 1000).split(".")[0]
    assert {
        "values": values(source(spark.read, cluster, "rows")) == list(range(300)),
        "keys": all(int(bytes(row.key)) == int(bytes(row.value)) % 7 for row in found),
        "headers": all([(each.key, each.value) for each in row.headers] == [("n", row.value)] for row in found),
        "offsets": all(each == list(range(len(each))) for each in offsets.values()),
        "timestamp types": {row.timestampType for row in found},
        "ranges": sorted((row.partition, row.offset) for row in ranges),
        "from a time": source(spark.read, cluster, "rows", startingTimestamp=middle).count(),
    } == {
        "values": True,
        "keys": True,
        "headers": True,
        "offsets": True,
        "timestamp types": {0},
        "ranges": [(0, 3), (0, 4), (0, 5), (0, 6), (1, 5), (1, 6), (1, 7)],
        "from a time": 300,
    }


def test_a_query_of_spark_goes_on_at_its_checkpoint(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    JavaClient(spark, cluster.address).create_topics({"from": 2, "into": 1}, {})

    def copy() -> list[int]:
        """Copy all that is there into another topic; return the numbers of rows of the batches."""
        limits = {"maxOffsetsPerTrigger": "100", "startingOffsets": "earliest"}
        frame = source(spark.readStream, cluster, "from", **limits).select("key", "value")
        options = {"kafka.bootstrap.servers": cluster.address, "topic": "into", "checkpointLocation": str(tmp_path)}
        query = frame.writeStream.format("kafka").options(**options).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    write(spark, cluster, "from", 0, 200)
    first = copy()
    write(spark, cluster, "from", 200, 260)
    second = copy()
    third = copy()
    assert {
        "batches": (sum(first), sum(second), sum(third)),
        "limited": max(first) <= 100,
        "copied": values(source(spark.read, cluster, "into")) == list(range(260)),
    } == {"batches": (200, 60, 0), "limited": True, "copied": True}
