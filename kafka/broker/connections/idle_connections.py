"""Ends the connections of clients that neither send nor read for too long.

The limit is `connections.max.idle.ms`. It is `STALL_S` for a client that has sent a part of a request while other
requests wait for the memory that this one has been granted. Then a request that arrives slowly has a limit, too:
`STALL_S` and what its bytes take at `ARRIVAL_BYTES_PER_S`. It is `UNREAD_S` for clients that do not read their
responses, as long as these take more memory than they may.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from typing import Protocol

import trio

from offsetfs.kafka.broker.connections.request_limits import RequestLimits

_log = logging.getLogger(__name__)

STALL_S = 10.0
ARRIVAL_BYTES_PER_S = 1 << 20
UNREAD_S = 1.0
_CHECK_INTERVAL_S = 1.0


class IdleConnection(Protocol):
    """A connection, as far as this module needs it."""

    host: str
    arriving_bytes: int
    """The size of a request that has begun to arrive and has been granted its memory; 0 if there is none."""

    arriving_since: float
    """The time since which it arrives, if there is one."""

    unread_bytes: int
    """Bytes of a response that are in memory because the client does not read."""

    @property
    def waiting_since(self) -> float:
        """The time since which it waits for its client; infinite while the broker works for the client."""

    def end(self) -> None:
        """End the connection, which is waiting for its client."""


async def end_idle_connections(connections: Collection[IdleConnection], idle_s: float) -> None:
    """Watch `connections`, which may change meanwhile, until cancelled.

    One task for all of them: a deadline of its own would cost each connection more than the parsing of a small request,
    whenever the client sends something.
    """
    while idle_s < math.inf:
        now_s = trio.current_time()
        for connection in [connection for connection in connections if connection.waiting_since + idle_s <= now_s]:
            connection.end()
        # Connections that are not waiting now will have waited for `idle_s` later than this.
        due_s = min((connection.waiting_since for connection in connections), default=math.inf) + idle_s
        await trio.sleep_until(min(due_s, now_s + idle_s))


async def end_stalled_requests(connections: Collection[IdleConnection], limits: RequestLimits) -> None:
    """Watch `connections`, which may change meanwhile, until cancelled.

    The first bytes of a few large requests would otherwise keep all others waiting for `connections.max.idle.ms`.
    """
    while True:
        await limits.contended()
        now_s = trio.current_time()
        for connection in [connection for connection in connections if _is_stalled(connection, now_s)]:
            _log.warning(
                "%s: connection closed: a request of %d bytes has stopped arriving, and others wait for its memory "
                "(queued.max.request.bytes)",
                connection.host,
                connection.arriving_bytes,
            )
            connection.end()
        await trio.sleep(_CHECK_INTERVAL_S)


def _is_stalled(connection: IdleConnection, now_s: float) -> bool:
    size, waiting_since = connection.arriving_bytes, connection.waiting_since
    if not size or waiting_since == math.inf:
        return False
    return min(waiting_since, connection.arriving_since + size / ARRIVAL_BYTES_PER_S) + STALL_S <= now_s


async def end_unread_responses(connections: Collection[IdleConnection], bytes_max: int) -> None:
    """Watch `connections`, which may change meanwhile, until cancelled: their unread responses take `bytes_max` bytes.

    A small request may have a large response, so that many clients that read nothing would fill the memory.
    """
    while True:
        await trio.sleep(_CHECK_INTERVAL_S)
        excess = sum(connection.unread_bytes for connection in connections) - bytes_max
        if excess > 0:
            _end_longest(connections, excess)


def _end_longest(connections: Collection[IdleConnection], excess: int) -> None:
    """End those that have not read for the longest time, until `excess` bytes are free."""
    until_s = trio.current_time() - UNREAD_S
    waiting = [
        connection for connection in connections if connection.unread_bytes and connection.waiting_since <= until_s
    ]
    for connection in sorted(waiting, key=lambda connection: connection.waiting_since):
        if excess <= 0:
            break
        excess -= connection.unread_bytes
        _log.warning(
            "%s: connection closed: the client does not read a response, of which %d bytes are left, and unread "
            "responses take more than a quarter of queued.max.request.bytes",
            connection.host,
            connection.unread_bytes,
        )
        connection.end()
