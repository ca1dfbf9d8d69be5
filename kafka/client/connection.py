"""One connection to one broker: requests in, decoded responses out, in order.

Several requests may be in flight: a broker answers them one after the other. A task reads the responses, and gives each
to the request that waits longest. What the peer sends is checked: the size against a limit before memory is taken, the
correlation id, and the response as a whole. Records in a response are a view of the received bytes.

A connection that fails stays failed: each of its requests raises the cause. `ClusterClient` makes a new connection.
"""

from __future__ import annotations

import math
import random
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.common.transports import Transport
from offsetfs.kafka.client.errors import (
    ClientError,
    Disconnected,
    InvalidResponse,
    RequestTimedOut,
    ResponseTooLarge,
    UnsupportedByBroker,
    os_error_text,
)
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.client.sasl import Ask
from offsetfs.kafka.client.tls import tls_failure
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import schema
from offsetfs.version import __version__

RESPONSE_BYTES_MAX = 256 << 20
"""The largest response that is received, unless a caller sets another limit. A response of Fetch has at least one whole
batch of records, which may be larger than `max_bytes` of its request."""

_SIZE_BYTES = 4
_JOINED_BYTES_MAX = 64 << 10
"""Smaller requests are sent with one system call; the parts of larger ones are not copied."""

_LARGE_BYTES = 256 << 10
"""Bytes whose copy from the socket takes some 0.1 ms."""

_SESSION_SHARE = 0.85, 0.95
"""After which part of a session the client logs in again, as in Kafka: by chance, so that not all do it at once."""

_TLS_ALERT = b"\x15\x03"
_WITH_LOGIN = "security.protocol=SASL_PLAINTEXT or SASL_SSL in the file of --config"
_WITH_TLS = "security.protocol=SSL or SASL_SSL in the file of --config"
_HTTP = b"HTTP"

_API_VERSIONS = "ApiVersionsRequest"


Login = Callable[[Ask], Awaitable[int]]
"""Authenticates a connection; returns the lifetime of its session in milliseconds, 0 for one without end."""


class _Waiting:
    """A request whose response has not arrived."""

    __slots__ = ("arrived", "correlation_id", "data", "has_wrong_response")

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.arrived = trio.Event()
        self.data: memoryview | None = None
        """The response without its size; None if the connection has failed."""
        self.has_wrong_response = False
        """Whether the connection has failed because of the response to this request."""


