"""The tree of a mount where there is none: paths walked, files read and written in this process, by the same nodes.

    path → Tree → Operations → nodes → LogDirectory

`Tree` asks `Operations` what the kernel would ask, so names, sizes, bytes and errnos are those of a mount; no
/dev/fuse is needed. What the kernel does by itself is done here: paths are taken apart, symbolic links followed, a
look-up that answers EAGAIN is asked again.

Promises: when `run` returns, everything that was written is on disk, and the log directory is closed; an unfinished
line became a record, as when a file of a mount is closed. Leaves to others: retention and compaction, which a mount
does, and who may write (the caller has opened the directory).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import trio
from pyfuse3 import EntryAttributes, FUSEError, RequestContext

from offsetfs.fs.inodes import ROOT
from offsetfs.fs.nodes import Buffer
from offsetfs.fs.operations import Operations
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory

LINKS_MAX = 40  # of one path, as in Linux
NAME_BYTES_MAX = 255
LISTED_AT_ONCE = 1000
AGAIN_S = 0.1  # after an answer of EAGAIN; looking up waits by itself, for seconds
CREATED_MODE = 0o644
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


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


class Unsaved(Exception):
    """Something that was written is not on disk; each of `sentences` says what. Cure: in the sentences."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("; ".join(sentences))
        self.sentences = tuple(sentences)


def run(directory: LogDirectory, options: MountOptions, work: Callable[[Tree], Awaitable[T]]) -> T:
    """Do `work` with the tree of `directory`; return what it returns when all it wrote is on disk.

    Takes the directory over: it is closed when this returns or raises. Raises what `work` raised, `Unsaved`, and
    KeyboardInterrupt when SIGINT, SIGTERM or SIGHUP ended it: what was taken until then is on disk, too. For the main
    thread.
    """
    session = _Session(directory, options)
    failures: list[str] = []
    try:
        failures += trio.run(session.run, work)
    finally:
        try:
            directory.close()
        except Exception as error:  # after what is wrong already
            failures.append(f"{directory.path} is not closed cleanly: {error}")
    if session.error is not None:
        raise session.error
    if failures:
        raise Unsaved(failures)
    return cast(T, session.result)


class _Session:
    """One use of the tree. Exceptions are kept, for a nursery would wrap them."""

    def __init__(self, directory: LogDirectory, options: MountOptions) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self._directory = directory
        self._options = options

    async def run(self, work: Callable[[Tree], Awaitable[object]]) -> list[str]:
        """Do the work, and write what it left; return sentences about what is not on disk."""
        with trio.open_signal_receiver(*SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                operations = Operations(self._directory, self._options, nursery)
                with trio.CancelScope() as scope:
                    nursery.start_soon(self._listen, signals, scope)
                    await self._do(work, Tree(operations))
                await operations.accumulators.release_all()
                failures = await operations.accumulators.close()
                nursery.cancel_scope.cancel()
        return [f"{partition} is not on disk: {error.strerror}" for partition, error in failures.items()]

    async def _do(self, work: Callable[[Tree], Awaitable[object]], tree: Tree) -> None:
        try:
            self.result = await work(tree)
        except Exception as error:
            self.error = error

    async def _listen(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for _ in signals:
            self.error = KeyboardInterrupt()
            scope.cancel()


class Tree:
    """Everything below the mount point, by path. Errors are OSError with the errno that a mount answers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
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
        while True:
            try:
                return await self._operations.lookup(parent, name, self._context)
            except FUSEError as error:
                if error.errno != errno.EAGAIN:
                    raise
            await trio.sleep(AGAIN_S)  # what is being made goes on being made

    async def target(self, entry: Entry) -> str:
        """Return where a symbolic link points to."""
        with _named(os.fsdecode(entry.name)):
            return os.fsdecode(await self._operations.readlink(entry.inode, self._context))

    async def entries(self, path: str, take: Callable[[list[Entry]], Awaitable[None]]) -> None:
        """Give `take` what is in a directory, in its own order, some hundreds at a time."""
        with _named(path):
            directory = (await self._walk(path, follows=True))[-1]
            handle = await self._operations.opendir(directory.st_ino, self._context)
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
        """Open a file with the flags of open(2), O_CREAT among them; it is flushed and released at the end."""
        with _named(path):
            handle = await self._open(path, flags)
        file = OpenFile(self._operations, handle, path)
        try:
            yield file
        finally:
            with trio.CancelScope(shield=True):
                await file.close()

    async def _open(self, path: str, flags: int) -> int:
        parent, _, name = path.rstrip("/").rpartition("/")
        try:
            entry = (await self._walk(path, follows=True))[-1]
        except FUSEError as error:
            if error.errno != errno.ENOENT or not flags & os.O_CREAT:
                raise
            return await self._create((await self._walk(parent, follows=True))[-1], os.fsencode(name), flags)
        if stat.S_ISDIR(entry.st_mode):
            raise FUSEError(errno.EISDIR)
        return int((await self._operations.open(entry.st_ino, flags & ~os.O_CREAT, self._context)).fh)

    async def _create(self, parent: EntryAttributes, name: bytes, flags: int) -> int:
        try:
            info, _ = await self._operations.create(parent.st_ino, name, CREATED_MODE, flags, self._context)
        except FUSEError as error:
            # Where nothing can be made, a name that is not there is a slip of the hand.
            raise FUSEError(errno.ENOENT if error.errno == errno.EPERM else error.errno) from None
        return int(info.fh)

    def story(self) -> list[str]:
        """Return what `.offsetfs/errors` would show by now, a line each, without the time."""
        lines = self._operations.shared.notes.text().decode().splitlines()
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
                await trio.lowlevel.checkpoint()  # a request is not to last for ever; nobody minds here

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
