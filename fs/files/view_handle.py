"""An open view: `values`, `records.ndjson`, `range/…` or `last/N`.

Reads take blocks of joined lines, which readers share (`MountCaches.blocks`). A block that the page cache holds is
joined on the event loop: a megabyte takes 0.2 ms, and a hand-over to a thread takes as long again. If a block came from
the disk, a thread reads the next one ahead for a sequential reader, while the kernel consumes this one.
"""

from __future__ import annotations

import functools
import select
from collections.abc import Callable
from typing import Protocol

import trio

from offsetfs.fs.files.line_index_building import AT_ONCE_BYTES, IndexedView, refresh
from offsetfs.fs.fuse_types import PollHandle
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.nodes import Buffer
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.requests.waiting import ALWAYS_READY, READABLE, RESTLESS_S, observe
from offsetfs.storage.errors import RecordsLeftOut, StorageError, WouldBlock
from offsetfs.storage.views import LocatedBlock, SkippedBatch

AHEAD_BYTES = 1 << 20
"""Bytes that are joined at once for a sequential reader; blocks may be smaller."""


class SizedView(IndexedView, Protocol):
    """A view whose size is known."""

    @property
    def size(self) -> int: ...


class ReadableView(SizedView, Protocol):
    """A view whose line indexes are complete: a growing one, or a range."""

    def locate(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> LocatedBlock | None: ...

    def read(self, located: LocatedBlock, *, nowait: bool = False) -> bytes | bytearray: ...

    def hold(self, located: LocatedBlock) -> object: ...

    def next_damage(self, byte: int, end: int) -> SkippedBatch | None: ...


class ViewHandle:
    """An open view. `closed` is called with its inode when the last copy of the descriptor is closed.

    `fails_at_damage`: a read that begins at a left-out batch fails, and a read that reaches the batch ends there.
    `polls`: None for a view that does not grow; it is always readable.
    """

    def __init__(
        self,
        mount: MountContext,
        view: ReadableView,
        inode: int,
        closed: Callable[[int], None],
        *,
        fails_at_damage: bool = False,
        polls: ViewPolls | None = None,
    ) -> None:
        self._mount = mount
        self._view = view
        self._inode = inode
        self._closed = closed
        self._fails_at_damage = fails_at_damage
        self._polls = polls
        self._read_to = 0  # the end of the bytes that were read, for polls
        self._current: tuple[int, int, memoryview] = (0, 0, memoryview(b""))  # start, end and bytes of the last block
        self._held: object = None  # keeps the segment of the last block open
        self._next = 0  # the position of the next read of a sequential reader
        self._waits = False  # the last block came from the disk, and the next probably will
        self._fetching: dict[int, trio.Event] = {}  # blocks that threads read ahead, by their first byte

    async def read(self, position: int, size: int) -> Buffer:
        is_sequential, self._next = position == self._next, position + size
        # The log may have grown since the last request; the daemon alone decides where a direct read ends.
        if position + size > self._view.size:
            await self._mount.executor.answer(refresh, self._view, AT_ONCE_BYTES)
        # `wc -l` of a log with a damaged batch printed less and exited with 0 before (decision 25).
        if self._fails_at_damage:
            size = self._sound_size(position, size)
        start, end, block = self._current
        if start <= position and position + size <= end:
            content: Buffer = block[position - start : position + size - start]
        else:
            content = await self._gather(position, min(position + size, self._view.size), is_sequential)
        self._read_to = max(self._read_to, position + len(content))
        return content

    def _sound_size(self, position: int, size: int) -> int:
        """Return how many bytes of a read lie before damage. RecordsLeftOut if it begins there."""
        damaged = self._view.next_damage(position, position + size)
        if damaged is None:
            return size
        if damaged.byte == position:
            raise left_out(damaged)
        return damaged.byte - position

    async def _gather(self, position: int, end: int, is_sequential: bool) -> Buffer:
        """Return the bytes `[position, end)`: a view into one block, or a copy from several."""
        pieces: list[memoryview] = []
        start, known_end, block = self._current
        output_max = AHEAD_BYTES if is_sequential and position else 0  # `head` and `file` read only the beginning
        if start <= position < known_end:
            pieces.append(block[position - start : end - start])
            position = known_end
        while position < end and (located := await self._locate(position, output_max)) is not None:
            block = memoryview(await self._block(located))
            self._current = (located.start, located.end, block)
            self._held = self._view.hold(located)
            pieces.append(block[position - located.start : end - located.start])
            position = located.end
            if is_sequential and self._waits:
                self._read_ahead(position)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _locate(self, position: int, output_max: int) -> LocatedBlock | None:
        try:
            return self._view.locate(position, output_max, nowait=True)
        except WouldBlock:
            return await self._mount.executor.in_thread(functools.partial(self._view.locate, position, output_max))

    async def _block(self, located: LocatedBlock) -> Buffer:
        while True:
            block = self._mount.caches.blocks.get(self._key(located))
            if block is not None:
                return block
            fetching = self._fetching.get(located.start)
            if fetching is None:
                break
            await fetching.wait()
        try:
            block = self._view.read(located, nowait=True)
        except WouldBlock:
            self._waits = True
            block = await self._mount.executor.in_thread(functools.partial(self._view.read, located))
        self._keep(located, block)
        return block

    def _keep(self, located: LocatedBlock, block: Buffer) -> None:
        self._mount.caches.blocks.put(self._key(located), block, len(block))

    def _key(self, located: LocatedBlock) -> tuple[int, int, int]:
        # Start and end, not the number of the block: the last block of a growing segment is longer after an append.
        return (self._inode, located.start, located.end)

    # --- ahead -----------------------------------------------------------------------------------------------------

    def _read_ahead(self, position: int) -> None:
        """Read the block at `position` now: from the page cache at once, otherwise in a thread."""
        try:
            located = self._view.locate(position, AHEAD_BYTES, nowait=True)
        except WouldBlock:
            return
        if located is None or self._fetching or self._mount.caches.blocks.get(self._key(located)) is not None:
            return
        try:
            self._keep(located, self._view.read(located, nowait=True))
            self._waits = False
        except WouldBlock:
            self._fetching[located.start] = trio.Event()
            self._mount.nursery.start_soon(self._fetch, located)

    async def _fetch(self, located: LocatedBlock) -> None:
        try:
            self._keep(located, await self._mount.executor.in_thread(functools.partial(self._view.read, located)))
        except (StorageError, OSError, MemoryError):
            pass  # the reader that needs the block reads it again and gets the error
        finally:
            self._fetching.pop(located.start).set()

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        return ALWAYS_READY if self._polls is None else await self._polls.poll(number, poll, self._read_to)

    async def release(self) -> None:
        self._closed(self._inode)


def left_out(damaged: SkippedBatch) -> RecordsLeftOut:
    """Return the error of a read that begins where a batch was left out."""
    return RecordsLeftOut("a batch cannot be read", path=damaged.path, position=damaged.position)


class ViewPolls:
    """poll(2), select and epoll on one open growing file.

    The daemon does not know where a reader reads next, because the kernel handles lseek(2) alone. It knows which bytes
    were read. So a file is readable

    * while it is longer than the furthest byte that was read, so at once after each growth;
    * otherwise five times a second. A reader at the end finds the end; a reader that has moved back reads on.
    """

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
