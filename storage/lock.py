"""The lock of a log directory: one writer, be it us or a Kafka broker.

Kafka takes a POSIX record lock on `.lock` (FileChannel.tryLock). Ours is that lock *and* a flock, because each has a
gap. A POSIX lock does not exclude the same process, and the kernel drops it when the process closes any descriptor of
the file. A flock has neither weakness, but Kafka does not see it. So this module opens the file of a lock that this
process holds only once (`_held`). The file is never removed (decision 29): else two processes could lock two files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import threading

from offsetfs.storage import files
from offsetfs.storage.errors import LogDirectoryLocked

NAME = ".lock"
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of x86-64 and arm64 Linux: type, whence, start, length, pid


_held: dict[tuple[int, int], int] = {}
"""The lock files that this process has locked, by device and inode number, with the process that locked them.

A forked child inherits the dictionary and not the locks, hence the process id.
"""

_held_mutex = threading.Lock()


def _is_held_here(path: str) -> bool:
    """Whether this process holds the lock. Does not open the file, because closing it would drop the POSIX lock."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return _held.get((status.st_dev, status.st_ino)) == os.getpid()


class DirectoryLock:
    """The lock of one directory, held from `acquire` to `release` or the end of the process."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)
        self._fd = -1
        self._identity = (-1, -1)

    def acquire(self) -> None:
        """Take the lock. Raises `LogDirectoryLocked`, with the pid of the holder if the system reports it."""
        with _held_mutex:
            if _is_held_here(self.path):
                raise _in_use(self.path, os.getpid())
            fd = _open(self.path, os.O_RDWR | os.O_CREAT)
            try:
                # flock first: it excludes other openings of this project, also in the same process, before the lock
                # that Kafka sees is touched.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pid = _holder(fd)
                os.close(fd)
                raise _in_use(self.path, pid) from None
            status = os.fstat(fd)
            self._identity = status.st_dev, status.st_ino
            _held[self._identity] = os.getpid()
            self._fd = fd
        self._give_to_owner()

    def _give_to_owner(self) -> None:
        """Give the file to the owner of the directory when root made it, now or in an earlier version of this program.

        A broker that runs as `kafka` could not open it otherwise. A file of another user stays as it is.
        """
        if os.fstat(self._fd).st_uid == 0:
            # A `.lock` that root left kept a broker that runs as `kafka` from starting (decision 29).
            with contextlib.suppress(PermissionError):  # of a file system that maps root to another user
                files.give_to_owner(self.path, self._fd)

    def release(self) -> None:
        if self._fd >= 0:
            with _held_mutex:
                _held.pop(self._identity, None)
                os.close(self._fd)
            self._fd = -1


def writer_of(directory: str) -> int | None:
    """Return the pid of the process that writes to `directory`, None when there is none or it cannot be seen."""
    path = os.path.join(directory, NAME)
    with _held_mutex:
        if _is_held_here(path):
            return os.getpid()
        try:
            fd = _open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return _holder(fd)
        finally:
            os.close(fd)


def _in_use(path: str, pid: int | None) -> LogDirectoryLocked:
    name = f"process {pid}" if pid else "another process"
    return LogDirectoryLocked(f"in use by {name}", path=path, pid=pid)


def _open(path: str, flags: int) -> int:
    """Open the file of the lock; OSError EINVAL for anything else in its place."""
    try:
        # O_NONBLOCK: `offsetfs status` waited forever for a FIFO that was planted as `.lock`.
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o640)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(errno.EINVAL, "not a regular file", path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def _holder(fd: int) -> int | None:
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, query))
    # F_GETLK reports pid 0 for a holder in another pid namespace, such as a container, and no flock at all.
    if kind != fcntl.F_UNLCK and pid > 0:
        return int(pid)
    return _flock_holder(os.fstat(fd))


def _flock_holder(status: os.stat_result) -> int | None:
    """Look the file up in /proc/locks, which names it as `major:minor:inode`."""
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks") as locks:
            fields = next((line.split() for line in locks if name in line and "->" not in line), None)
    except OSError:
        return None
    return int(fields[4]) if fields and int(fields[4]) > 0 else None