class BrokerConnection:
    """A connection to one broker. `offsetfs.kafka.client.connect` makes one."""

    def __init__(
        self, transport: Transport, address: Address, properties: ClientProperties, response_bytes_max: int
    ) -> None:
        self.address = address
        self._transport = transport
        self._properties = properties
        self._response_bytes_max = response_bytes_max
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._next_id = random.randrange(1 << 30)  # so that a response of another connection is noticed
        self._sending = trio.Lock()
        self._failure: ClientError | None = None
        self._login: Login | None = None
        self._login_again_s = math.inf
        self._is_answered = False
        """Whether there was a response to a request that needs authentication."""

    def __str__(self) -> str:
        return address_text(self.address)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent: the connection has not failed."""
        return self._failure is None

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._waiting)

    def version_of(self, request: type[ProtocolMessage], *, max_version: int | None = None) -> int:
        """Return the version in which a request is sent: the newest that both sides know; UnsupportedByBroker.

        `max_version`: no newer one.
        """
        name = request.__name__
        message_schema = schema(name)
        first, last = message_schema.versions
        if max_version is not None:
            last = min(last, max_version)
        oldest, newest = self._versions.get(message_schema.key, (0, -1))
        version = min(last, newest)
        if version < max(first, oldest):
            api = name.removesuffix("Request")
            knows = f"its versions {oldest} to {newest}" if newest >= 0 else "no version of it"
            raise UnsupportedByBroker(
                f"{self}: {api} is needed in version {first} to {last}, and the broker knows {knows}"
            )
        return version

    async def request(
        self, message: ProtocolMessage, *, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Return the decoded response to `message`; ClientError.

        `max_version`: the request is sent in no newer version. `timeout_ms`: instead of `request.timeout.ms`; a
        connection whose broker does not answer in time fails, since later responses would not arrive either.
        """
        version = self.version_of(type(message), max_version=max_version)
        return await self._request(message, version, timeout_ms)

    def close(self) -> None:
        """Close the connection. Requests that wait fail."""
        self._fail(Disconnected(f"{self}: the connection was closed"))

    async def run(self) -> None:
        """Receive responses until the connection fails."""
        try:
            while self._failure is None:
                self._deliver(await self._receive())
        except ClientError as error:
            if self._waiting:
                self._waiting[0].has_wrong_response = True
            self._fail(error)
        finally:
            self.close()

    async def negotiate(self) -> None:
        """Ask which versions of each request the broker knows. The first request; `run` has not begun."""
        last = schema(_API_VERSIONS).versions[1]
        response = await self._negotiated(last)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:  # brokers from 2.4 on name the version that they know
            known = next((api_key.max_version for api_key in response.api_keys if api_key.api_key == 18), 0)
            response = await self._negotiated(min(known, last - 1))
        if response.error_code:
            code = response.error_code
            raise UnsupportedByBroker(f"{self}: the broker does not answer ApiVersions: error code {code}")
        self._versions = {api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in response.api_keys}

    async def _negotiated(self, version: int) -> Any:
        return await self._call(m.ApiVersionsRequest("offsetfs", __version__), version)

    async def log_in(self, login: Login) -> None:
        """Authenticate; AuthenticationFailed, ClientError. After `negotiate`; `run` has not begun."""
        self._login = login
        await self._log_in(login, lambda message: self._call(message, self.version_of(type(message))))

    async def _log_in(self, login: Login, ask: Ask) -> None:
        """Log in, and set when to do it again: a session may have an end, behind which a broker closes (KIP-368)."""
        lifetime_ms = await login(ask)
        share = random.uniform(*_SESSION_SHARE)
        self._login_again_s = trio.current_time() + lifetime_ms / 1000 * share if lifetime_ms > 0 else math.inf

    async def _log_in_again(self) -> None:
        """Authenticate once more, behind the requests that are in flight. The caller holds the lock of sending."""
        assert self._login is not None
        try:
            await self._log_in(self._login, self._in_turn)
        except ClientError as error:
            raise self._failed(error) from None
        except trio.Cancelled:  # the broker would refuse other requests in the middle of a login
            self._fail(Disconnected(f"{self}: a request was cancelled in the login"))
            raise

    async def _in_turn(self, message: ProtocolMessage) -> Any:
        """Send a request of the login, and return its response."""
        version = self.version_of(type(message))
        return self._decoded(type(message).__name__, version, await self._answer(await self._sent(message, version)))

    async def _call(self, message: ProtocolMessage, version: int) -> Any:
        """Return the response to a request of the beginning of the connection: `run` has not begun."""
        correlation_id, buffers = self._encoded(message, version)
        with trio.move_on_after(self._properties.request_timeout_ms / 1000) as scope:
            await self._send(buffers)
            data = await self._receive()
            self._check_id(data, correlation_id)
            return self._decoded(type(message).__name__, version, data)
        assert scope.cancelled_caught
        raise self._failed(self._timed_out(message, self._properties.request_timeout_ms))

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _request(self, message: ProtocolMessage, version: int, timeout_ms: int | None) -> Any:
        timeout_ms = self._properties.request_timeout_ms if timeout_ms is None else timeout_ms
        with trio.move_on_after(timeout_ms / 1000):
            async with self._sending:
                if trio.current_time() >= self._login_again_s:
                    await self._log_in_again()
                waiting = await self._sent(message, version)
            return self._decoded(type(message).__name__, version, await self._answer(waiting))
        raise self._failed(self._timed_out(message, timeout_ms))

    async def _sent(self, message: ProtocolMessage, version: int) -> _Waiting:
        """Send a request; the caller holds the lock of sending. ClientError."""
        if self._failure is not None:
            raise self._renewed()
        correlation_id, buffers = self._encoded(message, version)
        waiting = _Waiting(correlation_id)
        self._waiting.append(waiting)
        await self._send(buffers)
        return waiting

    async def _answer(self, waiting: _Waiting) -> memoryview:
        """Return the response to a request when it is there; ClientError."""
        await waiting.arrived.wait()
        if waiting.data is None:
            raise self._renewed(is_own=waiting.has_wrong_response)
        return waiting.data

    def _timed_out(self, message: ProtocolMessage, timeout_ms: int) -> RequestTimedOut:
        api = type(message).__name__.removesuffix("Request")
        return RequestTimedOut(f"{self}: no response to {api} within {timeout_ms} ms (request.timeout.ms)")

    def _encoded(self, message: ProtocolMessage, version: int) -> tuple[int, list[Any]]:
        """Return the correlation id and the bytes of a request; UnsupportedByBroker."""
        name = type(message).__name__
        message_schema = schema(name)
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        is_flexible = version >= message_schema.layout(version).flexible
        header = m.RequestHeader(message_schema.key, version, correlation_id, self._properties.client_id)
        try:
            body = codec.writer(name, version)(message)
        except codec.UnsupportedVersion as error:
            raise UnsupportedByBroker(f"{self}: {name} version {version}, the newest of the broker: {error}") from None
        parts = [*codec.writer("RequestHeader", 2 if is_flexible else 1)(header), *body]
        size = codec.size_of(parts)
        parts = [size.to_bytes(_SIZE_BYTES, "big"), *parts]
        return correlation_id, [b"".join(parts)] if size <= _JOINED_BYTES_MAX else parts

    async def _send(self, buffers: list[Any]) -> None:
        """Send all bytes; Disconnected. If this is cancelled, a part may have been sent, and the connection fails."""
        try:
            for buffer in buffers:
                await self._send_all(memoryview(buffer))
        except (OSError, trio.ClosedResourceError) as error:
            raise self._failed(self._disconnected(self._received_alert() or error)) from error
        except trio.Cancelled:
            self._fail(Disconnected(f"{self}: a request was cancelled while it was sent"))
            raise

    async def _send_all(self, data: memoryview) -> None:
        while data:
            try:
                data = data[self._transport.send(data) :]
            except BlockingIOError:
                await self._transport.wait_writable()

    def _received_alert(self) -> ssl.SSLError | None:
        """Return the alert of TLS that has arrived before the end: with TLS 1.3 a certificate is refused so late."""
        try:
            self._transport.recv_into(memoryview(bytearray(1)))
        except ssl.SSLError as error:
            return error
        except OSError:
            return None
        return None

    # --- responses ----------------------------------------------------------------------------------------------------

    async def _receive(self) -> memoryview:
        """Return the next response without its size; ClientError."""
        head = await self._receive_exactly(_SIZE_BYTES)
        size = int.from_bytes(head, "big", signed=True)
        if not _SIZE_BYTES <= size <= self._response_bytes_max:
            kind = ResponseTooLarge if size > self._response_bytes_max else InvalidResponse
            raise kind(f"{self}: {_no_response(bytes(head), size, self._response_bytes_max)}")
        return await self._receive_exactly(size)

    async def _receive_exactly(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))  # large ones take memory as bytes arrive: calloc(3) maps empty pages
        position = 0
        while position < size:
            try:
                count = await self._receive_into(data[position:])
            except (OSError, trio.ClosedResourceError) as error:
                raise self._disconnected(error) from error
            if not count:
                raise self._disconnected(None)
            position += count
            if count >= _LARGE_BYTES:
                await trio.lowlevel.checkpoint()  # a fast broker would keep other tasks waiting
        return data.toreadonly()

    async def _receive_into(self, buffer: memoryview) -> int:
        while True:
            try:
                return self._transport.recv_into(buffer)
            except BlockingIOError:
                await self._transport.wait_readable()

    def _deliver(self, data: memoryview) -> None:
        """Give a response to the request that waits longest; InvalidResponse."""
        if not self._waiting:
            raise InvalidResponse(f"{self}: a response without a request")
        self._waiting[0].has_wrong_response = True  # until it is known to be the right one
        self._check_id(data, self._waiting[0].correlation_id)
        self._is_answered = True
        waiting = self._waiting.popleft()
        waiting.data = data
        waiting.arrived.set()

    def _check_id(self, data: memoryview, expected: int) -> None:
        received = int.from_bytes(data[:4], "big", signed=True)
        if received != expected:
            raise self._failed(
                InvalidResponse(f"{self}: a response to request {received}, where that to request {expected} is due")
            )

    def _decoded(self, request: str, version: int, data: memoryview) -> Any:
        """Return the message in a response; InvalidResponse."""
        name = f"{request.removesuffix('Request')}Response"
        is_negotiation = request == _API_VERSIONS
        try:
            is_flexible = version >= schema(request).layout(version).flexible and not is_negotiation
            _, position = codec.reader("ResponseHeader", int(is_flexible))(data, 0)
            if is_negotiation and int.from_bytes(data[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION:
                version = 0
            message, end = codec.reader(name, version)(data, position)
        except codec.InvalidMessage as error:
            raise self._failed(InvalidResponse(f"{self}: not a {name} version {version}: {error}")) from None
        if end != len(data):
            raise self._failed(InvalidResponse(f"{self}: {len(data) - end} bytes behind a {name} version {version}"))
        return message

    # --- failures -----------------------------------------------------------------------------------------------------

    def _disconnected(self, error: Exception | None) -> ClientError:
        """Return the error for the end of the connection: by the broker, by TLS, or by an error of the system."""
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return tls_failure(self.address, error)
        cause = "the broker closed the connection"
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            cause = os_error_text(error)
        if not self._versions:
            cause += "" if self._properties.tls else f"; if its listener has TLS, set {_WITH_TLS}"
        elif self._login is None and not self._is_answered:
            cause += f"; if its listener needs a login, set {_WITH_LOGIN}"
        return Disconnected(f"{self}: {cause}")

    def _failed(self, error: ClientError) -> ClientError:
        """Fail with `error`, and return it."""
        self._fail(error)
        return error

    def _fail(self, error: ClientError) -> None:
        """Close the connection for `error`, unless it has failed before."""
        if self._failure is not None:
            return
        self._failure = error
        trio.lowlevel.notify_closing(self._transport.socket)
        self._transport.close()
        for waiting in self._waiting:
            waiting.arrived.set()
        self._waiting.clear()

    def _renewed(self, *, is_own: bool = False) -> ClientError:
        """Return the cause of the failure as an error of its own: several tasks may raise it.

        A wrong response is an error of its request alone (`is_own`). The others may be repeated.
        """
        assert self._failure is not None
        if isinstance(self._failure, InvalidResponse) and not is_own:
            return Disconnected(f"{self}: the connection was closed after the response to another request")
        return type(self._failure)(*self._failure.args)


def _no_response(head: bytes, size: int, size_max: int) -> str:
    """Return the cause for bytes that are not the size of a response, such as TLS or HTTP."""
    if head.startswith(_TLS_ALERT):
        return f"the broker uses TLS at this port; set {_WITH_TLS}"
    if head == _HTTP:
        return "an HTTP server, not a Kafka broker; give the address of a Kafka listener"
    if size < _SIZE_BYTES:
        return f"a response of {size} bytes; is this a Kafka broker?"
    return f"a response of {size} bytes, and at most {size_max} are received; is this a Kafka broker?"
