"""The upload of one segment: its log in parts, and its side object.

A segment that grows gets a part with each run. `MERGED` parts of about the same size are merged into one, so that the
number of parts rises with the logarithm of their sizes, and a byte goes up once for each class of sizes at most:

    sizes of parts      4 KiB…32 KiB │ …256 KiB │ …2 MiB │ …16 MiB │ …64 MiB
"""

from __future__ import annotations

import errno
import functools
import hashlib
import struct
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from crc32c import crc32c

from offsetfs.archive.archived_objects import ArchivedObjects
from offsetfs.archive.manifest import (
    BLOCK_BYTES,
    PART_BYTES_MAX,
    ArchivedObject,
    ArchivedSegment,
    SideObject,
    SourceFile,
)
from offsetfs.storage import files
from offsetfs.storage.segments import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY, Segment

CHECKSUM_BYTES = 4
MERGED = 8
"""Successive parts of one class of sizes that are merged."""

_CLASS_BYTES = 4 << 10
_HASHED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """The sizes of parts and blocks. `block_bytes` stays the same for a partition, because checksums are taken over."""

    part_bytes_max: int = PART_BYTES_MAX
    block_bytes: int = BLOCK_BYTES


class SegmentUpload:
    """One segment of a log, up to the offset `end`, as a reader sees it at the moment."""

    def __init__(
        self,
        objects: ArchivedObjects,
        partition: str,
        segment: Segment,
        end: int,
        *,
        is_sealed: bool,
        sizes: ObjectSizes,
        on_bytes: Callable[[int], None],
    ) -> None:
        """`on_bytes` is called with numbers of bytes of the log that are in the archive; together they are its size."""
        self._on_bytes = on_bytes
        self._sizes = sizes
        self._objects = objects
        self._partition = partition
        self._segment = segment
        self._end = end
        self._is_sealed = is_sealed
        self._size = segment.size
        self._crcs: dict[int, bytes] = {}
        self._opened = segment.open_files()  # a file that is pooled stays open while it is referenced
        self._log = self._opened.log

    def run(self, known: ArchivedSegment | None, *, checks_all: bool = False) -> ArchivedSegment:
        """Upload what the archive lacks; return the segment for the manifest.

        `known`: the archived segment with the same base offset. OSError ESTALE if the segment is gone, and the errors
        of the store.
        """
        status = self._log.stat()
        source = SourceFile(status.st_ino, self._size, status.st_mtime_ns, status.st_ctime_ns)
        if known is not None and not checks_all and _is_unchanged(known, source, self._end, self._is_sealed):
            self._on_bytes(self._size)
            return known
        kept = () if known is None or checks_all else self._kept(known)
        kept = kept[: _first_to_merge([part.size for part in kept], self._size, self._sizes.part_bytes_max)]
        begin = sum(part.size for part in kept)
        self._on_bytes(begin)
        self._take_checksums(known if kept else None, begin)
        waiting: list[Future[ArchivedObject]] = []
        for position in range(begin, self._size, self._sizes.part_bytes_max):
            size = min(self._sizes.part_bytes_max, self._size - position)
            name = f"{self._segment.base_offset:020d}-{position:010d}-{{}}.part"
            waiting.append(self._objects.put(self._partition, name, functools.partial(self._read, position, size)))
        added = []
        for upload in waiting:
            added.append(upload.result())
            self._on_bytes(added[-1].size)
        largest, side = self._segment.max_timestamp()[0], self._side()
        if files.status(self._segment.log_path).st_ino != status.st_ino:
            # Compaction has replaced the segment, so the transaction index may not be that of these batches.
            raise OSError(errno.ESTALE, "the segment was replaced", self._segment.log_path)
        return ArchivedSegment(
            base_offset=self._segment.base_offset,
            end=self._end,
            size=self._size,
            max_time_ms=largest,
            modified_ms=max(status.st_mtime_ns // 1_000_000, 0),
            is_sealed=self._is_sealed,
            parts=(*kept, *added),
            side=side,
            source=source,
        )

    # --- the log -----------------------------------------------------------------------------------------------------

    def _kept(self, known: ArchivedSegment) -> tuple[ArchivedObject, ...]:
        """Return the archived parts that are the beginning of this segment; none if they belong to another segment."""
        if not known.parts or known.size > self._size:
            return ()
        last = known.parts[-1]
        digest = hashlib.sha256()
        for position in range(known.size - last.size, known.size, _HASHED_BYTES):
            digest.update(self._log.read(position, min(_HASHED_BYTES, known.size - position)))
        return known.parts if digest.hexdigest() == last.sha256 else ()

    def _take_checksums(self, known: ArchivedSegment | None, begin: int) -> None:
        """Take the checksums of whole blocks before `begin` from the archive; compute that of the block with it."""
        first = begin // self._sizes.block_bytes
        if known is not None and first:
            start, _ = known.side.sections()["crc"]
            stored = known.side.stored
            try:
                data = self._objects.store.read_whole(stored.key, stored.size, stored.sha256)
            except OSError as error:
                if error.errno not in (errno.EIO, errno.ENOENT):
                    raise
                first, data = 0, b""  # it is damaged or lost: all blocks are read again
            for number in range(first):
                at = start + number * CHECKSUM_BYTES
                self._crcs[number] = data[at : at + CHECKSUM_BYTES]
        # The blocks that parts have uploaded before, but whose end is in this one, or that could not be taken over.
        for number in range(first, -(-begin // self._sizes.block_bytes)):
            position = number * self._sizes.block_bytes
            self._note(position, self._log.read(position, min(self._sizes.block_bytes, self._size - position)))

    def _read(self, position: int, size: int) -> bytes:
        data = bytes(self._log.read(position, size))
        if len(data) != size:
            raise OSError(errno.ESTALE, "the segment was truncated", self._segment.log_path)
        view = memoryview(data)
        first = (
            -(-position // self._sizes.block_bytes) * self._sizes.block_bytes
        )  # a block that begins before was noted before
        for start in range(first, position + size, self._sizes.block_bytes):
            block = view[start - position : start - position + self._sizes.block_bytes]
            if len(block) == self._sizes.block_bytes or start + len(block) == self._size:
                self._note(start, block)
            else:
                # Its end is in the next part.
                length = min(self._sizes.block_bytes, self._size - start)
                self._note(start, self._log.read(start, length))
        return data

    def _note(self, position: int, block: bytes | bytearray | memoryview) -> None:
        self._crcs[position // self._sizes.block_bytes] = struct.pack("<I", crc32c(block))

    # --- the side object ---------------------------------------------------------------------------------------------

    def _side(self) -> SideObject:
        opened, base = self._opened, self._segment.base_offset
        index = [entry for entry in opened.index.entries() if entry[1] < self._size]
        times = [entry for entry in opened.time_index.entries() if entry[1] < self._end]
        transactions = _content(self._segment.path(".txnindex"))
        transactions = transactions[: len(transactions) // TRANSACTION_ENTRY.size * TRANSACTION_ENTRY.size]
        aborted = [entry for entry in TRANSACTION_ENTRY.iter_unpack(transactions) if entry[3] < self._end]
        sections = [
            b"".join(OFFSET_ENTRY.pack(offset - base, position) for offset, position in index),
            b"".join(TIME_ENTRY.pack(timestamp, offset - base) for timestamp, offset in times),
            b"".join(TRANSACTION_ENTRY.pack(*entry) for entry in aborted),
            _content(self._segment.path(".snapshot")),
            b"".join(self._crcs[number] for number in range(-(-self._size // self._sizes.block_bytes))),
        ]
        data = b"".join(sections)
        stored = self._objects.put(self._partition, f"{base:020d}-{{}}.side", lambda: data).result()
        return SideObject(stored, *(len(section) for section in sections))


def _first_to_merge(sizes: list[int], end: int, bytes_max: int) -> int:
    """Return the number of the first part that is uploaded again with what follows; `len(sizes)` for none.

    `sizes`: of the parts that are there. What follows them, up to `end`, becomes the next one.
    """
    sizes = [*sizes, end - sum(sizes)]
    while len(sizes) >= MERGED:
        last, total = sizes[-MERGED:], sum(sizes[-MERGED:])
        if total > bytes_max or any(_size_class(size) > _size_class(last[-1]) for size in last):
            break
        sizes[-MERGED:] = [total]
    return len(sizes) - 1


def _size_class(size: int) -> int:
    number = 0
    while size > _CLASS_BYTES << (3 * (number + 1)):
        number += 1
    return number


def _is_unchanged(known: ArchivedSegment, source: SourceFile, end: int, is_sealed: bool) -> bool:
    return known.source == source and known.end == end and known.is_sealed == is_sealed


def _content(path: str) -> bytes:
    try:
        return files.read_file(path)
    except FileNotFoundError:
        return b""
