"""The lock of a log directory: one writer, be it us or a Kafka broker.

Kafka takes a POSIX record lock on `.lock` (FileChannel.tryLock). Ours is that lock *and* a flock: a POSIX lock is lost
when any descriptor of the file closes in the process, and does not exclude the same process; a flock does neither, but
Kafka does not see it. The file stays when the lock goes: removing it would let two processes lock two files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct

from offsetfs.storage import files
from offsetfs.storage.errors import LogDirectoryLocked

NAME = ".lock"
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of x86-64 and arm64 Linux: type, whence, start, length, pid


class DirectoryLock:
    """Held from `acquire` to `release`, or to the death of the process."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock, or raise `LogDirectoryLocked` with the holder's pid where the system tells it."""
        fd = _open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = _holder(fd)
            os.close(fd)
            who = f"process {pid}" if pid else "another process"
            raise LogDirectoryLocked(f"in use by {who}", path=self.path, pid=pid) from None
        self._fd = fd
        self._give_to_owner()

    def _give_to_owner(self) -> None:
        """Give the file to the owner of the directory when root made it, now or in an earlier version of this program.

        A broker that runs as `kafka` could not open it otherwise. A file of another user stays as it is.
        """
        if os.fstat(self._fd).st_uid == 0:
            with contextlib.suppress(PermissionError):  # of a file system that maps root to another user
                files.give_to_owner(self.path, self._fd)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(directory: str) -> int | None:
    """Return the pid of the process that writes to `directory`, None when there is none or it cannot be seen."""
    try:
        fd = _open(os.path.join(directory, NAME), os.O_RDONLY)
    except OSError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _open(path: str, flags: int) -> int:
    """Open the file of the lock; OSError EINVAL for anything else in its place."""
    try:
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
