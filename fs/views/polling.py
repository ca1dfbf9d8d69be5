"""poll(2), select and epoll on growing views: readable when there is more.

The daemon does not know where a reader reads next, because the kernel handles lseek(2) alone. It knows what was read.
So a view is readable

* while there is more than the furthest that was read, and so after each growth, at once;
* and else five times a second: a reader that has everything finds the end, one that went back reads on.

docs/internals/decisions/0017-poll-on-growing-files.md has the roads not taken.
"""

from __future__ import annotations

import select
from typing import Protocol

import trio
from pyfuse3 import PollHandle

from offsetfs.fs.nodes import Buffer, Handle
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.views.map_making import AT_ONCE_BYTES, Mapped, refresh
from offsetfs.fs.waiting import AGAIN_S, READABLE, observe


class Sized(Mapped, Protocol):
    """A view whose size is known."""

    @property
    def size(self) -> int: ...


class PolledView:
    """An open growing view, which can be polled."""

    def __init__(self, shared: Shared, partition: Partition, view: Sized, handle: Handle) -> None:
        self._shared = shared
        self._partition = partition
        self._view = view
        self._handle = handle
        self._read_to = 0
        self._again = trio.current_time() + AGAIN_S

    async def read(self, position: int, size: int) -> Buffer:
        answer = await self._handle.read(position, size)
        self._read_to = max(self._read_to, position + len(answer))
        return answer

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        seen = observe(self._partition)
        if self._partition.is_gone:
            return READABLE | select.POLLHUP
        await self._shared.answer(refresh, self._view, AT_ONCE_BYTES)
        if poll is not None:
            self._shared.waiting.poll([seen], number, poll, is_restless=True)
        return READABLE if self._is_readable() else 0

    def _is_readable(self) -> bool:
        now = trio.current_time()
        if self._read_to >= self._view.size and now < self._again:
            return False
        self._again = now + AGAIN_S * 0.9  # when it is asked again, that time has come
        return True

    async def release(self) -> None:
        await self._handle.release()
