"""`values`: the whole partition as one growing file, each record's value and a newline.

Its size is a sum over all records, which view maps know (storage.views.partition_values). Where maps are missing they
are made in threads: the name is listed only when all of them are there, a look-up waits ten seconds and then answers
EAGAIN, and the building goes on.

The inode carries a generation. When retention cuts the head, or compaction replaces segments, the name gets the next
one; whoever has the old one open keeps its numbering and reads on: `file.delete.delay.ms` longer than the segments
last, and the one it is at to its end. Then it reads ESTALE.

Reading: blocks of joined values, a few megabytes of them kept. What the page cache holds is joined on the event loop:
a megabyte takes a fifth of a millisecond, and handing it to a thread as long again. When a block had to be waited for,
the next one of a reader that goes forward is fetched in a thread while the kernel takes this one.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable

import trio
from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.inodes import Kind, unpack
from offsetfs.fs.nodes import Buffer, Opened, Opening
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.views.partition_values import Located, PartitionValues

WAIT_S = 10.0
LISTING_BYTES_MAX = 16 << 20
"""How much log a listing reads to learn whether `values` can be shown: some milliseconds."""

BUILD_STEP_BYTES = 64 << 20
PREFERRED_READ_BYTES = 1 << 20
"""What st_blksize says: cat and cp then read a megabyte at a time, and ask for the size as much less often."""


class _Building:
    """Somebody makes maps, others wait for them."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.failure: Exception | None = None

    async def finish(self) -> None:
        await self.done.wait()
        if self.failure is not None:
            raise self.failure


