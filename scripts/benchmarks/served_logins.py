"""Logins by SCRAM at `offsetfs serve` and at Kafka: connections that log in, and close."""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack

import brokers
from bench import Bench
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from fixtures.broker.running import decoded, framed
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker
from fixtures.security.scram_client import ScramClient
from measuring import Contender, Measure, Peer, Row, times_as_fast
from mounted import KAFKA_VERSION
from served_logs import KAFKA, OURS, SECONDS_MAX

from offsetfs.kafka.protocol import messages as m

MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "alice", "a long secret"
CONNECTIONS = 16
"""How many log in at the same time."""

_Login = Generator[bytes, bytes, None]


@contextlib.contextmanager
def logins_of_ours(bench: Bench) -> Iterator[str]:
    """A server with a user; the address where it can log in."""
    log_dir = bench.new("logins")
    log_dir.mkdir()
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    with served(log_dir, "-o", listeners) as broker:
        _add_user(broker.address)
        yield broker.addresses[1]


@contextlib.contextmanager
def logins_of_kafka(bench: Bench) -> Iterator[str]:
    """The same of Kafka, a broker apart."""
    folder = bench.new("kafka-logins")
    with KafkaBroker(folder, settings=brokers.SETTINGS, mechanisms=[MECHANISM], version=KAFKA_VERSION) as broker:
        _add_user(broker.address)
        yield broker.login_address


def _add_user(address: str) -> None:
    change = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    client = AdminClient({"bootstrap.servers": address})
    client.alter_user_scram_credentials([change])[USER].result(SECONDS_MAX)


@contextlib.contextmanager
def logins(server: Callable[[Bench], AbstractContextManager[str]], bench: Bench) -> Iterator[Measure]:
    """Logins on 16 connections at a time: µs for each, from the connection to the last answer."""
    with server(bench) as address:
        host, _, port = address.rpartition(":")
        yield lambda number: _logins((host, int(port)), bench.count) / bench.count * 1e6


def _logins(address: tuple[str, int], count: int) -> float:
    start, begun, running = time.perf_counter(), 0, 0
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        while begun < count or running:
            while begun < count and running < CONNECTIONS:
                connection = stack.enter_context(socket.create_connection(address, timeout=SECONDS_MAX))
                login = _login()
                connection.sendall(next(login))
                waiting.register(connection, selectors.EVENT_READ, login)
                begun, running = begun + 1, running + 1
            for key, _ in waiting.select(SECONDS_MAX):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                response = client.recv(1 << 16)
                assert len(response) == 4 + int.from_bytes(response[:4], "big"), response
                try:
                    client.sendall(key.data.send(response[4:]))
                except StopIteration:
                    waiting.unregister(client)
                    client.close()
                    running -= 1
    return time.perf_counter() - start


def _login() -> _Login:
    """Yield the requests of one login; takes their responses."""
    client = ScramClient(USER, PASSWORD, "sha512")
    handshake = decoded(17, "SaslHandshake", 1, (yield _HANDSHAKE))
    assert not handshake.error_code, handshake
    first = decoded(36, "SaslAuthenticate", 1, (yield _authenticate(client.first())))
    last = decoded(36, "SaslAuthenticate", 1, (yield _authenticate(client.final(bytes(first.auth_bytes)))))
    assert bytes(last.auth_bytes) == client.signature, last


_HANDSHAKE = framed(17, "SaslHandshake", 1, m.SaslHandshakeRequest(MECHANISM))


def _authenticate(message: bytes) -> bytes:
    return framed(36, "SaslAuthenticate", 1, m.SaslAuthenticateRequest(message))


ROWS = (
    Row(
        "serve-logins",
        "Connections that log in by SCRAM-SHA-512 and close, 16 at a time",
        unit="µs",
        of="logins",
        count=5_000,
        count_quick=50,
        ours=Contender(OURS, functools.partial(logins, logins_of_ours)),
        peers=(Peer(Contender(KAFKA, functools.partial(logins, logins_of_kafka)), times_as_fast(1.0)),),
    ),
)
