"""`offsetfs diff` on the directories of a real cluster: replicas in sync, and after an unclean election."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from fixtures.kafka.cluster import KafkaCluster
from fixtures.mirrors.chaos import CLUSTER_SETTINGS
from fixtures.mirrors.process import MirrorProcess, mirrored_end, wait_until

from offsetfs.cli import run
from offsetfs.storage import TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.long]


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster"), settings=CLUSTER_SETTINGS) as running:
        yield running


def produce(address: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 2})
    for each in values:
        producer.produce(topic, b"value %d" % each, b"key %d" % each, partition=0)
    assert producer.flush(60) == 0


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run(["diff", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_replicas_in_sync_and_a_mirror_are_equal(
    replicas: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas.create_topic("same", replicas=[[1, 2]])
    produce(replicas.bootstrap, "same", range(100))
    replicas.wait_in_sync("same")
    path, name = tmp_path / "mirror", TopicPartition("same", 0)
    wait_until(lambda: mirrored_end(replicas.log_dir(2), name) == 100, "the follower has 100 records")
    with MirrorProcess(replicas.bootstrap, path, "--topic", "same") as mirror:
        wait_until(lambda: mirrored_end(path, name) == 100, "100 records")
        assert mirror.end() == 0
    for other in (replicas.log_dir(2), path):
        code, printed = compared(capsys, replicas.log_dir(1), other, "same")
        assert (code, printed["findings"]) == (0, [])
        assert printed["facts"]["equal_records"] == 100


def test_an_unclean_election_parts_two_replicas(replicas: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    address = replicas.bootstrap
    replicas.create_topic("parted", replicas=[[1, 2]], configs={"unclean.leader.election.enable": "true"})
    produce(address, "parted", range(10))
    assert replicas.lose_acknowledged("parted", lambda: produce(address, "parted", range(10, 30))) == 2
    produce(address, "parted", range(50, 55))
    code, printed = compared(capsys, replicas.log_dir(1), replicas.log_dir(2), "parted")
    assert code == 1
    (row,) = printed["tables"]["partitions"]
    assert (row["result"], row["equal_records"], row["changed"]) == ("parted", 10, 5)
    assert (row["end_a"], row["end_b"]) == (30, 15)
    lost, kept = printed["tables"]["partings"]
    assert lost["offset"] == kept["offset"] == 10
    assert lost["leader_epoch"] < kept["leader_epoch"]
    assert json.loads(lost["record"])["value"] == "value 10"
    assert json.loads(kept["record"])["value"] == "value 50"
