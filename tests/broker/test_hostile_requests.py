"""Peers that do what no client does: each is answered or ends its connection, and the broker goes on.

`scripts/soak hostile` sends a million wrong requests, and measures what other clients notice.
"""

from __future__ import annotations

import itertools
import random
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
import trio
from fixtures.broker.running import Running, decoded, framed, received
from fixtures.comparison.generated_requests import Generator
from fixtures.hostile.logins import HostileLogin, log_in_wrong
from fixtures.hostile.requests import NOT_THERE, hostile_requests, kind_of, missing, versions_of
from fixtures.hostile.tls import WrongFlights
from fixtures.messages.decoded_messages import written_request
from fixtures.security.authorized_broker import AUTHORIZED
from fixtures.security.logins import PASSWORD, LoginClient, add_user, login_client, sasl_listener
from fixtures.security.tls_clients import client_context, tls_broker, tls_listener, tls_stream

from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

COUNT = 80
LOGINS, FLIGHTS = 30, 20
SECONDS = 0.01
"""How long a response is waited for: some requests wait for records or for members."""

QUICK = replace(AUTHORIZED, connection_failed_authentication_delay_ms=1)
"""Alice, who has logged in, has no ACLs."""

ASKED = m.ApiVersionsRequest("test", "1")
VERSIONS = framed(18, "ApiVersions", 3, ASKED)


@pytest.fixture
async def with_sasl(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    found = Running(directory, QUICK, sasl_listener())
    for user in ("alice", "admin"):
        add_user(found.broker._security, user)
    nursery.start_soon(found.run)
    yield found
    found.broker.stop()


@pytest.mark.expect_log("connection closed")
@pytest.mark.parametrize("seed", range(2))
async def test_hostile_requests_are_answered_or_end_their_connection(running: Running, seed: int) -> None:
    """A handler that fails is logged as an error, which fails this test."""
    versions = versions_of(await running.send(18, "ApiVersions", 3, ASKED))
    await _send(lambda: trio.open_tcp_stream(*running.address), hostile_requests(versions, NOT_THERE, seed))
    assert (await running.send(18, "ApiVersions", 3, ASKED)).error_code == ErrorCode.NONE


@pytest.mark.expect_log("connection closed")
@pytest.mark.parametrize("user", ["alice", "admin"])
async def test_hostile_requests_after_a_login(with_sasl: Running, user: str) -> None:
    async def connect() -> trio.SocketStream:
        stream = await trio.open_tcp_stream(*with_sasl.address)
        assert (await LoginClient(stream).scram(user, PASSWORD)).error_code == ErrorCode.NONE
        return stream

    versions = versions_of(await with_sasl.send(18, "ApiVersions", 3, ASKED))
    await _send(connect, hostile_requests(versions, NOT_THERE, 0))
    await (await connect()).aclose()


@pytest.mark.expect_log("connection closed")
async def test_hostile_requests_over_tls(directory: LogDirectory, nursery: trio.Nursery) -> None:
    async with tls_broker(directory, nursery, tls_listener()) as running:
        async with tls_stream(running) as stream:
            await stream.send_all(VERSIONS)
            versions = versions_of(decoded(18, "ApiVersions", 3, await received(stream)))

        async def connect() -> trio.SSLStream[trio.SocketStream]:
            stream = await trio.open_tcp_stream(*running.address)
            return trio.SSLStream(stream, client_context(), server_hostname="localhost", https_compatible=True)

        await _send(connect, hostile_requests(versions, NOT_THERE, 0))
        async with await connect() as client:
            await client.do_handshake()


@pytest.mark.expect_log("connection closed")
@pytest.mark.expect_log(r"login( of .*)?( by \S+)? failed")
async def test_wrong_logins_end_their_connection_alone(with_sasl: Running) -> None:
    versions = versions_of(await with_sasl.send(18, "ApiVersions", 3, ASKED))
    others = [written_request(each) for each in Generator(NOT_THERE, 0).requests(versions, 1)]
    for seed in range(LOGINS):
        async with await trio.open_tcp_stream(*with_sasl.address) as stream:
            await log_in_wrong(stream, HostileLogin(others, random.Random(seed)), SECONDS)
    async with login_client(with_sasl.address) as client:
        assert (await client.scram("alice", PASSWORD)).error_code == ErrorCode.NONE


@pytest.mark.security("Hostile bytes in a TLS handshake end its connection alone.")
@pytest.mark.expect_log("TLS handshake failed")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_wrong_flights_of_tls_end_their_connection_alone(
    directory: LogDirectory, nursery: trio.Nursery, version: ssl.TLSVersion
) -> None:
    context = client_context()
    context.minimum_version = context.maximum_version = version
    async with tls_broker(directory, nursery, tls_listener()) as running:
        for seed in range(FLIGHTS):
            async with await trio.open_tcp_stream(*running.address) as stream:
                await WrongFlights(stream, context, random.Random(seed), SECONDS).run(VERSIONS)
        async with tls_stream(running) as client:
            await client.send_all(VERSIONS)
            assert await client.receive_some()


async def test_every_version_of_every_api_is_among_hostile_requests(running: Running) -> None:
    versions = versions_of(await running.send(18, "ApiVersions", 3, ASKED))
    count = 3 * sum(last - first + 1 for _, first, last in versions.values())
    requests = itertools.islice(hostile_requests(versions, NOT_THERE, 0), count)
    assert set(running.broker._apis) == set(versions)
    assert missing(versions, map(kind_of, requests)) == []


async def _send(connect: Callable[[], Awaitable[trio.abc.Stream]], requests: Iterator[bytes]) -> None:
    """Send requests over a connection, and over a new one after each that is not answered."""
    stream = None
    for data in itertools.islice(requests, COUNT):
        stream = stream or await connect()
        if not await _is_answered(stream, data):
            await trio.aclose_forcefully(stream)
            stream = None
    if stream is not None:
        await trio.aclose_forcefully(stream)


async def _is_answered(stream: trio.abc.Stream, data: bytes) -> bool:
    with trio.move_on_after(SECONDS):
        await stream.send_all(struct.pack(">i", len(data)) + data)
        return len(await stream.receive_some()) > 4
    return False
