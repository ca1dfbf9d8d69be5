"""`segments/*`: the real files of the log, byte for byte, with their real sizes, blocks and times. Read only.

If the mount is the only writer, the kernel caches attributes of sealed files without a time limit. It never caches
those of the active segment, nor of a read-only mount, because a broker may compact its files. It caches names for a
second, because retention removes files and compaction replaces them. A replacement has another inode. A reader that
opened or found the old file reads it until it is unlinked, then gets ESTALE.

Reads of the active log file bypass the page cache (decision 0023). Reads of its indexes do not, because Kafka's tools
map them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from offsetfs.fs.attributes import FOREVER_S, NEVER_S, PREFERRED_READ_BYTES, REMOVABLE_S
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import SEGMENT_SUFFIXES, parse_segment_file
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Buffer, Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import files
from offsetfs.storage.segments import Segment, segment_name

_SNAPSHOT = ".snapshot"
_NUMBER_MIN = 1000
"""The number of the first file. Numbers of directories in `Kind` are far below."""


class _File(NamedTuple):
    """A file as it was found under a name. `segment` is None for files such as producer snapshots."""

    base_offset: int
    suffix: str
    segment: Segment | None
    identity: tuple[int, int]  # the inode on disk, and the time of the last write if the file does not grow


class SegmentFileNodes:
    """The directory `segments` and its files. `number` of a file: counts the files seen so far."""

    def __init__(self, mount: MountContext, partition: MountedPartition) -> None:
        self._mount = mount
        self._partition = partition
        self._numbers: dict[_File, int] = {}
        self._files: dict[int, _File] = {}
        self._last_number = _NUMBER_MIN - 1
        self._seen: object = None  # the segment map of the last check

    def directory(self) -> EntryAttributes:
        inode = self._partition.inode(Kind.SEGMENTS)
        return self._mount.attributes.directory(inode, files.status(self._partition.path).st_mtime_ns)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        parsed = parse_segment_file(name)
        if parsed is None:
            return None
        path = os.path.join(self._partition.path, name.decode())
        try:
            status = files.status(path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return self._found(parsed[0], SEGMENT_SUFFIXES[parsed[1]], status)

    async def attributes(self, number: int) -> EntryAttributes:
        if number == Kind.SEGMENTS:
            return self.directory()
        file = self._numbered(number)
        return self._entry(number, file, self._status(file))

    # --- names, files and numbers ------------------------------------------------------------------------------------

    def _found(self, base_offset: int, suffix: str, status: os.stat_result) -> EntryAttributes:
        """Return the entry of a found file."""
        segment = self._segment(base_offset) if suffix != _SNAPSHOT else None
        written_ns = status.st_mtime_ns if segment is None else 0
        file = _File(base_offset, suffix, segment, (status.st_ino, written_ns))
        return self._entry(self._number_of(file), file, status)

    def _segment(self, base_offset: int) -> Segment | None:
        segment = self._partition.log.snapshot().floor(base_offset)
        return segment if segment is not None and segment.base_offset == base_offset else None

    def _number_of(self, file: _File) -> int:
        self._forget_unlinked()
        number = self._numbers.get(file)
        if number is None:
            number = self._last_number = self._last_number + 1
            self._numbers[file], self._files[number] = number, file
        return number

    def _forget_unlinked(self) -> None:
        """Forget removed files after segments were added or removed. Their numbers are not used again."""
        snapshot = self._partition.log.snapshot()
        if snapshot is self._seen:
            return
        self._seen = snapshot
        for number, file in list(self._files.items()):
            if not files.exists(self._path(file)):
                del self._files[number], self._numbers[file]

    def _numbered(self, number: int) -> _File:
        file = self._files.get(number)
        if file is None:
            raise FUSEError(errno.ESTALE)
        return file

    def _path(self, file: _File) -> str:
        if file.segment is not None:
            return file.segment.path(file.suffix)  # also after the file was renamed for its removal
        return os.path.join(self._partition.path, segment_name(file.base_offset, file.suffix))

    def _status(self, file: _File) -> os.stat_result:
        """Return the status of the file. ESTALE if it was removed or replaced."""
        try:
            status = files.status(self._path(file))
        except FileNotFoundError:
            raise FUSEError(errno.ESTALE) from None
        if status.st_ino != file.identity[0]:
            raise FUSEError(errno.ESTALE)
        return status

    def _entry(self, number: int, file: _File, status: os.stat_result) -> EntryAttributes:
        is_sealed = not self._mount.directory.read_only and self._is_sealed(file)
        entry = self._mount.attributes.file(
            self._partition.inode(Kind.SEGMENT, number),
            status.st_size,
            status.st_mtime_ns,
            blocks=status.st_blocks,
            attr_timeout_s=FOREVER_S if is_sealed else NEVER_S,
            entry_timeout_s=REMOVABLE_S if is_sealed else NEVER_S,
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    def _is_sealed(self, file: _File) -> bool:
        """Whether the file can no longer grow."""
        return file.base_offset < self._partition.log.snapshot().active.base_offset

    # --- listing and opening -----------------------------------------------------------------------------------------

    async def listing(self, number: int) -> Listing:
        rows = await self._mount.executor.in_thread(lambda: list(_segment_files(self._partition.path)))
        return ShortListing([(name, self._found(base, suffix, status)) for name, base, suffix, status in rows])

    async def open(self, number: int, opening: Opening) -> Opened:
        file = self._numbered(number)
        try:
            opened = files.open_file(self._path(file))
        except FileNotFoundError:
            raise FUSEError(errno.ESTALE) from None
        if opened.stat().st_ino != file.identity[0]:
            raise FUSEError(errno.ESTALE)
        return Opened(SegmentHandle(self._mount, opened), direct=file.suffix == ".log" and not self._is_sealed(file))


def _segment_files(directory: str) -> Iterator[tuple[bytes, int, str, os.stat_result]]:
    """Yield name, base offset, suffix and status of the files in a partition's directory that `segments` shows."""
    for name in sorted(files.names(directory)):
        parsed = parse_segment_file(name.encode("utf-8", "surrogateescape"))
        if parsed is None:
            continue
        try:
            status = files.status(os.path.join(directory, name))
        except FileNotFoundError:
            continue  # removed since the listing
        if stat.S_ISREG(status.st_mode):
            yield name.encode(), parsed[0], SEGMENT_SUFFIXES[parsed[1]], status


class SegmentHandle:
    """An open file of a segment. It stays readable after the segment is deleted."""

    def __init__(self, mount: MountContext, file: files.File) -> None:
        self._mount = mount
        self._file = file

    async def read(self, position: int, size: int) -> Buffer:
        return await self._mount.executor.answer(self._file.read, position, size)

    async def release(self) -> None:
        self._file.close()
