"""The test cluster itself: what other tests conclude from it must not come from the fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from fixtures.kafka.cluster import KafkaCluster
from fixtures.kafka.confluent_clients import messages
from fixtures.security import certificates

pytestmark = [pytest.mark.interop, pytest.mark.long]


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server().both(folder / "server.pem")),
    }
    with KafkaCluster(folder, tls=tls) as running:
        yield running


def produce(address: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for each in values:
        producer.produce(topic, b"%d" % each, partition=0)
    assert producer.flush(60) == 0


def consumed(address: str, topic: str, count: int, **security: str) -> list[int]:
    settings = {"group.id": "none", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **settings, **security})
    consumer.subscribe([topic])
    try:
        return [int(each.value() or b"") for each in messages(consumer, count)]
    finally:
        consumer.close()


def test_records_survive_a_killed_leader(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("orders")
    produce(kafka_cluster.bootstrap, "orders", range(100))
    first = kafka_cluster.leader("orders")
    kafka_cluster.kill(first)
    assert kafka_cluster.leader("orders") != first
    produce(kafka_cluster.bootstrap, "orders", range(100, 150))
    assert consumed(kafka_cluster.bootstrap, "orders", 150) == list(range(150))
    kafka_cluster.restart(first)
    kafka_cluster.wait_in_sync("orders")
    second = kafka_cluster.leader("orders")
    assert kafka_cluster.move_leader("orders") != second


def test_clients_log_in_over_tls(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.add_user("alice", "a secret")
    kafka_cluster.create_topic("logins")
    produce(kafka_cluster.bootstrap, "logins", range(5))
    security = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.authority().chain),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "a secret",
    }
    assert consumed(kafka_cluster.login_bootstrap, "logins", 5, **security) == list(range(5))
