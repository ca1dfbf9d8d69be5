"""Real clients over TLS, with a certificate or with a login; ACLs show which principal a client has."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)
from fixtures.broker.served import served
from fixtures.kafka.confluent_clients import SECONDS_MAX, add_user, messages
from fixtures.kafka.programs import run
from fixtures.kafka.tools import JavaTools
from fixtures.security import certificates
from fixtures.security.certificates import Certificate
from fixtures.security.tls_clients import client_context

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("python_clients"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

SUBJECT = "CN=alice,OU=billing,O=Kafka"
"""Of `certificates.client`."""
USER, PASSWORD = "bob", "pass, word=1"
OF_SUBJECT, OF_USER = "of-subject-", "of-user-"
"""The topics and groups of the client with the certificate, and of the user, begin so."""

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
REFUSED = "127.0.0.1: TLS handshake failed: the client has sent no certificate, and ssl.client.auth is required"


@dataclass(frozen=True)
class Secured:
    """The addresses of a running `offsetfs serve` for clients with a certificate, and for those with a login."""

    certificates: str
    logins: str


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "logs").mkdir()
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_SSL")),
        "ssl.keystore.location": certificates.server().both(folder / "server.pem"),
        "ssl.truststore.location": certificates.authority().chain,
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    with served(folder / "logs", *words, reports=REFUSED) as broker:
        unsecured, of_certificates, of_logins = broker.addresses
        add_user(unsecured, USER, PASSWORD, ScramMechanism.SCRAM_SHA_512)
        allow(unsecured, SUBJECT, OF_SUBJECT)
        allow(unsecured, USER, OF_USER)
        yield Secured(of_certificates, of_logins)


@pytest.fixture(autouse=True)
def _logs_of_clients(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("py4j", "aiokafka"):
        caplog.set_level(logging.CRITICAL, logger=name)


def allow(address: str, name: str, prefix: str) -> None:
    """Permit a user everything with the topics and groups whose names begin with `prefix`."""
    of_names = (prefix, ResourcePatternType.PREFIXED, f"User:{name}", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    acls = [AclBinding(kind, *of_names) for kind in (ResourceType.TOPIC, ResourceType.GROUP)]
    client = AdminClient({"bootstrap.servers": address})
    for each in client.create_acls(acls).values():
        each.result(SECONDS_MAX)


# --- librdkafka ------------------------------------------------------------------------------------------------------


def with_certificate(own: Certificate) -> dict[str, Any]:
    """Return the settings of librdkafka for a client with a certificate."""
    trusted = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.authority().chain)}
    return {**trusted, "ssl.certificate.location": str(own.chain), "ssl.key.location": str(own.key)}


def with_login(mechanism: str) -> dict[str, Any]:
    """Return the settings of librdkafka for a client that logs in."""
    trusted = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificates.authority().chain)}
    return {**trusted, "sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}


def there_and_back(address: str, topic: str, security: dict[str, Any]) -> bytes | None:
    """Write a record and return what a consumer with a group reads."""
    settings = {"bootstrap.servers": address, **security}
    producer = Producer(settings)
    producer.produce(topic, b"one")
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    (found,) = messages(consumer, 1)
    consumer.close()
    return found.value()


def test_confluent_kafka_with_a_certificate_has_its_subject_as_principal(secured: Secured) -> None:
    security = with_certificate(certificates.client())
    assert there_and_back(secured.certificates, f"{OF_SUBJECT}confluent", security) == b"one"


def test_another_subject_is_another_principal(secured: Secured) -> None:
    own = certificates.authority().issue("/O=Kafka/OU=other/CN=alice")
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": secured.certificates, **with_certificate(own)})
    producer.produce(f"{OF_SUBJECT}confluent", b"one", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert [each and each.code() for each in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_kcat_with_a_certificate(secured: Secured) -> None:
    """200,000 bytes: several TLS records in one request and one response."""
    lines = b"".join(b"line %06d of some words\n" % number for number in range(8000))
    security = with_certificate(certificates.client())
    words = [word for name, value in security.items() for word in ("-X", f"{name}={value}")]
    kcat = ["kcat", "-b", secured.certificates, "-q", *words, "-t", f"{OF_SUBJECT}kcat"]
    run([*kcat, "-P"], lines)
    assert run([*kcat, "-C", "-e"]).stdout == lines


def test_a_client_without_a_certificate_is_refused(secured: Secured) -> None:
    errors: list[KafkaError] = []
    security = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.authority().chain)}
    settings: dict[str, Any] = {"bootstrap.servers": secured.certificates, **security, "error_cb": errors.append}
    client = AdminClient(settings)
    deadline = time.monotonic() + SECONDS_MAX
    while not errors and time.monotonic() < deadline:
        client.poll(0.05)
    assert "certificate required" in errors[0].str()
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.2)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_login_within_tls_needs_no_certificate(secured: Secured, mechanism: str) -> None:
    assert there_and_back(secured.logins, f"{OF_USER}{mechanism}", with_login(mechanism)) == b"one"


# --- aiokafka --------------------------------------------------------------------------------------------------------


def test_aiokafka_with_a_certificate(secured: Secured) -> None:
    topic = f"{OF_SUBJECT}aiokafka"

    async def scenario() -> bytes:
        security = {"security_protocol": "SSL", "ssl_context": client_context(certificates.client())}
        settings: dict[str, Any] = {"bootstrap_servers": secured.certificates, **security}
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"one")
        async with aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            return bytes((await consumer.getone()).value)

    assert asyncio.run(scenario()) == b"one"


# --- Java ------------------------------------------------------------------------------------------------------------


def test_the_console_tools_of_java_with_pem_files(secured: Secured, java: JavaTools, tmp_path: Path) -> None:
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority().chain,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.client().both(tmp_path / "client.pem"),
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    common = ["--bootstrap-server", secured.certificates, "--topic", f"{OF_SUBJECT}java"]
    words = ["--from-beginning", "--max-messages", "2", "--timeout-ms", "30000", "--group", f"{OF_SUBJECT}java"]
    java.run(PRODUCER, *common, "--command-config", str(file), lines="one\ntwo\n")
    assert java.run(CONSUMER, *common, "--command-config", str(file), *words) == "one\ntwo\n"
