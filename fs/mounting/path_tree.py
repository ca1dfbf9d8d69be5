"""The tree of a mount by path, without the kernel: callers get the results of the system calls.

`Tree` calls the same handlers as the kernel (`Operations`), so names, sizes, bytes and errnos are those of a mount. It
also does what the kernel and a process do: it splits paths, follows symbolic links, repeats writes until all bytes are
accepted, and repeats a look-up that returns EAGAIN. There is no page cache and no check of permissions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import trio

from offsetfs.fs.fuse_types import EntryAttributes, FUSEError, RequestContext
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.inodes import ROOT
from offsetfs.fs.nodes import Buffer

LINKS_MAX = 40  # of one path, as in Linux
NAME_BYTES_MAX = 255
LISTED_AT_ONCE = 1000
AGAIN_S = 0.1  # between two look-ups that return EAGAIN; each of them has waited for seconds itself
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755

T = TypeVar("T")
OnWait = Callable[[str], None]
"""Called with the progress of what a request waits for, such as line indexes; with "" when it is complete."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A name with its attributes. A copy, because a listing reuses one `EntryAttributes` for all its records."""

    name: bytes
    inode: int
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, name: bytes, entry: EntryAttributes) -> Entry:
        return cls(name, entry.st_ino, entry.st_mode, entry.st_uid, entry.st_gid, entry.st_size, int(entry.st_mtime_ns))


@dataclass(frozen=True, slots=True)
class _Caller:
    """The calling process, as the kernel describes it."""

    pid: int
    uid: int
    gid: int
    umask: int = 0


