"""Reads the records of a log in chunks from an offset on: the content of `follow`.

Unlike a growing view (`partition_view`) this needs no size and no line index: the cost is that of the bytes read. A
chunk consists of whole batches of one segment, about as many bytes as requested, and has the position of the next one.
Only the first offset is searched for; after that, batches are read in file order, as in the growing views, so that both
show the same. Unreadable batches are left out and reported.

A chunk knows where records end, so that a reader gets whole records if its buffer is large enough.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from offsetfs.storage.errors import UNREADABLE, OffsetOutOfRange, WouldBlock
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    MAGIC_END,
)
from offsetfs.storage.records.format.legacy import RUNS
from offsetfs.storage.records.format.record_row import COLUMNS, VALUE_SIZE
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.views.view_blocks import OnDamage
from offsetfs.storage.views.view_format import ViewFormat

_BEYOND = 4 << 10  # the read-ahead beyond the request, so that a batch of exactly this size is complete


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The position of a reader: an offset and, once known, its segment and byte."""

    offset: int
    segment: Segment | None = None
    position: int = 0

    def is_end_of(self, log: Log) -> bool:
        """Whether no record can exist at this position yet.

        Does not read, because many readers ask after each append.
        """
        segment = self.segment
        return segment is not None and self.position >= segment.size and log.snapshot().active is segment


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """The output of some batches; immutable. Empty if they have no output. `following`: the position of the next chunk.

    `ends`: where each record ends in `data`; None: after each newline.
    """

    data: bytes | bytearray
    following: ReadPosition
    ends: array[int] | None = None

    def cut(self, start: int, size: int) -> int:
        """Return the end of the whole records from byte `start` on that fit into `size` bytes.

        If not even one fits, the part of it that does.
        """
        # A reader gets whole records where possible: `head -n` on `follow` then leaves a complete record for the next
        # reader.
        limit = start + size
        if limit >= len(self.data):
            return len(self.data)
        if self.ends is None:
            return self.data.rfind(b"\n", start, limit) + 1 or limit
        last = bisect_right(self.ends, limit) - 1
        return self.ends[last] if last >= 0 and self.ends[last] > start else limit


def read_chunk(
    view: LogView,
    start: ReadPosition,
    view_format: ViewFormat,
    bytes_max: int,
    on_damage: OnDamage,
    *,
    nowait: bool = False,
) -> RecordChunk | None:
    """Return the records from `start` on, about `bytes_max` bytes of log or of output; None at the end of the view.

    More only if one batch is larger. Raises `OffsetOutOfRange` if the position lies below the log start, the disk's
    OSError (ESTALE if the partition was deleted meanwhile), with `nowait` `WouldBlock`, also for damage.
    """
    if nowait:
        if view_format.is_slow:
            raise WouldBlock("lines are made in a thread", path=view.log.path)
        return _read_chunk(view, start, view_format, bytes_max, on_damage, nowait=True)
    # A broker may replace or remove the segment between two looks at the directory; `follow` ended with ESTALE then.
    return with_retry(
        view.log,
        start.offset,
        lambda _: _read_chunk(view, start, view_format, bytes_max, on_damage, nowait=False),
    )


def _read_chunk(
    view: LogView, start: ReadPosition, view_format: ViewFormat, bytes_max: int, on_damage: OnDamage, *, nowait: bool
) -> RecordChunk | None:
    log, end_offset = view.log, view.end_offset(nowait=nowait)
    if start.offset < log.log_start_offset:
        raise OffsetOutOfRange(start.offset, log.log_start_offset, log.next_offset, log.path)
    place = _locate(log, start, end_offset, nowait)
    if place is None or place.segment is None:
        return None
    if view_format.in_rows and not view.is_committed_only:
        chunk = _plain(place, place.segment, bytes_max, nowait)
        if chunk is not None:
            return chunk
    return _ChunkBuilder(view, view_format, end_offset, bytes_max, nowait).build(place, place.segment, on_damage)


def _locate(log: Log, start: ReadPosition, end_offset: int, nowait: bool) -> ReadPosition | None:
    """Return where it is, with its segment and position, None if no record is there yet."""
    snapshot = log.snapshot()
    if start.segment is not None and snapshot.floor(start.segment.base_offset) is start.segment:
        position = start.position
        for segment in snapshot.from_floor(start.segment.base_offset):
            if position < segment.size:
                return ReadPosition(start.offset, segment, position)
            position = 0
        return None
    if start.offset >= end_offset:
        return None
    for segment in snapshot.from_floor(start.offset):
        is_inside = segment.base_offset < start.offset
        position = segment.reading_position(start.offset, nowait=nowait) if is_inside and segment.size else 0
        if position < segment.size:
            return ReadPosition(start.offset, segment, position)
    return None


