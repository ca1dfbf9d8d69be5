"""`append`, `append.ndjson`, `append.raw`: files that accept records. Their size is 0; an open file is a stream."""

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
"""st_blksize: it makes cat write a megabyte at a time, with an eighth of the requests."""

APPEND_FILES: dict[Fixed, tuple[bytes, Callable[[], Framing]]] = {
    Fixed.APPEND: (b"append", Lines),
    Fixed.APPEND_NDJSON: (b"append.ndjson", JsonLines),
    Fixed.APPEND_RAW: (b"append.raw", Whole),
}
"""The names, and the framing of each."""


class AppendFile:
    """One of `APPEND_FILES`, of one partition. `number` is not used."""

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
        """Open the file. For writing: EROFS if the log is read-only, EPERM for an internal topic.

        A log whose recovery failed is recovered first; errors as of recovery, such as ENOSPC.

        Whether a compacted topic requires keys is checked by `write`, because settings may change while it is open.
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
        # Acknowledgments are a stream: a shell reads ahead and seeks back in a file that allows seeks.
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def check_writable(self, number: int) -> None:
        """Refuse internal topics too: a broker does not start if it cannot parse a record of its own state."""
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
