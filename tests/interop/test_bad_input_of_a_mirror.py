"""What a mirror of a real Kafka refuses, and what stops one topic of it and not the others.

Connections that cannot work, directories that are no mirror of the cluster, missing permissions, records that are gone
or are others here. Nothing in the directory is overwritten.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)
from fixtures.kafka.broker import SCRAM_MODULE, KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX, add_user
from fixtures.machine.free_ports import free_ports
from fixtures.mirrors.process import MirrorProcess, batches_of
from fixtures.security import certificates

import offsetfs
from offsetfs import cli
from offsetfs.cli import exit_codes
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.interop

PASSWORD = "a long secret"
READ, DESCRIBE, DESCRIBE_CONFIGS = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS


class OpenKafka(KafkaBroker):
    """A broker with a listener for logins, and one with TLS whose certificate is for another host."""

    def __init__(self, folder: Path) -> None:
        self.sasl, self.tls = (f"127.0.0.1:{port}" for port in free_ports(2))
        own = certificates.authority().issue("/CN=other", hosts="DNS:other.example")
        settings = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own.both(folder / "own.pem")),
        }
        others = {"SASL_PLAINTEXT": self.sasl, "SSL": self.tls}
        super().__init__(folder / "kafka", mechanisms=["SCRAM-SHA-512"], settings=settings, others=others)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenKafka]:
    with OpenKafka(tmp_path_factory.mktemp("kafka")) as found:
        add_user(found.address, "mirror", PASSWORD, ScramMechanism.SCRAM_SHA_512)
        yield found


@pytest.fixture
def web_server() -> Iterator[str]:
    """The address of a server that answers what is no request of HTTP, as HTTP does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as peer:
                peer.recv(1 << 16)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def login(path: Path, password: str) -> Path:
    """Write client.properties with a password."""
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} username="mirror" password="{password}";\n'
    )
    return path


