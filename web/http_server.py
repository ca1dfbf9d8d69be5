"""HTTP/1.1 on trio: connections, requests and answers with limits, by h11.

A connection has one request at a time. While it is answered, the end of the connection cancels the answer. A client
that sends or reads too slowly is disconnected; others do not wait for it.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import h11
import trio

_log = logging.getLogger(__name__)

HEADER_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 64 << 10
CONNECTIONS_MAX = 160
PARAMETERS_MAX = 100
REQUEST_S = 10.0
"""The time in which a client sends a request that it has begun."""
FIRST_S = 10.0
"""The time in which a new connection begins its first request, with the handshake of TLS: nothing is known of it."""
IDLE_S = 60.0
"""How long a connection stays open between requests."""
SEND_S = 30.0
"""The time in which a client reads what one call has sent."""
_READ_BYTES = 16 << 10
_CLOSE_S = 1.0

JSON = "application/json"

_GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""What a client raises that ends its connection, breaks TLS, or is too slow."""


class HttpError(Exception):
    """An answer that is an error: a status, and one line with cause and remedy."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}

    def answer(self) -> HttpAnswer:
        """Return the error as JSON."""
        return HttpAnswer(json.dumps({"error": self.message}).encode(), status=self.status, headers=self.headers)


StreamedBody = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Sends the parts of a body by what it is given, as they come. It is cancelled if the client ends its connection."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose body has arrived. `path` is as it was sent; each name of `query` may have several values."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = b""
    peer: str = ""
    """The address of the client."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer: its bytes, or what sends them."""

    body: bytes | StreamedBody
    content_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]
"""Answers a request; `HttpError` is answered as one."""


async def serve_http(
    handler: Handler, listener: trio.SocketListener, context: ssl.SSLContext | None, headers: Mapping[str, str]
) -> None:
    """Answer the requests of all connections until cancelled. `headers` are sent with each answer."""
    open_connections = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal open_connections
        if open_connections >= CONNECTIONS_MAX:
            stream.socket.close()
            return
        open_connections += 1
        try:
            peer = str(stream.socket.getpeername()[0])
            secured = stream if context is None else trio.SSLStream(stream, context, server_side=True)
            await _Connection(secured, handler, headers, peer).run()
        except _GONE:
            pass
        except Exception:  # of one connection; the others go on
            _log.exception("a connection failed")
        finally:
            open_connections -= 1
            with trio.move_on_after(0.1, shield=True):
                await trio.aclose_forcefully(stream)

    await trio.serve_listeners(serve, [listener])


class _Connection:
    def __init__(
        self,
        stream: trio.SocketStream | trio.SSLStream[trio.SocketStream],
        handler: Handler,
        headers: Mapping[str, str],
        peer: str,
    ) -> None:
        self._stream, self._handler, self._peer = stream, handler, peer
        self._headers = headers
        self._state = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._answering = trio.CancelScope()
        self._has_asked = False
        self._is_cut = False  # nothing more can be sent: the client would take it for the rest of an answer

    async def run(self) -> None:
        while await self._one():
            self._state.start_next_cycle()
        with trio.move_on_after(_CLOSE_S):
            await self._stream.aclose()

    async def _one(self) -> bool:
        """Answer one request; return whether another one may follow."""
        try:
            request = await self._request()
            if request is None:
                return False
            await self._answered(request)
        except h11.RemoteProtocolError as error:
            if self._state.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._send_error(HttpError(error.error_status_hint, f"not a request of HTTP/1.1: {error}"))
            return False
        except HttpError as error:  # of a request that was not read to its end
            await self._send_error(error)
            return False
        return not self._is_cut and self._state.our_state is h11.DONE and self._state.their_state is h11.DONE

    async def _request(self) -> HttpRequest | None:
        """Return the next request; None at the end of the connection."""
        head = self._state.next_event()
        if head is h11.NEED_DATA:
            with trio.fail_after(IDLE_S if self._has_asked else FIRST_S):
                self._state.receive_data(await self._received())
        with trio.fail_after(REQUEST_S):
            while head is h11.NEED_DATA:
                if (head := self._state.next_event()) is h11.NEED_DATA:
                    self._state.receive_data(await self._received())
            self._has_asked = True
            return self._made(head, await self._body()) if isinstance(head, h11.Request) else None

    async def _received(self) -> bytes:
        return bytes(await self._stream.receive_some(_READ_BYTES))

    async def _body(self) -> bytes:
        parts, size = [], 0
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                if self._state.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._state.receive_data(await self._received())
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > BODY_BYTES_MAX:
                    raise HttpError(413, f"the body of a request has at most {BODY_BYTES_MAX:,} bytes")
                parts.append(bytes(event.data))
            else:
                return b"".join(parts)

    def _made(self, head: h11.Request, body: bytes) -> HttpRequest:
        path, _, text = head.target.decode("ascii", "replace").partition("?")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="surrogateescape")
        except ValueError:
            raise HttpError(400, f"an address has at most {PARAMETERS_MAX} parameters") from None
        query: dict[str, list[str]] = {}
        for name, value in pairs:
            query.setdefault(name, []).append(value)
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        return HttpRequest(head.method.decode("ascii"), path, query, headers, body, self._peer)

    async def _answered(self, request: HttpRequest) -> None:
        """Answer; if the client ends its connection, the answer is cancelled."""
        async with trio.open_nursery() as nursery:
            self._answering = nursery.cancel_scope
            nursery.start_soon(self._watch)
            try:
                await self._send_answer(await self._handled(request), is_head=request.method == "HEAD")
            except _GONE:
                self._is_cut = True
            except Exception:  # of a stream, whose status has been sent
                _log.exception("%s %s failed", request.method, request.path)
            nursery.cancel_scope.cancel()

    async def _handled(self, request: HttpRequest) -> HttpAnswer:
        try:
            return await self._handler(request)
        except HttpError as error:
            return error.answer()
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return HttpError(500, "internal error: the log of offsetfs web has its traceback").answer()

    async def _watch(self) -> None:
        received = 0
        while received < BODY_BYTES_MAX:
            try:
                data = await self._received()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            if not data:
                self._is_cut = True
                self._answering.cancel()
                return
            received += len(data)
            self._state.receive_data(data)  # of the next request

    async def _send_error(self, error: HttpError) -> None:
        await self._send_answer(error.answer(), is_head=False, ends=True)

    async def _send_answer(self, answer: HttpAnswer, *, is_head: bool, ends: bool = False) -> None:
        headers = {"content-type": answer.content_type, **self._headers, **answer.headers}
        if isinstance(answer.body, bytes):
            headers["content-length"] = str(len(answer.body))
        if ends:
            headers["connection"] = "close"
        self._is_cut = True
        await self._send(h11.Response(status_code=answer.status, headers=[*headers.items()]))
        if isinstance(answer.body, bytes):
            if not is_head:
                await self._send(h11.Data(data=answer.body))
        else:
            await answer.body(self._send_data)
        await self._send(h11.EndOfMessage())
        self._is_cut = False

    async def _send_data(self, data: bytes) -> None:
        """Send a part of a body. If the client is gone, the answer is cancelled."""
        try:
            await self._send(h11.Data(data=data))
        except _GONE:
            self._answering.cancel()
            await trio.lowlevel.checkpoint()

    async def _send(self, event: h11.Event) -> None:
        data = self._state.send(event)
        if data:
            with trio.fail_after(SEND_S):
                await self._stream.send_all(data)
