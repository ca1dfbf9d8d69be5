"""`append`, `append.ndjson`, `append.raw`: where records are written. Their size is 0; what is opened is a stream."""

from __future__ import annotations

import errno
from collections.abc import Callable

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.framing import Framing, JsonLines, Lines, Whole
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.error_log import Fault
from offsetfs.fs.inodes import Fixed, Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.storage.names import INTERNAL_TOPICS

_BROKERS_OWN = "a broker keeps its own state there, records are refused"

PREFERRED_WRITE_BYTES = 1 << 20
"""What st_blksize says: cat then writes a megabyte at a time, in an eighth of the requests."""

APPEND_FILES: dict[Fixed, tuple[bytes, Callable[[], Framing]]] = {
    Fixed.APPEND: (b"append", Lines),
    Fixed.APPEND_NDJSON: (b"append.ndjson", JsonLines),
    Fixed.APPEND_RAW: (b"append.raw", Whole),
}
"""Their names, and what a record is in each."""


class AppendFile:
    """One of `APPEND_FILES`, of one partition. `number` says nothing more."""

    def __init__(self, shared: Shared, partition: Partition, accumulators: Accumulators, which: Fixed) -> None:
        self._shared = shared
        self._partition = partition
        self._accumulators = accumulators
        self._which = which
        name, self._framing = APPEND_FILES[which]
        self._path = f"{partition.name}/{name.decode()}"

    async def attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(Kind.FIXED, self._which)
        entry = self._shared.attributes.file(inode, 0, self._partition.log.modified_ns, mode=APPEND_MODE)
        entry.st_blksize = PREFERRED_WRITE_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open; EROFS for a writer where nothing can be written, EPERM where nothing may be.

        A log that could not be recovered is recovered first; ENOSPC, or what else prevents it.

        A compacted topic takes no record without a key: `write` refuses it, for the topic's settings may change.
        """
        if opening.writes:
            await self._partition.recover()
            self.check_writable(number)
            if not opening.is_nonblocking:
                await self._accumulators.closing.wait_before_open((self._partition.name,))
        accumulator = self._accumulators.of(self._partition.name)
        handle = AppendHandle(
            accumulator, opening.flags, self._framing(), self._path, self._lost, self._shared.waiting.poll_room
        )
        # What is told of appended records is a stream: a shell that could seek would read on and seek back.
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def check_writable(self, number: int) -> None:
        """Refuse a broker's own topics, too: it does not start over a record of its own state that it cannot parse."""
        log = self._partition.log
        if self._shared.is_read_only or (log.read_only and log.unrecovered is None):
            raise FUSEError(errno.EROFS)
        name = self._partition.name
        if name.topic in INTERNAL_TOPICS:
            self._shared.error_log.report(
                Fault(errno.EPERM, "open", self._path, _BROKERS_OWN, "write to another topic")
            )
            raise FUSEError(errno.EPERM)

    def _lost(self, error: OSError) -> None:
        self._shared.error_log.add(error, "write", self._path)
