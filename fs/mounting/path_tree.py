"""The tree of a mount by path, without the kernel: callers get the results of the system calls.

`Tree` asks `Operations` what the kernel would ask, so names, sizes, bytes and errnos are those of a mount. What the
kernel does by itself is done here: paths are taken apart, symbolic links followed, writes repeated until all is taken,
a look-up that answers EAGAIN asked again. There is no page cache and no check of permissions.
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
from pyfuse3 import EntryAttributes, FUSEError, RequestContext

from offsetfs.fs.inodes import ROOT
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.nodes import Buffer

LINKS_MAX = 40  # of one path, as in Linux
NAME_BYTES_MAX = 255
LISTED_AT_ONCE = 1000
AGAIN_S = 0.1  # after an answer of EAGAIN; looking up waits by itself, for seconds
CREATED_MODE, MADE_MODE = 0o644, 0o755

T = TypeVar("T")
OnWait = Callable[[str], None]
"""Hears now and then how far something is that has to be made first, such as maps; "" when it is there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A name, and what stat(2) says of it. A copy: a listing shows record after record in one `EntryAttributes`."""

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
    """Who asks, as the kernel would tell it."""

    pid: int
    uid: int
    gid: int
    umask: int = 0


class Tree:
    """Everything below the mount point, by path. Errors are OSError with the errno that a mount answers."""

    def __init__(self, operations: Operations, on_wait: OnWait) -> None:
        self._operations = operations
        self._on_wait = on_wait
        self._context = cast(RequestContext, _Caller(os.getpid(), os.getuid(), os.getgid()))

    async def find(self, path: str, *, follows: bool = True) -> Entry:
        """Return what `path` names, under that name; of a symbolic link at its end itself, unless `follows`.

        `path` begins at the mount point, with or without a slash.
        """
        with _named(path):
            return Entry.of(os.fsencode(path), (await self._walk(path, follows=follows))[-1])

    async def _walk(self, path: str, *, follows: bool) -> list[EntryAttributes]:
        """Return what lies on the way, from the root on."""
        way = [await self._operations.getattr(ROOT, self._context)]
        names, links = deque(os.fsencode(path).split(b"/")), 0
        while names:
            name = names.popleft()
            if name and not stat.S_ISDIR(way[-1].st_mode):
                raise FUSEError(errno.ENOTDIR)
            if name == b"..":
                way = way[:-1] or way
            if name in (b"", b".", b".."):
                continue
            entry = await self._look_up(way[-1].st_ino, name)
            if stat.S_ISLNK(entry.st_mode) and (names or follows):
                links += 1
                if links > LINKS_MAX:
                    raise FUSEError(errno.ELOOP)
                target = await self._operations.readlink(entry.st_ino, self._context)
                names.extendleft(reversed(target.split(b"/")))
            else:
                way.append(entry)
        return way

    async def _look_up(self, parent: int, name: bytes) -> EntryAttributes:
        if len(name) > NAME_BYTES_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        return await self._made(lambda: self._operations.lookup(parent, name, self._context))

    async def _made(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the answer is not EAGAIN any more: what is being made goes on being made, and is worth the wait."""
        has_waited = False
        while True:
            try:
                answer = await ask()
            except FUSEError as error:
                if error.errno != errno.EAGAIN:
                    raise
            else:
                if has_waited:
                    self._on_wait("")
                return answer
            has_waited = True
            self._on_wait(next(iter(self._told()[-1:]), ""))
            await trio.sleep(AGAIN_S)

    async def target(self, entry: Entry) -> str:
        """Return where a symbolic link points to."""
        with _named(os.fsdecode(entry.name)):
            return os.fsdecode(await self._operations.readlink(entry.inode, self._context))

    async def entries(self, path: str, take: Callable[[list[Entry]], Awaitable[None]]) -> None:
        """Give `take` what is in a directory, in its own order, some hundreds at a time."""
        with _named(path):
            directory = (await self._walk(path, follows=True))[-1]
            handle = await self._made(lambda: self._operations.opendir(directory.st_ino, self._context))
            try:
                page = await self._page(handle, 0)
                while not page.is_last:
                    await take(page.entries)
                    page = await self._page(handle, page.place)
                await take(page.entries)
            finally:
                await self._operations.releasedir(handle)

    async def _page(self, handle: int, place: int) -> _Page:
        page = _Page(place)
        await self._operations.entries(handle, place, page.take)
        return page

    @contextlib.asynccontextmanager
    async def open(self, path: str, flags: int = os.O_RDONLY) -> AsyncIterator[OpenFile]:
        """Open a file with the flags of open(2); it is flushed and released at the end.

        O_CREAT makes what can be made, the directory around it as well: `mkdir -p` and `>` in one.
        """
        with _named(path):
            handle = await self._open(path, flags)
        file = OpenFile(self._operations, handle, path)
        try:
            yield file
        finally:
            with trio.CancelScope(shield=True):
                await file.close()

    async def _open(self, path: str, flags: int) -> int:
        try:
            return await self._open_there((await self._walk(path, follows=True))[-1], flags)
        except FUSEError as error:
            if error.errno != errno.ENOENT or not flags & os.O_CREAT:
                raise
        parent, _, name = path.rstrip("/").rpartition("/")
        directory = await self._directory(parent)
        try:
            return await self._open_there(await self._look_up(directory, os.fsencode(name)), flags)
        except FUSEError as error:
            if error.errno != errno.ENOENT:
                raise
        with _refused_as_missing():
            info, _ = await self._operations.create(directory, os.fsencode(name), CREATED_MODE, flags, self._context)
        return int(info.fh)

    async def _open_there(self, entry: EntryAttributes, flags: int) -> int:
        if stat.S_ISDIR(entry.st_mode):
            raise FUSEError(errno.EISDIR)
        flags &= ~os.O_CREAT
        return int((await self._made(lambda: self._operations.open(entry.st_ino, flags, self._context))).fh)

    async def _directory(self, path: str) -> int:
        """Return the inode of a directory, which is made where there is none: a partition, or a group."""
        try:
            return (await self._walk(path, follows=True))[-1].st_ino
        except FUSEError as error:
            if error.errno != errno.ENOENT:
                raise
        parent, _, name = path.rpartition("/")
        above = (await self._walk(parent, follows=True))[-1].st_ino
        with _refused_as_missing():
            return (await self._operations.mkdir(above, os.fsencode(name), MADE_MODE, self._context)).st_ino

    @property
    def has_met_damage(self) -> bool:
        """Whether a damaged place was left out, or a read ended there with an error."""
        return self._operations.shared.has_met_damage

    def story(self) -> list[str]:
        """Return what `.offsetfs/errors` would show by now, a line each, without the time and what was waited for."""
        return [line for line in self._told() if not line.startswith("EAGAIN ")]

    def _told(self) -> list[str]:
        lines = self._operations.shared.error_log.text().decode().splitlines()
        return [line.partition(" ")[2] for line in lines]


