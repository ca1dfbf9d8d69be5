"""The data source and a real broker on one log directory: each reads what the other wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import KafkaBroker

pytestmark = pytest.mark.spark


def test_each_reads_what_the_other_wrote(spark: Any, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka") as kafka:
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
