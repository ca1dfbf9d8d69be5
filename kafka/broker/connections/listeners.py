"""Listeners of the broker: their sockets, and the addresses that their clients get.

A listener has its port from its creation on, before logs are recovered. Connections are refused until `listen`.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable
from contextvars import ContextVar

from offsetfs.common.addresses import Address, Endpoint
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.tls.tls_context import TlsContext

_BACKLOG = 1024

ADVERTISED: ContextVar[Address] = ContextVar("ADVERTISED")
"""The address that the client of the current task is given: that of the listener to which it has connected."""


class ListenError(OSError):
    """A listener could not be opened; the message says why."""


class Listener:
    """A listener on one address."""

    def __init__(self, settings: ListenerSettings, option: str) -> None:
        """ListenError, which names `option` for another port; InvalidConfig for a file of TLS."""
        address = settings.address
        self.settings = settings
        self.tls = TlsContext(settings.tls) if settings.tls is not None else None
        self._option = option
        self._socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
        except OSError as error:
            self._socket.close()
            raise listen_error(option, *address, error) from error
        self.address: Address = self._socket.getsockname()[:2]
        """Address and port; the port that the system has chosen instead of 0."""

    @property
    def endpoint(self) -> Endpoint:
        """Its name and its address."""
        return Endpoint(self.settings.name, self.address)

    @property
    def advertised(self) -> Address:
        """The address for clients: the name of this machine for a listener on all addresses."""
        if self.settings.advertised is not None:
            return self.settings.advertised
        host, port = self.address
        return (socket.getfqdn() if host in ("0.0.0.0", "::") else host), port

    def listen(self) -> socket.socket:
        """Let clients connect; return the socket, which does not block. ListenError. Further calls return it again."""
        try:
            self._socket.listen(_BACKLOG)
        except OSError as error:  # another process was given the port meanwhile
            raise listen_error(self._option, *self.address, error) from error
        self._socket.setblocking(False)
        return self._socket

    def close(self) -> None:
        """Close the socket, unless the broker that accepts from it has done so."""
        self._socket.close()


def open_listeners(settings: Iterable[ListenerSettings], option: str) -> list[Listener]:
    """Return the listeners with these settings; ListenError."""
    listeners: list[Listener] = []
    with contextlib.ExitStack() as opened:
        for listener_settings in settings:
            listener = Listener(listener_settings, option)
            opened.callback(listener.close)
            listeners.append(listener)
        opened.pop_all()
    return listeners


def listen_error(option: str, host: str, port: int, error: OSError) -> ListenError:
    """Return the error for an address that `option` gives and that cannot be used."""
    reasons = {
        errno.EADDRINUSE: f"another process listens on this port; choose one with {option}",
        errno.EADDRNOTAVAIL: f"this machine does not have this address; choose one with {option}",
        errno.EACCES: f"ports below 1024 need root; choose a higher one with {option}",
    }
    return ListenError(f"{host}:{port}: {reasons.get(error.errno or 0, error.strerror or str(error))}")
