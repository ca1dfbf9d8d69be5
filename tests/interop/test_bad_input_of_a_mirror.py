"""What stops one topic of a mirror of a real Kafka, and not the others: no permission, and records that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_clients import SECONDS_MAX, add_user
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)
from kafka_broker import SCRAM_MODULE, KafkaBroker
from mirror_process import MirrorProcess, batches_of

import offsetfs
from offsetfs.cli import exit_codes

pytestmark = pytest.mark.interop

PASSWORD = "a long secret"
READ, DESCRIBE, DESCRIBE_CONFIGS = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), mechanisms=["SCRAM-SHA-512"], settings=settings) as found:
        add_user(found.address, "mirror", PASSWORD, ScramMechanism.SCRAM_SHA_512)
        yield found


def permit(kafka: KafkaBroker, topic: str, *operations: AclOperation) -> None:
    client = AdminClient({"bootstrap.servers": kafka.address})
    place = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:mirror", "*"
    for each in client.create_acls([AclBinding(*place, each, AclPermissionType.ALLOW) for each in operations]).values():
        each.result(SECONDS_MAX)


def test_a_topic_without_the_permission_to_read_stops_and_the_others_go_on(kafka: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("orders", "secret"):
        kafka.create_topic(topic)
        kafka.produce(topic, b"one\ntwo\n")
    permit(kafka, "orders", READ, DESCRIBE)
    permit(kafka, "secret", DESCRIBE, DESCRIBE_CONFIGS)
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} username="mirror" password="{PASSWORD}";\n'
    )
    mirror = MirrorProcess(kafka.login_address, tmp_path / "mirror", "--config", str(config))
    done = mirror.once()
    needs = "TOPIC_AUTHORIZATION_FAILED: the user of --config needs"
    assert (done.returncode, done.stderr.splitlines()) == (
        exit_codes.FAILED,
        [
            f"orders: settings are not taken over: {needs} DESCRIBE_CONFIGS of the topic",
            f"secret-0: offset 0: the source answers {needs} READ and DESCRIBE of the topic",
        ],
    )
    assert batches_of(mirror.path / "orders-0") == batches_of(kafka.log_dir / "orders-0")
    assert batches_of(mirror.path / "secret-0") == b""


def test_records_that_are_deleted_before_they_are_mirrored_stop_their_partition_until_they_are_skipped(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    for topic in ("gap", "whole"):
        kafka.create_topic(topic)
        kafka.produce(topic, b"one\ntwo\n")
    mirror = MirrorProcess(kafka.address, tmp_path / "mirror", "--topic", "gap|whole")
    assert mirror.once().returncode == 0
    for topic in ("gap", "whole"):
        kafka.produce(topic, b"three\nfour\nfive\n")
    client = AdminClient({"bootstrap.servers": kafka.address})
    client.delete_records([TopicPartition("gap", 0, 4)])[TopicPartition("gap", 0, 4)].result(SECONDS_MAX)
    for _ in range(2):
        done = mirror.once()
        cause = "gap-0: the source has deleted the records from 2 to 3"
        remedy = "before they were mirrored; --on-gap=skip goes on behind them"
        assert (done.returncode, done.stderr) == (exit_codes.FAILED, f"{cause} {remedy}\n")
        assert values(mirror.path, "gap-0") == [b"one", b"two"]
        assert values(mirror.path, "whole-0") == [b"one", b"two", b"three", b"four", b"five"]
    skipping = MirrorProcess(kafka.address, mirror.path, "--topic", "gap|whole", "--on-gap=skip")
    done = skipping.once()
    assert (done.returncode, done.stderr) == (0, f"{cause}; it goes on behind them\n")
    assert values(mirror.path, "gap-0") == [b"five"]


def values(path: Path, partition: str) -> list[bytes]:
    with offsetfs.open(path) as directory:
        return b"".join(directory.partition(partition).values()).splitlines()
