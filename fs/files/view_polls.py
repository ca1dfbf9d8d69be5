"""poll(2), select and epoll on growing files.

The daemon does not know where a reader reads next, because the kernel handles lseek(2) alone. It knows which bytes were
read. So a file is readable

* while it is longer than the furthest byte that was read, so at once after each growth;
* otherwise five times a second. A reader at the end finds the end; one that has moved back reads on.
"""

from __future__ import annotations

import select
from typing import Protocol

import trio
from pyfuse3 import PollHandle

from offsetfs.fs.files.line_index_building import AT_ONCE_BYTES, IndexedView, refresh
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.requests.waiting import READABLE, RESTLESS_S, observe


class SizedView(IndexedView, Protocol):
    """A view whose size is known."""

    @property
    def size(self) -> int: ...


class ViewPolls:
    """The polls of one open growing file."""

    def __init__(self, mount: MountContext, partition: MountedPartition, view: SizedView) -> None:
        self._mount = mount
        self._partition = partition
        self._view = view
        self._next_readable_s = trio.current_time() + RESTLESS_S

    async def poll(self, handle: int, poll: PollHandle | None, read_to: int) -> int:
        """Return the current events, and notify `poll` at the next change. `read_to`: the end of the bytes read."""
        seen = observe(self._partition)
        if self._partition.is_gone:
            return READABLE | select.POLLHUP
        await self._mount.executor.answer(refresh, self._view, AT_ONCE_BYTES)
        if poll is not None:
            self._mount.waiting.poll([seen], handle, poll, is_restless=True)
        return READABLE if self._is_readable(read_to) else 0

    def _is_readable(self, read_to: int) -> bool:
        now = trio.current_time()
        # FUSE's POLL has no read position, and lseek(2) never reaches the daemon: without the timer, a reader that went
        # back would sleep forever.
        if read_to >= self._view.size and now < self._next_readable_s:
            return False
        # Shorter than the interval of the notifications: the poll that follows one must find the file readable.
        self._next_readable_s = now + RESTLESS_S * 0.9
        return True
