"""Commands with `kafka://` as LOGDIR, beside a real broker: the answers are those of its own directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from fixtures.kafka.broker import KafkaBroker

from offsetfs import cli

pytestmark = pytest.mark.interop

Answer = Callable[..., tuple[int, Any]]


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Return exit code and output of a command; objects of JSON where it prints some."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words: object) -> tuple[int, Any]:
        capsys.readouterr()
        code = cli.run([*map(str, words)])
        printed, said = capsys.readouterr()
        assert printed, said
        return code, json.loads(printed) if "--json" in words else printed

    return run


def produce(kafka: KafkaBroker, topic: str, count: int, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 100, **settings})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, b"key %d" % number, partition=number % 2)
    assert producer.flush(60) == 0


def test_answers_of_a_cluster_are_those_of_its_directory(kafka_module: KafkaBroker, answer: Answer) -> None:
    kafka, url = kafka_module, f"kafka://{kafka_module.address}/"
    kafka.create_topic("orders", partitions=2, configs={"retention.ms": "-1"})
    produce(kafka, "orders", 1000, **{"compression.type": "zstd"})
    # The first offset lies within a batch.
    for words in (("orders-1", "--from", "333"), ("orders", "--key", "key 7"), ("orders", "--from", "-1h")):
        found = answer("find", url, *words)
        assert found[0] == 0
        assert found == answer("find", kafka.log_dir, *words)
    (_, ours), (_, theirs) = (answer("stats", place, "orders", "--json") for place in (url, kafka.log_dir))
    assert ours["tables"]["topics"][0]["records"] == 1000
    # What its segments show, and when they were written, is not the same.
    assert ours["tables"]["topics"][0]["bytes"] == theirs["tables"]["topics"][0]["bytes"]
    produce(kafka, "orders", 10)
    code, compared = answer("diff", url, kafka.log_dir, "orders", "--json")
    assert (code, compared["findings"], compared["facts"]["equal_records"]) == (0, [], 1010)


@pytest.mark.parametrize("group", [None, "billing"])
def test_groups_of_a_cluster_lag_as_in_its_directory(
    kafka_module: KafkaBroker, group: str | None, answer: Answer
) -> None:
    kafka, url = kafka_module, f"kafka://{kafka_module.address}/"
    topic = f"read-by-{group}"
    kafka.create_topic(topic, partitions=2)
    produce(kafka, topic, 1000)
    settings = {"bootstrap.servers": kafka.address, "group.id": "billing", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        for offset in (100, 200, 300):
            consumer.commit(offsets=[TopicPartition(topic, 1, offset)], asynchronous=False)
    names = [] if group is None else [group]
    of_cluster, of_directory = (answer("groups", place, *names, "--json") for place in (url, kafka.log_dir))
    assert of_cluster[0] == of_directory[0] == 0
    assert of_cluster[1]["tables"] == of_directory[1]["tables"]
    key = "groups" if group is None else "partitions"
    assert max(row["lag"] for row in of_cluster[1]["tables"][key]) >= 200
