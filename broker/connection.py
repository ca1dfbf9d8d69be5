"""One connection of a client: requests in, responses out, in order (https://kafka.apache.org/protocol).

    request     i32 size | header: i16 api key, i16 version, i32 correlation id, client id | body
    response    i32 size | header: i32 correlation id | body

Requests are answered one after the other. What the client sends meanwhile waits in the socket, except for a small
buffer: that bounds the memory of a connection to one request and one response. A request that waits for other clients
(Fetch, JoinGroup, SyncGroup) is cancelled when its client leaves.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import trio

from offsetfs.broker.closed_peers import ClosedPeers
from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.failure_responses import failure_response
from offsetfs.broker.metrics import BrokerMetrics
from offsetfs.broker.request_limits import DECODED_FACTOR, RequestLimits
from offsetfs.broker.settings import ServerSettings
from offsetfs.protocol import codec
from offsetfs.protocol.codec import InvalidMessage
from offsetfs.protocol.messages import ApiVersion, ApiVersionsResponse, RequestHeader
from offsetfs.protocol.schemas import schema
from offsetfs.storage import BatchRange

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a request, as group members are described."""

    client_id: str
    host: str


Handle = Callable[[Any, int, Client], Awaitable[Any]]
"""Takes a request, its version and its client; returns the response; None sends none."""

_API_VERSIONS = 18
_PRODUCE, _FETCH, _JOIN_GROUP, _SYNC_GROUP = 0, 1, 11, 14
_WAITING_APIS = frozenset((_FETCH, _JOIN_GROUP, _SYNC_GROUP))
"""A request may wait for other clients."""

_RECEIVE_BYTES = 1 << 16
_SEND_BYTES, _AHEAD_BYTES = 1 << 20, 4 << 20
_HEAD_BYTES = 12
"""Size, API key, version and correlation id."""

INLINE_DECODE_BYTES_MAX = 128 << 10
"""Larger requests are decoded in a thread: some ten milliseconds for many small elements."""

WAIT_ENDS_S = 0.2
"""How long a request that waits for other clients may go on when the broker ends. A Fetch is answered at once."""


@dataclass(frozen=True, slots=True)
class Api:
    """An API that the broker answers, in versions `first` to `last`."""

    key: int
    name: str
    first: int
    last: int
    handle: Handle


class ProtocolError(Exception):
    """Bytes that no Kafka client sends, after which the connection is closed, as Kafka does."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the connections of one broker share."""

    apis: Mapping[int, Api]
    settings: ServerSettings
    limits: RequestLimits
    closed_peers: ClosedPeers
    metrics: BrokerMetrics


@dataclass(frozen=True, slots=True)
class _Received:
    data: memoryview
    """The request without its size."""
    reserved: int
    """Bytes of `RequestLimits`."""