def _plain(start: ReadPosition, segment: Segment, bytes_max: int, nowait: bool) -> RecordChunk | None:
    """Return the values of valid, uncompressed v2 batches, many at once; None if another batch comes first."""
    log, size = segment.open_files(nowait=nowait).log, min(bytes_max + _BEYOND, segment.size - start.position)
    block = memoryview(log.read(start.position, size, nowait=nowait))
    if len(block) < HEADER_SIZE or block[MAGIC_END - 1] != MAGIC or block[CRC_START + 1] & CODEC_MASK:
        return None
    rows, end = chain.sound(block, 0, len(block), start.position, *chain.ANY_OFFSETS)
    if not rows or rows[chain.BASE_OFFSET] < start.offset:
        return None
    lines = chain.join(block, start.position, rows)
    if lines is None or lines.count(b"\n") != _records(rows):
        return None
    last = rows[-chain.COLUMNS :]
    next_offset = last[chain.BASE_OFFSET] + last[chain.LAST_OFFSET_DELTA] + 1
    return RecordChunk(lines, ReadPosition(next_offset, segment, start.position + end))


def _records(rows: array[int]) -> int:
    counts = zip(rows[chain.COUNT :: chain.COLUMNS], rows[chain.ATTRIBUTES :: chain.COLUMNS], strict=True)
    return sum(count for count, attributes in counts if not attributes & CONTROL_FLAG)


class _ChunkBuilder:
    """A chunk that is built batch by batch: for all formats, compression, damage and isolation levels."""

    def __init__(self, view: LogView, view_format: ViewFormat, end_offset: int, bytes_max: int, nowait: bool) -> None:
        self._view = view
        self._view_format = view_format
        self._end_offset = end_offset
        self._bytes_max = bytes_max
        self._nowait = nowait
        self._pieces: list[bytes | bytearray] = []
        self._size = 0
        self._ends: array[int] | None = None

    def build(self, start: ReadPosition, segment: Segment, on_damage: OnDamage) -> RecordChunk | None:
        begin, end = start, segment.size
        log = segment.open_files(nowait=self._nowait).log
        while start.position < end:
            try:
                for batch in self._batches(segment, start.position, end):
                    if not self._add(batch, start.offset):
                        return self._chunk_between(begin, start)
                    position = (batch.position or 0) + batch.header.size
                    start = ReadPosition(max(start.offset, batch.header.next_offset), segment, position)
                    if max(self._size, position - begin.position) >= self._bytes_max or self._ends is not None:
                        return self._chunk_between(begin, start)
                return self._chunk_between(begin, start)
            except WouldBlock:
                if start is begin:
                    raise
                break
            except UNREADABLE as error:
                if self._nowait:
                    raise WouldBlock("damage must be skipped in a thread", path=segment.log_path) from None
                start = ReadPosition(start.offset, segment, batch_chain.next_sound(log, start.position, end))
                on_damage(error)
        return self._chunk_between(begin, start)

    def _batches(self, segment: Segment, position: int, end: int) -> Iterator[Batch]:
        log, size = segment.open_files(nowait=self._nowait).log, min(self._bytes_max + _BEYOND, end - position)
        chained = batch_chain.headers(log, position, end, nowait=self._nowait, block_bytes=size, runs=RUNS)
        for at, header, seen in chained:
            if self._view.is_committed_only and header.base_offset >= self._end_offset:
                return
            yield batch_chain.load(log, at, header, seen, nowait=self._nowait)

    def _add(self, batch: Batch, offset: int) -> bool:
        """Add a batch's records from `offset` on; return False if it must start a chunk of its own."""
        if not self._view.shows(batch.header, nowait=self._nowait):
            return True
        piece = self._view_format.joined(batch)
        ends = self._ends_in(batch, piece) if self._view_format.in_rows else None
        skipped = self._view_format.measured_below(batch, offset) if batch.base_offset < offset else 0
        if ends is not None:
            if self._pieces:
                return False
            self._ends = array("q", (end - skipped for end in ends if end > skipped))
        self._pieces.append(piece[skipped:] if skipped else piece)
        self._size += len(self._pieces[-1])
        return True

    @staticmethod
    def _ends_in(batch: Batch, values: bytes | bytearray) -> array[int] | None:
        """Return where the records of a batch end in its values, if newlines do not show it."""
        newlines = values.count(b"\n")
        if batch.header.magic == MAGIC and newlines == batch.header.count:
            return None
        rows = batch.rows()
        if newlines == len(rows) // COLUMNS:
            return None
        return array("q", accumulate(max(size, 0) + 1 for size in rows[VALUE_SIZE::COLUMNS]))

    def _chunk_between(self, begin: ReadPosition, end: ReadPosition) -> RecordChunk | None:
        if end is begin:
            return None
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        return RecordChunk(data, end, self._ends)
