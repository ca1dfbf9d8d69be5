"""`segments/*`: the real files of the log, byte for byte, with their real sizes, blocks and times. Read only.

Sealed files are believed for ever by a mount that is the only writer; the active segment's, and every file of a
read-only mount, which a broker may compact under it, are asked for each time.
"""

from __future__ import annotations

import errno
import os
import stat

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.attributes import FOREVER_S, NEVER_S
from offsetfs.fs.inodes import Fixed, Kind
from offsetfs.fs.nodes import Buffer, Listing, Opened, ShortListing
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.tree import SEGMENT_SUFFIXES, parse_segment_file
from offsetfs.storage import files
from offsetfs.storage.names import segment_name

_SUFFIX_BITS = 3


class SegmentFiles:
    """The directory `segments` and its files. `number` of a file: base offset less anchor, and its suffix below."""

    def __init__(self, shared: Shared, partition: Partition) -> None:
        self._shared = shared
        self._partition = partition

    def directory(self) -> EntryAttributes:
        inode = self._partition.inode(Kind.FIXED, Fixed.SEGMENTS)
        return self._shared.attributes.directory(inode, os.stat(self._partition.path).st_mtime_ns)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        parsed = parse_segment_file(name)
        if parsed is None:
            return None
        try:
            return self._entry(*parsed)
        except FileNotFoundError:
            return None

    async def attributes(self, number: int) -> EntryAttributes:
        if number == Fixed.SEGMENTS:
            return self.directory()
        return self._entry(*self._parts(number))

    def _entry(self, base_offset: int, suffix: int) -> EntryAttributes:
        path = self._path(base_offset, suffix)
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        number = (base_offset - self._partition.anchor) << _SUFFIX_BITS | suffix
        timeout_s = FOREVER_S if self._is_sealed(base_offset) else NEVER_S
        return self._shared.attributes.file(
            self._partition.inode(Kind.SEGMENT, number),
            status.st_size,
            status.st_mtime_ns,
            blocks=status.st_blocks,
            attr_timeout_s=timeout_s,
            entry_timeout_s=timeout_s,
        )

    def _is_sealed(self, base_offset: int) -> bool:
        return not self._shared.is_read_only and base_offset < self._partition.log.snapshot().active.base_offset

    def _parts(self, number: int) -> tuple[int, int]:
        return self._partition.anchor + (number >> _SUFFIX_BITS), number & (1 << _SUFFIX_BITS) - 1

    def _path(self, base_offset: int, suffix: int) -> str:
        return os.path.join(self._partition.path, segment_name(base_offset, SEGMENT_SUFFIXES[suffix]))

    async def listing(self, number: int) -> Listing:
        return ShortListing(await self._shared.in_thread(self._entries))

    def _entries(self) -> list[tuple[bytes, EntryAttributes]]:
        entries = []
        for name in sorted(files.names(self._partition.path)):
            parsed = parse_segment_file(name.encode("utf-8", "surrogateescape"))
            if parsed is None or parsed[0] < self._partition.anchor:
                continue
            try:
                entries.append((name.encode(), self._entry(*parsed)))
            except OSError:
                continue  # gone since, or no file: nothing that one could read
        return entries

    async def open(self, number: int) -> Opened:
        path = self._path(*self._parts(number))
        try:
            return Opened(SegmentHandle(self._shared, files.open_file(path)))
        except FileNotFoundError:
            raise FUSEError(errno.ESTALE) from None


class SegmentHandle:
    """An open file of a segment. It stays readable when the segment is deleted."""

    def __init__(self, shared: Shared, file: files.File) -> None:
        self._shared = shared
        self._file = file

    async def read(self, position: int, size: int) -> Buffer:
        return await self._shared.answer(self._file.read, position, size)

    async def release(self) -> None:
        self._file.close()
