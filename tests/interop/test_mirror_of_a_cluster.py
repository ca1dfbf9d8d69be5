"""A mirror of a real cluster: leaders move and die, elections are unclean, and the mirror is killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fixtures.kafka.cluster import KafkaCluster
from fixtures.mirrors.chaos import CLUSTER_SETTINGS, MirrorChaos, tls_settings
from fixtures.mirrors.process import MirrorProcess, batches_of, mirrored_end, wait_until

from offsetfs.storage import TopicPartition
from offsetfs.storage.verify import Verification

pytestmark = [pytest.mark.interop, pytest.mark.long]


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with KafkaCluster(folder, settings=CLUSTER_SETTINGS, tls=tls_settings(folder)) as running:
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


@pytest.mark.promise("A mirror that was killed continues where each log ends: without a gap, and without a duplicate.")
def test_a_mirror_is_killed_while_the_cluster_changes(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    MirrorChaos(kafka_cluster, tmp_path, seed=1).run(kills=5)


@pytest.mark.parametrize(("rack", "sender"), [("rack-2", 2), ("rack-3", 3), ("", 1)])
def test_records_come_from_the_replica_in_the_rack_of_the_client(
    kafka_cluster: KafkaCluster, tmp_path: Path, rack: str, sender: int
) -> None:
    topic = f"from-node-{sender}"
    kafka_cluster.create_topic(topic, replicas=[[1, 2, 3]])
    produce(kafka_cluster.bootstrap, topic, range(500))
    config = tmp_path / "client.properties"
    config.write_text(f"client.rack={rack}\n")
    path, name = tmp_path / "mirror", TopicPartition(topic, 0)
    with MirrorProcess(kafka_cluster.bootstrap, path, "--topic", topic, "--config", str(config)) as mirror:
        wait_until(lambda: mirrored_end(path, name) == 500, "500 records")
        produce(kafka_cluster.bootstrap, topic, range(500, 600))
        wait_until(lambda: mirrored_end(path, name) == 600, "600 records")
        assert mirror.end() == 0 and mirror.events == []
    assert_equal(kafka_cluster, path, topic)
    sent = {number: node.bytes_out(topic) for number, node in kafka_cluster.nodes.items()}
    assert sent.pop(sender) >= len(batches_of(path / str(name)))
    assert set(sent.values()) == {0}, f"node {sender} is not the only one that has sent records: {sent}"


@pytest.mark.promise("Records that the source lost in an unclean election are cut from the mirror, and reported.")
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
