"""The client of clusters against Kafka 4.4: metadata, coordinators, logins by SCRAM and TLS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import ScramMechanism
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import add_user
from fixtures.security import certificates

from offsetfs.kafka.client.cluster import ClusterClient, NodeKind, repeated
from offsetfs.kafka.client.errors import AuthenticationFailed, check_code
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.protocol import messages as m

pytestmark = pytest.mark.interop

PASSWORD = "a long secret"
SESSION_MS = 1500


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = {"connections.max.reauth.ms": str(SESSION_MS)}
    mechanisms = ["SCRAM-SHA-256"]
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), mechanisms=mechanisms, settings=settings) as found:
        found.create_topic("orders", 2)
        add_user(found.address, "alice", PASSWORD, ScramMechanism.SCRAM_SHA_256)
        yield found


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def scram(password: str) -> Mapping[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{module} username="alice" password="{password}";',
    }


async def test_metadata_and_the_coordinator_of_a_group(kafka: KafkaBroker) -> None:
    async with ClusterClient([address_of(kafka.address)]) as client:
        found = await client.metadata(["orders", "missing"])
        assert found.topics["orders"].has_id and len(found.topics["orders"].partitions) == 2
        assert found.topics["missing"].error == 3
        node = await client.coordinator("g")
        for each in (node, NodeKind.CONTROLLER, found.topics["orders"].partitions[0].leader):
            await repeated(partial(list_groups, client, each), client.properties)


async def list_groups(client: ClusterClient, node: int | NodeKind) -> None:
    """Raise KafkaError where the broker does not list groups: for a moment, because partitions of them load."""
    check_code((await client.request(m.ListGroupsRequest(), node=node)).error_code)


async def test_a_login_that_is_repeated_before_its_session_ends(kafka: KafkaBroker) -> None:
    async with ClusterClient([address_of(kafka.login_address)], ClientProperties.parse(scram(PASSWORD))) as client:
        connection = await client.connection(NodeKind.ANY)
        end_s = trio.current_time() + 1.2 * SESSION_MS / 1000
        while trio.current_time() < end_s:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(connection.request, m.ListGroupsRequest())
            await trio.sleep(0.02)
        assert connection.is_open


async def test_a_wrong_password(kafka: KafkaBroker) -> None:
    async with ClusterClient([address_of(kafka.login_address)], ClientProperties.parse(scram("wrong"))) as client:
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            await client.metadata()


async def test_tls_with_a_certificate_of_the_client(tmp_path: Path) -> None:
    keystore = certificates.server().both(tmp_path / "server.pem")
    own = certificates.client()
    trusted = str(certificates.authority().chain)
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "ssl.client.auth": "required",
    }
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": trusted,
        "ssl.keystore.location": str(own.both(tmp_path / "client.pem")),
    }
    with KafkaBroker(tmp_path / "kafka", tls=tls) as broker:
        async with ClusterClient([address_of(broker.tls_address)], ClientProperties.parse(given)) as client:
            assert (await client.metadata()).brokers
