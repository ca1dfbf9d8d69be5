"""The request handlers of pyfuse3, by inode.

Handlers find the node of an inode number (`node_table`) and call it. An exception of a node becomes an errno by the
table in `reporting/errors`, and a line in `.offsetfs/errors`. Handlers raise only FUSEError, because pyfuse3 ends the
mount at any other exception: this exception becomes EIO, with a traceback in the log.

No handler waits for the disk: nodes read what the page cache has and leave the rest to threads.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import trio

from offsetfs.common.change_feed import ChangeFeed
from offsetfs.fs import fuse_types
from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.append_file import APPEND_FILES
from offsetfs.fs.companion import MountCompanion
from offsetfs.fs.files.follow import program_of
from offsetfs.fs.fuse_types import (
    ENOATTR,
    EntryAttributes,
    FileInfo,
    FUSEError,
    PollHandle,
    RequestContext,
    SetattrFields,
    StatvfsData,
)
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.mounting.line_index_upkeep import LineIndexUpkeep
from offsetfs.fs.mounting.node_table import NodeTable
from offsetfs.fs.naming.inodes import pack, unpack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import (
    Handle,
    Listing,
    Opened,
    Opening,
    Reply,
    WritableFile,
    is_closable,
    is_placed_sink,
    is_pollable,
    is_sink,
)
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.counters import PartitionCounts
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.fs.reporting.errors import errno_of, is_fault, name_of
from offsetfs.fs.requests.waiting import ALWAYS_READY
from offsetfs.storage import AnyLogDirectory, TopicPartition, files
from offsetfs.storage.directory import LogChange
from offsetfs.storage.errors import UNREADABLE, InvalidName, StorageError

_log = logging.getLogger(__name__)

_WITH_XATTRS = frozenset(kind for kind in Kind if kind.spec.has_xattrs)
_WRITABLE = frozenset(kind for kind in Kind if kind.spec.is_writable)
_APPENDS = frozenset({*APPEND_FILES, Kind.TOPIC_APPEND, Kind.DECODED_APPEND, Kind.TOPIC_DECODED_APPEND})

NAME_BYTES_MAX = 255
"""The longest name, as in other file systems. The kernel would pass on four times as much."""

_GROUPS_INODE = pack(Kind.GROUPS)
_TOPICS_INODE = pack(Kind.TOPICS)

_COPIERS = frozenset({b"cp", b"mv", b"rsync", b"tar", b"bsdtar", b"unzip"})
"""Programs that copy directories, by the names of their processes."""

_BY_HANDLE = frozenset({"readdir", "releasedir", "fsyncdir", "read", "write", "flush", "fsync", "release"})
_BY_NAME = frozenset({"lookup", "mkdir", "rmdir", "create", "unlink"})

P = ParamSpec("P")
T = TypeVar("T")


def guarded(
    handler: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]]:
    """Return a handler that raises only FUSEError, and counts requests and refusals."""

    name = handler.__name__

    async def guard(self: Operations, /, *args: P.args, **kwargs: P.kwargs) -> T:
        counters = self.mount.counters
        counters.requests[name] += 1
        try:
            return await handler(self, *args, **kwargs)
        except FUSEError as refusal:
            counters.refusals[refusal.errno] += 1
            self._log_refusal(refusal, name, args)
            raise
        except Exception as error:
            failure = self.failed(error, name, self._path_of(name, args))
            counters.refusals[failure.errno] += 1
            raise failure from None

    functools.update_wrapper(guard, handler)
    return guard


class Operations(fuse_types.Operations):
    """The handlers of one mount."""

    supports_dot_lookup = False  # only NFS exports need look-ups of `.` and `..`

    def __init__(
        self,
        directory: AnyLogDirectory,
        options: MountOptions,
        nursery: trio.Nursery,
        mount_point: str = "",
        companion: MountCompanion | None = None,
    ) -> None:
        """`mount_point`: empty without a kernel."""
        self.mount = mount = mount_context(directory, options, nursery, mount_point, companion)
        self.accumulators = Accumulators(
            directory,
            options,
            nursery,
            mount.waiting.space_freed,
            counters=mount.counters,
            error_log=mount.error_log,
        )
        self._handles: dict[int, bytes | Handle] = {}
        self._nodes = NodeTable(mount, self.accumulators, self._handles.__len__)
        line_indexes = LineIndexUpkeep(mount, self._nodes.growing_files)
        mount.events.partition_changed.subscribe(line_indexes.check)
        mount.events.segments_changed.subscribe(line_indexes.check)
        ChangeFeed(directory).subscribe(self._changed)
        self._counted: dict[int, PartitionCounts] = {}  # by handle: where reads of it count
        self._inodes: dict[int, int] = {}  # by handle, of directories too: for error reports
        self._listings: dict[int, Listing] = {}
        self._last_handle = 0

    def failed(self, error: Exception, handler: str, path: str) -> FUSEError:
        """Return the reply to a request on `path` that failed with `error`; record the error in the error log."""
        if not isinstance(error, StorageError | OSError):
            _log.error("%s %s failed", handler, path, exc_info=error)
        if isinstance(error, UNREADABLE):
            self.mount.directory.note_damage(error)
        if is_fault(error):
            self.mount.error_log.add(error, handler, path)
        return FUSEError(errno_of(error))

    def _log_refusal(self, refusal: FUSEError, handler: str, args: tuple[object, ...]) -> None:
        """Log at level debug: a refusal such as ENOENT is no error of the mount."""
        if _log.isEnabledFor(logging.DEBUG):
            name = name_of(refusal.errno)
            _log.debug("%s %s: %s", handler, self._path_of(handler, args), name)

    def _path_of(self, handler: str, args: tuple[object, ...]) -> str:
        """Return the path of a request. The first argument of a handler is an inode, or the number of an open file."""
        number = args[0] if args and isinstance(args[0], int) else 0
        if handler in _BY_HANDLE:
            number = self._inodes.get(number, 0)
        name = args[1] if handler in _BY_NAME and isinstance(args[1], bytes) else b""
        return self._nodes.partitions.path_of(number, name)

    # --- names and attributes ----------------------------------------------------------------------------------------

    @guarded
    async def lookup(self, parent_inode: int, name: bytes, ctx: RequestContext) -> EntryAttributes:
        # The kernel accepts names of 1,024 bytes for FUSE. Without this a long name was ENOENT, as if it could exist.
        if len(name) > NAME_BYTES_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        kind, partition, number = unpack(parent_inode)
        entry = await (await self._nodes.directory(kind, partition)).lookup(number, name)
        if entry is None:
            raise FUSEError(errno.ENOENT)
        return entry

    @guarded
    async def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        kind, partition, number = unpack(inode)
        return await (await self._nodes.node(kind, partition)).attributes(number)

    @guarded
    async def setattr(
        self, inode: int, attr: EntryAttributes, fields: SetattrFields, fh: int | None, ctx: RequestContext
    ) -> EntryAttributes:
        kind, partition, number = unpack(inode)
        # A copy sets times, mode and owner after the content. If that failed, the records would be stored already, and
        # stored again when the copy is tried again.
        if kind not in _WRITABLE or not (fields.update_size or kind in _APPENDS):
            raise self._impossible("setattr", inode)
        node = cast(WritableFile, await self._nodes.node(kind, partition))
        node.check_writable(number)
        if fields.update_size:
            self._resize(fh, attr.st_size)
        return await node.attributes(number)

    def _resize(self, fh: int | None, size: int) -> None:
        """Set the length of a writable file; EINVAL if that is not possible."""
        handle = None if fh is None else self._handles.get(fh)
        if is_placed_sink(handle):
            handle.resize(size)
        # `> append` truncates to 0, which has no meaning for lines and is accepted; any other size would claim an
        # effect, except of an open file that has it.
        elif size != 0:
            raise FUSEError(errno.EINVAL)

    @guarded
    async def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        kind, partition, number = unpack(inode)
        link = (await self._nodes.nodes_in(partition)).links.get(kind)
        if link is None:
            raise FUSEError(errno.EINVAL)
        return link.target(number)

    @guarded
    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        # statvfs of a log directory on a network file system may hang.
        return await self.mount.executor.in_thread(self._statfs)

    def _statfs(self) -> StatvfsData:
        """Return the figures of the log directory's file system; with several directories, the sums over their disks.

        Their unit is the block size of the first. A disk that does not answer any more adds nothing.
        """
        if any(files.tree_of(directory.path) is not None for directory in self.mount.directory.directories):
            data = StatvfsData()  # an archive has no size of its own
            data.f_bsize = data.f_frsize = 4096
            data.f_namemax = 255
            return data
        disks: dict[int, os.statvfs_result] = {}
        for directory in self.mount.directory.directories:
            with contextlib.suppress(OSError):
                disks.setdefault(os.stat(directory.path).st_dev, os.statvfs(directory.path))
        if not disks:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.mount.directory.path)
        file_systems = list(disks.values())
        data, unit = StatvfsData(), file_systems[0].f_frsize
        data.f_bsize, data.f_frsize, data.f_namemax = (
            file_systems[0].f_bsize,
            unit,
            min(disk.f_namemax for disk in file_systems),
        )
        data.f_blocks = sum(disk.f_blocks * disk.f_frsize // unit for disk in file_systems)
        data.f_bfree = sum(disk.f_bfree * disk.f_frsize // unit for disk in file_systems)
        data.f_bavail = sum(disk.f_bavail * disk.f_frsize // unit for disk in file_systems)
        data.f_files = sum(disk.f_files for disk in file_systems)
        data.f_ffree = sum(disk.f_ffree for disk in file_systems)
        data.f_favail = sum(disk.f_favail for disk in file_systems)
        return data

    @guarded
    async def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        if not name.startswith(b"user."):
            raise FUSEError(errno.EOPNOTSUPP)
        kind, partition, number = unpack(inode)
        if kind not in _WITH_XATTRS or not name.startswith(b"user.kafka."):
            raise FUSEError(ENOATTR)
        return await (await self._nodes.tree(partition)).with_xattrs[kind].xattr(number, name)

    @guarded
    async def listxattr(self, inode: int, ctx: RequestContext) -> Sequence[bytes]:
        kind, partition, number = unpack(inode)
        if kind not in _WITH_XATTRS:
            return []
        return await (await self._nodes.tree(partition)).with_xattrs[kind].xattrs(number)

    @guarded
    async def setxattr(self, inode: int, name: bytes, value: bytes, ctx: RequestContext) -> None:
        """Accept attributes of files for appends, without effect; refuse others, because attributes are read only.

        A copy sets attributes and ACLs after the content. If that failed, the records would be stored already, and
        stored again when the copy is tried again.
        """
        kind, partition, number = unpack(inode)
        if kind not in _APPENDS:
            raise self._impossible("setxattr", inode)
        cast(WritableFile, await self._nodes.node(kind, partition)).check_writable(number)

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        """Count FORGET. Not guarded: the request has no reply, and no error occurs."""
        for inode, lookups in inode_list:
            kind, partition, number = unpack(inode)
            # FORGET has a count: the kernel may have looked the name up again while this request was on its way.
            self._nodes.forget(kind, partition, number, lookups)

    # --- directories -------------------------------------------------------------------------------------------------

    @guarded
    async def opendir(self, inode: int, ctx: RequestContext) -> int:
        kind, partition, number = unpack(inode)
        listing = await (await self._nodes.directory(kind, partition)).listing(number)
        self._last_handle += 1
        self._listings[self._last_handle] = listing
        self._inodes[self._last_handle] = inode
        return self._last_handle

    @guarded
    async def readdir(self, fh: int, start_id: int, token: fuse_types.ReaddirToken) -> None:
        await self.entries(fh, start_id, functools.partial(fuse_types.readdir_reply, token))

    @guarded
    async def entries(self, fh: int, start: int, reply: Reply) -> None:
        """Reply the entries of an open directory from a position on, to the kernel or to `path_tree`."""
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
        if parent_inode == _TOPICS_INODE:
            topic = os.fsdecode(name)
            remedy = f"mkdir {topic}-0 in the root of the mount makes partition 0 of the topic"
            raise self.mount.refusals.other_way("mkdir", f"topics/{topic}", "a topic has partitions", remedy)
        if parent_inode != fuse_types.ROOT_INODE:
            raise self._impossible("mkdir", parent_inode, name)
        if self.mount.is_read_only or not self.mount.options.create:
            raise self.mount.refusals.missing_option("create", "mkdir", os.fsdecode(name))
        wanted = self._partition_to_make(name)
        program = program_of(ctx.pid)
        if program in _COPIERS:
            # They make the directory first: it would stay, as an empty partition.
            new, cause = (
                str(wanted),
                f"{program.decode()} cannot fill a partition, whose files are views of its records",
            )
            remedy = f"mkdir {new}; cat OLD/records.ndjson > {new}/append.ndjson"
            raise self.mount.refusals.other_way("mkdir", new, cause, remedy)
        await self.mount.executor.in_thread(lambda: self.mount.directory.create_partition(wanted))
        return self._nodes.directory_of(self._nodes.partitions.of(wanted)).entry()

    def _partition_to_make(self, name: bytes) -> TopicPartition:
        """Return the partition that a directory of this name would be; EINVAL, reported with the reason."""
        text = name.decode("utf-8", "surrogateescape")
        try:
            return TopicPartition.parse(text)
        except InvalidName as error:
            remedy = "mkdir orders-0 makes partition 0 of the topic orders"
            self.mount.error_log.report(Fault(errno.EINVAL, "mkdir", os.fsdecode(name), str(error), remedy))
            raise FUSEError(errno.EINVAL) from None

    @guarded
    async def rmdir(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        if parent_inode == _GROUPS_INODE:
            await self._nodes.groups.remove(name)
            return
        if parent_inode == _TOPICS_INODE:
            topic = os.fsdecode(name)
            remedy = f"with -o delete, rmdir {topic}-* in the root of the mount removes them"
            raise self.mount.refusals.other_way("rmdir", f"topics/{topic}", "a topic has partitions", remedy)
        partition = self._nodes.partitions.find(name) if parent_inode == fuse_types.ROOT_INODE else None
        if partition is None:
            raise self._impossible("rmdir", parent_inode, name)
        if self.mount.is_read_only or not self.mount.options.delete:
            raise self.mount.refusals.missing_option("delete", "rmdir", str(partition.name))
        # First: a sync of records in a removed directory would be counted as a failed sync.
        await self.accumulators.forget(partition.name)
        # Before the log, as a broker does: a deletion that is interrupted can be repeated.
        await self._nodes.groups.forget(partition.name)
        await self.mount.executor.in_thread(lambda: self.mount.directory.delete_partition(partition.name))

    def _changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Forget a deleted partition, and publish the change: the mount, a broker or a task has made it."""
        if change is LogChange.DELETED:
            self._nodes.partitions.removed(partition)
            self.mount.counters.forget(partition)
            self.mount.nursery.start_soon(self._close_gone_indexes)
        elif change is LogChange.APPENDED:
            self.accumulators.appended(partition)
        self.mount.events.partition_changed.publish(partition)

    async def _close_gone_indexes(self) -> None:
        # SQLite holds the files of the removed directory open until then, and with them their disk space.
        for index in self.mount.caches.key_indexes.take_gone():
            await self.mount.executor.in_thread(index.close)

    # --- open files --------------------------------------------------------------------------------------------------

    @guarded
    async def open(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        kind, partition, number = unpack(inode)
        opening = Opening(flags, ctx.pid)
        if opening.writes and kind not in _WRITABLE:
            raise self.mount.refusals.impossible("open", self._nodes.partitions.path_of(inode))
        node = await self._nodes.file(kind, partition)
        return self._opened(inode, partition, await node.open(number, opening))

    @guarded
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        """Create the commit of a group: no other file can be created by name."""
        kind, partition, number = unpack(parent_inode)
        if kind != Kind.GROUP:
            raise self._impossible("create", parent_inode, name)
        entry, opened = await self._nodes.groups.directories.create(number, name, Opening(flags, ctx.pid))
        return self._opened(entry.st_ino, partition, opened), entry

    @guarded
    async def unlink(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        """Remove the commit of a group: no other file can be removed by name."""
        kind, partition, number = unpack(parent_inode)
        if kind == Kind.GROUP:
            await self._nodes.groups.directories.remove(number, name)
            return
        mounted = self._nodes.partitions.numbered(partition)
        if mounted is None:
            raise self._impossible("unlink", parent_inode, name)
        # The path is the partition, so that rm -r leaves one line and not one for each file.
        cause, remedy = "its files are not removed one by one", f"with -o delete, rmdir {mounted.name} removes it"
        raise self.mount.refusals.other_way("unlink", str(mounted.name), cause, remedy)

    def _opened(self, inode: int, partition: int, opened: Opened) -> FileInfo:
        self._last_handle += 1
        self._handles[self._last_handle] = opened.handle
        self._counted[self._last_handle] = self._nodes.counts_of(partition)
        self._inodes[self._last_handle] = inode
        return FileInfo(
            fh=self._last_handle,
            # FOPEN_DIRECT_IO for growing files: the kernel pads the last cached page with zeros, and a GETATTR of
            # another process can make them visible before they were replaced (decision 23).
            direct_io=opened.direct,
            # Otherwise each open would drop the cached pages of a record or sealed segment, which never change.
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
        return cast(bytes, answer)  # or a memoryview, or a bytearray: pyfuse3 accepts any buffer

    @guarded
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        handle = self._handles[fh]
        if not is_sink(handle):
            raise FUSEError(errno.EBADF)
        if is_placed_sink(handle):
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
        if is_sink(handle):
            await handle.flush()

    @guarded
    async def fsync(self, fh: int, datasync: bool) -> None:
        handle = self._handles[fh]
        if is_sink(handle):
            await handle.fsync()

    @guarded
    async def release(self, fh: int) -> None:
        """Release a handle. What has to wait continues after the reply.

        The kernel sends at most 12 background requests at once, RELEASE among them: one that waited would keep the
        RELEASE of other files in the kernel, while later requests of their writers are sent.
        """
        handle, path = self._handles.pop(fh), functools.partial(self._nodes.partitions.path_of, self._inodes.pop(fh))
        del self._counted[fh]
        self.mount.waiting.forget(fh)
        if is_closable(handle):
            handle.close()
            # `close` above has fixed the order of the records already; only waiting for space happens after the reply.
            self.mount.nursery.start_soon(self._release, handle, path)
        elif not isinstance(handle, bytes):
            await handle.release()

    async def _release(self, handle: Handle, path: Callable[[], str]) -> None:
        try:
            await handle.release()
        except Exception as error:  # a task of the nursery must not raise: that would end the mount
            self.failed(error, "release", path())

    # --- refused requests --------------------------------------------------------------------------------------------

    def _impossible(self, op: str, inode: int, name: bytes = b"") -> FUSEError:
        """Return the error for a change that no mount makes, and record why.

        In a partition the path is that of the partition, so that `chmod -R` leaves one line and not one for each file.
        """
        partitions = self._nodes.partitions
        mounted = partitions.numbered(unpack(inode).partition)
        path = partitions.path_of(inode, name) if mounted is None else str(mounted.name)
        return self.mount.refusals.impossible(op, path)

    async def mknod(self, parent_inode: int, name: bytes, *_: Any) -> Any:
        raise self._impossible("mknod", parent_inode, name)

    async def symlink(self, parent_inode: int, name: bytes, *_: Any) -> Any:
        raise self._impossible("symlink", parent_inode, name)

    async def link(self, inode: int, *_: Any) -> Any:
        raise self._impossible("link", inode)

    async def rename(self, parent_inode_old: int, name_old: bytes, *_: Any) -> None:
        raise self._impossible("rename", parent_inode_old, name_old)

    async def removexattr(self, inode: int, *_: Any) -> None:
        raise self._impossible("removexattr", inode)
