"""Peers that are no Kafka brokers, or answer wrongly: each ends in an error with the address, in time and memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from offsetfs.kafka.client.connect import connect
from offsetfs.kafka.client.connection import BrokerConnection
from offsetfs.kafka.client.errors import (
    ClientError,
    Disconnected,
    InvalidResponse,
    RequestTimedOut,
    UnsupportedByBroker,
)
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m

pytestmark = pytest.mark.unit

PROPERTIES = ClientProperties(request_timeout_ms=60_000)
IMPATIENT = ClientProperties(request_timeout_ms=50)

Serve = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[tuple[str, int]]:
    """Serve each connection in the body of the statement; yield the address."""

    async def handle(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await serve(stream)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield listener.socket.getsockname()
        nursery.cancel_scope.cancel()


async def request_of(stream: trio.SocketStream) -> tuple[int, int, int]:
    """Return API key, version and correlation id of the next request."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        data += await stream.receive_some() or b"\0" * 4
    key, version, number = struct.unpack_from(">hhi", data, 4)
    return key, version, number


def framed(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def api_versions(version: int = 4) -> bytes:
    """Return a response that offers versions 0 to 4 of ListGroups, and those of ApiVersions."""
    found = m.ApiVersionsResponse(api_keys=[m.ApiVersion(16, 0, 4), m.ApiVersion(18, 0, 4)])
    return b"".join(codec.writer("ApiVersionsResponse", version)(found))


async def negotiated(stream: trio.SocketStream) -> None:
    _, version, number = await request_of(stream)
    await stream.send_all(framed(number, api_versions(version)))


async def asked(address: tuple[str, int], properties: ClientProperties = PROPERTIES) -> object:
    """Return the response to ListGroups of a new connection."""
    connection = await connect(address, properties, response_bytes_max=1 << 20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        try:
            return await connection.request(m.ListGroupsRequest())
        finally:
            connection.close()


async def failure(serve: Serve, properties: ClientProperties = PROPERTIES) -> ClientError:
    """Return the error of a request to a server, which has to come long before a timeout."""
    with trio.fail_after(20):
        async with served(serve) as address:
            try:
                await asked(address, properties)
            except* ClientError as group:
                error: BaseException = group
            else:
                raise AssertionError("no error")
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ClientError)
    assert str(error).startswith(f"127.0.0.1:{address[1]}: ")
    return error


def sends(data: bytes) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        await request_of(stream)
        await stream.send_all(data)
        await trio.sleep(60)

    return serve


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "uses TLS at this port; set security.protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server, not a Kafka broker"),
        (b"\x7f\xff\xff\xff", "a response of 2147483647 bytes, and at most 1048576 are received"),
        (b"\xff\xff\xff\xff", "a response of -1 bytes; is this a Kafka broker"),
        (b"\0\0\0\x04\x7f\xff\xff\xff", "a response to request 2147483647, where that to request"),
    ],
)
async def test_an_answer_that_is_not_a_response(data: bytes, reason: str) -> None:
    error = await failure(sends(data))
    assert isinstance(error, InvalidResponse) and not error.is_retriable
    assert reason in str(error)


