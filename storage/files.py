"""The one seam to the disk: everything the engine does to files goes through this module.

It is small so that tests can replace the disk with a simulated one. Every call is synchronous; nothing here retries,
caches or interprets bytes. The only state is the list of directories that could not be synced, the functions that
close files at the limit of open files (`reclaim_with`), and the attached file trees. Files are opened with O_NOFOLLOW
and O_CLOEXEC and must be regular: links, FIFOs and devices that were planted in a log directory are refused with their
path.

A path with `://` may belong to a `FileTree`, such as an archive in object storage (`attach`, decision 74). It is only
for reading: every function that changes something raises OSError EROFS for such a path.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol, Self, TypeVar

from offsetfs.storage.errors import WouldBlock

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # O_NONBLOCK: opening a planted FIFO must not wait
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NOT_REGULAR = {errno.ELOOP: "a symbolic link, not a regular file", errno.ENXIO: "not a regular file"}
"""The errnos of open(2) for a link and for a socket, with a reason that describes the file."""

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)  # None: Pythons built with musl before 1.2.5
_PROBE_BYTES = 64 << 10  # the page cache loads and drops pages in groups of about this size
_LOAD_BYTES = 256 << 10
_ADVISE_BYTES = 512 << 10
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system's are

NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""The errnos at the limit of open files, of the process or of the system. The call has changed nothing."""

