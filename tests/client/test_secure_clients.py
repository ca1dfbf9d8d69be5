"""Logins and TLS of a client, against our own broker in the process of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest
import trio
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running
from fixtures.security import certificates
from fixtures.security.logins import PASSWORD, PLAIN_MODULE, add_user, sasl_listener
from fixtures.security.tls_clients import tls_broker, tls_listener

from offsetfs.common.addresses import Address
from offsetfs.common.security.scram_keys import BY_NAME
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import AuthenticationFailed, ClientError, TlsFailed
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

QUICK = replace(FEW_PARTITIONS, connection_failed_authentication_delay_ms=1)
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def plain(user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
    jaas = f'{PLAIN_MODULE} username="{user}" password="{password}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def scram(mechanism: str = "SCRAM-SHA-256", user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
    jaas = f'{SCRAM_MODULE} username="{user}" password="{password}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def tls(own: certificates.Certificate | None = None, **values: str) -> dict[str, str]:
    found = {"security.protocol": "SSL", "ssl.truststore.location": str(certificates.authority().chain)}
    if own is not None:
        found |= {"ssl.keystore.location": str(own.chain), "ssl.key.location": str(own.key)}
    return found | {f"ssl.{name.replace('_', '.')}": value for name, value in values.items()}


async def topics_seen(address: Address, values: Mapping[str, str]) -> list[str]:
    """Return the topics that a client with these settings is shown; ClientError."""
    async with ClusterClient([address], ClientProperties.parse(values)) as client:
        return list((await client.metadata()).topics)


async def failure_of(address: Address, values: Mapping[str, str]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        await topics_seen(address, values)
    return caught.value


# --- logins ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def guarded(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    """A broker with the user alice."""
    users = {"plain.sasl.jaas.config": f'{PLAIN_MODULE} user_alice="{PASSWORD}";'}
    running = Running(directory, QUICK, sasl_listener("SCRAM-SHA-256,SCRAM-SHA-512,PLAIN", users))
    for mechanism in BY_NAME.values():
        add_user(running.broker._security, "alice", mechanism)
    nursery.start_soon(running.run)
    yield running
    running.broker.stop()


@pytest.mark.parametrize("values", [plain(), scram(), scram("SCRAM-SHA-512")], ids=lambda each: each["sasl.mechanism"])
async def test_a_user_with_a_password(guarded: Running, values: dict[str, str]) -> None:
    assert await topics_seen(guarded.address, values) == ["t"]


@pytest.mark.expect_log(r"127\.0\.0\.1: login")
@pytest.mark.parametrize("values", [plain(password="wrong"), scram(password="wrong"), scram(user="bob")])
async def test_a_wrong_password_is_an_error_without_it(guarded: Running, values: dict[str, str]) -> None:
    error = await failure_of(guarded.address, values)
    assert isinstance(error, AuthenticationFailed)
    assert f"127.0.0.1:{guarded.address[1]}: " in str(error)
    assert "wrong" not in str(error).lower()
    assert str(error).endswith("; check username and password in sasl.jaas.config")
    assert not error.is_retriable


@pytest.mark.expect_log(r"127\.0\.0\.1: login")
async def test_a_client_without_a_login_reads_what_to_set(guarded: Running) -> None:
    error = await failure_of(guarded.address, {})
    assert "if its listener needs a login, set security.protocol=SASL_PLAINTEXT or SASL_SSL" in str(error)


async def test_a_login_where_there_is_none(running: Running) -> None:
    error = await failure_of(running.address, scram())
    assert isinstance(error, AuthenticationFailed)
    assert "this listener has no login; set security.protocol=PLAINTEXT or SSL" in str(error)


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.expect_log("TLS handshake")
async def test_tls_with_a_certificate_of_the_client(directory: LogDirectory, nursery: trio.Nursery) -> None:
    async with tls_broker(directory, nursery, tls_listener(client_auth="required")) as running:
        _, port = running.address
        assert await topics_seen(("localhost", port), tls(certificates.client())) == ["t"]
        error = await failure_of(("localhost", port), tls())
        assert "the broker needs a certificate of the client; set ssl.keystore.location" in str(error)


@pytest.mark.expect_log("TLS handshake")
async def test_an_authority_that_the_client_does_not_trust(directory: LogDirectory, nursery: trio.Nursery) -> None:
    async with tls_broker(directory, nursery, tls_listener()) as running:
        error = await failure_of(("localhost", running.address[1]), {"security.protocol": "SSL"})
        assert isinstance(error, TlsFailed)
        assert "add its CA to the file of ssl.truststore.location" in str(error)


@pytest.mark.expect_log("TLS handshake")
async def test_no_tls_where_the_listener_has_it(directory: LogDirectory, nursery: trio.Nursery) -> None:
    async with tls_broker(directory, nursery, tls_listener()) as running:
        assert "set security.protocol=SSL or SASL_SSL" in str(await failure_of(running.address, {}))


@pytest.mark.expect_log("a TLS handshake")
async def test_tls_where_the_listener_has_none(running: Running) -> None:
    error = await failure_of(("localhost", running.address[1]), tls())
    assert "set security.protocol=PLAINTEXT or SASL_PLAINTEXT" in str(error)
