"""Ends the connections of clients that neither send nor read for too long (`connections.max.idle.ms`)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Protocol

import trio


class IdleConnection(Protocol):
    """A connection, as far as this module needs it."""

    waiting_since: float
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