class ValuesFile:
    """`values` of one partition. `number`: the generation."""

    def __init__(self, shared: Shared, partition: Partition) -> None:
        self._shared = shared
        self._partition = partition
        self._generation = 0
        self._views: dict[int, PartitionValues] = {}
        self._readers: dict[int, int] = {}
        self._building: _Building | None = None

    # --- names and sizes -------------------------------------------------------------------------------------------

    async def lookup(self) -> EntryAttributes:
        generation = self._current()
        await self._complete(self._views[generation])
        return self._attributes(generation)

    async def listed(self) -> EntryAttributes | None:
        """Return the attributes when all maps are there, or can be had in a moment; else None."""
        generation = self._current()
        is_complete = await self._refresh(self._views[generation], LISTING_BYTES_MAX)
        return self._attributes(generation) if is_complete else None

    async def attributes(self, number: int) -> EntryAttributes:
        await self._complete(self._view(number))
        return self._attributes(number)

    def _attributes(self, generation: int) -> EntryAttributes:
        entry = self._shared.attributes.file(
            self._partition.inode(Kind.VALUES, generation),
            self._views[generation].size,
            self._partition.log.modified_ns,
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    def _current(self) -> int:
        """Return the generation that the name stands for now; begin the next one when the head was cut."""
        view = self._views.get(self._generation)
        if view is None:
            view = PartitionValues(
                self._partition.log,
                self._shared.maps,
                self._shared.damaged,
                is_committed_only=self._shared.options.is_committed_only,
            )
            self._views[self._generation] = view
        elif not view.is_current:
            self._generation += 1
            self._views[self._generation] = view.successor()
            self._forget_unread()
        return self._generation

    def _view(self, number: int) -> PartitionValues:
        view = self._views.get(number)
        if view is None:
            raise FUSEError(errno.ESTALE)
        return view

    def _forget_unread(self) -> None:
        for generation in list(self._views):
            if generation != self._generation and not self._readers.get(generation):
                del self._views[generation]

    # --- making maps -----------------------------------------------------------------------------------------------

    async def _refresh(self, view: PartitionValues, bytes_max: int) -> bool:
        return self._building is None and await self._shared.answer(_refresh, view, bytes_max)

    async def _complete(self, view: PartitionValues) -> None:
        """Return when the view is complete; EAGAIN when that takes longer than ten seconds."""
        if self._is_complete_now(view):
            return
        with trio.move_on_after(WAIT_S):
            while not await self._refresh(view, LISTING_BYTES_MAX):
                if self._building is None:
                    self._building = _Building()
                    self._shared.nursery.start_soon(self._build, view, self._building)
                await self._building.finish()
            return
        self._shared.notes.say(self._progress(view))
        raise FUSEError(errno.EAGAIN)

    def _is_complete_now(self, view: PartitionValues) -> bool:
        try:
            return self._building is None and view.refresh(nowait=True)
        except WouldBlock:
            return False

    async def _build(self, view: PartitionValues, building: _Building) -> None:
        """Make all missing maps. Whatever goes wrong is told to those who wait."""
        try:
            while not await self._shared.in_thread(functools.partial(view.refresh, bytes_max=BUILD_STEP_BYTES)):
                pass
        except Exception as error:
            building.failure = error
        finally:
            self._building = None
            building.done.set()

    def _progress(self, view: PartitionValues) -> str:
        done, total = view.scanned_bytes, self._partition.log.size_bytes
        return (
            f"EAGAIN {self._partition.name}/values: its maps are being made, {done} of {total} bytes are read; "
            "ask again, or use last/, range/ or follow, which need no whole map"
        )

    # --- reading ---------------------------------------------------------------------------------------------------

    async def open(self, number: int, opening: Opening) -> Opened:
        view = self._view(number)
        self._readers[number] = self._readers.get(number, 0) + 1
        return Opened(ValuesHandle(self._shared, view, self._partition.inode(Kind.VALUES, number), self._closed))

    def _closed(self, inode: int) -> None:
        number = unpack(inode).number
        self._readers[number] -= 1
        if not self._readers[number]:
            del self._readers[number]
            self._forget_unread()


def _refresh(view: PartitionValues, bytes_max: int, *, nowait: bool) -> bool:
    return view.refresh(nowait=nowait, bytes_max=bytes_max)


class ValuesHandle:
    """An open `values`."""

    def __init__(self, shared: Shared, view: PartitionValues, inode: int, closed: Callable[[int], None]) -> None:
        self._shared = shared
        self._view = view
        self._inode = inode
        self._closed = closed
        self._current: tuple[int, int, memoryview] = (0, 0, memoryview(b""))  # start, end and bytes of the last block
        self._held: object = None  # keeps the segment of the last block open
        self._next = 0  # the byte at which a reader that goes forward reads next
        self._waits = False  # the last block had to be waited for: so will the next
        self._coming: dict[int, trio.Event] = {}  # blocks being read ahead, by their first byte

    async def read(self, position: int, size: int) -> Buffer:
        is_sequential, self._next = position == self._next, position + size
        start, end, block = self._current
        if start <= position and position + size <= end:
            return block[position - start : position + size - start]
        if position + size > self._view.size:
            await self._shared.answer(_refresh, self._view, LISTING_BYTES_MAX)
        return await self._gather(position, min(position + size, self._view.size), is_sequential)

    async def _gather(self, position: int, end: int, is_sequential: bool) -> Buffer:
        """Return the bytes `[position, end)`: a view into one block, or a copy from several."""
        pieces: list[memoryview] = []
        while position < end and (located := self._view.locate(position)) is not None:
            block = memoryview(await self._block(located))
            self._current = (located.start, located.end, block)
            self._held = self._view.hold(located)
            pieces.append(block[position - located.start : end - located.start])
            position = located.end
            if is_sequential and self._waits:
                self._read_ahead(position)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _block(self, located: Located) -> Buffer:
        while True:
            block = self._shared.blocks.get(self._key(located))
            if block is not None:
                return block
            coming = self._coming.get(located.start)
            if coming is None:
                break
            await coming.wait()
        try:
            block = self._view.read(located, nowait=True)
        except WouldBlock:
            self._waits = True
            block = await self._shared.in_thread(functools.partial(self._view.read, located))
        self._keep(located, block)
        return block

    def _keep(self, located: Located, block: Buffer) -> None:
        self._shared.blocks.put(self._key(located), block, len(block))

    def _key(self, located: Located) -> tuple[int, int, int]:
        # Not the block's number: the last block of a growing segment is another one when it has grown.
        return (self._inode, located.start, located.end)

    # --- ahead -----------------------------------------------------------------------------------------------------

    def _read_ahead(self, position: int) -> None:
        """See that the block at `position` is there when it is wanted: at once if that needs no waiting any more."""
        located = self._view.locate(position)
        if located is None or self._coming or self._shared.blocks.get(self._key(located)) is not None:
            return
        try:
            self._keep(located, self._view.read(located, nowait=True))
            self._waits = False
        except WouldBlock:
            self._coming[located.start] = trio.Event()
            self._shared.nursery.start_soon(self._fetch, located)

    async def _fetch(self, located: Located) -> None:
        try:
            self._keep(located, await self._shared.in_thread(functools.partial(self._view.read, located)))
        except (StorageError, OSError):
            pass  # whoever wants the block reads it again, and is told
        finally:
            self._coming.pop(located.start).set()

    async def release(self) -> None:
        self._closed(self._inode)
