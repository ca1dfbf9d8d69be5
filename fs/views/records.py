"""`<offset>`: one file for each record, its value bytes.

A record never changes, so the kernel may cache size and content without a time limit. It may be removed, so the kernel
caches its name for a second only. Later look-ups fail with ENOENT; readers that have the file open read on. A
look-up decodes the record and keeps it for a moment: the open and the read that follow find it. The batch is kept as
well, for its neighbors.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import trio
from pyfuse3 import ENOATTR, EntryAttributes, FUSEError

from offsetfs.fs.attributes import FOREVER_S, REMOVABLE_S, milliseconds_ns
from offsetfs.fs.inodes import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared, Shown
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import Batch

XATTR_PREFIX = b"user.kafka."
XATTR_BYTES_MAX = 65536  # of the kernel's

HANDED_OVER_BYTES_MAX = 64 << 10
"""Values up to this size are passed to the kernel at open, which saves a request. The reader of a larger value may need
its beginning only."""

_SHOWN_OVERHEAD_BYTES = 1000


class RecordFiles:
    """The records of one partition. `number`: the offset less the partition's anchor."""

    def __init__(self, shared: Shared, partition: Partition) -> None:
        self._shared = shared
        self._partition = partition
        self._open: dict[int, RecordHandle] = {}  # by number; a record that is open is shown whatever becomes of it

    async def lookup(self, offset: int) -> EntryAttributes | None:
        found = await self._find(offset)
        return None if found is None else self._attributes(*found)

    async def find(self, offset: int) -> Shown | None:
        """Return the record for a name that the kernel will cache; None where there is none, or ENOENT."""
        found = await self._find(offset)
        return None if found is None else found[1]

    async def _find(self, offset: int) -> tuple[int, Shown] | None:
        """Return what `find` returns, and its inode number."""
        partition = self._partition
        end = await self._shared.answer(partition.view.end_offset)
        if not partition.log.log_start_offset <= offset < end:
            return None
        inode = partition.offset_inode(Kind.RECORD, offset)
        shown = await self._shown(inode, offset)
        if offset < partition.log.log_start_offset:
            return None  # it was deleted meanwhile, and its name may not be returned any more
        partition.named_at = trio.current_time()
        return inode, shown

    async def attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(Kind.RECORD, number)
        return self._attributes(inode, await self.shown(number))

    async def open(self, number: int, opening: Opening) -> Opened:
        handle = await self.hold(number)
        if handle.users == 1 and 0 < len(handle.shown.value) <= HANDED_OVER_BYTES_MAX:
            # The first who opens it: no page is being read, which the kernel would have us wait for, and it us.
            self._shared.hand_over(self._partition.inode(Kind.RECORD, number), handle.shown.value)
        return Opened(handle)

    async def hold(self, number: int) -> RecordHandle:
        """Return the handle of a record, which is shown, whatever becomes of it, until that is released."""
        handle = self._open.get(number)
        if handle is None:
            shown = await self.shown(number)
            handle = self._open.setdefault(number, RecordHandle(self._open, number, shown))
        handle.users += 1
        return handle

    def _attributes(self, inode: int, shown: Shown) -> EntryAttributes:
        return self._shared.attributes.file(
            inode, len(shown.value), shown.mtime_ns, attr_timeout_s=FOREVER_S, entry_timeout_s=REMOVABLE_S
        )

    # --- finding ---------------------------------------------------------------------------------------------------

    async def _shown(self, inode: int, offset: int) -> Shown:
        source = self._partition.source
        shown = self._shared.records.get((inode, source))
        if shown is None:
            batch = self._shared.batches.find(source, offset)
            if batch is None:
                batch = await self._shared.answer(_inflated_batch_at, self._partition.log, offset)
                if batch is None or batch.base_offset > offset:
                    raise FUSEError(errno.ENOENT)  # the end of the log, or a gap that compaction left
                self._shared.batches.keep(source, batch)
            if not await self._shared.answer(self._partition.view.shows, batch.header):
                raise FUSEError(errno.ENOENT)  # of no record, or of one that does not count
            shown = self._show(batch, offset)
            size = len(shown.value) + len(shown.record.key or b"") + _SHOWN_OVERHEAD_BYTES
            self._shared.records.put((inode, source), shown, size)
        elif offset < self._partition.log.log_start_offset:
            raise FUSEError(errno.ENOENT)  # retention was faster
        return shown

    def _show(self, batch: Batch, offset: int) -> Shown:
        record = batch.record(offset)
        if record is None or offset < self._partition.log.log_start_offset:
            raise FUSEError(errno.ENOENT)
        if record.timestamp == -1:
            mtime_ns = segment_mtime_ns(self._partition, offset)
        else:
            mtime_ns = milliseconds_ns(record.timestamp)
        return Shown(record.value or b"", mtime_ns, record, batch.header, batch.base_offset)

    # --- extended attributes ---------------------------------------------------------------------------------------

    async def xattr(self, number: int, name: bytes) -> bytes:
        """Return `user.kafka.<name>`; ENODATA when there is no such, E2BIG when the kernel takes none so big."""
        describe = _XATTRS.get(name.removeprefix(XATTR_PREFIX)) if name.startswith(XATTR_PREFIX) else None
        if describe is None:
            raise FUSEError(ENOATTR)
        value = describe(await self.shown(number))
        if value is None:
            raise FUSEError(ENOATTR)
        if len(value) > XATTR_BYTES_MAX:
            raise FUSEError(errno.E2BIG)
        return value

    async def xattrs(self, number: int) -> list[bytes]:
        shown = await self.shown(number)
        return [XATTR_PREFIX + name for name, describe in _XATTRS.items() if describe(shown) is not None]

    async def shown(self, number: int) -> Shown:
        """Return the record of an inode number; ENOENT when it was removed, unless it is open."""
        handle = self._open.get(number)
        if handle is not None:
            return handle.shown
        offset = self._partition.anchor + number
        return await self._shown(self._partition.offset_inode(Kind.RECORD, offset), offset)


