"""Logins of real clients by each mechanism, and credentials that go from Kafka 4.4 to `offsetfs serve` and back."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import AuthenticationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ScramMechanism, UserScramCredentialDeletion
from fixtures.broker.served import Served, served
from fixtures.kafka.broker import SCRAM_MODULE, KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX, add_user, create, messages
from fixtures.kafka.programs import run
from fixtures.kafka.tools import JavaTools
from fixtures.machine.free_ports import free_ports
from fixtures.security.logins import PLAIN_MODULE
from fixtures.security.oauth_tokens import jwks, signed

from offsetfs.storage.checkpoint import SECURITY_FILE

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("python_clients"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
STORED = MECHANISMS[:3]
USER, PASSWORD = "alice", "pass, word=1"
SESSION_MS = 1500
"""A client authenticates again after 85 % or 90 % of it, and may do so once a second."""

CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


@dataclass(frozen=True)
class Secured:
    """A running `offsetfs serve`, the address of each listener, and that of its metrics."""

    served: Served
    logins: str
    unsecured: str
    short_sessions: str
    metrics: str

    def count(self, mechanism: str, result: str) -> int:
        """Return how many logins there were."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics") as response:
            text = response.read().decode()
        sample = rf'^offsetfs_broker_logins_total{{mechanism="{mechanism}",result="{result}"}} (\d+)'
        found = re.search(sample, text, re.MULTILINE)
        return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "logs").mkdir()
    (folder / "jwks.json").write_bytes(jwks(0))
    (port,) = free_ports(1)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "LOGINS", "UNSECURED", "SHORT")),
        "listener.security.protocol.map": "LOGINS:SASL_PLAINTEXT,UNSECURED:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/jwks.json",
        "sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.unsecured.sasl.oauthbearer.jwks.endpoint.url": "",
        "listener.name.unsecured.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
    }
    words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    metrics = f"127.0.0.1:{port}"
    reports = rf"WARNING 127\.0\.0\.1: login of '{USER}' by (PLAIN|SCRAM-SHA-256) failed: wrong password"
    with served(folder / "logs", *words, "--metrics", metrics, reports=reports) as broker:
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        add_user(broker.address, USER, PASSWORD, *mechanisms)
        create(AdminClient({"bootstrap.servers": broker.address}), "secured", 1)
        _, logins, unsecured, short_sessions = broker.addresses
        yield Secured(broker, logins, unsecured, short_sessions, metrics)


