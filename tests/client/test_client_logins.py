"""Repeated logins, wrong answers of a server in a login, and certificates that a client must not accept."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import trio
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running
from fixtures.security import certificates
from fixtures.security.logins import PASSWORD, add_user, sasl_listener
from fixtures.security.tls_clients import tls_listener

from offsetfs.common.security.scram_keys import ScramMechanism
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.client import connection
from offsetfs.kafka.client.cluster import ClusterClient, NodeKind
from offsetfs.kafka.client.errors import AuthenticationFailed, ClientError, NoBrokerAnswers, TlsFailed
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.client.sasl import ScramLogin, ScramRefused
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

FAILED = "login"
HANDSHAKE = "TLS handshake failed"

Start = Callable[[ListenerSettings], Running]


@pytest.fixture
async def start(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Start]:
    """Return a function that starts a broker with a listener."""
    found: list[Running] = []

    def started(listener: ListenerSettings) -> Running:
        found.append(Running(directory, FEW_PARTITIONS, listener))
        nursery.start_soon(found[-1].broker.run)
        return found[-1]

    yield started
    for each in found:
        each.broker.stop()


@pytest.fixture
def users(directory: LogDirectory) -> None:
    for each in ScramMechanism:
        add_user(directory.security, "alice", each)


def login(mechanism: str, user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    options = f'username="{user}" password="{password}"'
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {options};",
    }


def tls(**values: object) -> dict[str, str]:
    given = {"truststore_location": certificates.authority().chain, **values}
    return {"security.protocol": "SSL"} | {f"ssl.{name.replace('_', '.')}": str(each) for name, each in given.items()}


async def asked(running: Running, properties: Mapping[str, str], host: str = "127.0.0.1") -> int:
    """Return how many brokers a client with these properties finds."""
    parsed = ClientProperties.parse({"request.timeout.ms": "3000", **properties})
    async with ClusterClient([(host, running.address[1])], parsed) as client:
        return len((await client.metadata()).brokers)


async def refused(running: Running, properties: Mapping[str, str], host: str = "127.0.0.1") -> ClientError:
    with pytest.raises(ClientError) as caught:
        await asked(running, properties, host)
    assert str(caught.value).startswith(f"{host}:{running.address[1]}: ")
    assert PASSWORD not in str(caught.value)
    return caught.value


# --- SASL ------------------------------------------------------------------------------------------------------------


async def test_a_client_logs_in_again_between_requests(
    start: Start, users: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connection._SESSION_SHARE == (0.85, 0.95)
    monkeypatch.setattr(connection, "_SESSION_SHARE", (0.01, 0.01))  # after 0.1 seconds
    running = start(sasl_listener(settings={"connections.max.reauth.ms": "10000"}))
    async with ClusterClient([running.address], ClientProperties.parse(login("SCRAM-SHA-256"))) as client:
        found = await client.connection(NodeKind.ANY)
        while running.broker._metrics.logins != {("SCRAM-SHA-256", "succeeded"): 2}:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(found.request, m.ListGroupsRequest())
        assert found.is_open


def test_a_server_that_does_not_know_the_password_is_not_accepted() -> None:
    scram = ScramLogin(ScramMechanism.SHA_256, "alice", PASSWORD)
    nonce = scram.first().decode().rpartition("r=")[2]
    assert scram.final(f"r={nonce}more,s=c2FsdA==,i=4096".encode())
    with pytest.raises(ScramRefused, match="the broker does not know the password"):
        scram.check(b"v=AAAA")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("r=other,s=c2FsdA==,i=4096", "is not an answer to that of the client"),
        ("r={}more,s=c2FsdA==,i=1", "1 iterations"),
        ("r={}more,s=c2FsdA==,i=999999999", "999999999 iterations"),
        ("r={}more,s=AAA,i=4096", "base 64"),
        ("e=unknown-user", "RFC 5802: 'unknown-user'"),
    ],
)
def test_a_wrong_answer_of_scram(answer: str, reason: str) -> None:
    scram = ScramLogin(ScramMechanism.SHA_256, "alice", PASSWORD)
    nonce = scram.first().decode().rpartition("r=")[2]
    with pytest.raises(ScramRefused, match=reason):
        scram.final(answer.format(nonce).encode())


# --- TLS -------------------------------------------------------------------------------------------------------------


async def test_keys_in_the_settings_themselves(start: Start) -> None:
    own = certificates.client()
    given = tls(keystore_certificate_chain=own.text, keystore_key=own.key.read_text())
    del given["ssl.truststore.location"]
    given["ssl.truststore.certificates"] = certificates.authority().chain.read_text()
    assert await asked(start(tls_listener(client_auth="required")), given) == 1
    assert "PRIVATE" not in repr(ClientProperties.parse(given))


@pytest.mark.expect_log(HANDSHAKE)
async def test_a_broker_whose_certificate_is_of_another_authority(start: Start, tmp_path: Path) -> None:
    other = certificates.Authority(tmp_path, "/CN=other")
    error = await refused(start(tls_listener()), tls(truststore_location=other.chain))
    assert isinstance(error, TlsFailed)
    assert "the certificate of the broker is not trusted" in str(error)


@pytest.fixture(scope="module")
def of_other_host(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """The context of a server whose certificate is for another host."""
    folder = tmp_path_factory.mktemp("other-host")
    names = ("-subj", "/CN=other", "-addext", "subjectAltName=DNS:other.example")
    files = ("-keyout", folder / "key", "-out", folder / "crt")
    certificates.run("req", "-x509", *certificates.EC_KEY, "-nodes", "-days", "2", *files, *names)
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(folder / "crt", folder / "key")
    found.load_verify_locations(folder / "crt")
    return found


async def failure_at(context: ssl.SSLContext, properties: Mapping[str, str]) -> ClientError:
    """Return the error of a client of a server with TLS that is no broker."""

    async def handle(stream: trio.SocketStream) -> None:
        tls_stream = trio.SSLStream(stream, context, server_side=True)
        try:
            await tls_stream.do_handshake()
        except trio.BrokenResourceError:
            return

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        address = listener.socket.getsockname()
        with pytest.raises(ClientError) as caught:
            async with ClusterClient([address], ClientProperties.parse(properties)) as client:
                await client.metadata()
        nursery.cancel_scope.cancel()
    return caught.value


async def test_a_certificate_of_another_host(of_other_host: ssl.SSLContext) -> None:
    trusted = "".join(ssl.DER_cert_to_PEM_cert(each) for each in of_other_host.get_ca_certs(binary_form=True))
    given = {"security.protocol": "SSL", "ssl.truststore.certificates": trusted}
    error = await failure_at(of_other_host, given)
    assert isinstance(error, TlsFailed)
    assert "the certificate of the broker is for another host" in str(error)
    error = await failure_at(of_other_host, {**given, "ssl.endpoint.identification.algorithm": ""})
    assert isinstance(error, NoBrokerAnswers)  # after the handshake


async def test_a_certificate_that_has_expired() -> None:
    old = certificates.authority().issue("/CN=old", end="20200102000000Z")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(old.chain, old.key)
    error = await failure_at(context, tls())
    assert isinstance(error, TlsFailed)
    assert "certificate has expired; it has to be renewed" in str(error)


@pytest.mark.expect_log(FAILED)
async def test_a_mechanism_that_the_broker_has_not(start: Start) -> None:
    error = await refused(start(sasl_listener("SCRAM-SHA-512")), login("SCRAM-SHA-256"))
    assert isinstance(error, AuthenticationFailed)
    assert "sasl.mechanism is SCRAM-SHA-256, and the broker offers SCRAM-SHA-512" in str(error)
