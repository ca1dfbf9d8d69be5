"""A mirror of a real cluster: leaders move and die, elections are unclean, and the mirror is killed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_cluster import KafkaCluster
from mirror_process import MirrorProcess, batches_of, mirrored_end, wait_until
from transactional_clients import transactional

from offsetfs.storage import TopicPartition
from offsetfs.storage.verify import Verification

pytestmark = [pytest.mark.interop, pytest.mark.long]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def produce(address: str, topic: str, values: range, codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "compression.type": codec, "linger.ms": 2})
    for each in values:
        producer.produce(topic, b"value %d" % each, b"key %d" % (each % 50), partition=0, headers={"n": b"%d" % each})
        if each % 20 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def assert_equal(cluster: KafkaCluster, mirror: Path, topic: str, partition: int = 0, *, expected: str = "") -> None:
    """Assert that a partition is that of its leader, to the byte, and that a check finds nothing, or `expected`."""
    name = f"{topic}-{partition}"
    assert batches_of(mirror / name) == batches_of(cluster.log_dir(cluster.leader(topic, partition)) / name)
    found = list[str]()
    Verification(str(mirror), [TopicPartition(topic, partition)], report=lambda each: found.append(str(each))).run()
    assert [each for each in found if not expected or expected not in each] == []


def test_a_mirror_is_killed_while_leaders_die_and_move(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    kafka_cluster.create_topic("orders", configs={"segment.bytes": "1048576"})
    address, name = kafka_cluster.bootstrap, TopicPartition("orders", 0)
    ended = threading.Event()

    def keep_producing() -> None:
        for number, start in enumerate(range(0, 10**6, 200)):
            if ended.is_set():
                break
            produce(address, "orders", range(start, start + 200), CODECS[number % len(CODECS)])
            producer = transactional(address, "t")
            producer.begin_transaction()
            for each in range(30):
                producer.produce("orders", b"transactional %d" % each, partition=0)
            producer.flush(60)
            producer.commit_transaction() if number % 2 else producer.abort_transaction()

    thread = threading.Thread(target=keep_producing)
    thread.start()
    path = tmp_path / "mirror"
    try:
        with MirrorProcess(address, path, "--topic", "orders") as mirror:
            killed = kafka_cluster.leader("orders")
            for number in range(6):
                wait_for_more(path, name)
                mirror.kill()
                if number == 1:
                    kafka_cluster.kill(killed)
                if number == 3:
                    kafka_cluster.restart(killed)
                    kafka_cluster.wait_in_sync("orders")
                mirror.start()
            wait_for_more(path, name)
            kafka_cluster.move_leader("orders")
            wait_for_more(path, name)
            ended.set()
            thread.join()
            assert mirror.end() == 0
            done = mirror.once()
            assert (done.returncode, done.stderr) == (0, "")
    finally:
        ended.set()
        thread.join()
    kafka_cluster.wait_in_sync("orders")
    assert_equal(kafka_cluster, path, "orders")


def wait_for_more(path: Path, name: TopicPartition) -> None:
    before = mirrored_end(path, name)
    wait_until(lambda: mirrored_end(path, name) > before + 100, "the mirror goes on")


def test_records_that_an_unclean_election_loses_are_cut(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    address, name, path = kafka_cluster.bootstrap, TopicPartition("lost", 0), tmp_path / "mirror"
    kafka_cluster.create_topic("lost", replicas=[[1, 2]], configs={"unclean.leader.election.enable": "true"})
    produce(address, "lost", range(10))
    with MirrorProcess(address, path, "--topic", "lost") as mirror:

        def produce_and_mirror() -> None:
            produce(address, "lost", range(10, 30))
            wait_until(lambda: mirrored_end(path, name) == 30, "30 records")

        assert kafka_cluster.lose_acknowledged("lost", produce_and_mirror) == 2
        produce(address, "lost", range(50, 55))
        wait_until(lambda: any("cut here" in each for each in mirror.events), "the cut is reported")
        wait_until(lambda: mirrored_end(path, name) == 15, "15 records")
        assert mirror.end() == 0
    kafka_cluster.restart(1)
    kafka_cluster.wait_in_sync("lost")
    assert_equal(kafka_cluster, path, "lost", expected="notice: cut:")
