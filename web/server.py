"""The page of a process: its socket, its token, and the API behind it.

The same for `offsetfs web`, for a mount (`-o web=`) and for `offsetfs serve --web`, beside whose work it runs.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Collection

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.web.access import Access, new_token
from offsetfs.web.api import HEADERS, WebApi
from offsetfs.web.http_server import serve_http
from offsetfs.web.record_views import RecordsOf

THREADS_END_S = 2.0
"""How long the end of the page waits for threads that read logs: the logs are closed next."""
_BACKLOG = 128
_ALL = ("0.0.0.0", "::")
"""The addresses that stand for all of this machine."""


def opened_socket(address: Address) -> socket.socket:
    """Return a listening socket; OSError."""
    made = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


class PageServer:
    """A listening page. Browsers wait until it runs."""

    def __init__(
        self, listening: socket.socket, *, names: Collection[str] = (), context: ssl.SSLContext | None = None
    ) -> None:
        """`names`: as of `Access`; one of them is in the address that is printed. `context`: for https."""
        self._socket, self._context = listening, context
        host, port = listening.getsockname()[:2]
        if host in _ALL and not names:
            names = [socket.getfqdn()]
        token = new_token()
        self._access = Access(token, port, names=names, is_tls=context is not None)
        scheme = "http" if context is None else "https"
        self.address: Address = host, port
        self.url = f"{scheme}://{address_text((next(iter(names), host), port))}/?token={token}"
        """The address to open, with the token."""

    async def run(self, records: RecordsOf) -> None:
        """Answer browsers until cancelled. No thread reads the logs then, unless a question ignores its end."""
        self._socket.setblocking(False)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        api = WebApi(records, self._access)
        try:
            await serve_http(api.handle, listener, self._context, HEADERS)
        finally:
            with trio.move_on_after(THREADS_END_S, shield=True):
                await api.threads_ended()

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._socket.close()


def run_web(page: PageServer, records: RecordsOf, ready: Callable[[str], None]) -> None:
    """Serve a page until SIGINT or SIGTERM. `ready` gets its address with the token."""
    trio.run(_run, page, records, ready)


async def _run(page: PageServer, records: RecordsOf, ready: Callable[[str], None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(page.run, records)
            ready(page.url)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break
    page.close()