class Tree:
    """The files of the tree by path, relative to the mount point. Errors are OSError with the errno of a mount."""

    def __init__(self, operations: Operations, on_wait: OnWait) -> None:
        self._operations = operations
        self._on_wait = on_wait
        self._context = cast(RequestContext, _Caller(os.getpid(), os.getuid(), os.getgid()))

    async def find(self, path: str, *, follows: bool = True) -> Entry:
        """Return the entry of `path`, which is also its name. `follows`: also follow a link at the end of the path."""
        with _named(path):
            return Entry.of(os.fsencode(path), (await self._walk(path, follows=follows))[-1])

    async def _walk(self, path: str, *, follows: bool) -> list[EntryAttributes]:
        """Return the attributes of the root and of each component of `path`, without links that were followed."""
        walked = [await self._operations.getattr(ROOT, self._context)]
        names, links = deque(os.fsencode(path).split(b"/")), 0
        while names:
            name = names.popleft()
            if name and not stat.S_ISDIR(walked[-1].st_mode):
                raise FUSEError(errno.ENOTDIR)
            if name == b"..":
                walked = walked[:-1] or walked
            if name in (b"", b".", b".."):
                continue
            entry = await self._look_up(walked[-1].st_ino, name)
            if stat.S_ISLNK(entry.st_mode) and (names or follows):
                links += 1
                if links > LINKS_MAX:
                    raise FUSEError(errno.ELOOP)
                target = await self._operations.readlink(entry.st_ino, self._context)
                names.extendleft(reversed(target.split(b"/")))
            else:
                walked.append(entry)
        return walked

    async def _look_up(self, parent: int, name: bytes) -> EntryAttributes:
        if len(name) > NAME_BYTES_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        return await self._retry(lambda: self._operations.lookup(parent, name, self._context))

    async def _retry(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request while it fails with EAGAIN: line indexes are built, and each request waits for them.

        A mount returns EAGAIN instead, because a process that waits in the kernel cannot be interrupted.
        """
        has_waited = False
        while True:
            try:
                answer = await request()
            except FUSEError as error:
                if error.errno != errno.EAGAIN:
                    raise
            else:
                if has_waited:
                    self._on_wait("")
                return answer
            has_waited = True
            self._on_wait(next(iter(self._error_lines()[-1:]), ""))
            await trio.sleep(AGAIN_S)

    async def target(self, entry: Entry) -> str:
        """Return the target of a symbolic link."""
        with _named(os.fsdecode(entry.name)):
            return os.fsdecode(await self._operations.readlink(entry.inode, self._context))

    async def entries(self, path: str, take: Callable[[list[Entry]], Awaitable[None]]) -> None:
        """Call `take` with the entries of a directory, in its order, up to 1,000 at a time."""
        with _named(path):
            directory = (await self._walk(path, follows=True))[-1]
            handle = await self._retry(lambda: self._operations.opendir(directory.st_ino, self._context))
            try:
                page = await self._page(handle, 0)
                while not page.is_last:
                    await take(page.entries)
                    page = await self._page(handle, page.cookie)
                await take(page.entries)
            finally:
                await self._operations.releasedir(handle)

    async def _page(self, handle: int, cookie: int) -> _Page:
        page = _Page(cookie)
        await self._operations.entries(handle, cookie, page.take)
        return page

    @contextlib.asynccontextmanager
    async def open(self, path: str, flags: int = os.O_RDONLY) -> AsyncIterator[OpenFile]:
        """Open a file with the flags of open(2). It is flushed and released at the end, also on cancellation.

        O_CREAT creates the directories of the path too, as `mkdir -p` does: a partition, or a group.
        """
        with _named(path):
            handle = await self._open(path, flags)
        file = OpenFile(self._operations, handle, path)
        try:
            yield file
        finally:
            with trio.CancelScope(shield=True):
                await file.close()

    async def make_directory(self, path: str) -> None:
        """Create a partition or a group, if it is missing."""
        with _named(path):
            await self._directory(path)

    async def _open(self, path: str, flags: int) -> int:
        try:
            return await self._open_entry((await self._walk(path, follows=True))[-1], flags)
        except FUSEError as error:
            if error.errno != errno.ENOENT or not flags & os.O_CREAT:
                raise
        parent, _, name = path.rstrip("/").rpartition("/")
        directory = await self._directory(parent)
        try:
            return await self._open_entry(await self._look_up(directory, os.fsencode(name)), flags)
        except FUSEError as error:
            if error.errno != errno.ENOENT:
                raise
        with _refused_as_missing():
            info, _ = await self._operations.create(directory, os.fsencode(name), FILE_MODE, flags, self._context)
        return int(info.fh)

    async def _open_entry(self, entry: EntryAttributes, flags: int) -> int:
        if stat.S_ISDIR(entry.st_mode):
            raise FUSEError(errno.EISDIR)
        flags &= ~os.O_CREAT
        return int((await self._retry(lambda: self._operations.open(entry.st_ino, flags, self._context))).fh)

    async def _directory(self, path: str) -> int:
        """Return the inode of a directory. A missing partition or group is created."""
        try:
            return (await self._walk(path, follows=True))[-1].st_ino
        except FUSEError as error:
            if error.errno != errno.ENOENT:
                raise
        parent, _, name = path.rpartition("/")
        above = (await self._walk(parent, follows=True))[-1].st_ino
        with _refused_as_missing():
            return (await self._operations.mkdir(above, os.fsencode(name), DIRECTORY_MODE, self._context)).st_ino

    @property
    def has_met_damage(self) -> bool:
        """Whether damaged records were left out, or a read failed because of damage."""
        return self._operations.mount.damage.has_occurred

    def errors(self) -> list[str]:
        """Return the lines of `.offsetfs/errors`, without times and without EAGAIN, which `Tree` has handled."""
        return [line for line in self._error_lines() if not line.startswith("EAGAIN ")]

    def _error_lines(self) -> list[str]:
        lines = self._operations.mount.error_log.text().decode().splitlines()
        return [line.partition(" ")[2] for line in lines]


class OpenFile:
    """An open file of the tree. Errors are OSError. Writes follow each other from position 0, as those of a process."""

    def __init__(self, operations: Operations, handle: int, path: str) -> None:
        self._operations = operations
        self._handle = handle
        self._path = path
        self._write_position = 0

    async def read(self, position: int, size: int) -> Buffer:
        """Return up to `size` bytes from `position`, b"" at the end. A follow file waits for records."""
        while True:
            try:
                with _named(self._path):
                    return await self._operations.read(self._handle, position, size)
            except InterruptedError:
                # A mount ends a wait with EINTR before the request timeout of the kernel; here no kernel waits.
                await trio.lowlevel.checkpoint()

    async def write(self, data: bytes) -> None:
        """Write all of `data`; waits while the append buffer is full. On an error, earlier bytes have been accepted."""
        with _named(self._path):
            end = self._write_position + len(data)
            while rest := end - self._write_position:
                position = self._write_position
                self._write_position += await self._operations.write(self._handle, position, data[-rest:])

    async def sync(self) -> None:
        """Return when all written records are on disk."""
        with _named(self._path):
            await self._operations.fsync(self._handle, False)

    async def close(self) -> None:
        """Flush and release the file; unfinished lines become records."""
        with _named(self._path):
            try:
                await self._operations.flush(self._handle)
            finally:
                await self._operations.release(self._handle)
                await self._operations.accumulators.context.files.wait_released()


class _Page:
    """Entries of a directory from a position on, and the position after them."""

    def __init__(self, cookie: int) -> None:
        self.entries: list[Entry] = []
        self.cookie = cookie
        self.is_last = True

    def take(self, name: bytes, attributes: EntryAttributes, cookie: int) -> bool:
        if len(self.entries) == LISTED_AT_ONCE:
            self.is_last = False
            return False
        self.entries.append(Entry.of(name, attributes))
        self.cookie = cookie
        return True


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Convert the FUSEError of a handler into the OSError of a system call on `path`."""
    try:
        yield
    except FUSEError as error:
        raise OSError(error.errno, os.strerror(error.errno), path) from None


@contextlib.contextmanager
def _refused_as_missing() -> Iterator[None]:
    """Convert EPERM into ENOENT: a path that cannot be created is most likely misspelled."""
    try:
        yield
    except FUSEError as error:
        raise FUSEError(errno.ENOENT if error.errno == errno.EPERM else error.errno) from None
