"""Reads a segment for compaction in blocks that each hold at least one whole batch.

A partial batch at the end of a block is moved to the front of the next. A batch larger than a block gets a larger
block, after the file is known to contain it. Between blocks the round can be cancelled, and is throttled.
"""

from __future__ import annotations

from collections.abc import Callable

from offsetfs.storage.compaction.throttle import Throttle
from offsetfs.storage.errors import CompactionCancelled, MalformedBatch
from offsetfs.storage.records.format.batch import MAGIC, MAGIC_END, Batch
from offsetfs.storage.records.format.batch_chain import UNFINISHED
from offsetfs.storage.records.format.batch_header import BATCH_SIZE_MIN, declared_size, parse_header
from offsetfs.storage.records.format.legacy import run_header
from offsetfs.storage.segments.segment import Segment

BLOCK_BYTES = 1 << 20


class BlockReader:
    """The batches of `segment` from byte `position` on. `block[start:end]` has been read and not yet consumed."""

    def __init__(
        self, segment: Segment, position: int, throttle: Throttle, is_cancelled: Callable[[], bool], block: bytearray
    ) -> None:
        """Read into `block`, which the caller must not use meanwhile; a larger buffer replaces it if a batch needs
        one.
        """
        self.block = block
        self.start = 0
        self.end = 0
        self.bytes_read = 0
        self._log = segment.open_files().log
        self._position = position  # the file position of the end of the block
        self._size = segment.size
        self._throttle = throttle
        self._is_cancelled = is_cancelled

    def more(self) -> bool:
        """Read on, so that the block begins with a whole batch; return False at the end of the segment.

        `MalformedBatch` if the segment ends inside a batch or a size is impossible; `CompactionCancelled`.
        """
        self._read()
        needed = self._needed()
        if needed > len(self.block):
            self._grow(needed)
            self._read()
        if 0 < self.end < self._needed():
            raise MalformedBatch(UNFINISHED, path=self._log.path, position=self._position - self.end)
        return self.end > 0

    def _needed(self) -> int:
        """Return the size of the batch at the start of the block, or of its header if that is incomplete."""
        if self.end < MAGIC_END:
            return MAGIC_END
        size = declared_size(self.block)
        file_position = self._position - self.end
        # Checked before a larger block is allocated, because the size may be damaged.
        if not BATCH_SIZE_MIN <= size <= self._size - file_position:
            raise MalformedBatch(f"a batch of {size} bytes", path=self._log.path, position=file_position)
        return size

    def _grow(self, size: int) -> None:
        block = bytearray(size)
        block[: self.end] = self.block[: self.end]
        self.block = block

    def _read(self) -> None:
        """Move the remaining bytes to the front of the block and fill it up."""
        if self._is_cancelled():
            raise CompactionCancelled("cancelled", path=self._log.path)
        left = self.end - self.start
        self.block[:left] = self.block[self.start : self.end]
        space = min(len(self.block) - left, self._size - self._position)
        with memoryview(self.block) as view:
            count = self._log.read_into(view[left : left + space], self._position) if space else 0
        if count < space:
            raise MalformedBatch(UNFINISHED, path=self._log.path, position=self._position + count)
        self.start, self.end, self._position = 0, left + count, self._position + count
        self.bytes_read += count
        self._throttle.take(count)

    def batch(self) -> Batch:
        """Return the batch at `start`, verified; consecutive loose v0 or v1 messages are returned as one batch.

        It is a view into the block, valid until the next call of `more`. Raises `CorruptBatch`, `MalformedBatch`.
        """
        view = memoryview(self.block)[self.start : self.end]
        file_position = self._position - self.end + self.start
        header = parse_header(view, path=self._log.path, file_position=file_position)
        if header.magic < MAGIC and not header.is_wrapper:
            header = run_header(header, view)
        batch = Batch(header, view[: header.size], self._log.path, file_position)
        if not header.is_run:  # the messages of a run were verified when it was assembled
            batch.check()
        return batch
