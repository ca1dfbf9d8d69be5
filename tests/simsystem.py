"""The system calls of `storage/files.py`, answered by a simulated disk, and where they fail when that is asked for.

`simulated(disk)` puts `System` in the place of what `storage/files.py` imports. The engine runs on it unchanged, so
that its own loops, orders and clean-ups are under test, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import gc
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from unittest import mock

from simdisk import ROOT, SimDirectory, SimDisk, SimFile

from offsetfs.storage import files, lock, parallel
from offsetfs.storage.segments import preallocation


@dataclass(slots=True)
class SimStatus:
    """What `stat` reports."""

    st_mode: int
    st_ino: int
    st_size: int
    st_mtime_ns: int
    st_dev: int = 0
    st_uid: int = 0
    st_gid: int = 0
    st_nlink: int = 1

    @property
    def st_blocks(self) -> int:
        return -(-self.st_size // 512)

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9


@dataclass(slots=True)
class _Open:
    disk: SimDisk
    inode: int
    path: str


SHORT = "short"
"""What a fault returns for a call that is to do only a part of what it was asked for."""

Fault = Callable[[str, str], str | None]
"""Called before each call with its kind and its path; raises an OSError, or returns SHORT, or None. Kinds: open, create
(opening a file that is not there yet), read, write, set aside, truncate, sync, rename, unlink, mkdir, rmdir, list,
stat."""


class System:
    """What `storage/files.py` imports, answered by `disk`; another disk may be put in at any time.

    Descriptors are numbers that no real one has: a file of the engine that is forgotten, and collected late, closes
    nothing real.
    """

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.fault: Fault = lambda _kind, _path: None
        self._open: dict[int, _Open] = {}
        self._due: OSError | None = None  # of a full disk, which took the first part of a write
        self._numbers = itertools.count(1 << 24)
        self.path = _SimPath(self)
        self.sep = os.sep
        self.TemporaryDirectory = self._temporary_directory
        for name in (*dir(os), *dir(fcntl)):
            if name.startswith(("O_", "RWF_", "LOCK_")):
                setattr(self, name, getattr(os if hasattr(os, name) else fcntl, name))

    def open_paths(self, disk: SimDisk | None = None) -> list[str]:
        """Return the paths of the open descriptors, those of `disk` only when one is given."""
        return [each.path for each in self._open.values() if disk is None or each.disk is disk]

    # --- descriptors

    def open(self, path: str, flags: int, _mode: int = 0o777) -> int:
        parent, name = self._parent(path)
        inode = self.disk.directory(parent).names.get(name) if name else ROOT
        self.fault("create" if inode is None and flags & os.O_CREAT else "open", path)
        if inode is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.disk.do("create", parent, name, False)
            inode = self.disk.directory(parent).names[name]
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "the name is taken", path)
        is_directory = isinstance(self.disk.inodes[inode], SimDirectory)
        if flags & os.O_DIRECTORY and not is_directory:
            raise NotADirectoryError(errno.ENOTDIR, "no directory", path)
        if is_directory and flags & os.O_RDWR:
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        fd = next(self._numbers)
        self._open[fd] = _Open(self.disk, inode, path)
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)  # a file of a process that died may be collected later

    def fstat(self, fd: int) -> SimStatus:
        opened = self._open[fd]
        return self._status(opened.disk, opened.inode)

    def preadv(self, fd: int, buffers: list[memoryview], position: int, _flags: int = 0) -> int:
        opened, buffer = self._open[fd], buffers[0]
        size = len(buffer)
        if self.fault("read", opened.path) == SHORT:
            size = max(1, size // 2)
        data = opened.disk._file(opened.inode).content[position : position + size]
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, fd: int, data: memoryview, position: int) -> int:
        opened, size = self._open[fd], len(data)
        if self._due is not None:
            error, self._due = self._due, None
            raise error
        try:
            if self.fault("write", opened.path) == SHORT:
                size = max(1, size // 2)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT) and size > 1:  # what still had space was written
                opened.disk.do("write", opened.inode, position, bytes(data[: size // 2]))
                self._due = error
                return size // 2
            raise
        opened.disk.do("write", opened.inode, position, bytes(data[:size]))
        return size

    def ftruncate(self, fd: int, size: int) -> None:
        opened = self._open[fd]
        self.fault("truncate", opened.path)
        opened.disk.do("truncate", opened.inode, size)

    def fallocate(self, fd: int, _mode: int, _position: int, _size: int) -> None:
        """Preallocation is invisible: neither content nor length change."""
        self.fault("set aside", self._open[fd].path)

    def fsync(self, fd: int) -> None:
        opened = self._open[fd]
        try:
            self.fault("sync", opened.path)
        except OSError:
            opened.disk.do("give_up", opened.inode)
            raise
        opened.disk.do("sync", opened.inode)

    def fchmod(self, fd: int, _mode: int) -> None:
        assert fd in self._open

    def flock(self, _fd: int, _how: int) -> None:
        """There is no other process."""

    # --- names

    def stat(self, path: str, *, follow_symlinks: bool = True) -> SimStatus:
        self.fault("stat", path)
        return self._status(self.disk, self._inode(path))

    lstat = stat

    def _status(self, disk: SimDisk, inode: int) -> SimStatus:
        found = disk.inodes[inode]
        is_file = isinstance(found, SimFile)
        size = len(found.content) if isinstance(found, SimFile) else 0
        return SimStatus(stat.S_IFREG | 0o640 if is_file else stat.S_IFDIR | 0o750, inode, size, found.changed)

    def statvfs(self, _path: str) -> SimpleNamespace:
        """There is space: what has none is a call that fails."""
        return SimpleNamespace(f_bavail=1 << 20, f_frsize=4096)

    def geteuid(self) -> int:
        return 1000

    def chown(self, path: str, _uid: int, _gid: int, *, follow_symlinks: bool = True) -> None:
        self._inode(path)

    def utime(self, path: str, *, ns: tuple[int, int], follow_symlinks: bool = True) -> None:
        self.disk.do("touch", self._inode(path), ns[1])

    def mkdir(self, path: str, _mode: int = 0o777) -> None:
        self.fault("mkdir", path)
        parent, name = self._parent(path)
        if name in self.disk.directory(parent).names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self.disk.do("create", parent, name, True)

    def rmdir(self, path: str) -> None:
        self.fault("rmdir", path)
        parent, name = self._parent(path)
        if self.disk.directory(self._inode(path)).names:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self.disk.do("unlink", parent, name)

    def unlink(self, path: str) -> None:
        self.fault("unlink", path)
        parent, name = self._parent(path)
        if isinstance(self.disk.inodes[self._inode(path)], SimDirectory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        self.disk.do("unlink", parent, name)

    def rename(self, source: str, target: str) -> None:
        self.fault("rename", source)
        (parent, name), (new_parent, new_name) = self._parent(source), self._parent(target)
        assert parent == new_parent, "the engine moves nothing between directories"
        self._inode(source)
        if name != new_name:
            self.disk.do("rename", parent, name, new_name)

    replace = rename

    def listdir(self, path: str) -> list[str]:
        self.fault("list", path)
        found = self.disk.inodes[self._inode(path)]
        if isinstance(found, SimFile):
            raise NotADirectoryError(errno.ENOTDIR, "no directory", path)
        return list(found.names)

    def scandir(self, path: str) -> contextlib.AbstractContextManager[Iterator[_SimEntry]]:
        names = self.listdir(path)
        inode = self._inode(path)
        disk = self.disk
        return contextlib.nullcontext(_SimEntry(disk, name, disk.directory(inode).names[name]) for name in names)

    def _temporary_directory(self, prefix: str) -> contextlib.AbstractContextManager[str]:
        return _temporary(self, f"/{prefix}{next(self._numbers)}")

    def _parent(self, path: str) -> tuple[int, str]:
        """Return the inode of the directory that `path` is in, and the name there; both of the root are its own."""
        *above, name = path.strip("/").split("/")
        inode = ROOT
        for each in above:
            found = self.disk.directory(inode).names.get(each)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            if isinstance(self.disk.inodes[found], SimFile):
                raise NotADirectoryError(errno.ENOTDIR, "no directory", path)
            inode = found
        return inode, name

    def _inode(self, path: str) -> int:
        parent, name = self._parent(path)
        if not name:
            return ROOT
        inode = self.disk.directory(parent).names.get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode


class _SimPath:
    """The parts of `os.path` that look at the disk, and `dirname`."""

    dirname = staticmethod(os.path.dirname)
    join = staticmethod(os.path.join)
    basename = staticmethod(os.path.basename)
    realpath = staticmethod(os.path.normpath)

    def __init__(self, system: System) -> None:
        self._system = system

    def lexists(self, path: str) -> bool:
        try:
            self._system.stat(path)
        except OSError:
            return False
        return True


@dataclass(slots=True)
class _SimEntry:
    disk: SimDisk
    name: str
    number: int

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return isinstance(self.disk.inodes[self.number], SimDirectory)

    def inode(self) -> int:
        return self.number


@contextlib.contextmanager
def _temporary(system: System, path: str) -> Iterator[str]:
    system.mkdir(path)
    try:
        yield path
    finally:
        for name in system.listdir(path):
            system.unlink(f"{path}/{name}")
        system.rmdir(path)


@functools.cache
def _freeze_the_rest() -> None:
    """Take all that is there now from what is searched for garbage, which is done once for each disk."""
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def simulated(disk: SimDisk) -> Iterator[System]:
    """Let the engine run on `disk` within the block. Only one thread may use it."""
    _freeze_the_rest()
    system = System(disk)
    with contextlib.ExitStack() as patches:
        for name in ("os", "tempfile", "fcntl"):
            patches.enter_context(mock.patch.object(files, name, system))
        patches.enter_context(mock.patch.object(files, "_fallocate", system.fallocate))
        patches.enter_context(mock.patch.object(files, "_reclaimers", []))  # those of other systems close nothing here
        patches.enter_context(
            mock.patch.object(preallocation, "STEP_BYTES_MIN", 1)
        )  # so that it is met with little data, too
        patches.enter_context(mock.patch.object(parallel, "THREADS", 1))
        patches.enter_context(mock.patch.object(lock.DirectoryLock, "acquire", lambda _self: None))
        patches.enter_context(mock.patch.object(lock, "writer_of", lambda _directory: None))
        try:
            yield system
        finally:
            gc.collect()  # what the engine forgot closes its files here, not at a real system
            if system._open:  # an error under way holds more of them
                for each in gc.get_objects():
                    if isinstance(each, files.File):
                        each.fd = -1
