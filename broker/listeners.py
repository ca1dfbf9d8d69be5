"""Listening sockets of the broker."""

from __future__ import annotations

import errno
import socket

import trio


class ListenError(OSError):
    """A listener could not be opened; the message says why."""


def listen(host: str, port: int, option: str = "--listen HOST:PORT") -> trio.socket.SocketType:
    """Return a listening socket; ListenError, which names `option` for another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise listen_error(option, host, port, error) from error
    return trio.socket.from_stdlib_socket(listener)


def listen_error(option: str, host: str, port: int, error: OSError) -> ListenError:
    """Return the error for an address that `option` gives and that cannot be used."""
    reasons = {
        errno.EADDRINUSE: f"another process listens on this port; choose one with {option}",
        errno.EADDRNOTAVAIL: "this machine does not have this address",
        errno.EACCES: "ports below 1024 need root",
    }
    return ListenError(f"{host}:{port}: {reasons.get(error.errno or 0, error.strerror or str(error))}")