@pytest.fixture(autouse=True)
def _logs_of_clients(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("py4j", "aiokafka"):
        caplog.set_level(logging.CRITICAL, logger=name)


# --- librdkafka ------------------------------------------------------------------------------------------------------


def confluent(address: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """Return the settings of a client of confluent-kafka."""
    of_mechanism: dict[str, Any] = {"sasl.username": USER, "sasl.password": password}
    if mechanism == "OAUTHBEARER":
        of_mechanism = {"oauth_cb": lambda _: (signed(), time.time() + 60)}
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    return {"bootstrap.servers": address, **common, **of_mechanism}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in(secured: Secured, mechanism: str) -> None:
    topic = f"confluent-{mechanism}"
    settings = confluent(secured.logins, mechanism)
    producer = Producer(settings)
    producer.produce(topic, b"one")
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert [each.value() for each in messages(consumer, 1)] == [b"one"]
    consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_an_error_of_authentication(secured: Secured, mechanism: str) -> None:
    assert not is_known(secured.logins, mechanism, "a wrong one")
    assert secured.count(mechanism, "failed") > 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat_logs_in(secured: Secured, mechanism: str) -> None:
    common = ["-X", "security.protocol=sasl_plaintext", "-X", f"sasl.mechanism={mechanism}"]
    if mechanism == "OAUTHBEARER":  # a token without signature, which is all that kcat can make
        address = secured.unsecured
        words = ["-X", "enable.sasl.oauthbearer.unsecure.jwt=true", "-X", f"sasl.oauthbearer.config=principal={USER}"]
    else:
        address = secured.logins
        words = ["-X", f"sasl.username={USER}", "-X", f"sasl.password={PASSWORD}"]
    kcat = ["kcat", "-b", address, "-q", *common, *words, "-t", f"kcat-{mechanism}"]
    run([*kcat, "-P"], b"one\ntwo\n")
    assert run([*kcat, "-C", "-e"]).stdout == b"one\ntwo\n"


def test_librdkafka_authenticates_again_before_its_session_ends(secured: Secured) -> None:
    mechanism = "SCRAM-SHA-512"
    before = secured.count(mechanism, "succeeded")
    failures: list[object] = []
    producer = Producer({**confluent(secured.short_sessions, mechanism), "error_cb": failures.append})
    deadline = time.monotonic() + 2 * SESSION_MS / 1000
    while time.monotonic() < deadline:
        producer.produce("secured", b"again", on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0.02)
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == []
    assert secured.count(mechanism, "succeeded") >= before + 3
    assert secured.count(mechanism, "expired") == 0


# --- aiokafka --------------------------------------------------------------------------------------------------------


class Tokens:
    """Tokens for aiokafka."""

    async def token(self) -> str:
        return signed()


AbstractTokenProvider.register(Tokens)  # not a base class: aiokafka has no types


def aio(address: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        of_mechanism: dict[str, Any] = {"sasl_oauth_token_provider": Tokens()}
    else:
        of_mechanism = {"sasl_plain_username": USER, "sasl_plain_password": password}
    common = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    return {"bootstrap_servers": address, **common, **of_mechanism}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(secured: Secured, mechanism: str) -> None:
    topic = f"aiokafka-{mechanism}"

    async def scenario() -> bytes:
        settings = aio(secured.logins, mechanism)
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"one")
        async with aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            return bytes((await consumer.getone()).value)

    assert asyncio.run(scenario()) == b"one"


def test_a_wrong_password_is_an_error_of_aiokafka(secured: Secured) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(**aio(secured.logins, "PLAIN", "a wrong one"))
        try:
            await admin.start()
        finally:
            await admin.close()

    with pytest.raises((AuthenticationFailedError, aiokafka.errors.KafkaConnectionError)):
        asyncio.run(scenario())


# --- Java ------------------------------------------------------------------------------------------------------------


def properties(folder: Path, mechanism: str, others: Mapping[str, str] | None = None) -> str:
    """Return the path of a file with the settings of a Java client."""
    secret = f'username="{USER}" password="{PASSWORD}"'
    module = {
        "PLAIN": f"{PLAIN_MODULE} {secret};",
        "OAUTHBEARER": f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="{USER}";',
    }.get(mechanism, f"{SCRAM_MODULE} {secret};")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": module,
        **(others or {}),
    }
    path = folder / f"{mechanism}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_console_tools_of_java_log_in(secured: Secured, java: JavaTools, tmp_path: Path, mechanism: str) -> None:
    address = secured.unsecured if mechanism == "OAUTHBEARER" else secured.logins
    file, topic = properties(tmp_path, mechanism), f"java-{mechanism}"
    common = ["--bootstrap-server", address, "--topic", topic]
    java.run(PRODUCER, *common, "--command-config", file, lines="one\ntwo\n")
    words = ["--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"]
    assert java.run(CONSUMER, *common, "--command-config", file, *words) == "one\ntwo\n"


def test_java_authenticates_again_before_its_session_ends(secured: Secured, java: JavaTools, tmp_path: Path) -> None:
    mechanism = "SCRAM-SHA-256"
    before = secured.count(mechanism, "succeeded")
    file = properties(tmp_path, mechanism, {"bootstrap.servers": secured.short_sessions})
    words = ["--num-records", "50", "--record-size", "10", "--throughput", "20", "--command-config", file]
    assert java.run(PERFORMANCE, "--topic", "secured", *words).startswith("50 records sent")
    assert secured.count(mechanism, "succeeded") >= before + 3
    assert secured.count(mechanism, "expired") == 0


def test_kafka_configs_adds_shows_and_removes_a_user(secured: Secured, java: JavaTools) -> None:
    users = ["--bootstrap-server", secured.served.address, "--entity-type", "users", "--entity-name", "carol"]
    added = java.run(CONFIGS, *users, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    assert added == "Completed updating config for user carol.\n"
    shown = "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-256=iterations=8192\n"
    assert java.run(CONFIGS, *users, "--describe") == shown
    removed = java.run(CONFIGS, *users, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert removed == "Completed updating config for user carol.\n"
    assert java.run(CONFIGS, *users, "--describe") == ""


# --- credentials between Kafka and offsetfs --------------------------------------------------------------------------


def is_known(address: str, mechanism: str, password: str = PASSWORD) -> bool:
    """Return whether a login succeeds."""
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {**confluent(address, mechanism, password), "error_cb": errors.append}
    client = AdminClient(settings)
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            client.list_topics(timeout=0.5)
        except KafkaException:
            client.poll(0)
            if KafkaError._AUTHENTICATION in [each.code() for each in errors]:
                return False
        else:
            return True
    raise AssertionError(f"no answer to a login: {errors}")


def test_users_of_kafka_log_in_here_with_their_passwords(tmp_path: Path) -> None:
    """kafka-configs has stored them in the metadata log, which is read when the directory is served."""
    log_dir = tmp_path / "log"
    settings = {"metadata.log.dir": str(log_dir)}
    with KafkaBroker(tmp_path / "kafka", log_dir=log_dir, settings=settings) as kafka:
        add_user(kafka.address, USER, PASSWORD, ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        client = AdminClient({"bootstrap.servers": kafka.address})
        removed = UserScramCredentialDeletion(USER, ScramMechanism.SCRAM_SHA_512)
        client.alter_user_scram_credentials([removed])[USER].result(SECONDS_MAX)
        kafka.stop()
    reports = f"login of '{USER}' by SCRAM-SHA-(256|512) failed: (wrong password|unknown user)"
    words = ("-o", "listeners=SASL_PLAINTEXT://127.0.0.1:0")
    with served(log_dir, *words, reports=reports) as broker:
        assert is_known(broker.address, "SCRAM-SHA-256")
        assert not is_known(broker.address, "SCRAM-SHA-256", "another")
        assert not is_known(broker.address, "SCRAM-SHA-512")


def test_users_of_ours_log_in_at_a_kafka_that_gets_their_records(tmp_path: Path) -> None:
    """The file of users is a part of a snapshot: Kafka reads it behind the records of its first start."""
    logs = tmp_path / "logs"
    logs.mkdir()
    with served(logs) as broker:
        add_user(broker.address, USER, PASSWORD, ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    kafka = KafkaBroker(tmp_path / "kafka", mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512"))
    kafka._format()
    (bootstrap,) = (tmp_path / "kafka" / "metadata").rglob("*.checkpoint")
    with bootstrap.open("ab") as file:
        file.write((logs / SECURITY_FILE).read_bytes())
    with kafka:
        assert is_known(kafka.login_address, "SCRAM-SHA-256")
        assert is_known(kafka.login_address, "SCRAM-SHA-512")
        assert not is_known(kafka.login_address, "SCRAM-SHA-256", "another")
