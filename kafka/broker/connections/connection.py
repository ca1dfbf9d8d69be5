"""One connection of a client: requests in, responses out, in order (https://kafka.apache.org/protocol).

    request     i32 size | header: i16 api key, i16 version, i32 correlation id, client id | body
    response    i32 size | header: i32 correlation id | body

Requests are handled one after the other. While only the response to a Produce request is missing, because its batches
are being synced, the next Produce requests are read and handled; other requests wait for the responses before them
(`response_queue`). What the client sends meanwhile waits in the socket, except for a small buffer: that bounds the
memory of a connection to one request, its response, and the responses that wait. A request that waits for other clients
(Fetch, JoinGroup, SyncGroup) is cancelled when its client leaves.
"""

from __future__ import annotations

import errno
import functools
import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import trio

from offsetfs.common.threads import in_thread
from offsetfs.common.transports import PlainTransport
from offsetfs.kafka.broker.connections.api import Answer, Api, Client, Dispatch, Principal
from offsetfs.kafka.broker.connections.closed_peers import ClosedPeers
from offsetfs.kafka.broker.connections.codecs import Codecs, elements_of
from offsetfs.kafka.broker.connections.listeners import Listener
from offsetfs.kafka.broker.connections.read_ahead import ReadAhead
from offsetfs.kafka.broker.connections.request_limits import (
    DECODED_FACTOR,
    FREE_BYTES_MAX,
    RareLines,
    ReceiveBuffers,
    RequestLimits,
)
from offsetfs.kafka.broker.connections.response_queue import DelayedResponse, PendingResponse, ResponseQueue
from offsetfs.kafka.broker.errors import failure_response
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.tls.tls_context import TlsContext
from offsetfs.kafka.broker.tls.tls_transport import HandshakeError, ServerTlsTransport, handshake
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.messages import ApiVersion, ApiVersionsResponse, RequestHeader
from offsetfs.storage import BatchRange
from offsetfs.storage.errors import WouldBlock, counted
from offsetfs.storage.settings import printable

_log = logging.getLogger(__name__)


_RECEIVE_BYTES = 1 << 16
_SEND_BYTES = 1 << 20
_BUFFER_STEP = 1 << 17
"""Sizes of new buffers are multiples of it, so that a request that is a little larger than the one before fits, too."""
_HEAD_BYTES = 12
"""Size, API key, version and correlation id."""

INLINE_ENCODE_ELEMENTS_MAX = 2000
"""Larger responses are encoded in a thread: an element takes about a microsecond."""

WAIT_ENDS_S = 0.2
"""The time that a request that waits for other clients has when the broker ends. A Fetch is answered at once."""


class ProtocolError(Exception):
    """Bytes that no Kafka client sends, after which the connection is closed, as Kafka does."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Objects that the connections of one broker share."""

    apis: Mapping[int, Api]
    dispatch: Dispatch
    settings: ServerSettings
    limits: RequestLimits
    buffers: ReceiveBuffers
    closed_peers: ClosedPeers
    metrics: BrokerMetrics
    broken: RareLines
    """Counts connections that end because their client breaks the protocol."""


@dataclass(slots=True)
class _Call:
    """A decoded request. It never changes, but a frozen one costs each request 0.6 µs more."""

    api: Api
    version: int
    codecs: Codecs
    header: RequestHeader
    request: ProtocolMessage
    begun_s: float = 0.0


@dataclass(slots=True)
class Received:
    """A request, and the memory that it has."""

    data: memoryview
    """The request without its size."""
    reserved: int
    """Bytes of `RequestLimits`; 0 once they are released."""
    buffer: bytearray | None = None
    """The buffer of a large request, until it is released."""


