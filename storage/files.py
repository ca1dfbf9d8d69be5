"""The one seam to the disk: everything the engine does to files goes through this module.

It is small so that tests can put a simulated disk in its place. Every call is synchronous; nothing here retries,
caches or interprets bytes. All that is remembered is which directories could not be synced, and
who can close files at the limit of open files (`reclaim_with`). Files are opened with
O_NOFOLLOW and O_CLOEXEC and must be regular: links, FIFOs and devices planted in a log directory are
refused by name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import TypeVar

from offsetfs.storage.errors import WouldBlock

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # O_NONBLOCK: opening a planted FIFO must not wait
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NOT_REGULAR = {errno.ELOOP: "a symbolic link, not a regular file", errno.ENXIO: "not a regular file"}
"""What the kernel answers for a link and for a socket, in words that are about the file."""

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system's are

NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""The process, or the system, has as many files open as it may: nothing was opened, and nothing was changed."""

_RECLAIMS_MAX = 4
_reclaimers: list[weakref.WeakMethod[Callable[[], bool]]] = []

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


def reclaim_with(reclaim: Callable[[], bool]) -> None:
    """At the limit of open files, call `reclaim` before an open fails: it closes what can be opened again later.

    `reclaim`, a bound method, returns whether it closed anything. It is called in any thread, whatever locks the caller
    of the open holds, for as long as its object lives.
    """
    _reclaimers[:] = [each for each in _reclaimers if each() is not None]
    _reclaimers.append(weakref.WeakMethod(reclaim))


def _reclaim() -> bool:
    closed = [reclaim() for each in list(_reclaimers) if (reclaim := each()) is not None]
    return any(closed)


def _within_limit(open_: Callable[[], T]) -> T:
    """Return `open_()`; where it fails for want of a descriptor, have some closed and try again."""
    for _ in range(_RECLAIMS_MAX):
        try:
            return open_()
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS or not _reclaim():
                raise
    return open_()


def _open(path: str, flags: int, mode: int = 0o777) -> int:
    return _within_limit(lambda: os.open(path, flags, mode))


class File:
    """An open regular file. All positions are absolute; there is no cursor."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self.fd).st_size

    def stat(self) -> os.stat_result:
        return os.fstat(self.fd)

    def read(self, position: int, size: int, *, nowait: bool = False) -> bytearray:
        """Return up to `size` bytes from `position`; fewer only at the end of the file.

        With `nowait` nothing waits for the disk: `WouldBlock` when the page cache does not hold all of it.
        """
        buffer = bytearray(size)
        count = self.read_into(memoryview(buffer), position, nowait=nowait)
        if count < size:
            del buffer[count:]
        return buffer

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        """Fill `buffer` from `position`; return the count, short only at the end of the file."""
        done, size = 0, len(buffer)
        while done < size:
            try:
                count = os.preadv(self.fd, [buffer[done:]], position + done, os.RWF_NOWAIT if nowait else 0)
            except BlockingIOError:
                raise WouldBlock("not in the page cache", path=self.path, position=position) from None
            except OSError as error:
                if nowait and error.errno == errno.EOPNOTSUPP:  # a file system that cannot tell: let a thread ask
                    raise WouldBlock("cannot tell", path=self.path, position=position) from None
                raise
            if count == 0:
                break
            done += count
        return done

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`. Not on disk before `sync`. On an error some of it may be there."""
        view = memoryview(data)
        while view:
            count = os.pwrite(self.fd, view, position)
            view = view[count:]
            position += count

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def set_aside(self, position: int, size: int) -> None:
        """Have room on the disk for `size` bytes from `position` on, behind the end, where writing then costs less.

        The file gets no longer, and `truncate` to the length that it has gives the room back; nothing else does.
        OSError ENOSPC, EDQUOT, EFBIG, and EOPNOTSUPP or another one where the file system has no such thing.
        """
        _fallocate(self.fd, _KEEP_SIZE, position, size)

    def has_room_behind(self, size: int) -> bool:
        """Whether more than `size` bytes are taken on the disk behind the end."""
        status = os.fstat(self.fd)
        return status.st_blocks * _BLOCK_BYTES > status.st_size + size

    def sync(self) -> None:
        """Sync bytes and size. After an error the content on disk is unknown."""
        os.fsync(self.fd)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # A pooled file is evicted, not closed, while a reader may use it: the last reference closes it.
        self.close()


def _fallocate(fd: int, mode: int, position: int, size: int) -> None:
    # os.posix_fallocate makes the file longer, which readers and recovery would take for records.
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(fd, mode, position, size):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def open_file(path: str, *, writable: bool = False, create: bool = False) -> File:
    """Open a regular file; with `create` it is made when missing (its name survives only `sync_directory`)."""
    flags = _FLAGS | (os.O_RDWR if writable or create else os.O_RDONLY) | (os.O_CREAT if create else 0)
    try:
        file = File(path, _open(path, flags, 0o640))
    except OSError as error:
        if error.errno not in _NOT_REGULAR:
            raise
        raise OSError(errno.EINVAL, _NOT_REGULAR[error.errno], path) from None
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if create and status.st_size == 0 and status.st_nlink == 1:  # else it may be a file of another directory, too
        give_to_owner(path, file.fd)
    return file


def create_file(path: str) -> File:
    """Make a new empty file, open for writing; its name survives only `sync_directory`.

    What had the name is removed first and never opened: a hard or symbolic link that was planted there leads to a file
    that is not ours to write to. FileExistsError where another process makes one at the same moment.
    """
    flags = _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        file = File(path, _open(path, flags, 0o640))
    except FileExistsError:
        os.unlink(path)
        file = File(path, _open(path, flags, 0o640))
    give_to_owner(path, file.fd)
    return file


