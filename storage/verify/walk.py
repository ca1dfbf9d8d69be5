"""Scans every byte of a log file, from one valid batch to the next.

The scan reads blocks into one reused buffer, verifies checksums, and skips damage up to the next valid batch
(`batch_chain.next_sound`), so that one fault does not hide later ones. Batches of v2 come in blocks of rows (`chain`),
others one by one. No batch is retained, so memory does not depend on the size of the segment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from offsetfs.storage.errors import CorruptBatch, DecompressionLimit, MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.files import File
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_END, Batch, parse_header
from offsetfs.storage.records.format.batch_header import CRC_START, BatchHeader
from offsetfs.storage.records.format.checksum import crc32c

BATCH_BYTES_MAX = 128 << 20
"""The largest batch that is held in memory. Protects memory from a damaged length, which may claim a gigabyte."""

BLOCK_BYTES = 4 << 20
"""The bytes read at once."""

_MAGIC = bytes([MAGIC])

OnBreak = Callable[[StorageError, int, int], None]
"""Called with the error, its position, and the position of the next valid batch (the end of the file if there is
none).
"""


def sound_rows(file: File, end: int, on_break: OnBreak, *, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
    """Yield the batches in the first `end` bytes whose checksums are correct; each row with its whole batch.

    With `start` and `stop` only those that begin in `[start, stop)`; a batch must begin at `start`.
    """
    blocks, position, stop = _Blocks(file, end), start, end if stop is None else min(stop, end)
    while position < stop:
        try:
            rows = blocks.rows(position) or _single(_batch_at(file, blocks, position, end))
        except (CorruptBatch, MalformedBatch, UnsupportedFormat, DecompressionLimit) as error:
            following = batch_chain.next_sound(file, position, end)
            on_break(error, position, following)
            position = following
            continue
        if rows.end > stop:
            rows = rows.part(0, bisect_left(rows.column(chain.POSITION), stop))
        yield rows
        position = rows.end


class _Blocks:
    """A window over a file that moves forward."""

    __slots__ = ("_buffer", "_end", "_file", "_length", "_start")

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end
        self._buffer = memoryview(bytearray(min(BLOCK_BYTES, max(end, 1))))
        self._start = self._length = 0

    def rows(self, position: int) -> Rows | None:
        """Return the valid v2 batches from `position` on; None if the window holds none."""
        if (position != self._start or not self._length) and not self._holds_batch(position):
            self._fill(position, 0)
        buffer_position = position - self._start
        if self._buffer[buffer_position + MAGIC_END - 1 : min(buffer_position + MAGIC_END, self._length)] != _MAGIC:
            return None  # saves many useless calls in a log of old formats
        numbers, _ = chain.sound(self._buffer, buffer_position, self._length, self._start, *chain.ANY_OFFSETS)
        return Rows(numbers, self._buffer[: self._length], self._start) if numbers else None

    def _holds_batch(self, position: int) -> bool:
        """Whether the window holds the whole batch at `position`, according to its length field."""
        buffer_position = position - self._start
        left = self._length - buffer_position
        if buffer_position < 0 or left < MAGIC_END:
            return False
        size = int.from_bytes(self._buffer[buffer_position + 8 : buffer_position + 12], "big", signed=True)
        return LOG_OVERHEAD + size <= left

    def view(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, fewer at the end; they are valid until the next call."""
        size = min(size, self._end - position)
        if position < self._start or position + size > self._start + self._length:
            self._fill(position, size)
        return self._buffer[position - self._start : min(position - self._start + size, self._length)]

    def _fill(self, position: int, size: int) -> None:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        wanted = min(len(self._buffer), self._end - position)
        self._length = self._file.read_into(self._buffer[:wanted], position)
        self._start = position


def _single(batch: Batch) -> Rows:
    position = batch.position or 0
    return Rows(chain.row(position, batch.header), batch.data, position, batch.header)


def _batch_at(file: File, blocks: _Blocks, position: int, end: int) -> Batch:
    header = parse_header(blocks.view(position, HEADER_SIZE), path=file.path, file_position=position)
    if header.size > end - position:
        raise MalformedBatch(batch_chain.UNFINISHED, path=file.path, position=position, offset=header.base_offset)
    if header.size > BATCH_BYTES_MAX:
        _check_giant(file, header, position)
        reason = f"a batch of {header.size} bytes, at most {BATCH_BYTES_MAX} are looked into"
        raise DecompressionLimit(reason, path=file.path, position=position, offset=header.base_offset)
    data = blocks.view(position, header.size)
    if len(data) < header.size:  # truncated by another process meanwhile
        raise MalformedBatch(batch_chain.UNFINISHED, path=file.path, position=position, offset=header.base_offset)
    batch = Batch(header, data, file.path, position)
    batch.check()
    return batch


def _check_giant(file: File, header: BatchHeader, position: int) -> None:
    """Raise `CorruptBatch` for a false length, without reading what it claims into memory."""
    block_position, checksum = position + CRC_START, 0
    while header.magic == MAGIC and block_position < position + header.size:
        block = file.read(block_position, min(batch_chain.BLOCK_BYTES, position + header.size - block_position))
        if not block:
            break
        checksum, block_position = crc32c(block, checksum), block_position + len(block)
    if header.magic != MAGIC or checksum != header.crc:
        reason = f"a length of {header.size} bytes that the checksum does not confirm"
        raise CorruptBatch(reason, path=file.path, position=position, offset=header.base_offset)
