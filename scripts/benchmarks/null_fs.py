"""The smallest file system that pyfuse3 can make: what the kernel, libfuse, pyfuse3 and trio cost without us.

    python null_fs.py MOUNT_POINT DATA_BYTES

    sink         takes writes and forgets them                             as `append`, for `cat` 128 KiB at a time
    sink-1m      the same, asking for a megabyte at a time as ours does    as `append`
    data         DATA_BYTES long, answered from one buffer                 as `values`
    files/N      for every number N, 100 bytes, the same in each           as `<offset>`

It is mounted with the options of our mount and answers open, look-up and stat with the same cache times, direct I/O
and preferred sizes as ours. Runs in the foreground until it is unmounted; prints a line when it answers.
"""

from __future__ import annotations

import errno
import stat
import sys
from typing import cast

import pyfuse3
import trio
from pyfuse3 import EntryAttributes, FileInfo, FUSEError

from offsetfs.fs.attributes import FOREVER_S, NEVER_S, PREFERRED_READ_BYTES
from offsetfs.fs.mounting.mount import REQUESTS_MAX, mount_options
from offsetfs.fs.options import MountOptions

FILE_BYTES = 100
READ_BYTES_MAX = 1 << 20

ROOT, SINK, SINK_1M, DATA, FILES = pyfuse3.ROOT_INODE, 2, 3, 4, 5
FIRST_FILE = 1 << 32

_NAMES = {b"sink": SINK, b"sink-1m": SINK_1M, b"data": DATA, b"files": FILES}


class NullOperations(pyfuse3.Operations):
    """An inode is its own file handle: there is no state."""

    supports_dot_lookup = False

    def __init__(self, data_bytes: int) -> None:
        super().__init__()
        self._data_bytes = data_bytes
        self._buffer = memoryview(bytes(READ_BYTES_MAX))

    async def lookup(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> EntryAttributes:
        if parent_inode == FILES and name.isdigit():
            return self._attributes(FIRST_FILE + int(name))
        if parent_inode != ROOT or name not in _NAMES:
            raise FUSEError(errno.ENOENT)
        return self._attributes(_NAMES[name])

    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> EntryAttributes:
        return self._attributes(inode)

    def _attributes(self, inode: int) -> EntryAttributes:
        entry = EntryAttributes()
        entry.st_ino = inode
        entry.entry_timeout = entry.attr_timeout = FOREVER_S
        entry.st_mode = stat.S_IFDIR | 0o755 if inode in (ROOT, FILES) else stat.S_IFREG | 0o644
        if inode == DATA:
            entry.st_size, entry.st_blksize, entry.attr_timeout = self._data_bytes, PREFERRED_READ_BYTES, NEVER_S
        elif inode == SINK_1M:
            entry.st_blksize = PREFERRED_READ_BYTES
        elif inode >= FIRST_FILE:
            entry.st_size = FILE_BYTES
        return entry

    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> FileInfo:
        is_direct = inode in (SINK, SINK_1M)
        return FileInfo(fh=inode, direct_io=is_direct, keep_cache=not is_direct)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        end = self._data_bytes if fh == DATA else FILE_BYTES
        return cast(bytes, self._buffer[: max(min(size, end - off), 0)])  # a view: pyfuse3 takes any buffer

    async def write(self, fh: int, off: int, buf: bytes) -> int:
        return len(buf)

    async def flush(self, fh: int) -> None:
        """Answered, as ours is: without it the kernel would ask once and never again."""

    async def release(self, fh: int) -> None: ...


async def _serve() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pyfuse3.main, 1, REQUESTS_MAX)
        print("mounted", flush=True)


def main(mount_point: str, data_bytes: str) -> None:
    options = mount_options("null", MountOptions()) - {"subtype=offsetfs"}
    pyfuse3.init(NullOperations(int(data_bytes)), mount_point, options)
    try:
        trio.run(_serve)
    finally:
        pyfuse3.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
