"""`<offset>`: one file for each record, with the bytes of its value.

A record never changes, so the kernel may cache size and content without a time limit. It may be removed, so the kernel
caches its name for one second only. Later look-ups fail with ENOENT; readers that have the file open read on. A
look-up decodes the record and caches it for the open and the read that follow, and its batch for the other records.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import trio

from offsetfs.fs.attributes import FOREVER_S, REMOVABLE_S, milliseconds_ns
from offsetfs.fs.caches import RecordContent
from offsetfs.fs.fuse_types import ENOATTR, EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import Batch

XATTR_PREFIX = b"user.kafka."
XATTR_BYTES_MAX = 65536  # the kernel's limit

LISTED_XATTR_BYTES_MAX = 3 << 10
"""The bound of the listed names and values. Copies take over listed attributes, and ext4 stores about 4,000 bytes of
attributes for a file, of which entries and padding take up to 500."""

HANDED_OVER_BYTES_MAX = 64 << 10
"""Values up to this size are passed to the kernel at open, which saves a read request. Readers of larger values often
need only the beginning."""

_CONTENT_OVERHEAD_BYTES = 1000


class RecordFiles:
    """The records of one partition. `number`: the offset less the partition's anchor."""

    def __init__(self, mount: MountContext, partition: MountedPartition) -> None:
        self._mount = mount
        self._partition = partition
        self._open: dict[int, RecordHandle] = {}  # by number; stays readable after the record is removed

    async def lookup(self, offset: int) -> EntryAttributes | None:
        numbered = await self._find(offset)
        return None if numbered is None else self._attributes(*numbered)

    async def find(self, offset: int) -> RecordContent | None:
        """Return the record for a name that the kernel will cache. None, or FUSEError ENOENT, without a record."""
        numbered = await self._find(offset)
        return None if numbered is None else numbered[1]

    async def _find(self, offset: int) -> tuple[int, RecordContent] | None:
        """Return inode number and record, as `find`."""
        partition = self._partition
        end = await self._mount.executor.answer(partition.view.end_offset)
        if not partition.log.log_start_offset <= offset < end:
            return None
        inode = partition.offset_inode(Kind.RECORD, offset)
        content = await self._find_content(inode, offset)
        # Checked again after the wait: a name that is returned now stays in the kernel's cache for a second.
        if offset < partition.log.log_start_offset:
            return None  # deleted during the wait
        # A write to `start` waits until the kernel has dropped this name: FUSE has no answer that takes a name back.
        partition.named_at = trio.current_time()
        return inode, content

    async def attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(Kind.RECORD, number)
        return self._attributes(inode, await self.content(number))

    async def open(self, number: int, opening: Opening) -> Opened:
        handle = await self.hold(number)
        if handle.users == 1 and 0 < len(handle.content.value) <= HANDED_OVER_BYTES_MAX:
            # Only for the first open: a store into the page cache waits for a page that is being read, and that read
            # waits for the daemon.
            self._mount.events.content_known.publish(self._partition.inode(Kind.RECORD, number), handle.content.value)
        return Opened(handle)

    async def hold(self, number: int) -> RecordHandle:
        """Return the handle of a record. It keeps the record readable until its release, also if that is removed."""
        handle = self._open.get(number)
        if handle is None:
            content = await self.content(number)
            handle = self._open.setdefault(number, RecordHandle(self._open, number, content))
        handle.users += 1
        return handle

    def _attributes(self, inode: int, content: RecordContent) -> EntryAttributes:
        return self._mount.attributes.file(
            # Size and content never change, so the kernel may keep them; the name may disappear, so it expires.
            inode,
            len(content.value),
            content.mtime_ns,
            attr_timeout_s=FOREVER_S,
            entry_timeout_s=REMOVABLE_S,
        )

    # --- finding ---------------------------------------------------------------------------------------------------

    async def _find_content(self, inode: int, offset: int) -> RecordContent:
        source = self._partition.source
        content = self._mount.caches.records.get((inode, source))
        if content is None:
            batch = self._mount.caches.batches.find(source, offset)
            if batch is None:
                find = partial(self._partition.log.batch_at, is_inflated=True)  # in a thread, if it is large
                batch = await self._mount.executor.answer(find, offset)
                if batch is None or batch.base_offset > offset:
                    raise FUSEError(errno.ENOENT)  # the end of the log, or a gap that compaction left
                self._mount.caches.batches.keep(source, batch)
            if not await self._mount.executor.answer(self._partition.view.shows, batch.header):
                raise FUSEError(errno.ENOENT)  # no data record, or excluded by the isolation level
            content = self._decode(batch, offset)
            size = len(content.value) + len(content.record.key or b"") + _CONTENT_OVERHEAD_BYTES
            self._mount.caches.records.put((inode, source), content, size)
        elif offset < self._partition.log.log_start_offset:
            raise FUSEError(errno.ENOENT)  # retention removed it after it was cached
        return content

    def _decode(self, batch: Batch, offset: int) -> RecordContent:
        record = batch.record(offset)
        if record is None or offset < self._partition.log.log_start_offset:
            raise FUSEError(errno.ENOENT)
        if record.timestamp == -1:
            mtime_ns = segment_mtime_ns(self._partition, offset)
        else:
            mtime_ns = milliseconds_ns(record.timestamp)
        return RecordContent(record.value or b"", mtime_ns, record, batch.header, batch.base_offset)

    # --- extended attributes ---------------------------------------------------------------------------------------

    async def xattr(self, number: int, name: bytes) -> bytes:
        """Return `user.kafka.<name>`; ENODATA if there is none, E2BIG above the kernel's limit."""
        describe = _XATTRS.get(name.removeprefix(XATTR_PREFIX)) if name.startswith(XATTR_PREFIX) else None
        if describe is None:
            raise FUSEError(ENOATTR)
        value = describe(await self.content(number))
        if value is None:
            raise FUSEError(ENOATTR)
        if len(value) > XATTR_BYTES_MAX:
            raise FUSEError(errno.E2BIG)
        return value

    async def xattrs(self, number: int) -> list[bytes]:
        """Return the attributes that another file system can store: a copy fails at any other attribute."""
        content = await self.content(number)
        return _listed({name: value for name, describe in _XATTRS.items() if (value := describe(content)) is not None})

    async def content(self, number: int) -> RecordContent:
        """Return the record of an inode number; ENOENT if it was removed and is not open."""
        handle = self._open.get(number)
        if handle is not None:
            return handle.content
        offset = self._partition.anchor + number
        return await self._find_content(self._partition.offset_inode(Kind.RECORD, offset), offset)