@contextlib.contextmanager
def created(path: str) -> Iterator[File]:
    """`create_file` that closes at the end of the block."""
    file = create_file(path)
    try:
        yield file
    finally:
        file.close()


def give_to_owner(path: str, fd: int | None = None) -> None:
    """Give what root made to the owner of the directory: a broker that runs as `kafka` must be able to open it."""
    parent = os.stat(os.path.dirname(path) or ".")
    if os.geteuid() == 0 and parent.st_uid != 0:
        if fd is not None:  # the name may stand for another file by now
            os.fchown(fd, parent.st_uid, parent.st_gid)
        else:
            os.chown(path, parent.st_uid, parent.st_gid, follow_symlinks=False)


@contextlib.contextmanager
def opened(path: str, *, writable: bool = False, create: bool = False) -> Iterator[File]:
    """`open_file` that closes at the end of the block."""
    file = open_file(path, writable=writable, create=create)
    try:
        yield file
    finally:
        file.close()


def read_file(path: str, bytes_max: int = 1 << 26) -> bytes:
    """Return a small file whole; EFBIG above `bytes_max`, so that a planted giant cannot fill the memory."""
    with opened(path) as file:
        size = file.size()
        if size > bytes_max:
            raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes", path)
        return bytes(file.read(0, size))


def replace_file(path: str, data: bytes, *, sync_name: bool = True) -> None:
    """Put `data` in the place of `path`: whole and on disk after return, the old content or the new before.

    With `sync_name` false the caller syncs the directory: until then it may still be the old content.
    """
    temporary = path + ".tmp"
    with created(temporary) as file:
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(file.fd, stat.S_IMODE(os.lstat(path).st_mode))
        file.write(0, data)
        file.sync()
    os.replace(temporary, path)
    if sync_name:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make creations, renames and removals in `path` survive power loss.

    Once that has failed it fails until `trust`: the system tells of what it could not write once, and a later sync,
    which finds nothing to do, would claim success for names that are not on disk.
    """
    fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        identity = status.st_dev, status.st_ino
        if identity in _distrusted:
            raise OSError(_distrusted[identity][1], "an earlier sync of this directory failed", path)
        try:
            os.fsync(fd)
        except OSError as error:
            _distrusted[identity] = path, error.errno or errno.EIO
            raise
    finally:
        os.close(fd)


_distrusted: dict[tuple[int, int], tuple[str, int]] = {}
"""Directories that could not be synced, by device and inode number: path and error."""


def trust(path: str) -> None:
    """Allow syncs of the directories in and below `path` again, because their content is read again."""
    for identity, (directory, _) in list(_distrusted.items()):
        if directory == path or directory.startswith(path + os.sep):
            _distrusted.pop(identity, None)


@contextlib.contextmanager
def locked_directory(path: str) -> Iterator[None]:
    """Hold a lock on a directory, waiting for its holder. The kernel releases the lock of a process that dies."""
    fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """Make a directory; its name survives only `sync_directory` of the one above."""
    os.mkdir(path, 0o750)
    give_to_owner(path)


def make_private_directory(path: str) -> None:
    """Create a directory with access for its owner only. EPERM for one of another user, ENOTDIR for a link."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(path, mode=0o700)
    fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "a directory of another user", path)
        if status.st_mode & 0o077:
            os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def put_private(path: str, data: Buffer) -> None:
    """Replace the content of `path` atomically, with access for its owner only; concurrent calls are safe.

    It need not survive power loss. When this is killed a file may be left whose name ends in `.tmp`.
    """
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    file = File(temporary, _open(temporary, _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        file.write(0, data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        file.close()


def remove_directory(path: str) -> None:
    """Remove an empty directory; its name is gone for good only after `sync_directory` of the one above."""
    status = os.lstat(path)
    os.rmdir(path)
    _distrusted.pop((status.st_dev, status.st_ino), None)  # another directory may get the inode number


@contextlib.contextmanager
def temporary_directory() -> Iterator[str]:
    """A directory elsewhere, for what a reader needs and may not write; gone with all in it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="offsetfs-") as path:
        yield path


def rename(source: str, target: str) -> None:
    """Give a file or directory another name, in the place of one that has it; survives only `sync_directory`."""
    os.rename(source, target)


def remove_file(path: str) -> None:
    """Remove a file; its name is gone for good only after `sync_directory`."""
    os.unlink(path)


def set_modified(path: str, modified_ns: int) -> None:
    """Let a file have been changed last at `modified_ns`, nanoseconds since 1970; survives as its size does."""
    os.utime(path, ns=(modified_ns, modified_ns), follow_symlinks=False)


def free_bytes(path: str) -> int:
    """Return how many bytes a writer may still take of the file system that `path` lies on."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def names(path: str) -> list[str]:
    """Return the names in a directory, in no order."""
    return _within_limit(lambda: os.listdir(path))


def names_with_inodes(path: str) -> list[tuple[str, int]]:
    """Return (name, inode number) of what is in a directory, in no order; costs no stat of any of it."""
    with _within_limit(lambda: os.scandir(path)) as entries:
        return [(entry.name, entry.inode()) for entry in entries]


def directory_names(path: str) -> list[str]:
    """Return the names of the directories in a directory, in no order; links to directories are not among them."""
    with _within_limit(lambda: os.scandir(path)) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def status(path: str) -> os.stat_result:
    """Return size, times and inode number of what has the name, be it a link."""
    return os.lstat(path)


def is_directory(path: str) -> bool:
    """Whether the name stands for a directory, and not for a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return False


def real_path(path: str) -> str:
    """Return the absolute path without links on the way."""
    return os.path.realpath(path)


def exists(path: str) -> bool:
    """Whether the name is there, whatever it stands for. OSError where the disk cannot tell: no is an answer, too."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return False
    return True
