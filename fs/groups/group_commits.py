"""`groups/<group>/<partition>`: the committed offset of a group. Writing a number commits that offset.

    echo 42 > groups/billing/orders-0     the group continues at offset 42
    rm groups/billing/orders-0            the group has no commit for this partition any more

One write(2) is one commit, and its errno is the result: EINVAL if the data is no offset or the partition does not
exist, ERANGE for an offset beyond the end of the log. EPERM if `__consumer_offsets` is missing and may not be created.
After return the commit is in the segment file of `__consumer_offsets`, visible to every reader. It is on disk like any
other record, at once with fsync or O_SYNC (storage.coordinators.group_records).
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import trio

from offsetfs.fs.appends.accumulator import Accumulator, Accumulators, batch_size
from offsetfs.fs.attributes import RECORD_MODE, milliseconds_ns
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.groups.known_groups import Groups
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.storage import OFFSET_MAX, TopicPartition, coordinators

if TYPE_CHECKING:  # a mount whose groups are not read does without their modules
    from offsetfs.storage.coordinators import Commit

WRITABLE_MODE = 0o644

_PARTITION_BITS = 20
_OFFSET = re.compile(rb"\s*([0-9]{1,19})\s*")


class CommitFiles:
    """The commits. `number`: the number of the group, and in the low 20 bits that of the partition."""

    def __init__(self, groups: Groups, accumulators: Accumulators) -> None:
        self._groups = groups
        self._accumulators = accumulators
        self._awaited: Counter[int] = Counter()  # open files that were created: they exist without a commit

    def number(self, group: bytes, partition: TopicPartition) -> int:
        low_bits = self._groups.partitions.of(partition)
        if low_bits >> _PARTITION_BITS:
            raise OSError(errno.EOVERFLOW, "commits of more than a million partitions")
        return self._groups.groups.of(group) << _PARTITION_BITS | low_bits

    def group(self, number: int) -> bytes:
        return self._groups.groups.at(number >> _PARTITION_BITS)

    def partition(self, number: int) -> TopicPartition:
        return self._groups.partitions.at(number & (1 << _PARTITION_BITS) - 1)

    def path(self, number: int) -> str:
        return f"groups/{self.group(number).decode('utf-8', 'backslashreplace')}/{self.partition(number)}"

    def entry(self, group: bytes, commit: Commit) -> EntryAttributes:
        mtime_ns = milliseconds_ns(max(commit.timestamp, 0))
        return self._entry(self.number(group, commit.partition), len(_content(commit)), mtime_ns)

    def _entry(self, number: int, size: int, mtime_ns: int) -> EntryAttributes:
        mode = WRITABLE_MODE if self._groups.is_writable else RECORD_MODE
        return self._groups.mount.attributes.file(pack(Kind.GROUP_COMMIT, 0, number), size, mtime_ns, mode=mode)

    async def lookup(self, group: bytes, partition: TopicPartition) -> EntryAttributes | None:
        number = self.number(group, partition)
        commit = await self._commit(number)
        if commit is not None:
            return self.entry(group, commit)
        return self._entry(number, 0, 0) if self._awaited[number] else None

    async def attributes(self, number: int) -> EntryAttributes:
        """Return the attributes; ESTALE when the commit expired, or was deleted."""
        entry = await self.lookup(self.group(number), self.partition(number))
        if entry is None:
            raise FUSEError(errno.ESTALE)
        return entry

    async def _commit(self, number: int) -> Commit | None:
        commits = await self._groups.commits(self.group(number)) or []
        partition = self.partition(number)
        return next((commit for commit in commits if commit.partition == partition), None)

    # --- open files --------------------------------------------------------------------------------------------------

    async def open(self, number: int, opening: Opening) -> Opened:
        commit = await self._commit(number)
        if commit is None and not self._awaited[number]:
            raise FUSEError(errno.ESTALE)
        content = b"" if commit is None else _content(commit)
        if not opening.writes:
            return Opened(content, direct=True)
        self.check_writable(number)
        self._awaited[number] += 1
        return Opened(CommitHandle(self, number, opening.flags, content), direct=True)

    async def create(self, group: bytes, partition: TopicPartition, opening: Opening) -> tuple[EntryAttributes, Opened]:
        """Open a file without a commit. The first write commits; a file that is closed without one disappears."""
        number = self.number(group, partition)
        self.check_writable(number)
        self._awaited[number] += 1
        handle = CommitHandle(self, number, opening.flags, b"")
        return await self.attributes(number), Opened(handle, direct=True)

    def released(self, number: int) -> None:
        """Forget a closed handle of `open` or `create`."""
        self._awaited[number] -= 1
        if not self._awaited[number]:
            del self._awaited[number]

    def check_writable(self, number: int) -> None:
        if not self._groups.is_writable:
            raise self._groups.mount.refusals.missing_option("create", "open", self.path(number))

    async def check(self, number: int, offset: int) -> None:
        """Raise OSError for a commit that no consumer could use: EINVAL if the partition is missing, else ERANGE."""
        mount, partition = self._groups.mount, self.partition(number)
        if not mount.directory.has(partition):
            raise OSError(errno.EINVAL, f"there is no partition {partition} in this mount", self.path(number))
        end = await mount.executor.in_thread(lambda: mount.directory.log(partition).next_offset)
        if offset > end:
            raise OSError(errno.ERANGE, f"offset {offset} is beyond the end of {partition}, {end}", self.path(number))

    async def remove(self, group: bytes, partition: TopicPartition) -> None:
        """Delete a commit. ENOENT if it does not exist."""
        number = self.number(group, partition)
        if await self._commit(number) is None:
            raise FUSEError(errno.ENOENT)
        await self.write(number, None)

    # --- commits -----------------------------------------------------------------------------------------------------

    async def write(self, number: int, offset: int | None) -> Accumulator:
        """Commit `offset`, or delete the commit if it is None. After return this is in the segment file."""
        mount, group = self._groups.mount, self.group(number).decode()
        home = await mount.executor.in_thread(
            lambda: coordinators.partition_of_group(mount.directory, group, may_create=self._groups.may_create)
        )
        await mount.executor.in_thread(lambda: mount.directory.writable_log(home))
        accumulator, timestamp = self._accumulators.of(home), time.time_ns() // 1_000_000
        key, value = coordinators.commit_key(group, self.partition(number)), None
        if offset is not None:
            value = coordinators.commit_value(coordinators.CommittedOffset(offset, -1, "", timestamp))
        await _append(accumulator, key, value, timestamp)
        return accumulator


async def _append(accumulator: Accumulator, key: bytes, value: bytes | None, timestamp: int) -> None:
    """Append one record. After return it is in the segment file; OSError if it was not written."""
    size, writer = batch_size(key, value), _Writer()
    if size > accumulator.batch_bytes_max:
        raise OSError(
            errno.EMSGSIZE, f"a commit of {size} bytes; max.message.bytes allows {accumulator.batch_bytes_max}"
        )
    try:
        with trio.move_on_after(accumulator.context.wait_s) as waiting:
            while not accumulator.append(key, value, (), timestamp, writer):
                await accumulator.wait_for_space(writer, size)
        if waiting.cancelled_caught:
            raise OSError(errno.EINTR, os.strerror(errno.EINTR))
        await accumulator.drain()
    finally:
        accumulator.shared_sync.writers.discard(writer)
    if writer.code is not None:
        raise OSError(writer.code, os.strerror(writer.code))


class _Writer:
    """The writer of one record: it keeps the errno if the record was lost."""

    wants_offsets = False

    def __init__(self) -> None:
        self.code: int | None = None

    def failed(self, code: int) -> None:
        self.code = self.code or code

    def acknowledged(self, offset: int, count: int, timestamp: int, partition: int) -> None:
        """Ignore the offset of the record."""

    async def release(self) -> None:
        """Return at once: there is no unfinished record."""


class CommitHandle:
    """An open commit. A read returns the offset at open, or the last offset written through this handle."""

    def __init__(self, file: CommitFiles, number: int, flags: int, content: bytes) -> None:
        self._file = file
        self._number = number
        self._is_synchronous = bool(flags & os.O_DSYNC)
        self._content = content
        self._written: set[Accumulator] = set()

    async def read(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]

    async def write(self, data: bytes) -> int:
        """Commit the offset in `data`. EINVAL if there is none; other errors as those of an append."""
        match = _OFFSET.fullmatch(data)
        offset = int(match[1]) if match else -1
        if not 0 <= offset <= OFFSET_MAX:
            raise OSError(errno.EINVAL, "an offset is a number from 0 to 2^63 - 1", self._file.path(self._number))
        await self._file.check(self._number, offset)
        self._written.add(await self._file.write(self._number, offset))
        self._content = b"%d\n" % offset
        if self._is_synchronous:
            await self.fsync()
        return len(data)

    async def flush(self) -> None:
        """Return at once: `write` has appended the commit."""

    async def fsync(self) -> None:
        for accumulator in self._written:
            await accumulator.sync()

    async def release(self) -> None:
        self._file.released(self._number)


def _content(commit: Commit) -> bytes:
    return b"%d\n" % commit.offset
