"""Notices clients that leave while their request waits, also if they have sent further requests.

The sockets of all clients whose requests may wait are in one epoll object that reports only the end of the peer
(EPOLLRDHUP): data that has arrived, such as the next request of a client that pipelines, does not hide it. A socket is
added with its first waiting request and stays: two system calls fewer for each Fetch.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class ClosedPeers:
    """The connections of one broker whose requests may wait."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._scopes: dict[int, trio.CancelScope | None] = {}
        """The waiting request of each connection that is watched, by descriptor."""
        self._closed: set[int] = set()

    @contextmanager
    def until_closed(self, peer: socket.socket) -> Iterator[trio.CancelScope]:
        """Cancel the body when the peer closes the connection. Call `forget` before the socket is closed."""
        fd = peer.fileno()
        with trio.CancelScope() as scope:
            if fd in self._closed:
                scope.cancel()
            elif fd not in self._scopes:
                self._epoll.register(fd, select.EPOLLRDHUP)
            self._scopes[fd] = scope
            try:
                yield scope
            finally:
                self._scopes[fd] = None

    def forget(self, peer: socket.socket) -> None:
        """Stop watching a connection, because another connection may get its descriptor."""
        fd = peer.fileno()
        if fd in self._scopes:
            del self._scopes[fd]
            if fd not in self._closed:
                self._epoll.unregister(fd)
        self._closed.discard(fd)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for fd, _ in self._epoll.poll(0):
                self._epoll.unregister(fd)
                self._closed.add(fd)
                scope = self._scopes[fd]
                if scope is not None:
                    scope.cancel()

    def close(self) -> None:
        self._epoll.close()
