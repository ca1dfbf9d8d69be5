"""Mirrors of one real broker: with a login, of a topic that changes, and of a Kafka from before KRaft."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, ScramMechanism
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX, add_user
from fixtures.kafka.transactional_clients import transactional
from fixtures.kafka.zookeeper_broker import ZooKeeperBroker
from fixtures.mirrors.process import MirrorProcess, batches_of, wait_until

from offsetfs.cli import exit_codes
from offsetfs.cli.mounts import daemon_registry
from offsetfs.storage import TopicPartition
from offsetfs.storage.verify import Verification

pytestmark = pytest.mark.interop

PASSWORD = "a long secret"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100"}
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), mechanisms=["SCRAM-SHA-512"], settings=settings) as found:
        add_user(found.address, "mirror", PASSWORD, ScramMechanism.SCRAM_SHA_512)
        yield found


@pytest.fixture
def login(tmp_path: Path) -> Path:
    found = tmp_path / "client.properties"
    found.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="mirror" password="{PASSWORD}";\n'
    )
    return found


def produce(address: str, topic: str, *, partition: int = 0, codec: str = "none", count: int = 100) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
    for each in range(count):
        producer.produce(topic, b"value %d" % each, b"key %d" % (each % 10), partition)
    assert producer.flush(SECONDS_MAX) == 0


def assert_equal(kafka: KafkaBroker, mirror: Path, topic: str, partition: int = 0) -> None:
    """Assert that a partition is that of the broker to the byte, and that a check finds nothing."""
    name = f"{topic}-{partition}"
    copied = batches_of(mirror / name)
    assert copied and copied == batches_of(kafka.log_dir / name)
    found = list[str]()
    Verification(str(mirror), [TopicPartition(topic, partition)], report=lambda each: found.append(str(each))).run()
    assert found == []


def test_a_topic_with_an_open_transaction_over_a_login(kafka: KafkaBroker, login: Path, tmp_path: Path) -> None:
    kafka.create_topic("orders")
    for codec in CODECS:
        produce(kafka.address, "orders", codec=codec)
    hanging = transactional(kafka.address, "mirrored")
    hanging.begin_transaction()
    hanging.produce("orders", b"open", partition=0)
    assert hanging.flush(SECONDS_MAX) == 0
    mirror = MirrorProcess(kafka.login_address, tmp_path / "mirror", "--topic", "orders", "--config", str(login))
    done = mirror.once()
    assert (done.returncode, done.stderr) == (0, "")
    assert_equal(kafka, mirror.path, "orders")
    hanging.abort_transaction(SECONDS_MAX)
    assert mirror.once().returncode == 0
    assert_equal(kafka, mirror.path, "orders")
    with mirror:
        wait_until(lambda: "mirror" in json.loads(status(mirror.path)), "the state of the mirror")
        assert PASSWORD not in mirror.command_line and PASSWORD not in status(mirror.path)
        # Those of other tests may come and go meanwhile.
        records = [mirror.registry_entry(daemon_registry.own_directory())]
        assert mirror.end() == 0
    files = [each.read_bytes() for each in mirror.path.rglob("*") if each.is_file()]
    assert not any(PASSWORD in each for each in (*records, *mirror.events))
    assert not any(PASSWORD.encode() in each for each in files)


def status(path: Path) -> str:
    """Return what `offsetfs status` prints of a log directory."""
    command = [sys.executable, "-m", "offsetfs", "status", str(path), "--json", "--all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_topic_that_grows_is_compacted_deleted_and_created_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
    }
    kafka.create_topic("users", configs=compacted)
    kafka.create_topic("others")
    produce(kafka.address, "users")
    produce(kafka.address, "others")
    mirror = MirrorProcess(kafka.address, tmp_path / "mirror", "--topic", "users|others")
    assert mirror.once().returncode == 0
    copied = batches_of(mirror.path / "users-0")
    client = AdminClient({"bootstrap.servers": kafka.address})
    client.create_partitions([NewPartitions("users", 2)])["users"].result(SECONDS_MAX)
    time.sleep(0.2)  # older than segment.ms, so that the next record begins a segment and the others can be compacted
    produce(kafka.address, "users", count=10)
    wait_for_compaction(kafka, "users-0", len(copied))
    produce(kafka.address, "users", partition=1)
    assert mirror.once().returncode == 0
    assert_equal(kafka, mirror.path, "users", 1)
    assert batches_of(mirror.path / "users-0").startswith(copied)

    client.delete_topics(["users"])["users"].result(SECONDS_MAX)
    wait_until_gone(kafka, "users")
    kafka.create_topic("users")
    produce(kafka.address, "users", count=3)
    produce(kafka.address, "others", count=7)
    done = mirror.once()
    assert done.returncode == exit_codes.FAILED
    assert "users: deleted and created again at the source" in done.stderr
    assert batches_of(mirror.path / "users-0").startswith(copied)
    assert_equal(kafka, mirror.path, "others")


def wait_for_compaction(kafka: KafkaBroker, name: str, size: int) -> None:
    """Wait until the broker has removed records of a partition."""
    deadline = time.monotonic() + SECONDS_MAX
    while len(batches_of(kafka.log_dir / name)) >= size:
        assert time.monotonic() < deadline, "the broker has not compacted the partition"
        time.sleep(0.1)


def wait_until_gone(kafka: KafkaBroker, topic: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    client = AdminClient({"bootstrap.servers": kafka.address})
    while topic in client.list_topics(timeout=SECONDS_MAX).topics:
        assert time.monotonic() < deadline, "the topic is still there"
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("format_version", ["2.8", "0.10.2"])
def test_a_broker_of_2_8(tmp_path: Path, format_version: str) -> None:
    with ZooKeeperBroker(tmp_path / "kafka") as kafka:
        kafka.create_topic("orders", configs={"message.format.version": format_version})
        for codec in CODECS if format_version == "2.8" else CODECS[:4]:
            produce(kafka.address, "orders", codec=codec)
        mirror = MirrorProcess(kafka.address, tmp_path / "mirror", "--topic", "orders")
        done = mirror.once()
        assert (done.returncode, done.stderr) == (0, "")
        assert_equal(kafka, mirror.path, "orders")
