"""Ends the connections of clients that neither send nor read for too long.

The limit is `connections.max.idle.ms`. It is `STALL_S` for a client that has sent a part of a request while other
requests wait for the memory that this one has been granted. Then a request that arrives slowly has a limit, too:
`STALL_S` and what its bytes take at `ARRIVAL_BYTES_PER_S`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from typing import Protocol

import trio

from offsetfs.broker.request_limits import RequestLimits

_log = logging.getLogger(__name__)

STALL_S = 10.0
ARRIVAL_BYTES_PER_S = 1 << 20
_CHECK_INTERVAL_S = 1.0


class IdleConnection(Protocol):
    """A connection, as far as this module needs it."""

    host: str
    arriving_bytes: int
    """The size of a request that has begun to arrive and has been granted its memory; 0 if there is none."""

    arriving_since: float
    """Since when, if there is one."""

    @property
    def waiting_since(self) -> float:
        """Since when it has been waiting for its client; infinite while the broker works for the client."""

    def end(self) -> None:
        """End the connection, which is waiting for its client."""


async def end_idle_connections(connections: Collection[IdleConnection], idle_s: float) -> None:
    """Watch `connections`, which may change meanwhile, until cancelled.

    One task for all of them: a deadline of its own would cost each connection more than the parsing of a small request,
    whenever the client sends something.
    """
    while idle_s < math.inf:
        now_s = trio.current_time()
        for each in [each for each in connections if each.waiting_since + idle_s <= now_s]:
            each.end()
        # Connections that are not waiting now will have waited for `idle_s` later than this.
        due_s = min((each.waiting_since for each in connections), default=math.inf) + idle_s
        await trio.sleep_until(min(due_s, now_s + idle_s))


async def end_stalled_requests(connections: Collection[IdleConnection], limits: RequestLimits) -> None:
    """Watch `connections`, which may change meanwhile, until cancelled.

    The first bytes of a few large requests would otherwise keep all others waiting for `connections.max.idle.ms`.
    """
    while True:
        await limits.contended()
        now_s = trio.current_time()
        for each in [each for each in connections if _is_stalled(each, now_s)]:
            _log.warning(
                "%s: connection closed: a request of %d bytes has stopped arriving, and others wait for its memory "
                "(queued.max.request.bytes)",
                each.host,
                each.arriving_bytes,
            )
            each.end()
        await trio.sleep(_CHECK_INTERVAL_S)


def _is_stalled(connection: IdleConnection, now_s: float) -> bool:
    size, waiting_since = connection.arriving_bytes, connection.waiting_since
    if not size or waiting_since == math.inf:
        return False
    return min(waiting_since, connection.arriving_since + size / ARRIVAL_BYTES_PER_S) + STALL_S <= now_s