class OpenFile:
    """An open file of the tree. Errors are OSError."""

    def __init__(self, operations: Operations, handle: int, path: str) -> None:
        self._operations = operations
        self._handle = handle
        self._path = path

    async def read(self, position: int, size: int) -> Buffer:
        """Return up to `size` bytes from `position`, b"" at the end; waits where the file waits."""
        while True:
            try:
                with _named(self._path):
                    return await self._operations.read(self._handle, position, size)
            except InterruptedError:
                await trio.lowlevel.checkpoint()  # a request is not to last for ever; no kernel request waits here

    async def write(self, data: bytes) -> None:
        """Take all of `data`, waiting for room; on an error what came before it was taken."""
        with _named(self._path):
            taken = 0
            while taken < len(data):
                taken += await self._operations.write(self._handle, 0, data[taken:] if taken else data)

    async def sync(self) -> None:
        """Return when what was written is on disk."""
        with _named(self._path):
            await self._operations.fsync(self._handle, False)

    async def close(self) -> None:
        with _named(self._path):
            try:
                await self._operations.flush(self._handle)
            finally:
                await self._operations.release(self._handle)
                await self._operations.accumulators.closing.wait_released()


class _Page:
    """Some entries of a directory from a place on, and the place after them."""

    def __init__(self, place: int) -> None:
        self.entries: list[Entry] = []
        self.place = place
        self.is_last = True

    def take(self, name: bytes, attributes: EntryAttributes, place: int) -> bool:
        if len(self.entries) == LISTED_AT_ONCE:
            self.is_last = False
            return False
        self.entries.append(Entry.of(name, attributes))
        self.place = place
        return True


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Turn what handlers raise into what a system call would."""
    try:
        yield
    except FUSEError as error:
        raise OSError(error.errno, os.strerror(error.errno), path) from None


@contextlib.contextmanager
def _refused_as_missing() -> Iterator[None]:
    """Where nothing can be made, a name that is not there is a slip of the hand, and no lack of permission."""
    try:
        yield
    except FUSEError as error:
        raise FUSEError(errno.ENOENT if error.errno == errno.EPERM else error.errno) from None
