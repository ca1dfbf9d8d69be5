"""The attributes that stat(2) returns: mode, owner, size, times, and how long the kernel may cache them.

Sizes are exact. Derived files have no blocks, so that du counts each byte on disk once. The kernel caches attributes
that cannot change without a limit, and requests all others each time.
"""

from __future__ import annotations

import stat

from offsetfs.fs.fuse_types import EntryAttributes

FOREVER_S = 1e9  # 31 years; the kernel adds it to its clock without overflow
NEVER_S = 0.0
DIRECTORY_S = 1.0  # every path leads through directories: without a cache each open costs two more requests
REMOVABLE_S = 1.0
"""The time that the kernel caches the name of a record or a sealed segment. The file never changes, but retention,
compaction or a running broker may remove it. After this time at most no process finds the name. The limit costs a `cat`
at most one request, a twentieth of its duration."""

PREFERRED_READ_BYTES = 1 << 20
"""st_blksize of long files: it makes cat and cp read a megabyte at a time, with an eighth of the requests."""

RECORD_MODE = 0o444
APPEND_MODE = 0o220
DIRECTORY_MODE = 0o555
WRITABLE_DIRECTORY_MODE = 0o755

_MILLISECOND_NS = 1_000_000


class Attributes:
    """Makes the attributes of one mount: its owner and its umask."""

    __slots__ = ("_gid", "_kept_bits", "_uid")

    def __init__(self, uid: int, gid: int, umask: int) -> None:
        self._uid = uid
        self._gid = gid
        self._kept_bits = 0o777 & ~umask

    def file(
        self,
        inode: int,
        size: int,
        mtime_ns: int,
        *,
        mode: int = RECORD_MODE,
        attr_timeout_s: float = NEVER_S,
        entry_timeout_s: float = NEVER_S,
        blocks: int = 0,
    ) -> EntryAttributes:
        """Return the attributes of a regular file. `blocks`: its size on disk, in units of 512 bytes."""
        entry = self._entry(inode, stat.S_IFREG | (mode & self._kept_bits), size, mtime_ns)
        entry.attr_timeout = attr_timeout_s
        entry.entry_timeout = entry_timeout_s
        entry.st_blocks = blocks
        return entry

    def directory(self, inode: int, mtime_ns: int = 0, *, writable: bool = False) -> EntryAttributes:
        """Return the attributes of a directory. `writable`: mkdir or rmdir works in it.

        The link count is 1, as in btrfs: it does not count subdirectories.
        """
        mode = WRITABLE_DIRECTORY_MODE if writable else DIRECTORY_MODE
        entry = self._entry(inode, stat.S_IFDIR | (mode & self._kept_bits), 0, mtime_ns)
        entry.attr_timeout = entry.entry_timeout = DIRECTORY_S
        return entry

    def link(self, inode: int, target: bytes) -> EntryAttributes:
        """Return the attributes of a symbolic link. The link never changes; the kernel looks its name up each time."""
        entry = self._entry(inode, stat.S_IFLNK | 0o777, len(target), 0)
        entry.attr_timeout = FOREVER_S
        entry.entry_timeout = NEVER_S
        return entry

    def _entry(self, inode: int, mode: int, size: int, mtime_ns: int) -> EntryAttributes:
        entry = EntryAttributes()
        entry.st_ino = inode
        entry.st_mode = mode
        entry.st_uid = self._uid
        entry.st_gid = self._gid
        entry.st_size = size
        set_times(entry, mtime_ns)
        return entry


def set_times(entry: EntryAttributes, mtime_ns: int) -> None:
    """Set all three times to the time of the last write."""
    entry.st_mtime_ns = mtime_ns
    entry.st_ctime_ns = mtime_ns
    entry.st_atime_ns = mtime_ns


def milliseconds_ns(timestamp: int) -> int:
    """Return the nanoseconds of a timestamp in milliseconds."""
    return timestamp * _MILLISECOND_NS
