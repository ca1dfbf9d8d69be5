"""`first` and `latest`, and the symbolic links of `by-time`.

A link's inode number encodes the offset of its target, so a link never changes. When a record is appended, the name
`latest` gets another inode. The kernel looks each name up again, and caches targets without a time limit.
"""

from __future__ import annotations

from pyfuse3 import EntryAttributes

from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage.views import first_offset, last_offset

DEPTH = {Kind.LINK: 0, Kind.TIME_LINK: 1, Kind.MINUTE_LINK: 5}
"""How many directories each kind of link is below the partition's directory."""


class OffsetLinks:
    """Links of one kind to records. `number`: the offset less the partition's anchor."""

    def __init__(self, mount: MountContext, partition: MountedPartition, kind: Kind) -> None:
        self._mount = mount
        self._partition = partition
        self._kind = kind

    def entry(self, offset: int) -> EntryAttributes:
        """Return the attributes of a link to `offset`."""
        inode = self._partition.offset_inode(self._kind, offset)
        return self._mount.attributes.link(inode, self.target(offset - self._partition.anchor))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._partition.anchor + number)

    def target(self, number: int) -> bytes:
        return b"../" * DEPTH[self._kind] + b"%d" % (self._partition.anchor + number)


class EndLinks:
    """`first` and `latest` of one partition: absent if it has no record.

    After a change of the log the next look-up searches again, which reads a batch.
    """

    def __init__(self, mount: MountContext, partition: MountedPartition, links: OffsetLinks) -> None:
        self._mount = mount
        self._log = partition.log
        self._view = partition.view
        self._links = links
        self._first: tuple[object, int | None] = ((), None)
        self._latest: tuple[object, int | None] = ((), None)

    async def first(self) -> EntryAttributes | None:
        state = self._state()
        if self._first[0] != state:
            self._first = state, await self._mount.executor.answer(first_offset, self._view)
        return self._entry(self._first[1])

    async def latest(self) -> EntryAttributes | None:
        state = self._state()
        if self._latest[0] != state:
            self._latest = state, await self._mount.executor.answer(last_offset, self._view)
        return self._entry(self._latest[1])

    def _state(self) -> object:
        return self._log.log_start_offset, self._log.next_offset, self._log.snapshot()

    def _entry(self, offset: int | None) -> EntryAttributes | None:
        return None if offset is None else self._links.entry(offset)
