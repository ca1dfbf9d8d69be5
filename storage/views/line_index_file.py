"""The file format of a line index: header, checksum, entries, and their validation.

docs/internals/format/values-map.md has the layout. `line_index` decides whether an index matches a log.
"""

from __future__ import annotations

import errno
import struct
from typing import NamedTuple

from offsetfs.storage import files
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.views.view_blocks import scratch

MAGIC = b"OFFSETVM"
VERSION = 1
ENTRY = struct.Struct(">qII")
"""Output bytes before a batch, its position, its base offset relative to that of the segment."""

_HEADER = struct.Struct(">8sIIqqqqqqII")
HEADER_SIZE = _HEADER.size
_CRC_START = 16
_PIECE_BYTES = 1 << 20


class LineIndexSummary(NamedTuple):
    """The header of a line index: its source and its size.

    The checksums are those of the headers of the first and the last batch; `entries`: the number of entries.
    """

    base_offset: int
    log_bytes: int
    batches: int
    last_position: int
    size: int
    entries: int
    first_crc: int
    last_crc: int


def size_of(count: int) -> int:
    """Return the size of an index with this number of entries, in bytes."""
    return HEADER_SIZE + count * ENTRY.size


def packed(summary: LineIndexSummary, entries: bytes | bytearray, identity: bytes) -> bytes:
    """Return the file; `identity`: what the index depends on besides the log, with which the checksum begins."""
    body = _HEADER.pack(MAGIC, VERSION, 0, *summary)[_CRC_START:] + entries
    checksum = crc32c(body, crc32c(identity))
    return _HEADER.pack(MAGIC, VERSION, checksum, *summary)[:_CRC_START] + body


def parsed(header: bytes | bytearray, length: int, checksum: int) -> LineIndexSummary | None:
    """Return the content of a header; None if magic, version, length or checksum of the file are wrong."""
    if len(header) < HEADER_SIZE:
        return None
    magic, version, stored, *fields = _HEADER.unpack_from(header)
    summary = LineIndexSummary(*fields)
    if (magic, version, stored) != (MAGIC, VERSION, checksum) or length != size_of(summary.entries):
        return None
    # Fuzzing found a file with a correct checksum whose invented numbers caused an allocation of a gigabyte.
    is_sane = 0 <= summary.last_position <= summary.log_bytes and summary.size >= 0
    return summary if is_sane and bool(summary.size) <= bool(summary.entries) else None


def checksum_of(file: files.File, length: int, identity: bytes) -> int:
    """Return the checksum of an index, read in pieces."""
    piece, checksum = scratch.take(_PIECE_BYTES), crc32c(identity)
    for position in range(_CRC_START, length, _PIECE_BYTES):
        read = file.read_into(piece[: length - position], position)
        checksum = crc32c(piece[:read], checksum)
    return int(checksum)


def checksum_in(image: bytes, identity: bytes) -> int:
    """Return the checksum of an index in memory."""
    return crc32c(memoryview(image)[_CRC_START:], crc32c(identity))


class StoredLineIndex:
    """An open index file. Entries are read on demand with pread, so that a cut file raises an error instead of
    SIGBUS.
    """

    __slots__ = ("__weakref__", "_count", "_file")

    def __init__(self, file: files.File, count: int) -> None:
        self._file = file
        self._count = count

    @classmethod
    def open(cls, path: str, header: bytes, count: int) -> StoredLineIndex | None:
        """Open an index of `count` entries; None if the file has another header. OSError if it is gone."""
        file = files.open_file(path)
        if file.read(0, len(header)) == header:
            return cls(file, count)
        file.close()
        return None

    def entries(self, first: int, count: int) -> bytearray:
        """Return `count` entries from number `first` on; OSError ESTALE if the file ends before them."""
        data = self._file.read(HEADER_SIZE + first * ENTRY.size, count * ENTRY.size)
        # Another process cut the file; the caller rebuilds the index.
        if len(data) < count * ENTRY.size:
            raise OSError(errno.ESTALE, "the line index was cut", self._file.path)
        return data
