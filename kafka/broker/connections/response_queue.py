"""The responses of one connection whose requests overlap: sent in the order of the requests, small ones together.

    requests     1 appended ─────────► 2 appended ─► 3 appended
    syncs              └ waits ──────────────► 1 │ 2, 3 wait ─────► 2, 3
    responses                                  1 ► sent            2, 3 ► sent

A handler returns a `DelayedResponse` when its request has taken effect and only the response has to wait for the disk.
The connection then reads on. Further requests of the same kind are handled meanwhile, others when the queue is empty.
Bounded, so that a client that does not read its responses takes little memory: a full queue stops the connection.
Kafka keeps these responses in its DelayedProduce purgatory, but handles one request of a connection at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import trio

RESPONSES_MAX = 32
BYTES_MAX = 64 << 10
"""Limits of a queue. The one response that reaches them is still accepted."""


@dataclass(frozen=True, slots=True)
class DelayedResponse:
    """The response to a request that has taken effect; `wait` returns it, and may be awaited beside later requests."""

    wait: Callable[[], Awaitable[Any]]
    freed_bytes: int
    """Bytes of the request that are no longer needed."""


class PendingResponse:
    """A response in the queue. `data` is None until it is known."""

    __slots__ = ("data", "size")

    def __init__(self, size: int, data: bytes | None = None) -> None:
        self.size = size
        self.data = data


class ResponseQueue:
    """The responses of one connection that are not sent yet. Used by the event loop only."""

    def __init__(self, send: Callable[[list[Any]], Awaitable[None]]) -> None:
        self._send = send
        self._pending: deque[PendingResponse] = deque()
        self._size = 0
        self._is_sending = False
        self._sent = trio.Event()

    @property
    def is_empty(self) -> bool:
        """Whether all responses were sent."""
        return not self._pending

    @property
    def is_full(self) -> bool:
        return len(self._pending) >= RESPONSES_MAX or self._size >= BYTES_MAX

    async def wait_until_empty(self) -> None:
        while self._pending:
            await self._sent.wait()

    async def wait_for_space(self) -> None:
        while self.is_full:
            await self._sent.wait()

    def add(self, size: int) -> PendingResponse:
        """Reserve the next place in the order, for a response that takes about `size` bytes of memory."""
        pending = PendingResponse(size)
        self._append(pending)
        return pending

    def add_known(self, data: bytes) -> None:
        """Send a response after those before it, of which there is at least one."""
        self._append(PendingResponse(len(data), data))

    def _append(self, pending: PendingResponse) -> None:
        self._pending.append(pending)
        self._size += pending.size

    async def complete(self, pending: PendingResponse, data: bytes) -> None:
        """Send the response, or let it be sent, when all before it are known."""
        pending.data = data
        if self._is_sending or self._pending[0] is not pending:
            return
        self._is_sending = True
        try:
            await trio.lowlevel.checkpoint()  # others that waited for the same sync are complete after it
            await self._send_known()
        finally:
            self._is_sending = False

    async def _send_known(self) -> None:
        while known := list(takewhile(_is_known, self._pending)):
            await self._send([b"".join(response.data or b"" for response in known)])
            for response in known:
                self._size -= response.size
                self._pending.popleft()
            self._sent.set()
            self._sent = trio.Event()


def _is_known(pending: PendingResponse) -> bool:
    return pending.data is not None
