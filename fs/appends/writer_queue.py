"""The writers that wait for a free buffer of one partition: first come, first served.

A writer that closed file A before it opened file B must find A's record before B's. RELEASE requests reach the daemon
in the order of close(2), but trio wakes the tasks that wait for one event in any order. So a writer that finds no
buffer takes a place in this queue when it asks, not when it runs. While the queue is not empty, no other writer gets a
buffer. Everything runs on the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import trio

from offsetfs.fs.appends.shared_sync import Writer


class WriterQueue:
    """The queue of one partition."""

    def __init__(self) -> None:
        self._waiting: deque[trio.Event] = deque()
        self._served: Writer | None = None

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def is_ahead_of(self, writer: Writer) -> bool:
        """Whether other writers came earlier and still wait. False for the writer that `join` has just served."""
        return bool(self._waiting) and self._served is not writer

    def join(self, writer: Writer, find_buffer: Callable[[], Awaitable[None]]) -> Coroutine[Any, Any, None]:
        """Take the last place now; return what waits until it is the first one and `find_buffer` has returned.

        The caller awaits the answer, and gives its record to the partition before it awaits anything else.
        """
        turn = trio.Event()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            turn.set()
        return self._serve(turn, writer, find_buffer)

    async def _serve(self, turn: trio.Event, writer: Writer, find_buffer: Callable[[], Awaitable[None]]) -> None:
        try:
            await turn.wait()
            self._served = None  # the previous writer has had its turn
            await find_buffer()
            self._served = writer
        finally:
            self._waiting.remove(turn)
            if self._waiting:
                self._waiting[0].set()
