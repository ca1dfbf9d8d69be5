"""`values` and `records.ndjson`: the whole partition as one growing file, a line for each record.

The size is a sum over all records, which view maps know (storage.views.partition_view). Where maps are missing they
are made in threads (`map_making`); the name is listed only when all of them are there.

The inode carries a generation. When retention cuts the head, or compaction replaces segments, the name gets the next
one; a reader of the old one keeps its numbering and reads on: `file.delete.delay.ms` longer than the segments
last, and the one it is at to its end. Then it reads ESTALE. While such a reader remains, stat(2) shows the number of
its inode for the name, too: `tail -F` takes another one for another file, and would begin anew (decision 0019).

What grows is read past the page cache: it would show zeros where records have just come (decision 0023).

Reading (also of `range/…` and `last/N`): blocks of joined lines, a few megabytes of them kept. What the page cache
holds is joined on the event loop: a megabyte takes a fifth of a millisecond, and handing it to a thread as long again.
When a block had to be waited for, the next one of a reader that goes forward is fetched in a thread while the kernel
takes this one.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import trio
from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.attributes import PREFERRED_READ_BYTES
from offsetfs.fs.inodes import Kind, unpack
from offsetfs.fs.nodes import Buffer, Opened, Opening
from offsetfs.fs.options import EIO
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.views.map_making import AT_ONCE_BYTES, MapMaking, Mapped, refresh
from offsetfs.fs.views.polling import PolledView
from offsetfs.storage.errors import RecordsLeftOut, StorageError, WouldBlock
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.partition_view import PartitionView
from offsetfs.storage.views.view_format import ViewFormat
from offsetfs.storage.views.view_parts import LocatedBlock, SkippedBatch

LISTING_BYTES_MAX = {Kind.VALUES: AT_ONCE_BYTES, Kind.RECORDS: AT_ONCE_BYTES // 2}
"""How much log a listing reads to learn whether a view can be shown: some milliseconds, and nothing of a segment of
which more is to be read. Lines of JSON take twice as long to measure as values."""

AHEAD_BYTES = 1 << 20
"""What is joined at once for a reader that goes forward, where blocks are smaller."""


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """The first `size` bytes of one generation of a growing file, which never change."""

    inode: int
    size: int
    view: PartitionView = field(compare=False)
    mtime_ns: int = field(compare=False)
    damage_at_end: SkippedBatch | None = field(compare=False)
    """The batch that was left out directly behind the last byte, when there is one."""


class GrowingFile:
    """`values` or `records.ndjson` of one partition. `number`: the generation."""

    def __init__(self, shared: Shared, partition: Partition, kind: Kind, form: ViewFormat) -> None:
        self._shared = shared
        self._partition = partition
        self._kind = kind
        self.form = form
        self._generation = 0
        self._views: dict[int, PartitionView] = {}
        self._readers: dict[int, int] = {}
        self._shown_as: dict[int, int] = {}  # by generation: the one whose inode stat(2) shows, where it is another
        self._making = MapMaking(
            shared,
            f"{partition.name}/{form.name}",
            lambda: partition.log.size_bytes,
            ", or use last/, range/ or follow, which need no whole map",
        )

    # --- names and sizes -------------------------------------------------------------------------------------------

    async def lookup(self) -> EntryAttributes:
        generation = self._current()
        await self._making.complete(self._views[generation])
        return self._attributes(generation)

    async def frozen(self) -> FrozenFile:
        """Return the file as it is now; EAGAIN as for a look-up."""
        generation = self._current()
        view = self._views[generation]
        await self._making.complete(view)
        size, inode = view.size, self._partition.inode(self._kind, generation)
        return FrozenFile(inode, size, view, self._partition.log.modified_ns, view.next_damage(size, size))

    async def listed(self) -> EntryAttributes | None:
        """Return the attributes when all maps are there, or can be had in a moment; else None."""
        generation = self._current()
        view, bytes_max = self._views[generation], LISTING_BYTES_MAX[self._kind]
        is_complete = not self._making.is_running and await self._shared.answer(_glance, view, bytes_max)
        if not is_complete and view.lacks_ours_only:
            self._making.begin(view)  # a second at most; the next listing shows it
        return self._attributes(generation) if is_complete else None

    async def attributes(self, number: int) -> EntryAttributes:
        await self._making.complete(self._view(number))
        entry = self._attributes(number)
        entry.st_ino = self._partition.inode(self._kind, self._shown(number))  # to the kernel this is a number to show
        return entry

    def _attributes(self, generation: int) -> EntryAttributes:
        entry = self._shared.attributes.file(
            self._partition.inode(self._kind, generation),
            self._views[generation].size,
            self._partition.log.modified_ns,
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    def _current(self) -> int:
        """Return the generation that the name stands for now; begin the next one when the head was cut."""
        view = self._views.get(self._generation)
        if view is None:
            view = PartitionView(
                self._partition.log,
                self._shared.maps,
                self._shared.damaged,
                form=self.form,
                is_committed_only=self._shared.options.is_committed_only,
                cache=self._partition.map_cache,
            )
            self._views[self._generation] = view
        elif not view.is_current:
            shown = self._shown(self._generation)
            self._generation += 1
            self._views[self._generation] = view.successor()
            if any(self._shown(generation) == shown for generation in self._readers):
                self._shown_as[self._generation] = shown
            self._forget_unread()
        return self._generation

    def _shown(self, generation: int) -> int:
        return self._shown_as.get(generation, generation)

    def _view(self, number: int) -> PartitionView:
        view = self._views.get(number)
        if view is None:
            raise FUSEError(errno.ESTALE)
        return view

    def _forget_unread(self) -> None:
        for generation in list(self._views):
            if generation != self._generation and not self._readers.get(generation):
                del self._views[generation]
                self._shown_as.pop(generation, None)

    def known_map(self, segment: Segment) -> LineIndex | None:
        """Return what is known by now of a segment, for reading only."""
        view = self._views.get(self._generation)
        return None if view is None else view.known_map(segment)

    # --- reading ---------------------------------------------------------------------------------------------------

    async def open(self, number: int, opening: Opening) -> Opened:
        view = self._view(number)
        self._readers[number] = self._readers.get(number, 0) + 1
        fails = self._shared.options.damage == EIO
        inode = self._partition.inode(self._kind, number)
        handle = ViewHandle(self._shared, view, inode, self._closed, fails_at_damage=fails)
        return Opened(PolledView(self._shared, self._partition, view, handle), direct=True)

    def _closed(self, inode: int) -> None:
        number = unpack(inode).number
        self._readers[number] -= 1
        if not self._readers[number]:
            del self._readers[number]
            self._forget_unread()


def _glance(view: PartitionView, bytes_max: int, *, nowait: bool) -> bool:
    return view.refresh(nowait=nowait, bytes_max=bytes_max, in_whole=True)


class Readable(Mapped, Protocol):
    """A view whose maps are there: a growing one, or a range."""

    @property
    def size(self) -> int: ...

    def locate(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> LocatedBlock | None: ...

    def read(self, located: LocatedBlock, *, nowait: bool = False) -> bytes | bytearray: ...

    def hold(self, located: LocatedBlock) -> object: ...

    def next_damage(self, byte: int, end: int) -> SkippedBatch | None: ...


class ViewHandle:
    """An open view. `closed` is called with its inode when the last copy of the descriptor is closed.

    `fails_at_damage`: a read that begins where a batch was left out fails, and one that comes to it ends there.
    """

    def __init__(
        self,
        shared: Shared,
        view: Readable,
        inode: int,
        closed: Callable[[int], None],
        *,
        fails_at_damage: bool = False,
    ) -> None:
        self._shared = shared
        self._view = view
        self._inode = inode
        self._closed = closed
        self._fails_at_damage = fails_at_damage
        self._current: tuple[int, int, memoryview] = (0, 0, memoryview(b""))  # start, end and bytes of the last block
        self._held: object = None  # keeps the segment of the last block open
        self._next = 0  # the byte at which a reader that goes forward reads next
        self._waits = False  # the last block had to be waited for: so will the next
        self._coming: dict[int, trio.Event] = {}  # blocks being read ahead, by their first byte

    async def read(self, position: int, size: int) -> Buffer:
        is_sequential, self._next = position == self._next, position + size
        if position + size > self._view.size:
            await self._shared.answer(refresh, self._view, AT_ONCE_BYTES)
        if self._fails_at_damage:
            size = self._sound_size(position, size)
        start, end, block = self._current
        if start <= position and position + size <= end:
            return block[position - start : position + size - start]
        return await self._gather(position, min(position + size, self._view.size), is_sequential)

    def _sound_size(self, position: int, size: int) -> int:
        """Return how much of a read comes before damage; raise where it begins there."""
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
        output_max = AHEAD_BYTES if is_sequential and position else 0  # a reader of the beginning may need no more
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
            return await self._shared.in_thread(functools.partial(self._view.locate, position, output_max))

    async def _block(self, located: LocatedBlock) -> Buffer:
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

    def _keep(self, located: LocatedBlock, block: Buffer) -> None:
        self._shared.blocks.put(self._key(located), block, len(block))

    def _key(self, located: LocatedBlock) -> tuple[int, int, int]:
        # Not the block's number: the last block of a growing segment is another one when it has grown.
        return (self._inode, located.start, located.end)

    # --- ahead -----------------------------------------------------------------------------------------------------

    def _read_ahead(self, position: int) -> None:
        """See that the block at `position` is there when it is wanted: at once if that needs no waiting any more."""
        try:
            located = self._view.locate(position, AHEAD_BYTES, nowait=True)
        except WouldBlock:
            return
        if located is None or self._coming or self._shared.blocks.get(self._key(located)) is not None:
            return
        try:
            self._keep(located, self._view.read(located, nowait=True))
            self._waits = False
        except WouldBlock:
            self._coming[located.start] = trio.Event()
            self._shared.nursery.start_soon(self._fetch, located)

    async def _fetch(self, located: LocatedBlock) -> None:
        try:
            self._keep(located, await self._shared.in_thread(functools.partial(self._view.read, located)))
        except (StorageError, OSError, MemoryError):
            pass  # the reader that needs the block reads it again and gets the error
        finally:
            self._coming.pop(located.start).set()

    async def release(self) -> None:
        self._closed(self._inode)


def left_out(damaged: SkippedBatch) -> RecordsLeftOut:
    """Return what to raise where a batch was left out."""
    return RecordsLeftOut("a batch cannot be read", path=damaged.path, position=damaged.position)