class Connection:
    """Serves one client until it leaves."""

    def __init__(self, peer: socket.socket, shared: Shared, listener: Listener) -> None:
        # A socket of trio attempts each call first and then yields to the event loop even if the call succeeded. Here a
        # request waits once, before its bytes are received: a third of the time of a small request.
        self._socket = peer
        self._socket.setblocking(False)
        self._transport: PlainTransport | ServerTlsTransport = PlainTransport(self._socket)
        self._apis = shared.apis
        self._dispatch = shared.dispatch
        self._limits = shared.limits
        self._buffers = shared.buffers
        self._closed_peers = shared.closed_peers
        self._metrics = shared.metrics
        self._broken = shared.broken
        self._request_bytes_max = shared.settings.socket_request_max_bytes
        self._request_bytes_setting = "socket.request.max.bytes"
        self.listener = listener
        self.host = ""
        self._client = Client("", "", 0, until_closed=self._until_closed)
        self._ahead = bytearray()  # received, and not read yet
        self._is_draining = False
        self._is_ended = False  # one of the scopes is cancelled
        self._is_receiving = False
        self._has_waited = False  # for the client, since the response began to be sent
        self._serving = trio.CancelScope()
        self._reading = trio.CancelScope()  # of requests; delayed responses go on
        self._waiting: trio.CancelScope | None = None
        self._responses = ResponseQueue(self._send)
        self._read_ahead = ReadAhead()
        self._now = trio.current_time  # `serve` replaces it by a quicker one
        self._receiving_since = self._sending_since = math.inf
        self.arriving_bytes = self.unread_bytes = 0
        self.arriving_since = 0.0
        """See `IdleConnection`."""

    @property
    def waiting_since(self) -> float:
        """See `IdleConnection`."""
        return min(self._sending_since, self._receiving_since if self._responses.is_empty else math.inf)

    def drain(self) -> None:
        """End once the requests that have been received are answered."""
        self._is_draining = True
        if self._is_receiving and not self._has_request():
            self._is_ended = True
            self._reading.cancel()
        if self._waiting is not None:
            self._waiting.deadline = trio.current_time() + WAIT_ENDS_S

    def end(self) -> None:
        """End now. Only for a connection that is waiting for its client: a request is handled to its end."""
        self._is_ended = True
        self._serving.cancel()

    async def serve(self) -> None:
        """Answer requests until the client closes the connection or breaks the protocol."""
        try:
            # Fails for a client that has reset the connection before it was accepted.
            host, port, *_ = self._socket.getpeername()
            self.host = str(host)
            self._now = trio.lowlevel.current_clock().current_time
            self._client = Client("", f"/{self.host}", port, until_closed=self._until_closed)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _log.debug("%s: connected", self.host)
            with self._serving:
                async with trio.open_nursery() as nursery:
                    with self._reading:
                        if self.listener.tls is not None:
                            await self._begin_tls(self.listener.tls)
                        await self._serve(nursery)
        except* HandshakeError as errors:
            self._warn(f"TLS handshake failed: {errors.exceptions[0]}")
        except* (InvalidMessage, ProtocolError) as errors:
            self._warn(f"connection closed: {errors.exceptions[0]}")
        except* OSError as errors:  # the client is gone, or resets the connection
            _log.debug("%s: connection lost: %s", self.host, errors.exceptions[0])
        finally:
            _log.debug("%s: disconnected", self.host)
            self._closed_peers.forget(self._socket)
            self._transport.close()

    def _warn(self, reason: str) -> None:
        """Log why the connection ended, unless clients have caused a line of this kind a moment ago."""
        if count := self._broken.count():
            more = f" (and {counted(count - 1, 'other')} since the last line of this kind)" if count > 1 else ""
            _log.warning("%s: %s%s", self.host, reason, more)

    async def _begin_tls(self, context: TlsContext) -> None:
        """Go on with TLS. A client with a certificate has the principal of its subject. HandshakeError, OSError."""
        if self._is_draining:
            return
        self._is_receiving = True
        try:
            transport = await handshake(self._socket, context)
        finally:
            self._is_receiving = False
        self._transport = transport
        subject = transport.subject()
        if subject is not None and not self.listener.settings.protocol.has_sasl:
            name = context.settings.rules.name(subject)
            if name is None:
                raise HandshakeError(f"no rule of ssl.principal.mapping.rules applies to {printable(subject)}")
            self._client = replace(self._client, principal=Principal(name))
        _log.debug("%s: %s, %r", self.host, transport.version, self._client.principal)

    async def _serve(self, nursery: trio.Nursery) -> None:
        try:
            while (request := await self._next_request()) is not None:
                self._metrics.received_bytes += len(request.data) + 4
                try:
                    buffers = await self._answer(request, nursery)
                    if buffers is None:
                        return
                    # A client that does not read its response keeps no memory from the requests of others.
                    self._release(request)
                    if self._responses.is_empty:
                        await self._send(buffers)
                    elif buffers:
                        self._responses.add_known(b"".join(buffers))
                finally:
                    self._release(request)
        except Exception:
            await self._responses.wait_until_empty()
            raise

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _next_request(self) -> Received | None:
        """Return the next request; None when there will be none."""
        if not self._responses.is_empty:
            await self._responses.wait_for_space()
        if self._has_request():
            await trio.lowlevel.checkpoint()  # a client that pipelines must not keep others waiting
        elif self._is_draining:
            return None
        self._is_receiving = True
        try:
            request = await self._receive()
        finally:
            self._is_receiving, self._receiving_since = False, math.inf
        if request is not None and self._is_ended:  # in the pass of the event loop that has received it
            self._release(request)
            return None
        return request

    def _release(self, request: Received) -> None:
        self._limits.release(request.reserved)
        request.reserved = 0
        if request.buffer is not None:
            request.data.release()
            self._buffers.keep(request.buffer)
            request.buffer = None

    def _has_request(self) -> bool:
        """Return whether a whole request has been received."""
        return len(self._ahead) >= 4 and len(self._ahead) - 4 >= int.from_bytes(self._ahead[:4], "big")

    async def _receive(self) -> Received | None:
        """Return the next request; None when the client has closed the connection."""
        while len(self._ahead) < 4:
            if not await self._receive_ahead():
                return None
        size = int.from_bytes(self._ahead[:4], "big", signed=True)
        if not _HEAD_BYTES - 4 <= size <= self._request_bytes_max:
            possible = f"8 to {self._request_bytes_max} are possible ({self._request_bytes_setting})"
            limits = f"a request of {size} bytes; {possible}"
            raise ProtocolError(_other_protocol(self._ahead) or limits)
        while len(self._ahead) < _HEAD_BYTES:
            if not await self._receive_ahead():
                return None
        key = int.from_bytes(self._ahead[4:6], "big", signed=True)
        api = self._apis.get(key)
        reserved = size if api is not None and api.has_records else size * DECODED_FACTOR
        self._receiving_since = math.inf  # a wait for memory is not the client's
        if reserved > FREE_BYTES_MAX:
            await self._limits.reserve(reserved)
        if len(self._ahead) - 4 >= size:
            data: bytearray | None = self._received_body(size)
        else:
            self.arriving_bytes, self.arriving_since = size, trio.current_time()
            try:
                data = await self._body(size)
            except BaseException:
                self._limits.release(reserved)
                raise
            finally:
                self.arriving_bytes = 0
        if data is None:
            self._limits.release(reserved)
            return None
        is_large = size > _RECEIVE_BYTES
        return Received(memoryview(data)[:size], reserved, data if is_large else None)

    async def _body(self, size: int) -> bytearray | None:
        """Return a buffer that begins with the `size` bytes behind the size.

        None if the client has closed the connection before them.
        """
        if size > _RECEIVE_BYTES:
            return await self._large_body(size)
        while len(self._ahead) - 4 < size:
            if not await self._receive_ahead():
                return None
        return self._received_body(size)

    def _received_body(self, size: int) -> bytearray:
        """Take the body of a request of which all bytes have been received."""
        if len(self._ahead) == size + 4:
            body, self._ahead = self._ahead, bytearray()
            del body[:4]
            return body
        body = self._ahead[4 : size + 4]
        del self._ahead[: size + 4]
        return body

    async def _large_body(self, size: int) -> bytearray | None:
        """Return the body in a kept buffer. A new buffer grows with what arrives: a size alone takes no memory."""
        begin = self._ahead[4 : size + 4]
        del self._ahead[: size + 4]
        done, buffer = len(begin), self._buffers.take(size)
        if buffer is None:
            buffer = begin
        else:
            buffer[:done] = begin
        end = -(-size // _BUFFER_STEP) * _BUFFER_STEP
        while done < size:
            if done == len(buffer):
                buffer.extend(bytes(min(end - done, max(len(buffer), _RECEIVE_BYTES))))
            await self._wait_for_data()
            with memoryview(buffer) as view:
                try:
                    count = self._transport.recv_into(view[done:size])
                except BlockingIOError:
                    continue
            if not count:
                return None
            done += count
        return buffer

    async def _receive_ahead(self) -> bool:
        """Receive what has arrived; return whether the connection is still open."""
        while True:
            await self._wait_for_data()
            try:
                data = self._transport.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                continue
            self._ahead += data
            return bool(data)

    async def _wait_for_data(self) -> None:
        self._receiving_since = self._now()
        await self._transport.wait_readable()

    async def _answer(self, received: Received, nursery: trio.Nursery) -> list[Any] | None:
        """Return the buffers of the response to a request, its size included; [] if there is none, or not yet.

        None if the client left, or the broker ends, while the request waited for other clients.
        """
        data = received.data
        key, version = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:4], "big", signed=True)
        api = self._apis.get(key)
        if api is None or not api.overlaps:
            await self._responses.wait_until_empty()
        if api is None or not api.first <= version <= api.last:
            if api is not None and api.offers_versions:
                return self._unsupported_api_versions(api, data)
            raise ProtocolError(f"API {key} in version {version}, which was not offered")
        codecs = api.codecs(version)
        is_large = received.reserved > FREE_BYTES_MAX and not api.writes_log
        await self._limits.begin(is_large=is_large)
        begun_s = 0.0
        try:
            if is_large:
                begun_s = trio.current_time()
                self._check_peer()
            call = _Call(api, version, codecs, *await codecs.decoded(data))
            answer = None if api.may_wait else await self._handled(call)
            if is_large:
                await self._limits.pause(begun_s)
        except BaseException:
            self._limits.end(is_large=is_large)
            raise
        if isinstance(answer, DelayedResponse):
            self._delay(received, call, answer, nursery)
            return []
        self._limits.end(is_large=is_large)
        if answer is not None:
            return answer
        # What waits keeps no memory from others: as Kafka, which counts a request until it is decoded.
        self._release(received)
        if api.waits_itself:
            return _known(await self._handled(call)) or None
        with self._until_closed():
            return _known(await self._handled(call))
        if not self._is_draining:
            return None
        # Members of a group look for a coordinator and join again.
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return codecs.framed(call.header, failure_response(call.request, version, code))

    @contextmanager
    def _until_closed(self) -> Iterator[trio.CancelScope]:
        """See `UntilClosed`."""
        with self._closed_peers.until_closed(self._socket) as scope:
            self._waiting = scope
            if self._is_draining:
                scope.deadline = trio.current_time() + WAIT_ENDS_S
            try:
                yield scope
            finally:
                self._waiting = None

    def _check_peer(self) -> None:
        """OSError if the client has reset the connection: its requests can still be read, and would take time."""
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))

    def _handle(self, call: _Call) -> Awaitable[Answer]:
        client_id = call.header.client_id or ""
        if client_id != self._client.client_id:
            self._client = replace(self._client, client_id=client_id)
        _log.debug("%s: %s v%d of %r, %r", self.host, call.api.name, call.version, client_id, self._client.principal)
        call.begun_s = call.api.counts.begin()
        return self._dispatch(call.api, call.request, call.version, self._client)

    async def _handled(
        self, call: _Call, wait: Callable[[], Awaitable[Answer]] | None = None
    ) -> list[Any] | DelayedResponse:
        """Return the buffers of the response, for which `wait` waits if it is delayed.

        After a bug of the handler, they have UNKNOWN_SERVER_ERROR.
        """
        api, version = call.api, call.version
        try:
            try:
                response = await (self._handle(call) if wait is None else wait())
            except Exception:
                api.counts.fail()
                raise
            if isinstance(response, DelayedResponse):
                return response
            api.counts.end(response, call.begun_s)
            if response is None:
                return []
            count = _partition_count(response) if call.codecs.has_ranges else elements_of(response)
            if count > INLINE_ENCODE_ELEMENTS_MAX:
                return await in_thread(functools.partial(call.codecs.framed, call.header, response))
            return call.codecs.framed(call.header, response)
        except ProtocolError:
            raise
        except Exception:
            failure = failure_response(call.request, version)
            if failure is None:  # the client learns of an error without a response by the end of the connection
                raise
            _log.exception("%sRequest of version %d from %s failed", api.name, version, self.host)
            return call.codecs.framed(call.header, failure)

    def _delay(self, received: Received, call: _Call, delayed: DelayedResponse, nursery: trio.Nursery) -> None:
        """Answer in a task of its own. The request counts for `queued.max.requests` until then."""
        size = DECODED_FACTOR * (len(received.data) - delayed.freed_bytes)
        reserved = 0
        if size > FREE_BYTES_MAX:  # the rest of a small one needs no reservation
            reserved, received.reserved = received.reserved, 0
        nursery.start_soon(self._respond, call, delayed, self._responses.add(size), reserved)

    async def _respond(self, call: _Call, delayed: DelayedResponse, pending: PendingResponse, reserved: int) -> None:
        try:
            try:
                buffers = _known(await self._handled(call, delayed.wait))
            finally:
                self._limits.end()
            await self._responses.complete(pending, b"".join(buffers))
        finally:
            self._limits.release(reserved)
        if self._receiving_since < math.inf:  # the client is idle from now on
            self._receiving_since = trio.current_time()

    def _unsupported_api_versions(self, api: Api, data: memoryview) -> list[Any]:
        """Answer as KIP-511 says: version 0, error 35, and what is supported."""
        header = RequestHeader(correlation_id=int.from_bytes(data[4:8], "big", signed=True))
        keys = [ApiVersion(offered.key, offered.first, offered.last) for offered in self._apis.values()]
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
        return api.codecs(0).framed(header, response)

    # --- responses ---------------------------------------------------------------------------------------------------

    async def _send(self, buffers: list[Any]) -> None:
        """Send buffers and ranges of files."""
        self._has_waited = False
        if len(buffers) == 1 and not isinstance(buffers[0], BatchRange):
            await self._send_all(buffers[0])
            self._metrics.sent_bytes += len(buffers[0])
            return
        # Corked, a response ends with a packet of its own only: each packet may wake the client, and it takes the core.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        has_sent = False
        for buffer in buffers:
            if not isinstance(buffer, BatchRange):
                await self._send_all(buffer)
                self._metrics.sent_bytes += len(buffer)
                continue
            if has_sent:  # a response of many ranges must not keep others waiting
                await trio.lowlevel.checkpoint()
            has_sent = True
            await self._send_file(buffer)
            self._metrics.sent_bytes += buffer.size
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        if self._read_ahead.is_active:
            for buffer in buffers:
                if isinstance(buffer, BatchRange):
                    await self._read_ahead.sent(buffer)

    async def _send_all(self, data: bytes | bytearray) -> None:
        sent = 0
        while sent < len(data):
            try:
                sent += self._transport.send(memoryview(data)[sent:] if sent else data)
            except BlockingIOError:
                await self._wait_until_read(len(data) - sent)

    async def _wait_until_read(self, size: int) -> None:
        """Wait for the client, which leaves `size` bytes in memory meanwhile."""
        self._has_waited, self.unread_bytes = True, size
        self._sending_since = trio.current_time()
        await self._transport.wait_writable()
        self._sending_since, self.unread_bytes = math.inf, 0

    async def _send_file(self, part: BatchRange) -> None:
        position, left, loaded_to, is_loaded = part.position, part.size, part.position, False
        while left:
            if position >= loaded_to:
                loaded_to, is_loaded = position + min(left, _SEND_BYTES), False
                if self._transport.waits_for_disk:
                    # What has just been read is in the page cache, unless the client was slow since.
                    read_to = position if self._has_waited else max(position, part.read_to)
                    if read_to < loaded_to:
                        await self._read_ahead.load(part, read_to, loaded_to)
            try:
                count = await self._transport.send_file(part.file, position, loaded_to - position, nowait=not is_loaded)
            except WouldBlock:
                await self._read_ahead.load(part, position, loaded_to)
                is_loaded = True
                continue
            except BlockingIOError:
                await self._wait_until_read(self._transport.held_bytes)
                continue
            if not count:  # the file was truncated since the range was taken
                _log.error("%s ends at byte %d, inside a response: connection closed", part.file.path, position)
                raise OSError(errno.EIO, f"{part.file.path} ends at byte {position}", os.fspath(part.file.path))
            position, left = position + count, left - count


def _partition_count(response: Any) -> int:
    """Return the partitions of a response to Fetch: quicker than `elements_of`."""
    return sum(len(topic.partitions) for topic in response.responses)


def _known(answer: list[Any] | DelayedResponse) -> list[Any]:
    """Return a response that waits for nothing more."""
    assert not isinstance(answer, DelayedResponse)
    return answer


def _other_protocol(data: bytearray) -> str | None:
    """Return what the first bytes of a connection are if they are no request of Kafka; None if that is not known."""
    if data.startswith(b"\x16\x03"):
        return "a TLS handshake; the client needs security.protocol=PLAINTEXT, or the port of a listener with TLS"
    if data.startswith((b"GET ", b"HEAD", b"POST", b"PUT ")):
        return "an HTTP request; this is a port for Kafka clients (metrics have one of their own: --metrics)"
    return None
