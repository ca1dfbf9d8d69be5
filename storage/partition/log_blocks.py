"""The bytes of a log in blocks, over the bounds of its segments: for comparisons, which look at no record.

No checksum is verified, and nothing is decoded. Compaction and retention may replace segments meanwhile: reading goes
on in those of now, from the offset that was reached on.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetfs.storage.errors import UnknownPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.segment_retry import SegmentRetry
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles

_NOTHING = memoryview(b"")
_DELETED = "the partition was deleted while it was read"


class LogBlocks:
    """A position between two batches of a log, and a block of bytes behind it. One thread at a time.

    Raises OSError for the disk, and `UnknownPartition` where the partition is deleted meanwhile.
    """

    __slots__ = (
        "_at", "_block", "_files", "_filled", "_log", "_retry", "_segment", "_segments", "_size", "_start", "offset",
    )  # fmt: skip

    def __init__(self, log: Log, offset: int, block_bytes: int) -> None:
        """Begin at the batch that contains `offset`, or the first one behind it."""
        self._log = log
        self._block = memoryview(bytearray(block_bytes))
        self._retry = SegmentRetry(log)
        self.seek(offset)

    def seek(self, offset: int) -> None:
        """Move to the batch that contains `offset`, or the first one behind it."""
        self.offset = offset
        self._start = self._at = self._filled = self._size = 0
        self._segment: Segment | None = None
        self._files: SegmentFiles | None = None
        self._segments: Iterator[Segment] = iter(())
        while True:
            segments = self._log.snapshot()
            try:
                self._segments = segments.from_floor(offset)
                if self._open_next():
                    assert self._segment is not None
                    self._start = self._segment.position_of(offset)
                return
            except OSError as error:
                if not self._retry.again(error, segments, offset):
                    raise UnknownPartition(_DELETED, path=self._log.path) from error

    def block(self) -> tuple[memoryview, int]:
        """Return bytes from the position on, and how many there are up to the end of the segment; b"" at the end."""
        while self._at >= self._filled:
            self._start, self._at, self._filled = self._start + self._at, 0, 0
            if self._segment is None:
                return _NOTHING, 0
            if self._start >= self._size:
                self._next_segment()
            elif not self._fill():
                return _NOTHING, 0
        return self._block[self._at : self._filled], self._size - self._start - self._at

    def read_on(self) -> bool:
        """Read the block again from the position on; False if that gives no further bytes."""
        if self._at == 0 or self._start + self._filled >= self._size:
            return False
        self._start, self._at = self._start + self._at, 0
        return self._fill()

    def advance(self, size: int, offset: int) -> None:
        """Step over `size` bytes, which are whole batches before `offset`; they may reach beyond the block."""
        self._at += size
        self.offset = offset

    def _fill(self) -> bool:
        assert self._files is not None
        wanted = self._block[: self._size - self._start]
        self._filled = self._files.log.read_into(wanted, self._start)
        return self._filled > 0

    def _next_segment(self) -> None:
        segments = self._log.snapshot()
        try:
            self._open_next()
        except OSError as error:
            if not self._retry.again(error, segments, self.offset):
                raise UnknownPartition(_DELETED, path=self._log.path) from error
            self.seek(self.offset)

    def _open_next(self) -> bool:
        self._segment, self._start, self._at, self._filled = next(self._segments, None), 0, 0, 0
        if self._segment is None:
            return False
        self._files, self._size = self._segment.open_files(), self._segment.size
        return True