async def test_a_huge_length_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        await failure(sends(b"\x7f\xff\xff\xff"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


async def test_a_server_that_closes_the_connection_at_the_first_request() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await request_of(stream)
        await stream.aclose()

    error = await failure(serve)
    assert isinstance(error, Disconnected) and error.is_retriable
    assert "the broker closed the connection; if its listener has TLS, set security.protocol=SSL or SASL_SSL" in str(
        error
    )


@pytest.mark.parametrize("is_connected", [False, True])
async def test_a_server_that_never_answers(is_connected: bool) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        if is_connected:
            await negotiated(stream)
        await trio.sleep(60)

    error = await failure(serve, IMPATIENT)
    assert isinstance(error, RequestTimedOut) and error.is_retriable
    assert f"no response to {'ListGroups' if is_connected else 'ApiVersions'} within 50 ms" in str(error)


def after_negotiation(answer: Callable[[int], bytes], *, closes: bool = True) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        await negotiated(stream)
        _, _, number = await request_of(stream)
        await stream.send_all(answer(number))
        if closes:
            await stream.aclose()
        else:
            await trio.sleep(60)

    return serve


async def test_a_response_that_is_cut() -> None:
    error = await failure(after_negotiation(lambda number: framed(number, bytes(20))[:-3]))
    assert isinstance(error, Disconnected)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\0" + b"\xff" * 40, "not a ListGroupsResponse version 4"),
        (bytes(6) + b"\x01\0" + b"x", "1 bytes behind a ListGroupsResponse version 4"),
    ],
)
async def test_garbage_in_a_response(body: bytes, reason: str) -> None:
    error = await failure(after_negotiation(lambda number: framed(number, b"\0" + body)))
    assert isinstance(error, InvalidResponse)
    assert reason in str(error)


async def test_a_response_to_another_request() -> None:
    error = await failure(after_negotiation(lambda number: framed(number + 1, bytes(20)), closes=False))
    assert isinstance(error, InvalidResponse)
    assert "a response to request" in str(error)


async def test_a_broker_without_the_request() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await negotiated(stream)
        await trio.sleep(60)

    async with served(serve) as address:
        connection = await connect(address, PROPERTIES)
        with pytest.raises(UnsupportedByBroker, match=r"Fetch is needed in version 0 to .* no version of it"):
            await connection.request(m.FetchRequest())
        assert connection.is_open
        connection.close()


async def test_an_old_broker_answers_an_unknown_version_of_api_versions() -> None:
    versions = []

    async def serve(stream: trio.SocketStream) -> None:
        for _ in range(2):
            _, version, number = await request_of(stream)
            versions.append(version)
            if version:
                refused = m.ApiVersionsResponse(35)
                await stream.send_all(framed(number, b"".join(codec.writer("ApiVersionsResponse", 0)(refused))))
            else:
                await stream.send_all(framed(number, api_versions(0)))
        await trio.sleep(60)

    async with served(serve) as address:
        connection = await connect(address, PROPERTIES)
        assert connection.version_of(m.ListGroupsRequest) == 4
        assert connection.version_of(m.ListGroupsRequest, max_version=2) == 2
        connection.close()
    assert versions[0] >= 3 and versions[1:] == [0]


async def test_a_cancelled_request_leaves_the_connection_usable() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await negotiated(stream)
        for _ in range(2):
            _, _, number = await request_of(stream)
            await trio.sleep(0.05)
            await stream.send_all(framed(number, b"\0" + bytes(6) + b"\x01\0"))
        await trio.sleep(60)

    async with served(serve) as address, trio.open_nursery() as nursery:
        connection: BrokerConnection = await connect(address, PROPERTIES)
        nursery.start_soon(connection.run)
        with trio.move_on_after(0.01) as scope:
            await connection.request(m.ListGroupsRequest())
        assert scope.cancelled_caught
        assert (await connection.request(m.ListGroupsRequest())).groups == []
        connection.close()


async def test_a_wrong_response_is_an_error_of_its_own_request_alone() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await negotiated(stream)
        await request_of(stream)
        await stream.send_all(struct.pack(">i", 1 << 30))
        await trio.sleep(60)

    errors = list[ClientError]()

    async def ask(connection: BrokerConnection) -> None:
        try:
            await connection.request(m.ListGroupsRequest())
        except ClientError as error:
            errors.append(error)

    with trio.fail_after(20):
        async with served(serve) as address, trio.open_nursery() as nursery:
            connection = await connect(address, PROPERTIES, response_bytes_max=1 << 20)
            async with trio.open_nursery() as requests:
                for _ in range(3):
                    requests.start_soon(ask, connection)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(connection.run)
    assert sorted(type(each).__name__ for each in errors) == ["Disconnected", "Disconnected", "ResponseTooLarge"]
    assert all(each.is_retriable for each in errors if isinstance(each, Disconnected))