def tls(path: Path) -> Path:
    """Write client.properties that trust the authority of the tests."""
    path.write_text(f"security.protocol=SSL\nssl.truststore.location={certificates.authority().chain}\n")
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Return all files of a directory; without the lock, which is empty."""
    found = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    return {name: data for name, data in found.items() if name != ".lock"}


OTHER_HOST = (
    "the certificate of the broker is for another host: IP address mismatch, certificate is not valid for '127.0.0.1'; "
    "use a host name of the certificate, or set ssl.endpoint.identification.algorithm= without a value in the file of "
    "--config to check no name"
)
WRONG_PASSWORD = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512; check "
    "username and password in sasl.jaas.config"
)


def test_a_connection_that_cannot_work_is_refused_with_cause_and_remedy(
    kafka: OpenKafka, web_server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trusting, wrong = tls(tmp_path / "tls.properties"), login(tmp_path / "wrong.properties", "wrong")
    right, unused = login(tmp_path / "right.properties", PASSWORD), f"127.0.0.1:{free_ports(1)[0]}"
    own = tmp_path / "own.properties"
    own.write_text("security.protocol=SSL\n")
    in_file = "in the file of --config"
    for address, config, message in (
        (kafka.tls, trusting, f"{kafka.tls}: {OTHER_HOST}"),
        (kafka.tls, own, "add its CA to the file of ssl.truststore.location"),
        (kafka.tls, None, f"the broker uses TLS at this port; set security.protocol=SSL or SASL_SSL {in_file}"),
        (kafka.sasl, wrong, f"{kafka.sasl}: {WRONG_PASSWORD}"),
        (kafka.sasl, None, f"needs a login, set security.protocol=SASL_PLAINTEXT or SASL_SSL {in_file}"),
        (kafka.address, right, f"this listener has no login; set security.protocol=PLAINTEXT or SSL {in_file}"),
        (unused, None, f"{unused}: Connection refused; check the address, and that a broker runs there"),
        (web_server, None, "an HTTP server, not a Kafka broker; give the address of a Kafka listener"),
    ):
        options = [] if config is None else ["--config", str(config)]
        assert cli.run(["mirror", address, str(tmp_path / "mirror"), *options]) == exit_codes.FAILED
        error = capfd.readouterr().err
        assert error.startswith("offsetfs mirror: ") and error.endswith(f"{message}\n") and error.count("\n") == 1
        assert contents(tmp_path / "mirror") == {}


def test_a_cluster_that_cannot_be_reached_is_not_mounted(kafka: OpenKafka, tmp_path: Path) -> None:
    trusting, wrong = tls(tmp_path / "tls.properties"), login(tmp_path / "wrong.properties", "wrong")
    point, cache = tmp_path / "point", tmp_path / "cache"
    point.mkdir()
    for address, config, message in ((kafka.tls, trusting, OTHER_HOST), (kafka.sasl, wrong, WRONG_PASSWORD)):
        options = f"cache={cache},config={config}"
        done = mounted(address, point, options)
        assert (done.returncode, done.stderr) == (exit_codes.FAILED, f"offsetfs mount: {address}: {message}\n")
        assert contents(cache) == {}


def mounted(address: str, point: Path, options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "offsetfs", "mount", f"kafka://{address}/", str(point), "-o", options]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def test_a_directory_that_is_no_mirror_of_the_cluster_is_refused(
    kafka: OpenKafka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topic("kept")
    kafka.produce("kept", b"one\ntwo\n")
    other, broker, photos = tmp_path / "other", tmp_path / "broker", tmp_path / "photos"
    assert MirrorProcess(kafka.address, other, "--topic", "kept").once().returncode == 0
    document = other / ".offsetfs-mirror.json"
    mirrored = json.loads(document.read_text())
    document.write_text(json.dumps({**mirrored, "cluster.id": "another", "source": "elsewhere:9092"}))
    shutil.copytree(kafka.log_dir, broker, ignore=shutil.ignore_patterns(".lock"))
    (photos / "kept-0").mkdir(parents=True)
    (photos / "kept-0" / "picture.jpg").write_bytes(b"picture")
    point = tmp_path / "point"
    point.mkdir()
    cause = f"{other} mirrors the cluster another (elsewhere:9092), and {kafka.address} is {mirrored['cluster.id']}"
    for path, code, message in (
        (other, exit_codes.FAILED, f"{cause}; mirror into another directory"),
        (
            broker,
            exit_codes.WRONG_CALL,
            f"{broker}: is the log directory of a Kafka broker (it has meta.properties), and no mirror; give a new "
            "directory, or that of a mirror",
        ),
        (
            photos,
            exit_codes.WRONG_CALL,
            f"{photos}: holds neither partitions (orders-0) nor Kafka's checkpoints; give a log directory, or an empty "
            "one",
        ),
    ):
        before = contents(path)
        assert cli.run(["mirror", kafka.address, str(path)]) == code
        assert capfd.readouterr().err == f"offsetfs mirror: {message}\n"
        done = mounted(kafka.address, point, f"cache={path}")
        assert (done.returncode, done.stderr) == (code, f"offsetfs mount: {message}\n")
        assert contents(path) == before


def test_partitions_unlike_the_source_stop_and_the_others_go_on(kafka: OpenKafka, tmp_path: Path) -> None:
    topics = ("other", "longer", "equal")
    for topic in topics:
        kafka.create_topic(topic)
        kafka.produce(topic, b"one\ntwo\n")
    mirror = MirrorProcess(kafka.address, tmp_path / "mirror", "--topic", "|".join(topics))
    assert mirror.once().returncode == 0
    change_beside(mirror.path)
    before = {topic: batches_of(mirror.path / f"{topic}-0") for topic in topics}
    for topic in ("other", "equal"):
        kafka.produce(topic, b"three\n")
    done = mirror.once()
    elsewhere = "mirror into another directory"
    assert (done.returncode, sorted(done.stderr.splitlines())) == (
        exit_codes.FAILED,
        [
            "longer-0: the source ends at offset 2, before the end here, 3: it lost records, or is another log; cut "
            f"them here (offsetfs truncate {mirror.path} longer-0 2), or {elsewhere}",
            "other-0: the record at offset 1 differs from that of the source: it is another log, or was restored from "
            f"a backup; {elsewhere}, or delete the topic here (offsetfs delete {mirror.path} other)",
        ],
    )
    assert {topic: batches_of(mirror.path / f"{topic}-0") for topic in ("other", "longer")} == {
        topic: before[topic] for topic in ("other", "longer")
    }
    assert batches_of(mirror.path / "equal-0") == batches_of(kafka.log_dir / "equal-0")


def change_beside(path: Path) -> None:
    """Make the records of `other` others, and append to `longer`: the leader epochs stay as they are."""
    document = path / ".offsetfs-mirror.json"
    mirrored = document.read_bytes()
    document.unlink()  # mirrored topics accept no records
    with closing(LogDirectory.open(str(path))) as directory:
        directory.writable_log(TopicPartition("other", 0)).truncate_fully(0)
    with offsetfs.open(path, "a") as opened:
        opened.partition("longer-0").append(b"local")
        for value in (b"un", b"deux"):
            opened.partition("other-0").append(value)
    document.write_bytes(mirrored)


def permit(kafka: OpenKafka, topic: str, *operations: AclOperation) -> None:
    client = AdminClient({"bootstrap.servers": kafka.address})
    place = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:mirror", "*"
    for each in client.create_acls([AclBinding(*place, each, AclPermissionType.ALLOW) for each in operations]).values():
        each.result(SECONDS_MAX)


def forbid(kafka: OpenKafka, topic: str) -> None:
    """Remove all permissions for a topic."""
    place = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:mirror", "*"
    found = AclBindingFilter(*place, AclOperation.ANY, AclPermissionType.ANY)
    client = AdminClient({"bootstrap.servers": kafka.address})
    for each in client.delete_acls([found]).values():
        each.result(SECONDS_MAX)


def test_a_topic_without_the_permission_to_read_stops_and_the_others_go_on(kafka: OpenKafka, tmp_path: Path) -> None:
    for topic in ("orders", "secret"):
        kafka.create_topic(topic)
        kafka.produce(topic, b"one\ntwo\n")
    permit(kafka, "orders", READ, DESCRIBE)
    permit(kafka, "secret", DESCRIBE, DESCRIBE_CONFIGS)
    config = login(tmp_path / "client.properties", PASSWORD)
    mirror = MirrorProcess(kafka.sasl, tmp_path / "mirror", "--config", str(config))
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


def test_settings_are_taken_over_as_soon_as_the_user_may_describe_them(kafka: OpenKafka, tmp_path: Path) -> None:
    kafka.create_topic("hidden", configs={"segment.bytes": "2000000", "cleanup.policy": "compact"})
    kafka.produce("hidden", b"one\n", "-k", "key")
    permit(kafka, "hidden", READ, DESCRIBE)
    config = login(tmp_path / "client.properties", PASSWORD)
    mirror = MirrorProcess(kafka.sasl, tmp_path / "mirror", "--topic", "hidden", "--config", str(config))
    needs = "TOPIC_AUTHORIZATION_FAILED: the user of --config needs DESCRIBE_CONFIGS of the topic"
    assert mirror.once().stderr == f"hidden: settings are not taken over: {needs}\n"
    assert mirror.once().stderr == ""
    permit(kafka, "hidden", DESCRIBE_CONFIGS)
    done = mirror.once()
    changes = "cleanup.policy = compact, segment.bytes = 2000000"
    assert (done.returncode, done.stderr) == (0, f"hidden: changed at the source, and here: {changes}\n")


def test_a_topic_whose_permission_was_taken_away_is_an_error_of_the_next_run(kafka: OpenKafka, tmp_path: Path) -> None:
    kafka.create_topic("lent")
    kafka.produce("lent", b"one\n")
    permit(kafka, "lent", READ, DESCRIBE, DESCRIBE_CONFIGS)
    config = login(tmp_path / "client.properties", PASSWORD)
    mirror = MirrorProcess(kafka.sasl, tmp_path / "mirror", "--topic", "le.t", "--config", str(config))
    assert mirror.once().returncode == 0
    forbid(kafka, "lent")
    done = mirror.once()
    message = "lent: TOPIC_AUTHORIZATION_FAILED: the user of --config needs READ and DESCRIBE of the topic\n"
    assert (done.returncode, done.stderr) == (exit_codes.FAILED, message)


def test_records_deleted_before_their_mirroring_stop_their_partition(kafka: OpenKafka, tmp_path: Path) -> None:
    for topic in ("gap", "whole"):
        kafka.create_topic(topic)
        kafka.produce(topic, b"one\ntwo\n")
    mirror = MirrorProcess(kafka.address, tmp_path / "mirror", "--topic", "gap|whole")
    assert mirror.once().returncode == 0
    for topic in ("gap", "whole"):
        kafka.produce(topic, b"three\nfour\nfive\n")
    client = AdminClient({"bootstrap.servers": kafka.address})
    client.delete_records([Position("gap", 0, 4)])[Position("gap", 0, 4)].result(SECONDS_MAX)
    for _ in range(2):
        done = mirror.once()
        cause = "gap-0: the source has deleted the records from 2 to 3"
        remedy = "before they were mirrored; --on-gap=skip continues behind them"
        assert (done.returncode, done.stderr) == (exit_codes.FAILED, f"{cause} {remedy}\n")
        assert values(mirror.path, "gap-0") == [b"one", b"two"]
        assert values(mirror.path, "whole-0") == [b"one", b"two", b"three", b"four", b"five"]
    skipping = MirrorProcess(kafka.address, mirror.path, "--topic", "gap|whole", "--on-gap=skip")
    done = skipping.once()
    assert (done.returncode, done.stderr) == (0, f"{cause}; the mirror continues behind them\n")
    assert values(mirror.path, "gap-0") == [b"five"]


def values(path: Path, partition: str) -> list[bytes]:
    with offsetfs.open(path) as directory:
        return b"".join(directory.partition(partition).values()).splitlines()