class RecordHandle:
    """An open record, shared by all its open descriptors."""

    __slots__ = ("_number", "_open", "shown", "users")

    def __init__(self, opened: dict[int, RecordHandle], number: int, shown: Shown) -> None:
        self.shown = shown
        self.users = 0
        self._open = opened
        self._number = number

    async def read(self, position: int, size: int) -> bytes:
        return self.shown.value[position : position + size]

    async def release(self) -> None:
        self.users -= 1
        if not self.users:
            del self._open[self._number]


def _inflated_batch_at(log: Log, offset: int, *, nowait: bool) -> Batch | None:
    """Return what `log.batch_at` returns, its records inflated: a thread does what takes long, or fails."""
    batch = log.batch_at(offset, nowait=nowait)
    if batch is not None:
        batch.payload()
    return batch


def segment_mtime_ns(partition: Partition, offset: int) -> int:
    """Return the time that stands for a record which has none: that of its segment's file."""
    segment = partition.log.snapshot().floor(offset)
    return segment.modified_ns if segment is not None else 0


def _headers(shown: Shown) -> bytes | None:
    lines = [name.encode("utf-8", "surrogateescape") + b": " + (value or b"") for name, value in shown.record.headers]
    return b"".join(line + b"\n" for line in lines) or None


def _sequence(shown: Shown) -> int:
    base = shown.header.base_sequence
    return -1 if base < 0 else (base + shown.record.offset - shown.base_offset) % 2**31


def _number(of: Callable[[Shown], int]) -> Callable[[Shown], bytes | None]:
    return lambda shown: b"%d" % of(shown)


_XATTRS: dict[bytes, Callable[[Shown], bytes | None]] = {
    b"offset": _number(lambda shown: shown.record.offset),
    b"timestamp": _number(lambda shown: shown.record.timestamp),
    b"timestamp-type": lambda shown: shown.record.timestamp_type.encode(),
    b"key": lambda shown: shown.record.key,
    b"headers": _headers,
    b"null": _number(lambda shown: shown.record.value is None),
    b"base-offset": _number(lambda shown: shown.base_offset),
    b"codec": lambda shown: shown.header.codec_name.encode(),
    b"producer-id": _number(lambda shown: shown.header.producer_id),
    b"producer-epoch": _number(lambda shown: shown.header.producer_epoch),
    b"sequence": _number(_sequence),
    b"transactional": _number(lambda shown: shown.header.is_transactional),
    b"control": _number(lambda shown: shown.header.is_control),
    b"leader-epoch": _number(lambda shown: shown.header.leader_epoch),
}
