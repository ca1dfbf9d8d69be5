"""One connection of a client: requests in, responses out, in order (https://kafka.apache.org/protocol).

    request     i32 size | header: i16 api key, i16 version, i32 correlation id, client id | body
    response    i32 size | header: i32 correlation id | body

The next request is read when the one before was answered: what the client sends meanwhile waits in the socket, which
bounds the memory of a connection to one request and one response. While a request waits (Fetch), the socket is watched:
if the client leaves, the request is cancelled.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import trio

from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.failure_responses import failure_response
from offsetfs.broker.metrics import BrokerMetrics
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

SMALL_REQUEST_BYTES_MAX = 8 << 20
"""The largest request other than Produce: decoded, it takes about a hundred times its bytes."""

_API_VERSIONS = 18
_PRODUCE = 0
_RECEIVE_BYTES = 1 << 18
_SEND_BYTES, _AHEAD_BYTES = 1 << 20, 4 << 20


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


class Connection:
    """Serves one client until it leaves."""

    def __init__(
        self, peer: trio.socket.SocketType, apis: Mapping[int, Api], request_bytes_max: int, metrics: BrokerMetrics
    ) -> None:
        self._socket = peer
        self._apis = apis
        self._request_bytes_max = request_bytes_max
        self._metrics = metrics
        self._host = ""
        self._is_draining = False
        self._idle: trio.CancelScope | None = None  # while no request has arrived

    def drain(self) -> None:
        """End once the request that is being answered has been answered."""
        self._is_draining = True
        if self._idle is not None:
            self._idle.cancel()

    async def serve(self) -> None:
        """Answer requests until the client closes the connection or breaks the protocol."""
        try:
            # Fails for a client that has reset the connection before it was accepted.
            self._host = str(self._socket.getpeername()[0])
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := await self._next_request()) is not None:
                self._idle = None
                self._metrics.received_bytes += len(request) + 4
                buffers = await self._watched(request)
                if buffers is None:
                    return
                await self._send(buffers)
                self._metrics.sent_bytes += codec.size_of(buffers)
        except (InvalidMessage, ProtocolError) as error:
            _log.warning("connection closed: %s", error)
        except OSError as error:  # the client is gone, or resets the connection
            _log.debug("connection ended: %s", error)
        finally:
            self._socket.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _next_request(self) -> memoryview | None:
        """Return the next request; None when there will be none."""
        if self._is_draining:
            return None
        with trio.CancelScope() as self._idle:
            return await self._receive()
        return None

    async def _receive(self) -> memoryview | None:
        """Return the next request without its size; None when the client has closed the connection."""
        head = await self._exactly(4)
        if head is None:
            return None
        size = int.from_bytes(head, "big", signed=True)
        if not 8 <= size <= self._request_bytes_max:
            reason = (
                f"a request of {size} bytes; 8 to {self._request_bytes_max} are possible (socket.request.max.bytes)"
            )
            raise ProtocolError(reason)
        start = await self._exactly(8)
        if start is None:
            return None
        key = int.from_bytes(start[:2], "big", signed=True)
        if key != _PRODUCE and size > SMALL_REQUEST_BYTES_MAX:
            raise ProtocolError(
                f"a request of {size} bytes for API {key}; at most {SMALL_REQUEST_BYTES_MAX} are possible"
            )
        rest = await self._exactly(size - 8)
        return None if rest is None else memoryview(start + rest)

    async def _exactly(self, size: int) -> bytearray | None:
        """Return `size` bytes; None if the client has closed the connection before them.

        The buffer grows with what arrives, so that a size alone reserves no memory.
        """
        buffer, done = bytearray(min(size, _RECEIVE_BYTES)), 0
        while done < size:
            if done == len(buffer):
                buffer.extend(bytes(min(size - done, max(len(buffer), _RECEIVE_BYTES))))
            with memoryview(buffer) as view:
                count = await self._socket.recv_into(view[done:])
            if not count:
                return None
            done += count
        return buffer

    async def _watched(self, request: memoryview) -> list[Any] | None:
        """Return the response; None if the client left before it was ready."""
        buffers: list[Any] | None = None
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await trio.lowlevel.wait_readable(self._socket)
                if not await self._peek():
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                buffers = await self._answer(request)
            except Exception as error:  # raised below: a nursery would put it into a group
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return buffers

    async def _peek(self) -> bool:
        try:
            return bool(await self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    async def _answer(self, data: memoryview) -> list[Any]:
        """Return the buffers of the response to a request, its size included; [] where the client wants none."""
        key, version = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:4], "big", signed=True)
        api = self._apis.get(key)
        if api is None or not api.first <= version <= api.last:
            if key == _API_VERSIONS:
                return self._unsupported_api_versions(data)
            raise ProtocolError(f"API {key} in version {version}, which was not offered")
        request_name, response_name = f"{api.name}Request", f"{api.name}Response"
        is_flexible = version >= schema(request_name).layout(version).flexible
        header, position = codec.reader("RequestHeader", 2 if is_flexible else 1)(data, 0)
        # Bytes after the request are ignored, as Kafka does: librdkafka 2.16 adds three to Metadata v13 of all topics.
        request, _ = codec.reader(request_name, version)(data, position)
        client = Client(header.client_id or "", f"/{self._host}")
        has_tags = is_flexible and key != _API_VERSIONS  # KIP-511: clients read it before they know what we support
        write = codec.writer(response_name, version)
        try:
            response = await api.handle(request, version, client)
            return [] if response is None else _framed(header, has_tags, write(response))
        except Exception:
            failure = failure_response(api.name, request, version)
            if failure is None:
                raise
            _log.exception("%s of version %d from %s failed", request_name, version, self._host)
            return _framed(header, has_tags, write(failure))

    def _unsupported_api_versions(self, data: memoryview) -> list[Any]:
        """Answer as KIP-511 says: version 0, error 35, and what is supported."""
        header = RequestHeader(correlation_id=int.from_bytes(data[4:8], "big", signed=True))
        keys = [ApiVersion(api.key, api.first, api.last) for api in self._apis.values()]
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
        return _framed(header, False, codec.writer("ApiVersionsResponse", 0)(response))

    # --- responses ---------------------------------------------------------------------------------------------------

    async def _send(self, buffers: list[Any]) -> None:
        """Send buffers and ranges of files, small ones together."""
        pending = bytearray()
        for each in buffers:
            if isinstance(each, BatchRange):
                await self._send_all(pending)
                pending = bytearray()
                await self._send_file(each)
            else:
                pending += each
        await self._send_all(pending)

    async def _send_all(self, data: bytearray) -> None:
        view = memoryview(data)
        while view:
            view = view[await self._socket.send(view) :]

    async def _send_file(self, part: BatchRange) -> None:
        position, left, cached_to = part.position, part.size, part.position
        while left:
            if position >= cached_to:
                cached_to = position + min(left, _SEND_BYTES)
                await _load(part, position, cached_to)
            try:
                count = part.file.send(self._socket.fileno(), position, cached_to - position)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
                continue
            if not count:  # the file was truncated since the range was taken
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
    size = len(head) + codec.size_of(body)
    return [size.to_bytes(4, "big") + head, *body]
