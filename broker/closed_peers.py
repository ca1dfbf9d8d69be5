"""Notices clients that leave while their request waits, also if they have sent further requests.

The sockets of all waiting requests are in one epoll object that reports only the end of the peer (EPOLLRDHUP): data
that has arrived, such as the next request of a client that pipelines, does not hide it.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class ClosedPeers:
    """The waiting requests of one broker."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._scopes: dict[int, trio.CancelScope] = {}

    @contextmanager
    def until_closed(self, peer: socket.socket) -> Iterator[trio.CancelScope]:
        """Cancel the body when the peer closes the connection."""
        fd = peer.fileno()
        with trio.CancelScope() as scope:
            self._scopes[fd] = scope
            self._epoll.register(fd, select.EPOLLRDHUP)
            try:
                yield scope
            finally:
                if self._scopes.pop(fd, None) is not None:
                    self._epoll.unregister(fd)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for fd, _ in self._epoll.poll(0):
                self._epoll.unregister(fd)
                self._scopes.pop(fd).cancel()

    def close(self) -> None:
        self._epoll.close()
