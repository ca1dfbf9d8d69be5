"""The batches of a log file for a dump: all that Kafka's reader would find, valid or damaged.

`batch_chain` and `Batch` raise for damaged batches; here they are described. Where a batch begins and the log ends
follows the rules of Kafka's FileLogInputStream:

    at most 17 bytes are left           the end
    a size below 14                     impossible: Kafka stops; here the scan continues at the next valid batch
    a batch that ends after the end     the end: the rest are trailing bytes
    magic below 2 / from 2 on           a message of v0 or v1 / a v2 batch, whatever its other bytes are

Memory: one block, or one batch if that is larger, up to `BATCH_BYTES_MAX`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch_header import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LEGACY_HEADER,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_END,
    MAGIC_POSITION,
    TIMESTAMP,
    TIMESTAMP_POSITION,
    BatchHeader,
)
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.reference.dump import incremented
from offsetfs.storage.units import NO_TIMESTAMP, Offset, Timestamp, wrapped

BATCH_BYTES_MAX = 128 << 20
"""The largest batch whose records are read. Protects memory from a damaged size."""

BLOCK_BYTES = 4 << 20
"""The bytes read at once by a scan of a whole file."""

HEADER_BLOCK_BYTES = 16 << 10
"""The bytes read at once by a scan of a few batches."""

_SIZE_MIN = 14  # of what follows the size, in Kafka's eyes: it forgets that v2 needs more
_PREFIX = struct.Struct(">qiib")  # offset, size, what differs, magic

OnDamage = Callable[[StorageError], None]


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A batch in a file. `data` is all of it, None above `BATCH_BYTES_MAX`; valid until the next one is returned."""

    path: str
    position: int
    header: BatchHeader
    is_valid: bool
    data: memoryview | None

    def whole(self) -> memoryview:
        """Return all bytes; `MalformedBatch` if they exceed `BATCH_BYTES_MAX`."""
        if self.data is None:
            raise MalformedBatch(f"a batch of {self.header.size} bytes; records are shown up to {BATCH_BYTES_MAX}")
        return self.data

    def error(self, reason: str) -> MalformedBatch:
        """Return an error with the position of this batch."""
        return MalformedBatch(reason, path=self.path, position=self.position, offset=self.header.base_offset)


class BatchWalk:
    """A scan of the batches of `file` in `[position, end)`; `path` is the name for messages.

    `position` is that of the last returned batch, and at the end where the scan stopped. Bytes between there and `end`
    are no batch.
    """

    __slots__ = ("_on_damage", "_window", "end", "path", "position")

    def __init__(
        self, file: File, path: str, position: int, end: int, on_damage: OnDamage, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._window = _Window(file, block_bytes)
        self._on_damage = on_damage
        self.path = path
        self.position = position
        self.end = end

    def __iter__(self) -> Iterator[FoundBatch]:
        """Yield the whole batches."""
        return map(self.found, self.headers())

    def headers(self) -> Iterator[BatchHeader]:
        """Yield the headers."""
        while self.position < self.end - MAGIC_END:
            head = self._window.at(self.position, HEADER_SIZE)
            _, length, _, magic = _PREFIX.unpack_from(head)
            if length < _SIZE_MIN:
                self._step_over(f"a batch size of {length}")
            # FileLogInputStream: a batch that ends beyond the file is the end, without an error.
            elif self.position > self.end - LOG_OVERHEAD - length:
                return
            elif magic >= MAGIC and len(head) < HEADER_SIZE:
                self._step_over(f"{len(head)} bytes of a batch header")
            else:
                yield header_of(head, magic)
                self.position += LOG_OVERHEAD + length

    def found(self, header: BatchHeader) -> FoundBatch:
        """Return the batch of the last returned header."""
        is_valid = self._is_valid(header)
        data = self._window.at(self.position, header.size) if header.size <= BATCH_BYTES_MAX else None
        return FoundBatch(self.path, self.position, header, is_valid, data)

    def _is_valid(self, header: BatchHeader) -> bool:
        is_current = header.magic >= MAGIC
        # Kafka's size limit of 14 bytes is that of v0; a v2 header alone has 61.
        if is_current and header.size < HEADER_SIZE:
            return False
        start, checksum = (CRC_START, crc32c) if is_current else (MAGIC_POSITION, zlib.crc32)
        crc = 0
        for piece in self._window.pieces(self.position + start, self.position + header.size):
            crc = checksum(piece, crc)
        return crc == header.crc

    def _step_over(self, reason: str) -> None:
        damaged, file = self.position, self._window.file
        self.position = batch_chain.next_sound(file, damaged, self.end)
        rest = f"going on at {self.position}" if self.position < self.end else "no sound batch follows"
        self._on_damage(MalformedBatch(f"{reason}; {rest}", path=self.path, position=damaged))


def header_of(head: memoryview, magic: int) -> BatchHeader:
    """Return the header in these bytes, without any check."""
    if magic >= MAGIC:
        base_offset, length, *rest = HEADER.unpack_from(head)
        return BatchHeader(base_offset, length + LOG_OVERHEAD, *rest)
    offset, length, crc, _, attributes = LEGACY_HEADER.unpack_from(head)
    timestamp = Timestamp(TIMESTAMP.unpack_from(head, TIMESTAMP_POSITION)[0]) if magic else NO_TIMESTAMP
    size = length + LOG_OVERHEAD
    return BatchHeader(Offset(offset), size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, -1)


def last_offset(header: BatchHeader) -> int:
    """Return the last offset with the overflow of a Java long, whatever the header says."""
    return wrapped(header.last_offset)


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence of the last record, -1 if the batch has none."""
    return -1 if header.base_sequence == -1 else incremented(header.base_sequence, header.last_offset_delta)


class _Window:
    """A window over a file that moves on demand."""

    __slots__ = ("_buffer", "_count", "_start", "file")

    def __init__(self, file: File, size: int) -> None:
        self.file = file
        self._buffer = memoryview(bytearray(size))
        self._start = self._count = 0

    def at(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, fewer only at the end of the file; a later call overwrites them."""
        begin = position - self._start
        if begin < 0 or begin + size > self._count:
            self._move(position, size)
            begin = 0
        return self._buffer[begin : min(begin + size, self._count)]

    def pieces(self, position: int, end: int) -> Iterator[memoryview]:
        """Yield the bytes of `[position, end)` in pieces of limited size."""
        while position < end:
            piece = self.at(position, min(end - position, BATCH_BYTES_MAX))
            if not piece:
                return
            yield piece
            position += len(piece)

    def _move(self, position: int, size: int) -> None:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        self._start, self._count = position, 0
        self._count = self.file.read_into(self._buffer, position)
