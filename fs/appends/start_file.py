"""`start`: the log start offset; with `-o delete-records` an offset written to it deletes the records below.

    echo 1234 > orders-0/start        the log starts at 1234
    echo -1 > orders-0/start          all current records are deleted

One write(2) is one command, and its errno is the result: EINVAL if the data is no offset, ERANGE for an offset beyond
the end, EPERM if the topic is only compacted. After return the new start is on disk, and no process finds a record
below it: the names that the kernel has cached are expired. Corresponds to Kafka's DeleteRecords
(`Log.delete_records`).
"""

from __future__ import annotations

import errno
import re

import trio

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.attributes import RECORD_MODE, REMOVABLE_S
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage.errors import OffsetOutOfRange

WRITABLE_MODE = 0o644
REPLY_S = 0.1  # the time of a reply to reach the kernel, whose cache time starts then
_OFFSET = re.compile(rb"\s*(-1|[0-9]{1,19})\s*")


class StartFile:
    """`start` of one partition. `number` is not used."""

    def __init__(self, mount: MountContext, partition: MountedPartition, accumulators: Accumulators) -> None:
        self._mount = mount
        self._partition = partition
        self._accumulators = accumulators

    @property
    def path(self) -> str:
        return f"{self._partition.name}/start"

    @property
    def is_writable(self) -> bool:
        return self._mount.options.delete_records and not self._partition.log.read_only

    def _content(self) -> bytes:
        return b"%d\n" % self._partition.log.log_start_offset

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.file(
            self._partition.inode(Kind.START),
            len(self._content()),
            self._partition.log.modified_ns,
            mode=WRITABLE_MODE if self.is_writable else RECORD_MODE,
        )

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the file. For writing: EPERM or EROFS if records may not be deleted."""
        if opening.writes:
            await self._partition.recover()
            if self._partition.is_gone:
                raise FUSEError(errno.ESTALE)  # the kernel looks the name up again and finds the recovered log
            self.check_writable(number)
        return Opened(StartHandle(self, self._content()), direct=True)

    def check_writable(self, number: int) -> None:
        if not self._mount.options.delete_records:
            raise self._mount.refusals.missing_option("delete-records", "open", self.path)
        if not self.is_writable:
            raise FUSEError(errno.EROFS)

    async def delete_records(self, offset: int) -> None:
        """Delete the records below `offset`. -1: all records that were accepted until now."""
        log = self._partition.log
        await self._accumulators.of(self._partition.name).drain()
        await self._mount.executor.in_thread(lambda: log.delete_records(offset))
        # The kernel may have cached names of deleted records, and returns them until their cache time is over.
        await trio.sleep_until(self._partition.named_at + REMOVABLE_S + REPLY_S)


class StartHandle:
    """An open `start`. A read returns the offset at open."""

    def __init__(self, file: StartFile, content: bytes) -> None:
        self._file = file
        self._content = content

    async def read(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]

    async def write(self, data: bytes) -> int:
        """Delete the records below an offset; durable on return. EINVAL if it is no offset, ERANGE beyond the end."""
        match = _OFFSET.fullmatch(data)
        if match is None:
            raise FUSEError(errno.EINVAL)
        try:
            await self._file.delete_records(int(match[1]))
        except OffsetOutOfRange as error:
            raise OSError(errno.ERANGE, f"{error.offset} is {error.reason}", self._file.path) from error
        return len(data)

    async def flush(self) -> None:
        """Return at once: `write` is durable."""

    fsync = release = flush
