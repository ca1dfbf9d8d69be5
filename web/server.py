"""The process of `offsetfs web`: its socket, its signals, its end."""

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


def run_web(
    records: RecordsOf,
    listening: socket.socket,
    ready: Callable[[str], None],
    *,
    names: Collection[str] = (),
    context: ssl.SSLContext | None = None,
) -> None:
    """Serve the page until SIGINT or SIGTERM. `ready` gets its address with the token. `names`: as of `Access`."""
    trio.run(_run, records, listening, ready, names, context)


async def _run(
    records: RecordsOf,
    listening: socket.socket,
    ready: Callable[[str], None],
    names: Collection[str],
    context: ssl.SSLContext | None,
) -> None:
    listening.setblocking(False)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
    host, port = listening.getsockname()[:2]
    if host in _ALL and not names:
        names = [socket.getfqdn()]
    token = new_token()
    api = WebApi(records, Access(token, port, names=names, is_tls=context is not None))
    shown = next(iter(names), host)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_http, api.handle, listener, context, HEADERS)
            scheme = "http" if context is None else "https"
            ready(f"{scheme}://{address_text((shown, port))}/?token={token}")
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break
    with contextlib.suppress(OSError):
        listening.close()
