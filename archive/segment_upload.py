"""The upload of one segment: its log in parts, and its side object."""

from __future__ import annotations

import errno
import functools
import hashlib
import struct
from concurrent.futures import Future

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
from offsetfs.storage.segments import Segment

_INDEX_ENTRY = struct.Struct(">ii")  # relative offset, position
_TIME_ENTRY = struct.Struct(">qi")  # timestamp, relative offset
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")  # version, producer id, first, last and last stable offset
_CHECKSUM_BYTES = 4
_PARTS_MAX_MORE = 8
"""How many parts a sealed segment may have more than it needs, before they are uploaded again as large ones."""


class SegmentUpload:
    """One segment of a log, up to the offset `end`, as a reader sees it at the moment."""

    def __init__(
        self, objects: ArchivedObjects, partition: str, segment: Segment, end: int, *, is_sealed: bool
    ) -> None:
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
            return known
        kept = () if known is None or checks_all else self._kept(known)
        if self._is_sealed and len(kept) > -(-self._size // PART_BYTES_MAX) + _PARTS_MAX_MORE:
            kept = ()
        begin = sum(each.size for each in kept)
        self._take_checksums(known if kept else None, begin)
        waiting: list[Future[ArchivedObject]] = []
        for position in range(begin, self._size, PART_BYTES_MAX):
            size = min(PART_BYTES_MAX, self._size - position)
            name = f"{self._segment.base_offset:020d}-{position:010d}-{{}}.part"
            waiting.append(self._objects.put(self._partition, name, functools.partial(self._read, position, size)))
        parts = (*kept, *(each.result() for each in waiting))
        return ArchivedSegment(
            base_offset=self._segment.base_offset,
            end=self._end,
            size=self._size,
            max_time_ms=self._segment.max_timestamp()[0],
            modified_ms=max(status.st_mtime_ns // 1_000_000, 0),
            is_sealed=self._is_sealed,
            parts=parts,
            side=self._side(),
            source=source,
        )

    # --- the log -----------------------------------------------------------------------------------------------------

    def _kept(self, known: ArchivedSegment) -> tuple[ArchivedObject, ...]:
        """Return the archived parts that are the beginning of this segment; none if they are of another one."""
        if not known.parts or known.size > self._size:
            return ()
        last = known.parts[-1]
        data = self._log.read(known.size - last.size, last.size)
        return known.parts if hashlib.sha256(data).hexdigest() == last.sha256 else ()

    def _take_checksums(self, known: ArchivedSegment | None, begin: int) -> None:
        """Take the checksums of whole blocks before `begin` from the archive; compute that of the block with it."""
        first = begin // BLOCK_BYTES
        if known is not None and first:
            start, stop = known.side.sections()["crc"]
            data = self._objects.read(known.side.stored.key)
            if hashlib.sha256(data).hexdigest() != known.side.stored.sha256:
                first, start = 0, stop  # it is damaged: all blocks are read again
            for number in range(first):
                at = start + number * _CHECKSUM_BYTES
                self._crcs[number] = data[at : at + _CHECKSUM_BYTES]
        # The blocks that parts have uploaded before, but whose end is in this one, or that could not be taken over.
        for number in range(first, -(-begin // BLOCK_BYTES)):
            position = number * BLOCK_BYTES
            self._note(position, self._log.read(position, min(BLOCK_BYTES, self._size - position)))

    def _read(self, position: int, size: int) -> bytes:
        data = bytes(self._log.read(position, size))
        if len(data) != size:
            raise OSError(errno.ESTALE, "the segment was truncated", self._segment.log_path)
        view = memoryview(data)
        first = -(-position // BLOCK_BYTES) * BLOCK_BYTES  # a block that begins before was noted before
        for start in range(first, position + size, BLOCK_BYTES):
            block = view[start - position : start - position + BLOCK_BYTES]
            if len(block) == BLOCK_BYTES or start + len(block) == self._size:
                self._note(start, block)
            else:
                # Its end is in the next part.
                length = min(BLOCK_BYTES, self._size - start)
                self._note(start, self._log.read(start, length))
        return data

    def _note(self, position: int, block: bytes | bytearray | memoryview) -> None:
        self._crcs[position // BLOCK_BYTES] = struct.pack("<I", crc32c(block))

    # --- the side object ---------------------------------------------------------------------------------------------

    def _side(self) -> SideObject:
        opened, base = self._opened, self._segment.base_offset
        index = [each for each in opened.index.entries() if each[1] < self._size]
        times = [each for each in opened.time_index.entries() if each[1] < self._end]
        transactions = _content(self._segment.path(".txnindex"))
        transactions = transactions[: len(transactions) // _TRANSACTION_ENTRY.size * _TRANSACTION_ENTRY.size]
        aborted = [each for each in _TRANSACTION_ENTRY.iter_unpack(transactions) if each[3] < self._end]
        sections = [
            b"".join(_INDEX_ENTRY.pack(offset - base, position) for offset, position in index),
            b"".join(_TIME_ENTRY.pack(timestamp, offset - base) for timestamp, offset in times),
            b"".join(_TRANSACTION_ENTRY.pack(*each) for each in aborted),
            _content(self._segment.path(".snapshot")),
            b"".join(self._crcs[number] for number in range(-(-self._size // BLOCK_BYTES))),
        ]
        data = b"".join(sections)
        stored = self._objects.put(self._partition, f"{base:020d}-{{}}.side", lambda: data).result()
        return SideObject(stored, *(len(each) for each in sections))


def _is_unchanged(known: ArchivedSegment, source: SourceFile, end: int, is_sealed: bool) -> bool:
    return known.source == source and known.end == end and known.is_sealed == is_sealed


def _content(path: str) -> bytes:
    try:
        return files.read_file(path)
    except FileNotFoundError:
        return b""
