"""poll(2), select and epoll on growing views: readable when there is more.

A growing view is read through the kernel's page cache, so what a reader has read nobody knows: only what the kernel has
fetched for him, which may be more. So a view is readable

* while there is more than the kernel has fetched, and once after each growth, as a pipe is;
* and else five times a second: a reader that has everything finds the end, one that has not reads on.

A reader that takes what there is until read(2) returns 0 is woken by growth, in less than a millisecond.
"""

from __future__ import annotations

import select
from typing import Protocol

import trio
from pyfuse3 import PollHandle

from offsetfs.fs.map_making import AT_ONCE_BYTES, Mapped, refresh
from offsetfs.fs.nodes import Buffer, Handle
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.waiting import AGAIN_S, READABLE, state_of


class Sized(Mapped, Protocol):
    """A view whose size is known."""

    @property
    def size(self) -> int: ...


class PolledView:
    """An open growing view, of which somebody may ask whether there is more."""

    def __init__(self, shared: Shared, partition: Partition, view: Sized, handle: Handle) -> None:
        self._shared = shared
        self._partition = partition
        self._view = view
        self._handle = handle
        self._fetched = 0
        self._told_size = -1
        self._again = 0.0

    async def read(self, position: int, size: int) -> Buffer:
        answer = await self._handle.read(position, size)
        self._fetched = max(self._fetched, position + len(answer))
        return answer

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        self._partition.log.refresh()
        seen = state_of(self._partition)
        if self._partition.is_gone:
            return READABLE | select.POLLHUP
        await self._shared.answer(refresh, self._view, AT_ONCE_BYTES)
        if poll is not None:
            self._shared.waiting.poll(self._partition, seen, number, poll, is_restless=True)
        return READABLE if self._is_readable() else 0

    def _is_readable(self) -> bool:
        size, now = self._view.size, trio.current_time()
        if self._fetched >= size == self._told_size and now < self._again:
            return False
        self._told_size, self._again = size, now + AGAIN_S * 0.9
        return True

    async def release(self) -> None:
        await self._handle.release()