class Connection:
    """Serves one client until it leaves."""

    def __init__(self, peer: trio.socket.SocketType, shared: Shared) -> None:
        self._socket = peer
        self._apis = shared.apis
        self._limits = shared.limits
        self._closed_peers = shared.closed_peers
        self._metrics = shared.metrics
        self._request_bytes_max = shared.settings.socket_request_max_bytes
        idle_ms = shared.settings.connections_max_idle_ms
        self._idle_s = math.inf if idle_ms < 0 else idle_ms / 1000
        self._host = ""
        self._ahead = bytearray()  # received, and not read yet
        self._is_draining = False
        self._receiving: trio.CancelScope | None = None
        self._waiting: trio.CancelScope | None = None

    def drain(self) -> None:
        """End once the requests that have been received are answered."""
        self._is_draining = True
        if self._receiving is not None and not self._has_request():
            self._receiving.cancel()
        if self._waiting is not None:
            self._waiting.deadline = trio.current_time() + WAIT_ENDS_S

    async def serve(self) -> None:
        """Answer requests until the client closes the connection or breaks the protocol."""
        try:
            # Fails for a client that has reset the connection before it was accepted.
            self._host = str(self._socket.getpeername()[0])
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _log.debug("%s: connected", self._host)
            while (request := await self._next_request()) is not None:
                self._metrics.received_bytes += len(request.data) + 4
                try:
                    buffers = await self._answer(request.data)
                    if buffers is None or not await self._sent(buffers):
                        return
                    self._metrics.sent_bytes += codec.size_of(buffers)
                finally:
                    self._limits.release(request.reserved)
        except (InvalidMessage, ProtocolError) as error:
            _log.warning("connection closed: %s", error)
        except OSError as error:  # the client is gone, or resets the connection
            _log.debug("%s: connection lost: %s", self._host, error)
        finally:
            _log.debug("%s: disconnected", self._host)
            self._socket.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _next_request(self) -> _Received | None:
        """Return the next request; None when there will be none, or the client has been idle for too long."""
        if self._is_draining and not self._has_request():
            return None
        with trio.CancelScope(deadline=trio.current_time() + self._idle_s) as self._receiving:
            return await self._receive(self._receiving)
        return None

    def _has_request(self) -> bool:
        """Return whether a whole request has been received."""
        return len(self._ahead) >= 4 and len(self._ahead) - 4 >= int.from_bytes(self._ahead[:4], "big")

    async def _receive(self, idle: trio.CancelScope) -> _Received | None:
        """Return the next request; None when the client has closed the connection. Extends the deadline of `idle`."""
        while len(self._ahead) < 4:
            if not await self._receive_ahead(idle):
                return None
        size = int.from_bytes(self._ahead[:4], "big", signed=True)
        if not _HEAD_BYTES - 4 <= size <= self._request_bytes_max:
            reason = (
                f"a request of {size} bytes; 8 to {self._request_bytes_max} are possible (socket.request.max.bytes)"
            )
            raise ProtocolError(reason)
        while len(self._ahead) < _HEAD_BYTES:
            if not await self._receive_ahead(idle):
                return None
        key = int.from_bytes(self._ahead[4:6], "big", signed=True)
        reserved = size if key == _PRODUCE else size * DECODED_FACTOR
        idle.deadline = math.inf  # a wait for memory is not the client's
        await self._limits.reserve(reserved)
        try:
            data = await self._body(size, idle)
        except BaseException:
            self._limits.release(reserved)
            raise
        if data is None:
            self._limits.release(reserved)
            return None
        return _Received(memoryview(data), reserved)

    async def _body(self, size: int, idle: trio.CancelScope) -> bytearray | None:
        """Return the `size` bytes behind the size; None if the client has closed the connection before them.

        The buffer grows with what arrives, so that a size alone takes no memory.
        """
        while size <= _RECEIVE_BYTES and len(self._ahead) - 4 < size:
            if not await self._receive_ahead(idle):
                return None
        buffer = self._ahead[4 : size + 4]
        del self._ahead[: size + 4]
        done = len(buffer)
        while done < size:
            if done == len(buffer):
                buffer.extend(bytes(min(size - done, max(len(buffer), _RECEIVE_BYTES))))
            idle.deadline = trio.current_time() + self._idle_s
            with memoryview(buffer) as view:
                count = await self._socket.recv_into(view[done:])
            if not count:
                return None
            done += count
        return buffer

    async def _receive_ahead(self, idle: trio.CancelScope) -> bool:
        """Receive what has arrived; return whether the connection is still open."""
        idle.deadline = trio.current_time() + self._idle_s
        data = await self._socket.recv(_RECEIVE_BYTES)
        self._ahead += data
        return bool(data)

    async def _answer(self, data: memoryview) -> list[Any] | None:
        """Return the buffers of the response to a request, its size included; [] where the client wants none.

        None if the client left, or the broker ends, while the request waited for other clients.
        """
        key, version = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:4], "big", signed=True)
        api = self._apis.get(key)
        if api is None or not api.first <= version <= api.last:
            if key == _API_VERSIONS:
                return self._unsupported_api_versions(data)
            raise ProtocolError(f"API {key} in version {version}, which was not offered")
        await self._limits.begin()
        try:
            header, request = await self._decoded(api, version, data)
            if key not in _WAITING_APIS:
                return await self._handled(api, version, header, request)
        finally:
            self._limits.end()
        with self._closed_peers.until_closed(self._socket) as self._waiting:
            if self._is_draining:
                self._waiting.deadline = trio.current_time() + WAIT_ENDS_S
            return await self._handled(api, version, header, request)
        if not self._is_draining or api.key == _FETCH:
            return None
        # Members of a group look for a coordinator and join again.
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._framed(api, version, header, failure_response(api.name, request, version, code))

    async def _decoded(self, api: Api, version: int, data: memoryview) -> tuple[RequestHeader, Any]:
        name = f"{api.name}Request"
        is_flexible = version >= schema(name).layout(version).flexible
        header, position = codec.reader("RequestHeader", 2 if is_flexible else 1)(data, 0)
        read = codec.reader(name, version)
        # Bytes after the request are ignored, as Kafka does: librdkafka 2.16 adds three to Metadata v13 of all topics.
        if len(data) <= INLINE_DECODE_BYTES_MAX or api.key == _PRODUCE:
            request, _ = read(data, position)
        else:
            request, _ = await trio.to_thread.run_sync(read, data, position)
        return header, request

    async def _handled(self, api: Api, version: int, header: RequestHeader, request: Any) -> list[Any]:
        """Return the buffers of the response; after a bug of the handler, one with UNKNOWN_SERVER_ERROR."""
        client = Client(header.client_id or "", f"/{self._host}")
        _log.debug("%s: %s v%d of %r", self._host, api.name, version, client.client_id)
        try:
            response = await api.handle(request, version, client)
            return [] if response is None else self._framed(api, version, header, response)
        except ProtocolError:
            raise
        except Exception:
            failure = failure_response(api.name, request, version)
            if failure is None:  # the client learns of an error without a response by the end of the connection
                raise
            _log.exception("%sRequest of version %d from %s failed", api.name, version, self._host)
            return self._framed(api, version, header, failure)

    @staticmethod
    def _framed(api: Api, version: int, header: RequestHeader, response: Any) -> list[Any]:
        is_flexible = version >= schema(f"{api.name}Request").layout(version).flexible
        has_tags = is_flexible and api.key != _API_VERSIONS  # KIP-511: clients read it before they know what we support
        return _framed(header, has_tags, codec.writer(f"{api.name}Response", version)(response))

    def _unsupported_api_versions(self, data: memoryview) -> list[Any]:
        """Answer as KIP-511 says: version 0, error 35, and what is supported."""
        header = RequestHeader(correlation_id=int.from_bytes(data[4:8], "big", signed=True))
        keys = [ApiVersion(api.key, api.first, api.last) for api in self._apis.values()]
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
        return _framed(header, False, codec.writer("ApiVersionsResponse", 0)(response))

    # --- responses ---------------------------------------------------------------------------------------------------

    async def _sent(self, buffers: list[Any]) -> bool:
        """Send buffers and ranges of files, small ones together; return False if the client reads nothing."""
        pending = bytearray()
        with trio.CancelScope(deadline=trio.current_time() + self._idle_s) as idle:
            for each in buffers:
                if isinstance(each, BatchRange):
                    await self._send_all(pending, idle)
                    pending = bytearray()
                    await self._send_file(each, idle)
                else:
                    pending += each
            await self._send_all(pending, idle)
        return not idle.cancelled_caught

    async def _send_all(self, data: bytearray, idle: trio.CancelScope) -> None:
        view = memoryview(data)
        while view:
            view = view[await self._socket.send(view) :]
            if view:
                idle.deadline = trio.current_time() + self._idle_s

    async def _send_file(self, part: BatchRange, idle: trio.CancelScope) -> None:
        position, left, cached_to = part.position, part.size, part.position
        while left:
            if position >= cached_to:
                cached_to = position + min(left, _SEND_BYTES)
                await _load(part, position, cached_to)
            try:
                count = part.file.send(self._socket.fileno(), position, cached_to - position)
            except BlockingIOError:
                idle.deadline = trio.current_time() + self._idle_s
                await trio.lowlevel.wait_writable(self._socket)
                continue
            if not count:  # the file was truncated since the range was taken
                _log.error("%s ends at byte %d, inside a response: connection closed", part.file.path, position)
                raise OSError(errno.EIO, f"{part.file.path} ends at byte {position}", os.fspath(part.file.path))
            position, left = position + count, left - count
        await trio.lowlevel.checkpoint()


async def _load(part: BatchRange, position: int, end: int) -> None:
    """Load a part of a range into the page cache: sendfile(2) waits for the disk, and with it every other client."""
    if not part.file.is_cached(position, end - position):
        ahead = min(part.position + part.size - end, _AHEAD_BYTES)
        with trio.CancelScope(shield=True):  # the file must stay open until the thread has ended
            await trio.to_thread.run_sync(part.file.load, position, end - position, ahead)


def _framed(header: RequestHeader, has_tags: bool, body: list[Any]) -> list[Any]:
    head = header.correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if has_tags else b"")
    with contextlib.suppress(TypeError):  # ranges of files
        # Some twenty buffers of a few bytes, which would be counted and copied one by one.
        body = [b"".join(body)]
    size = len(head) + codec.size_of(body)
    return [size.to_bytes(4, "big") + head, *body]
