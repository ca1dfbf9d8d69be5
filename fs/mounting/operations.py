"""The request handlers of pyfuse3, by inode.

Handlers find the node that an inode number names (`node_table`) and let it do the work; what a node raises becomes an
errno by the table in `errors`, and a line in `.offsetfs/errors`. Nothing but FUSEError ever leaves a handler, for
pyfuse3 would end the mount; any other exception becomes EIO, with a traceback in the log.

Nothing here waits for the disk: nodes ask the engine for what the page cache has and leave the rest to threads.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import pyfuse3
import trio
from pyfuse3 import (
    ENOATTR,
    EntryAttributes,
    FileInfo,
    FUSEError,
    PollHandle,
    RequestContext,
    SetattrFields,
    StatvfsData,
)

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.append_file import APPEND_FILES
from offsetfs.fs.counters import PartitionCounts
from offsetfs.fs.error_log import Fault
from offsetfs.fs.errors import errno_of, is_fault, name_of
from offsetfs.fs.inodes import Fixed, Kind, pack, unpack
from offsetfs.fs.mounting.directories import key
from offsetfs.fs.mounting.map_keeping import MapKeeper
from offsetfs.fs.mounting.node_table import NodeTable
from offsetfs.fs.nodes import (
    Handle,
    Listing,
    Opened,
    Opening,
    Reply,
    WritableFile,
    is_closable,
    is_pollable,
    minds_places,
    takes_writes,
)
from offsetfs.fs.options import MountOptions
from offsetfs.fs.shared import Shared
from offsetfs.fs.waiting import ALWAYS_READY
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import InvalidName, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.views.view_blocks import UNREADABLE

_log = logging.getLogger(__name__)

_DESCRIBED = frozenset({Kind.RECORD, Kind.KEYED})
"""Kinds of files that have extended attributes."""

NAME_BYTES_MAX = 255
"""Of one name, as in other file systems. The kernel would hand on four times as much."""

_WRITABLE = frozenset(
    {*APPEND_FILES, key(Kind.TOPIC_APPEND, 0), key(Kind.GROUP_COMMIT, 0), Fixed.START, Fixed.FLUSH, Fixed.LOG_LEVEL}
)
"""The `WritableFile`s, by key."""

_GROUPS_INODE = pack(Kind.FIXED, 0, Fixed.GROUPS)

_BY_HANDLE = frozenset({"readdir", "releasedir", "fsyncdir", "read", "write", "flush", "fsync", "release"})
_BY_NAME = frozenset({"lookup", "mkdir", "rmdir", "create", "unlink"})

P = ParamSpec("P")
T = TypeVar("T")


def guarded(
    handler: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]]:
    """Let nothing but FUSEError out of a handler."""

    name = handler.__name__

    async def guard(self: Operations, /, *args: P.args, **kwargs: P.kwargs) -> T:
        counters = self.shared.counters
        counters.requests[name] += 1
        try:
            return await handler(self, *args, **kwargs)
        except FUSEError as refusal:
            counters.refusals[refusal.errno] += 1
            self.refused(refusal, name, args)
            raise
        except Exception as error:
            failure = self.failed(error, name, self._path_of(name, args))
            counters.refusals[failure.errno] += 1
            raise failure from None

    functools.update_wrapper(guard, handler)
    return guard


class Operations(pyfuse3.Operations):
    """The handlers of one mount."""

    supports_dot_lookup = False

    def __init__(self, directory: AnyLogDirectory, options: MountOptions, nursery: trio.Nursery) -> None:
        self.shared = Shared(directory, options, nursery)
        self._maps = MapKeeper(self.shared, lambda name: self._nodes.kept(name))
        self.shared.look_for_maps = self._maps.look
        self.accumulators = Accumulators(
            directory, options, nursery, self._grown, counters=self.shared.counters, error_log=self.shared.error_log
        )
        self._nodes = NodeTable(self.shared, self.accumulators, lambda: len(self._handles))
        self._handles: dict[int, bytes | Handle] = {}
        self._counted: dict[int, PartitionCounts] = {}  # by handle: where reads of it count
        self._inodes: dict[int, int] = {}  # by handle, of directories too: for error reports
        self._listings: dict[int, Listing] = {}
        self._last_handle = 0

    def failed(self, error: Exception, handler: str, path: str) -> FUSEError:
        """Return what to answer for `error`, met on `path` of the mount, after recording it in the error log."""
        if not isinstance(error, StorageError | OSError):
            _log.error("%s %s failed", handler, path, exc_info=error)
        if isinstance(error, UNREADABLE):
            self.shared.directory.note_damage(error)
        if is_fault(error):
            self.shared.error_log.add(error, handler, path)
        return FUSEError(errno_of(error))

    def refused(self, refusal: FUSEError, handler: str, args: tuple[object, ...]) -> None:
        """Say it to those who want to know everything."""
        if _log.isEnabledFor(logging.DEBUG):
            name = name_of(refusal.errno)
            _log.debug("%s %s: %s", handler, self._path_of(handler, args), name)

    def _path_of(self, handler: str, args: tuple[object, ...]) -> str:
        """Return the path that a handler was called for: its first argument is an inode, or a handle."""
        number = args[0] if args and isinstance(args[0], int) else 0
        if handler in _BY_HANDLE:
            number = self._inodes.get(number, 0)
        name = args[1] if handler in _BY_NAME and isinstance(args[1], bytes) else b""
        return self._nodes.path_of(number, name)

    def _grown(self, name: TopicPartition) -> None:
        """A partition was appended to, or is gone."""
        self.shared.waiting.grown(name)
        self._maps.look(name)

    # --- names and attributes ----------------------------------------------------------------------------------------

    @guarded
    async def lookup(self, parent_inode: int, name: bytes, ctx: RequestContext) -> EntryAttributes:
        if len(name) > NAME_BYTES_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        kind, partition, number = unpack(parent_inode)
        entry = await (await self._nodes.directory(kind, partition, number)).lookup(number, name)
        if entry is None:
            raise FUSEError(errno.ENOENT)
        return entry

    @guarded
    async def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        kind, partition, number = unpack(inode)
        return await (await self._nodes.node(kind, partition, number)).attributes(number)

    @guarded
    async def setattr(
        self, inode: int, attr: EntryAttributes, fields: SetattrFields, fh: int | None, ctx: RequestContext
    ) -> EntryAttributes:
        kind, partition, number = unpack(inode)
        if key(kind, number) not in _WRITABLE or not fields.update_size:
            raise self.shared.refusal()
        node = cast(WritableFile, await self._nodes.node(kind, partition, number))
        node.check_writable(number)
        handle = None if fh is None else self._handles.get(fh)
        if minds_places(handle):
            handle.resize(attr.st_size)
        elif attr.st_size != 0:
            raise FUSEError(errno.EINVAL)
        return await node.attributes(number)

    @guarded
    async def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        kind, partition, number = unpack(inode)
        link = (await self._nodes.tree(partition)).links.get(key(kind, number))
        if link is None:
            raise FUSEError(errno.EINVAL)
        return link.target(number)

    @guarded
    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        return await self.shared.in_thread(self._statfs)

    def _statfs(self) -> StatvfsData:
        """Return the figures of the log directory's file system; with several directories, the sums over their disks.

        Their unit is the block size of the first. A disk that does not answer any more adds nothing.
        """
        disks: dict[int, os.statvfs_result] = {}
        for directory in self.shared.directory.directories:
            with contextlib.suppress(OSError):
                disks.setdefault(os.stat(directory.path).st_dev, os.statvfs(directory.path))
        if not disks:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.shared.directory.path)
        found = list(disks.values())
        data, unit = StatvfsData(), found[0].f_frsize
        data.f_bsize, data.f_frsize, data.f_namemax = found[0].f_bsize, unit, min(disk.f_namemax for disk in found)
        data.f_blocks = sum(disk.f_blocks * disk.f_frsize // unit for disk in found)
        data.f_bfree = sum(disk.f_bfree * disk.f_frsize // unit for disk in found)
        data.f_bavail = sum(disk.f_bavail * disk.f_frsize // unit for disk in found)
        data.f_files = sum(disk.f_files for disk in found)
        data.f_ffree = sum(disk.f_ffree for disk in found)
        data.f_favail = sum(disk.f_favail for disk in found)
        return data

    @guarded
    async def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        if not name.startswith(b"user."):
            raise FUSEError(errno.EOPNOTSUPP)
        kind, partition, number = unpack(inode)
        if kind not in _DESCRIBED or not name.startswith(b"user.kafka."):
            raise FUSEError(ENOATTR)
        return await (await self._nodes.tree(partition)).described[kind].xattr(number, name)

    @guarded
    async def listxattr(self, inode: int, ctx: RequestContext) -> Sequence[bytes]:
        kind, partition, number = unpack(inode)
        if kind not in _DESCRIBED:
            return []
        return await (await self._nodes.tree(partition)).described[kind].xattrs(number)

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        """Let go of what the kernel no longer knows. The kernel takes no error here, and none occurs."""
        for inode, lookups in inode_list:
            kind, partition, number = unpack(inode)
            self._nodes.forget(kind, partition, number, lookups)

    # --- directories -------------------------------------------------------------------------------------------------

    @guarded
    async def opendir(self, inode: int, ctx: RequestContext) -> int:
        kind, partition, number = unpack(inode)
        listing = await (await self._nodes.directory(kind, partition, number)).listing(number)
        self._last_handle += 1
        self._listings[self._last_handle] = listing
        self._inodes[self._last_handle] = inode
        return self._last_handle

    @guarded
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        await self.entries(fh, start_id, functools.partial(pyfuse3.readdir_reply, token))

    @guarded
    async def entries(self, fh: int, start: int, reply: Reply) -> None:
        """Reply the entries of an open directory from a place on, to the kernel or to `path_tree`."""
        await self._listings[fh].reply(start, reply)

    @guarded
    async def releasedir(self, fh: int) -> None:
        del self._listings[fh]
        del self._inodes[fh]

    @guarded
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        """Do nothing: names of this tree are on disk before they are visible."""

    @guarded
    async def mkdir(self, parent_inode: int, name: bytes, mode: int, ctx: RequestContext) -> EntryAttributes:
        if parent_inode == _GROUPS_INODE:
            return await self._nodes.groups.make(name)
        if parent_inode != pyfuse3.ROOT_INODE:
            raise self.shared.refusal()
        if self.shared.is_read_only or not self.shared.options.create:
            raise self.shared.lacking("create", "mkdir", os.fsdecode(name))
        wanted = self._partition_to_make(name)
        await self.shared.in_thread(lambda: self.shared.directory.create_partition(wanted))
        return self._nodes.directory_of(self._nodes.partitions.of(wanted)).entry()

    def _partition_to_make(self, name: bytes) -> TopicPartition:
        """Return the partition that a directory of this name would be; EINVAL, reported with the reason."""
        text = name.decode("utf-8", "surrogateescape")
        try:
            return TopicPartition.parse(text)
        except InvalidName as error:
            remedy = "mkdir orders-0 makes partition 0 of the topic orders"
            self.shared.error_log.report(Fault(errno.EINVAL, "mkdir", os.fsdecode(name), str(error), remedy))
            raise FUSEError(errno.EINVAL) from None

    @guarded
    async def rmdir(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        if parent_inode == _GROUPS_INODE:
            await self._nodes.groups.remove(name)
            return
        partition = self._nodes.partitions.find(name) if parent_inode == pyfuse3.ROOT_INODE else None
        if partition is None:
            raise self.shared.refusal()
        if self.shared.is_read_only or not self.shared.options.delete:
            raise self.shared.lacking("delete", "rmdir", str(partition.name))
        await self.accumulators.forget(partition.name)
        await self.shared.in_thread(lambda: self.shared.directory.delete_partition(partition.name))
        partition.removed()
        for index in self.shared.key_indexes.take_gone():
            await self.shared.in_thread(index.close)
        self._grown(partition.name)
        self.shared.counters.forget(partition.name)
        self.shared.wake_duties()

    # --- open files --------------------------------------------------------------------------------------------------

    @guarded
    async def open(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        kind, partition, number = unpack(inode)
        opening = Opening(flags, ctx.pid)
        if opening.writes and key(kind, number) not in _WRITABLE:
            raise self.shared.refusal()
        node = await self._nodes.file(kind, partition, number)
        return self._opened(inode, partition, await node.open(number, opening))

    @guarded
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        """Open what is not there yet: the commit of a group."""
        kind, partition, number = unpack(parent_inode)
        if kind != Kind.GROUP:
            raise self.shared.refusal()
        entry, opened = await self._nodes.groups.directories.create(number, name, Opening(flags, ctx.pid))
        return self._opened(entry.st_ino, partition, opened), entry

    @guarded
    async def unlink(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        """Remove the commit of a group; nothing else can be removed so."""
        kind, _, number = unpack(parent_inode)
        if kind != Kind.GROUP:
            raise self.shared.refusal()
        await self._nodes.groups.directories.remove(number, name)

    def _opened(self, inode: int, partition: int, opened: Opened) -> FileInfo:
        self._last_handle += 1
        self._handles[self._last_handle] = opened.handle
        self._counted[self._last_handle] = self._nodes.counts_of(partition)
        self._inodes[self._last_handle] = inode
        return FileInfo(
            fh=self._last_handle,
            direct_io=opened.direct,
            keep_cache=not opened.direct,
            nonseekable=opened.is_stream,
        )

    @guarded
    async def read(self, fh: int, off: int, size: int) -> bytes:
        handle, counts = self._handles[fh], self._counted[fh]
        counts.reads += 1
        if isinstance(handle, bytes):
            return handle[off : off + size]
        answer = await handle.read(off, size)
        counts.read_bytes += len(answer)
        return cast(bytes, answer)  # a view, or a bytearray: pyfuse3 takes any buffer

    @guarded
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        handle = self._handles[fh]
        if not takes_writes(handle):
            raise FUSEError(errno.EBADF)
        if minds_places(handle):
            handle.place(off)
        return await handle.write(buf)

    @guarded
    async def poll(self, inode: int, fh: int, poll_handle: PollHandle | None, ctx: RequestContext) -> int:
        """Answer poll, select and epoll; a file without wait semantics is always ready, like any regular file."""
        handle = self._handles[fh]
        if not is_pollable(handle):
            return ALWAYS_READY
        return await handle.poll(fh, poll_handle)

    @guarded
    async def flush(self, fh: int) -> None:
        handle = self._handles[fh]
        if takes_writes(handle):
            await handle.flush()

    @guarded
    async def fsync(self, fh: int, datasync: bool) -> None:
        handle = self._handles[fh]
        if takes_writes(handle):
            await handle.fsync()

    @guarded
    async def release(self, fh: int) -> None:
        """Let go of a handle. What has to wait goes on after the reply.

        The kernel sends at most 12 background requests at once, RELEASE among them: one that waited would keep the
        RELEASE of other files in the kernel, while later requests of their writers are sent.
        """
        handle, path = self._handles.pop(fh), functools.partial(self._nodes.path_of, self._inodes.pop(fh))
        del self._counted[fh]
        self.shared.waiting.forget(fh)
        if is_closable(handle):
            handle.close()
            self.shared.nursery.start_soon(self._release, handle, path)
        elif not isinstance(handle, bytes):
            await handle.release()

    async def _release(self, handle: Handle, path: Callable[[], str]) -> None:
        try:
            await handle.release()
        except Exception as error:  # the mount goes on
            self.failed(error, "release", path())

    # --- what is refused ---------------------------------------------------------------------------------------------

    async def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        """Records cannot be changed or named otherwise, and few things can be made or removed by name."""
        raise self.shared.refusal()

    mknod = symlink = link = rename = setxattr = removexattr = _refuse