class RecordHandle:
    """An open record, shared by all its open descriptors."""

    __slots__ = ("_number", "_open", "content", "users")

    def __init__(self, opened: dict[int, RecordHandle], number: int, content: RecordContent) -> None:
        self.content = content
        self.users = 0
        self._open = opened
        self._number = number

    async def read(self, position: int, size: int) -> bytes:
        return self.content.value[position : position + size]

    async def release(self) -> None:
        self.users -= 1
        if not self.users:
            del self._open[self._number]


def _listed(values: dict[bytes, bytes]) -> list[bytes]:
    """Return the names to list: first those of bounded values, then `key` and `headers` as long as they fit."""
    listed = set[bytes]()
    free_bytes = LISTED_XATTR_BYTES_MAX
    for name in sorted(values, key=_UNBOUNDED_XATTRS.__contains__):
        size_bytes = len(XATTR_PREFIX) + len(name) + len(values[name])
        if size_bytes <= free_bytes:
            listed.add(name)
            free_bytes -= size_bytes
    return [XATTR_PREFIX + name for name in values if name in listed]


def segment_mtime_ns(partition: MountedPartition, offset: int) -> int:
    """Return the time of a record without a timestamp: that of its segment's file, in nanoseconds."""
    segment = partition.log.snapshot().floor(offset)
    return segment.modified_ns if segment is not None else 0


def _headers(content: RecordContent) -> bytes | None:
    lines = [name.encode("utf-8", "surrogateescape") + b": " + (value or b"") for name, value in content.record.headers]
    return b"".join(line + b"\n" for line in lines) or None


def _sequence(content: RecordContent) -> int:
    base = content.header.base_sequence
    return -1 if base < 0 else (base + content.record.offset - content.base_offset) % 2**31


def _number(of: Callable[[RecordContent], int]) -> Callable[[RecordContent], bytes | None]:
    return lambda content: b"%d" % of(content)


_XATTRS: dict[bytes, Callable[[RecordContent], bytes | None]] = {
    b"offset": _number(lambda content: content.record.offset),
    b"timestamp": _number(lambda content: content.record.timestamp),
    b"timestamp-type": lambda content: content.record.timestamp_type.encode(),
    b"key": lambda content: content.record.key,
    b"headers": _headers,
    b"null": _number(lambda content: content.record.value is None),
    b"base-offset": _number(lambda content: content.base_offset),
    b"codec": lambda content: content.header.codec_name.encode(),
    b"producer-id": _number(lambda content: content.header.producer_id),
    b"producer-epoch": _number(lambda content: content.header.producer_epoch),
    b"sequence": _number(_sequence),
    b"transactional": _number(lambda content: content.header.is_transactional),
    b"control": _number(lambda content: content.header.is_control),
    b"leader-epoch": _number(lambda content: content.header.leader_epoch),
}

_UNBOUNDED_XATTRS = (b"key", b"headers")
