"""What stat(2) shows: modes, owners, sizes, times, and how long the kernel may believe them.

Sizes are exact. Derived files have no blocks, so that du counts what is on disk and nothing twice. What cannot change
is believed for ever, what can change is asked for each time.
"""

from __future__ import annotations

import stat

from pyfuse3 import EntryAttributes

FOREVER_S = 1e9  # 31 years; the kernel adds it to its clock without overflow
NEVER_S = 0.0
DIRECTORY_S = 1.0  # every path is walked through them: asking each time costs two requests more for each open
REMOVABLE_S = 1.0
"""How long the name of a record or a sealed segment is believed. What it names never changes; but retention, compaction
and a running broker remove it, and no later than this the name is gone for everybody. A `cat` pays nothing for it, or,
when the last one is longer ago than this, one request in twenty times its own length."""

PREFERRED_READ_BYTES = 1 << 20
"""What st_blksize says of long files: cat and cp then read a megabyte at a time, in an eighth of the requests."""

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
        """Return those of a regular file; `blocks` of 512 bytes are what it takes on disk."""
        entry = self._entry(inode, stat.S_IFREG | (mode & self._kept_bits), size, mtime_ns)
        entry.attr_timeout = attr_timeout_s
        entry.entry_timeout = entry_timeout_s
        entry.st_blocks = blocks
        return entry

    def directory(self, inode: int, mtime_ns: int = 0, *, writable: bool = False) -> EntryAttributes:
        """Return those of a directory; `writable`: mkdir or rmdir works in it.

        One link: the count says nothing, as in btrfs.
        """
        mode = WRITABLE_DIRECTORY_MODE if writable else DIRECTORY_MODE
        entry = self._entry(inode, stat.S_IFDIR | (mode & self._kept_bits), 0, mtime_ns)
        entry.attr_timeout = entry.entry_timeout = DIRECTORY_S
        return entry

    def link(self, inode: int, target: bytes) -> EntryAttributes:
        """Return those of a symbolic link: never changing itself, its name asked for each time."""
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
    """Set all three times: nothing here is changed or read apart from being written."""
    entry.st_mtime_ns = mtime_ns
    entry.st_ctime_ns = mtime_ns
    entry.st_atime_ns = mtime_ns


def milliseconds_ns(timestamp: int) -> int:
    """Return the nanoseconds of a timestamp in milliseconds."""
    return timestamp * _MILLISECOND_NS