_RECLAIMS_MAX = 4
_reclaimers: list[weakref.WeakMethod[Callable[[], bool]]] = []

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class FileTree(Protocol):
    """Directories and files that are on no disk, for reading only. All paths are absolute: the root and names below.

    Every method may be called in any thread, and raises OSError with the path: ENOENT for a missing name, ENOTDIR, EIO.
    `status` and the methods after it are also called by event loops, once a path was used: they do not wait then.
    """

    def open_file(self, path: str) -> File:
        """Return an open file. Its methods that change something raise EROFS; its descriptor is -1."""

    def names(self, path: str) -> dict[str, int]:
        """Return the names in a directory with their inode numbers."""

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory; costs no request for one below the root."""

    def status(self, path: str) -> os.stat_result:
        """Return size, times, mode and inode number; a file with other content instead of more has another number."""

    def space(self) -> tuple[int, int]:
        """Return total and free bytes; 0 where they are not known."""

    def log_start(self, path: str) -> int | None:
        """Return the log start that is recorded for the partition in a directory; None if it is in a checkpoint."""

    def end_offset(self, path: str, size: int) -> int | None:
        """Return the offset after the last batch of a log file of only whole, verified batches; None: not known.

        `size`: the bytes of the file whose end is asked for. The file may have grown meanwhile: None then.
        """


_trees: dict[str, FileTree] = {}
_URL_SIGN = "://"


def attach(root: str, tree: FileTree) -> None:
    """Let `tree` answer for `root`, a URL without a slash at its end, and all paths below it. Replaces an earlier one.

    For this process, until `detach`. Files that are open stay open.
    """
    _trees[root] = tree


def detach(root: str) -> None:
    """End `attach`. No error if there is no tree."""
    _trees.pop(root, None)


def tree_of(path: str) -> FileTree | None:
    """Return the tree that answers for a path; None for a path of the disk."""
    # The engine calls this for every look-up of a name: a call costs 0.15 µs where there is no URL.
    if _URL_SIGN not in path:
        return None
    return next((tree for root, tree in _trees.items() if path == root or path.startswith(root + "/")), None)


def _check_changeable(path: str) -> None:
    if tree_of(path) is not None:
        raise OSError(errno.EROFS, "an archive is read-only", path)


def reclaim_with(reclaim: Callable[[], bool]) -> None:
    """Call `reclaim` at the limit of open files, before an open fails. It closes files that can be reopened.

    `reclaim` is a bound method and returns whether it closed any. It is called in any thread, which may hold any lock,
    as long as its object exists.
    """
    _reclaimers[:] = [reference for reference in _reclaimers if reference() is not None]
    _reclaimers.append(weakref.WeakMethod(reclaim))


def _reclaim() -> bool:
    closed = [reclaim() for reference in list(_reclaimers) if (reclaim := reference()) is not None]
    return any(closed)


def _within_limit(open_: Callable[[], T]) -> T:
    """Return `open_()`. If no descriptor is free, close files that can be reopened, and try again."""
    for _ in range(_RECLAIMS_MAX):
        try:
            return open_()
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS or not _reclaim():
                raise
    return open_()


def _open(path: str, flags: int, mode: int = 0o777) -> int:
    try:
        return os.open(path, flags, mode)
    except OSError as error:
        if error.errno not in NO_DESCRIPTORS:
            raise
        return _within_limit(lambda: os.open(path, flags, mode))


class File:
    """An open regular file. All positions are absolute; there is no cursor."""

    __slots__ = ("fd", "path")

    is_remote = False
    """Whether each read may cost a request to another machine, so that a reader says where it ends."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self.fd).st_size

    def stat(self) -> os.stat_result:
        return os.fstat(self.fd)

    def read(self, position: int, size: int, *, nowait: bool = False) -> bytearray:
        """Return up to `size` bytes from `position`; fewer only at the end of the file.

        With `nowait`, `WouldBlock` if the page cache does not hold all of them.
        """
        # A new buffer for each read, because batches keep views of it after this call has returned.
        buffer = bytearray(size)
        count = self.read_into(memoryview(buffer), position, nowait=nowait)
        if count < size:
            del buffer[count:]
        return buffer

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        """Fill `buffer` from `position`; return the count, short only at the end of the file."""
        done, size = 0, len(buffer)
        if nowait and _NOWAIT is None:
            raise WouldBlock("this Python does not know RWF_NOWAIT", path=self.path, position=position)
        while done < size:
            try:
                # RWF_NOWAIT: the kernel returns EAGAIN where the page cache lacks a byte. So the event loop may read
                # what is cached; a hand-over to a thread costs more than such a read (0.2 ms).
                count = os.preadv(self.fd, [buffer[done:]], position + done, _NOWAIT or 0 if nowait else 0)
            except BlockingIOError:
                raise WouldBlock("not in the page cache", path=self.path, position=position) from None
            except OSError as error:
                if nowait and error.errno == errno.EOPNOTSUPP:  # RWF_NOWAIT is not supported: read in a thread
                    raise WouldBlock(
                        "the file system does not support RWF_NOWAIT", path=self.path, position=position
                    ) from None
                raise
            # A short read is not the end of the file: with RWF_NOWAIT the kernel also stops at the first page that is
            # not cached.
            if count == 0:
                break
            done += count
        return done

    def send(self, socket: int, position: int, size: int) -> int:
        """Send up to `size` bytes from `position` to a socket, uncopied; return how many; 0 at the end of the file.

        Raises BlockingIOError where the socket takes nothing now. May wait for the disk.
        """
        return os.sendfile(socket, self.fd, position, size)

    def is_cached(self, position: int, size: int) -> bool:
        """Whether the page cache probably holds a range: a byte in each `_PROBE_BYTES`, and the last one."""
        if _NOWAIT is None:
            return False
        probe, end = [bytearray(1)], position + size
        try:
            for probed in (*range(position, end, _PROBE_BYTES), end - 1):
                if not os.preadv(self.fd, probe, probed, _NOWAIT):
                    return False
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):
                return False
            raise
        return True

    def load(self, position: int, size: int, ahead: int = 0) -> None:
        """Load a range into the page cache; waits for the disk. Begin to load `ahead` bytes after it."""
        self.begin_load(position, size + ahead)
        buffer = memoryview(bytearray(min(size, _LOAD_BYTES)))
        for start in range(position, position + size, _LOAD_BYTES):
            self.read_into(buffer[: position + size - start], start)

    def begin_load(self, position: int, size: int) -> None:
        """Begin to load a range into the page cache. May wait for the queue of the disk, but not for the bytes."""
        # In steps, because the kernel cuts each at the read-ahead of the disk, or the largest request to it.
        for start in range(position, position + size, _ADVISE_BYTES):
            os.posix_fadvise(self.fd, start, min(_ADVISE_BYTES, position + size - start), os.POSIX_FADV_WILLNEED)

    def reading_to(self, end: int) -> File:
        """Return the file for one sequential reader that probably ends at `end`: nothing behind that is read ahead.

        A hint: bytes behind it can be read. The same object where the kernel reads ahead.
        """
        return self

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`. Durable after `sync`. After an error a part of it may be in the file."""
        view = memoryview(data)
        while view:
            # A disk that becomes full accepts a part of the bytes; only the next call returns ENOSPC.
            count = os.pwrite(self.fd, view, position)
            view = view[count:]
            position += count

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def preallocate(self, position: int, size: int) -> None:
        """Allocate disk blocks for `size` bytes from `position` on, beyond the end, so that writes cost less.

        The size of the file stays the same. Only `truncate` to that size releases the blocks. OSError ENOSPC, EDQUOT,
        EFBIG, and EOPNOTSUPP or another errno if the file system does not support it.
        """
        _fallocate(self.fd, _KEEP_SIZE, position, size)

    def has_blocks_beyond_end(self, size: int) -> bool:
        """Whether more than `size` bytes of disk blocks are allocated beyond the end."""
        status = os.fstat(self.fd)
        return status.st_blocks * _BLOCK_BYTES > status.st_size + size

    def sync(self) -> None:
        """Sync bytes and size. After an error the content on disk is unknown."""
        os.fsync(self.fd)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        # First the attribute, then the system call: a second close would hit a descriptor that another thread has
        # opened under the same number since.
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
    """Open a regular file; with `create`, create a missing one, whose name is durable after `sync_directory`.

    As a context manager, it closes at the end of the block.
    """
    return _open_regular(path, writable, create)[0]


def open_with_size(path: str) -> tuple[File, int]:
    """Open a regular file for reading; return it with its size. One system call less than `size`."""
    file, status = _open_regular(path, False, False)
    return file, file.size() if status is None else status.st_size


def _open_regular(path: str, writable: bool, create: bool) -> tuple[File, os.stat_result | None]:
    """Return an open file with its status; None instead of the status for a file of a tree."""
    tree = tree_of(path)
    if tree is not None:
        if writable or create:
            _check_changeable(path)
        return tree.open_file(path), None
    flags = _FLAGS | (os.O_RDWR if writable or create else os.O_RDONLY) | (os.O_CREAT if create else 0)
    try:
        file = File(path, _open(path, flags, 0o640))
    except OSError as error:
        # The kernel's texts for a link or socket in the place of a segment ("too many levels of symbolic links", "no
        # such device") do not say what is wrong with the file.
        if error.errno not in _NOT_REGULAR:
            raise
        raise OSError(errno.EINVAL, _NOT_REGULAR[error.errno], path) from None
    status = file.stat()
    # Checked on the descriptor and not on the path, which may be replaced between the two calls.
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if (
        create and status.st_size == 0 and status.st_nlink == 1
    ):  # otherwise it may have a name in another directory as well
        give_to_owner(path, file.fd)
    return file, status


def create_file(path: str, *, is_private: bool = False) -> File:
    """Create an empty file, open for writing; its name is durable after `sync_directory`.

    With `is_private`, only its owner can open it.

    An existing file is removed and never opened, because a planted hard or symbolic link would lead to a foreign file.
    FileExistsError if another process creates one at the same moment.
    """
    _check_changeable(path)
    # O_EXCL, because a hard link that was planted under the name of a new file would be written through.
    flags, mode = _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if is_private else 0o640
    try:
        file = File(path, _open(path, flags, mode))
    except FileExistsError:
        os.unlink(path)
        file = File(path, _open(path, flags, mode))
    give_to_owner(path, file.fd)
    return file


@contextlib.contextmanager
def created(path: str, *, is_private: bool = False) -> Iterator[File]:
    """`create_file` that closes at the end of the block."""
    file = create_file(path, is_private=is_private)
    try:
        yield file
    finally:
        file.close()


def give_to_owner(path: str, fd: int | None = None) -> None:
    """Give a file that root created to the owner of the directory, such as `kafka`, whose broker must open it."""
    # Kafka runs as a user of its own. A file that root leaves in its directory stops the broker at its next start.
    parent = os.stat(os.path.dirname(path) or ".")
    if os.geteuid() == 0 and parent.st_uid != 0:
        if fd is not None:  # the name may refer to another file by now
            os.fchown(fd, parent.st_uid, parent.st_gid)
        else:
            os.chown(path, parent.st_uid, parent.st_gid, follow_symlinks=False)


def read_file(path: str, bytes_max: int = 1 << 26) -> bytes:
    """Return the content of a small file; EFBIG above `bytes_max`, so that a planted file cannot fill the memory."""
    file, size = open_with_size(path)
    with file:
        # The size is checked before memory is allocated for it.
        if size > bytes_max:
            raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes", path)
        return bytes(file.read(0, size))


def replace_file(path: str, data: bytes, *, sync_name: bool = True, is_private: bool = False) -> None:
    """Replace the content of `path` atomically. Durable on return; a crash before leaves the old or the new content.

    With `sync_name` false, the new content is durable once the caller has synced the directory. With `is_private`, only
    the owner can open the file.
    """
    temporary = path + ".tmp"
    with created(temporary, is_private=is_private) as file:
        # The new file gets the permissions of the old one, so that the programs that could read it still can.
        with contextlib.suppress(FileNotFoundError):
            if not is_private:
                os.fchmod(file.fd, stat.S_IMODE(os.lstat(path).st_mode))
        file.write(0, data)
        # The data must be on disk before the rename is: ext4 may write the rename first, and a power cut would leave an
        # empty file under the final name.
        file.sync()
    # Only after the data is synced: ext4 may write the rename to disk first, and a power cut would leave an empty file.
    os.replace(temporary, path)
    if sync_name:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make creations, renames and removals in `path` durable.

    After a failure, every later call for the directory fails until `trust`: the kernel reports a failed write once, and
    a later sync, which finds nothing to write, would report success for names that are not on disk.
    """
    _check_changeable(path)
    fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        identity = status.st_dev, status.st_ino
        # Linux reports a failed write of the page cache once per open file, and marks the page clean. A second fsync
        # would return success without having written anything.
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
    """Allow syncs of `path` and of the directories below it again, because their content is read again."""
    for identity, (directory, _) in list(_distrusted.items()):
        if directory == path or directory.startswith(path + os.sep):
            _distrusted.pop(identity, None)


@contextlib.contextmanager
def locked_directory(path: str, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a directory, waiting for its holder. The kernel releases the lock of a process that dies.

    Without `wait`, BlockingIOError if another process or thread holds it.
    """
    _check_changeable(path)
    fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The directory itself is locked, so that no additional file is needed in a directory that may belong to a
        # broker.
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """Create a directory; its name is durable after `sync_directory` of its parent."""
    _check_changeable(path)
    os.mkdir(path, 0o750)
    give_to_owner(path)


def make_private_directory(path: str) -> None:
    """Create a directory with access for its owner only. EPERM for one of another user, ENOTDIR for a link."""
    _check_changeable(path)
    # Another user may have created the directory first, in a world-writable place such as /tmp: hence the checks below.
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

    Not synced. If the process is killed, a file whose name ends in `.tmp` may remain.
    """
    _check_changeable(path)
    # A random name, because several mounts of one user write to the same cache at the same time.
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
    """Remove an empty directory; the removal is durable after `sync_directory` of its parent."""
    _check_changeable(path)
    status = os.lstat(path)
    os.rmdir(path)
    _distrusted.pop((status.st_dev, status.st_ino), None)  # another directory may get the inode number


@contextlib.contextmanager
def temporary_directory() -> Iterator[str]:
    """A temporary directory for files of a reader that may not write to the log directory; removed after the block."""
    import tempfile  # 3 ms, and seldom needed

    with tempfile.TemporaryDirectory(prefix="offsetfs-") as path:
        yield path


def rename(source: str, target: str) -> None:
    """Rename a file or directory, replacing an existing one; durable after `sync_directory`."""
    _check_changeable(source)
    _check_changeable(target)
    os.rename(source, target)


def remove_file(path: str) -> None:
    """Remove a file; durable after `sync_directory`."""
    _check_changeable(path)
    os.unlink(path)


def set_modified(path: str, modified_ns: int) -> None:
    """Set the modification time to `modified_ns`, nanoseconds since 1970; durable when the file size is."""
    _check_changeable(path)
    os.utime(path, ns=(modified_ns, modified_ns), follow_symlinks=False)


def free_bytes(path: str) -> int:
    """Return the free bytes of the file system of `path`, as a user without privileges may use them."""
    if (tree := tree_of(path)) is not None:
        return tree.space()[1]
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def total_bytes(path: str) -> int:
    """Return the size of the file system of `path`."""
    if (tree := tree_of(path)) is not None:
        return tree.space()[0]
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize


def names(path: str) -> list[str]:
    """Return the names in a directory, unsorted."""
    if (tree := tree_of(path)) is not None:
        return list(tree.names(path))
    return _within_limit(lambda: os.listdir(path))


def names_with_inodes(path: str) -> list[tuple[str, int]]:
    """Return (name, inode number) of the entries of a directory, unsorted; makes no stat call."""
    if (tree := tree_of(path)) is not None:
        return list(tree.names(path).items())
    with _within_limit(lambda: os.scandir(path)) as entries:
        # getdents already returns the inode numbers. They tell a replaced segment from the old one where the
        # modification time of the directory does not (kernels before 6.13 have ticks of some milliseconds).
        return [(entry.name, entry.inode()) for entry in entries]


def directory_names(path: str) -> list[str]:
    """Return the names of the subdirectories of a directory, unsorted, without links to directories."""
    if (tree := tree_of(path)) is not None:
        return [name for name in tree.names(path) if tree.is_directory(os.path.join(path, name))]
    with _within_limit(lambda: os.scandir(path)) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def status(path: str) -> os.stat_result:
    """Return size, times and inode number; of a link, its own."""
    if (tree := tree_of(path)) is not None:
        return tree.status(path)
    return os.lstat(path)


def recorded_log_start(directory: str) -> int | None:
    """Return the log start that the tree of a partition's directory records; None for a directory on disk."""
    tree = tree_of(directory)
    return None if tree is None else tree.log_start(directory)


def recorded_end_offset(log_path: str, size: int) -> int | None:
    """Return the offset after the last batch of a log file where its tree records it; None on disk.

    None as well if the file no longer has `size` bytes.
    """
    tree = tree_of(log_path)
    return None if tree is None else tree.end_offset(log_path, size)


def is_directory(path: str) -> bool:
    """Whether `path` is a directory; False for a link to one. OSError if the disk cannot report it."""
    try:
        tree = tree_of(path)
        return stat.S_ISDIR(os.lstat(path).st_mode) if tree is None else tree.is_directory(path)
    except OSError as error:
        # EIO does not mean that the name is missing. Retention once skipped a segment because of that, and the log
        # start offset fell back.
        if error.errno not in _NOT_THERE:
            raise
        return False


def real_path(path: str) -> str:
    """Return the absolute path, with symbolic links resolved; a URL as it is."""
    if _URL_SIGN in path:
        return path
    return os.path.realpath(path)


def exists(path: str) -> bool:
    """Whether a file of any kind has the name. OSError if the disk cannot report it."""
    try:
        status(path)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return False
    return True
