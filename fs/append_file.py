"""`append`: where lines become records. Its size is 0, and what is opened is a stream (see handles)."""

from __future__ import annotations

import errno

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.accumulator import Accumulators
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.handles import AppendHandle
from offsetfs.fs.inodes import Fixed, Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.storage.names import INTERNAL_TOPICS

PREFERRED_WRITE_BYTES = 1 << 20
"""What st_blksize says: cat then writes a megabyte at a time, in an eighth of the requests."""


class AppendFile:
    """`append` of one partition. `number` says nothing more."""

    def __init__(self, shared: Shared, partition: Partition, accumulators: Accumulators) -> None:
        self._shared = shared
        self._partition = partition
        self._accumulators = accumulators

    async def attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(Kind.FIXED, Fixed.APPEND)
        entry = self._shared.attributes.file(inode, 0, self._partition.log.modified_ns, mode=APPEND_MODE)
        entry.st_blksize = PREFERRED_WRITE_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open; EROFS for a writer where nothing can be written, EPERM where nothing may be.

        Lines have no key, so a compacted topic takes none: `write` refuses them, for the topic's settings may change.
        """
        if opening.writes:
            self.check_writable(number)
        handle = AppendHandle(self._accumulators.of(self._partition.name), opening.flags)
        # What is told of appended records is a stream: a shell that could seek would read on and seek back.
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def check_writable(self, number: int) -> None:
        """Refuse a broker's own topics, too: it does not start over a record of its own state that it cannot parse."""
        if self._shared.is_read_only or self._partition.log.read_only:
            raise FUSEError(errno.EROFS)
        name = self._partition.name
        if name.topic in INTERNAL_TOPICS:
            self._shared.notes.say(f"EPERM append to {name}: a broker keeps its own state there, lines are refused")
            raise FUSEError(errno.EPERM)
