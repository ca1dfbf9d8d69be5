"""Walking a log file in bulk: the headers of its batches as rows of numbers (`chain`), whatever their format.

    sound_rows     whole batches with their checksums verified: recovery, rebuilding of indexes
    header_rows    what the headers say, checksums not looked at: transactions, producers, the latest time

Batches of v2 come by the block, without a Python object for each. Everything else goes the slow way, through
`batch_chain`, and comes out as rows too: messages of v0 and v1, batches larger than a block, and what is damaged, of
which `batch_chain` says what is wrong with it. So the results are those of `batch_chain`, sooner.

Memory: one block, whatever a length in the file claims.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from offsetfs.storage.errors import CorruptBatch, MalformedBatch, OffsetBeyondSegment, StorageError, UnsupportedFormat
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_offset_max
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import MAGIC_END, Batch, check_header
from offsetfs.storage.records.format.batch_header import (
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Buffer,
    parse_header,
)
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.records.format.legacy import NO_RUNS, TIMELESS_RUNS
from offsetfs.storage.units import I64_MAX

BLOCK_BYTES = 4 << 20
"""The bytes of one read. Batches above `max.message.bytes` (1 MiB unless it is raised) are rare."""

VIEW_BLOCK_BYTES = 2 << 20
"""The bytes read at once if a reader waits for the first of them."""

HEADER_BLOCK_BYTES = 64 << 10
"""The bytes of one read if the records of large batches are not needed."""

UNSOUND = (CorruptBatch, MalformedBatch, UnsupportedFormat)
"""The errors of a batch that is damaged or has an unsupported format."""

_PIECE_BYTES = 1 << 20


Measure = Callable[[Buffer, int, "array[int]"], "array[int]"]
"""Returns a number for each batch, from a block, its place in the file, and its rows."""


class Rows:
    """At least one batch. `numbers` has `chain.COLUMNS` of them for each, the position in the file among them.

    The bytes belong to the walk: they stay as they are until its next step.
    """

    __slots__ = ("_header", "_seen", "_start", "numbers")

    def __init__(self, numbers: array[int], seen: memoryview, start: int, header: BatchHeader | None = None) -> None:
        """`seen`: bytes of the file from `start` on; `header`: that of the only batch, where no block has it."""
        self.numbers = numbers
        self._seen = seen
        self._start = start
        self._header = header

    def __len__(self) -> int:
        return len(self.numbers) // chain.COLUMNS

    @property
    def position(self) -> int:
        """The position of the first batch in the file."""
        return self.numbers[chain.POSITION]

    @property
    def base_offset(self) -> int:
        """The offset of the first batch."""
        return self.numbers[chain.BASE_OFFSET]

    @property
    def first_count(self) -> int:
        """The number of records of the first batch, as its header has it: -1 for a compressed set of v0 or v1."""
        return self.numbers[chain.COUNT]

    @property
    def first_end(self) -> int:
        """The offset behind the first batch."""
        return self.numbers[chain.BASE_OFFSET] + self.numbers[chain.LAST_OFFSET_DELTA] + 1

    @property
    def end(self) -> int:
        """The position of the end of the last batch in the file."""
        last = self.numbers[-chain.COLUMNS :]
        return last[chain.POSITION] + last[chain.SIZE]

    @property
    def next_offset(self) -> int:
        """The offset behind the last batch."""
        last = self.numbers[-chain.COLUMNS :]
        return last[chain.BASE_OFFSET] + last[chain.LAST_OFFSET_DELTA] + 1

    @property
    def block(self) -> tuple[memoryview, int]:
        """Bytes around the batches, and where those begin in the file."""
        return self._seen, self._start

    def moved(self, shift: int) -> Rows:
        """Return the rows of the same batches in a file in which they begin `shift` bytes later."""
        numbers = self.numbers[:]
        numbers[chain.POSITION :: chain.COLUMNS] = array(
            "q", [position + shift for position in self.column(chain.POSITION)]
        )
        return Rows(numbers, self._seen, self._start + shift, self._header)

    def part(self, first: int, last: int) -> Rows:
        """Return the batches from number `first` to before number `last`."""
        if (first, last) == (0, len(self)):
            return self
        return Rows(self.numbers[first * chain.COLUMNS : last * chain.COLUMNS], self._seen, self._start, self._header)

    def beginning_at(self, offset: int, count: int) -> Rows:
        """Return the rows without what is below `offset` in the first batch, which keeps `count` records."""
        numbers = self.numbers[:]
        numbers[chain.LAST_OFFSET_DELTA] -= offset - numbers[chain.BASE_OFFSET]
        numbers[chain.BASE_OFFSET], numbers[chain.COUNT] = offset, count
        return Rows(numbers, self._seen, self._start, self._header)

    def without_last(self) -> Rows:
        """Return the rows before the last batch, which may be none."""
        return Rows(self.numbers[: -chain.COLUMNS], self._seen, self._start)

    def next_offsets(self) -> list[int]:
        """Return the offset behind each batch."""
        columns = self.column(chain.BASE_OFFSET), self.column(chain.LAST_OFFSET_DELTA)
        return [base + delta + 1 for base, delta in zip(*columns, strict=True)]

    def column(self, column: int) -> array[int]:
        """Return one number of each batch."""
        return self.numbers[column :: chain.COLUMNS]

    def measure(self, how: Measure = chain.measure) -> array[int]:
        """Return the bytes of output of each batch, see `chain.measure`; of rows whose batches were read whole."""
        return how(self._seen, self._start, self.numbers)

    def flagged(self, flag: int) -> list[int]:
        """Return the numbers of the batches that have the attribute `flag`."""
        column = self.column(chain.ATTRIBUTES)
        if min(column) >= 0 and max(column) < flag:  # as nearly always, and sooner known
            return []
        return [row for row, attributes in enumerate(column) if attributes & flag]

    def batch(self, row: int) -> tuple[int, BatchHeader, memoryview]:
        """Return position, header and bytes of one batch, as `batch_chain.headers` yields them."""
        position = self.numbers[row * chain.COLUMNS + chain.POSITION]
        seen = self._seen[position - self._start :]
        return position, self._header or parse_header(seen, file_position=position), seen

    def whole_batch(self, row: int, path: str) -> Batch:
        """Return one batch of those that were read whole; `path` is that of the file, for messages."""
        position, header, seen = self.batch(row)
        return Batch(header, seen[: header.size], path, position)


def sound_rows(
    file: File,
    position: int,
    end: int,
    *,
    offset_min: int = -1,
    offset_max: int = I64_MAX,
    next_base_offset: int | None = None,
) -> Iterator[Rows]:
    """Yield the batches in `[position, end)`, checksums verified, formats as they come; v0 in runs (`legacy`).

    Damage raises, as from `batch_chain.batches`. With an `offset_min` of 0 or more offsets rise from there on, or
    `MalformedBatch`; one above `offset_max` raises `OffsetBeyondSegment`. Their checksums hold then: they do not cover
    the offset. Where a batch leaves a gap and the one behind it does not fit, it is that before the gap that is
    malformed; `next_base_offset`, where the next segment begins, stands for what is behind the last.
    """
    window = _Window(file, end, BLOCK_BYTES)
    while position < end:
        rows = window.sound(position, offset_min, offset_max)
        if rows is not None:
            yield from _standing(rows, file, end, offset_min, next_base_offset)
            position = rows.end
            offset_min = rows.next_offset if offset_min >= 0 else -1
            continue
        for rows, header in _one_by_one(file, window, position, end):
            _check_offsets(header, rows.position, offset_min, offset_max, file.path)
            yield from _standing(rows, file, end, offset_min, next_base_offset)
            position = rows.end
            offset_min = header.next_offset if offset_min >= 0 else -1


def offset_max_of(base_offset: int, next_base_offset: int | None) -> int:
    """Return the highest offset that a segment can hold; `next_base_offset`: that of the next segment, or None."""
    highest = segment_offset_max(base_offset)
    return highest if next_base_offset is None else min(highest, next_base_offset - 1)


def _standing(rows: Rows, file: File, end: int, offset_min: int, next_base_offset: int | None) -> Iterator[Rows]:
    """Yield the rows whose offsets can stand where they are; raise for the last one when it cannot.

    Only the last can be meant: rows end where offsets do not rise.
    """
    before = rows.without_last()
    expected, base = before.next_offset if before.numbers else offset_min, rows.column(chain.BASE_OFFSET)[-1]
    following = _offset_behind(file, rows.end, end, next_base_offset) if offset_min >= 0 and expected < base else None
    if following is None or not expected <= following < rows.next_offset:
        yield rows
        return
    if before.numbers:
        yield before
    position = rows.column(chain.POSITION)[-1]
    reason = f"offset {base} cannot stand before {following}"
    raise MalformedBatch(reason, path=file.path, position=position, offset=base)


def _offset_behind(file: File, position: int, end: int, next_base_offset: int | None) -> int | None:
    """Return the offset of the batch at `position`; None when there is none that looks like one."""
    if position + MAGIC_END > end:
        return next_base_offset
    head = file.read(position, MAGIC_END)
    looks_whole = len(head) == MAGIC_END and int.from_bytes(head[8:12], "big", signed=True) > 0 and head[16] <= MAGIC
    return int.from_bytes(head[:8], "big", signed=True) if looks_whole else None


def block_rows(file: File, position: int, end: int, *, nowait: bool = False) -> Iterator[Rows]:
    """Yield the sound v2 batches from `position` on, offsets as they come, up to the first thing that is not one.

    A batch larger than a block is none here. With `nowait` `WouldBlock` where the disk is needed.
    """
    window = _Window(file, end, VIEW_BLOCK_BYTES, nowait=nowait)
    while position < end:
        rows = window.sound(position, *chain.ANY_OFFSETS)
        if rows is None:
            return
        yield rows
        position = rows.end


def rows_over_damage(file: File, position: int, end: int) -> Iterator[Rows]:
    """Yield batches as `sound_rows` does, offsets as they come, stepping over what is damaged to the next sound one."""
    while position < end:
        try:
            for rows in sound_rows(file, position, end):
                yield rows
                position = rows.end
        except UNSOUND:
            position = batch_chain.next_sound(file, position, end)


def header_rows(
    file: File,
    position: int,
    end: int,
    *,
    nowait: bool = False,
    runs: tuple[int, ...] = NO_RUNS,
    on_damage: Callable[[StorageError], object] = lambda error: None,
) -> Iterator[Rows]:
    """Yield the batches in `[position, end)` by their headers, stepping over what cannot be one (`batch_chain.walk`).

    The bytes of a batch may reach beyond those that were read. With `nowait` `WouldBlock` where the disk or a search
    behind damage is needed. `on_damage`: called with the error of each place that is stepped over.
    """
    window = _Window(file, end, HEADER_BLOCK_BYTES, nowait=nowait)
    while position < end:
        rows = window.headers(position)
        if rows is not None:
            yield rows
            position = rows.end
            continue
        for batch_position, header, seen in batch_chain.walk(
            file, position, end, nowait=nowait, runs=runs, on_damage=on_damage
        ):
            yield Rows(chain.row(batch_position, header), seen, batch_position, header)
            position = batch_position + header.size
            if header.magic == MAGIC:
                break
        else:
            return


class _Window:
    """A window over the file in memory that moves forward."""

    __slots__ = ("_block_bytes", "_buffer", "_end", "_file", "_length", "_nowait", "_start")

    def __init__(self, file: File, end: int, block_bytes: int, *, nowait: bool = False) -> None:
        self._file = file
        self._end = end
        self._block_bytes = block_bytes
        self._nowait = nowait
        self._buffer = memoryview(b"")
        self._start = self._length = 0

    def sound(self, position: int, offset_min: int, offset_max: int) -> Rows | None:
        """Return the rows from `position` on; None when there is no sound v2 batch that a block holds."""
        for buffer_position in self._buffer_positions(position):
            numbers, _ = chain.sound(self._buffer, buffer_position, self._length, self._start, offset_min, offset_max)
            if numbers:
                return Rows(numbers, self._buffer[: self._length], self._start)
        return None

    def headers(self, position: int) -> Rows | None:
        """Return the rows from `position` on; None when there is no header of v2."""
        for buffer_position in self._buffer_positions(position):
            numbers, _ = chain.headers(
                self._buffer, buffer_position, self._length, self._end - self._start, self._start
            )
            if numbers:
                return Rows(numbers, self._buffer[: self._length], self._start)
        return None

    def starts_with_giant(self, position: int) -> BatchHeader | None:
        """Return the header at `position`, where the window begins, when it is of a v2 batch that no block holds."""
        seen = self._buffer[position - self._start : self._length]
        if len(seen) < HEADER_SIZE:
            return None
        try:
            header = parse_header(seen)
        except (MalformedBatch, UnsupportedFormat):
            return None
        is_giant = header.magic == MAGIC and self._block_bytes < header.size <= self._end - position
        return header if is_giant else None

    def _buffer_positions(self, position: int) -> Iterator[int]:
        """Yield where `position` is in the buffer: as it is, if it is there, and once more with as much as goes in."""
        buffer_position = position - self._start
        if 0 <= buffer_position < self._length:
            yield buffer_position
        if buffer_position != 0 or self._length == 0:
            self._slide(position)
            yield 0

    def _slide(self, position: int) -> None:
        if not self._buffer:
            self._buffer = memoryview(bytearray(min(self._block_bytes, self._end - position)))
        kept = max(self._start + self._length - position, 0)
        if kept:
            self._buffer[:kept] = self._buffer[position - self._start : self._length]
        self._start, self._length = position, kept
        wanted = min(len(self._buffer), self._end - position)
        self._length += self._file.read_into(self._buffer[kept:wanted], position + kept, nowait=self._nowait)


def _one_by_one(file: File, window: _Window, position: int, end: int) -> Iterator[tuple[Rows, BatchHeader]]:
    """Yield what `chain` does not take, up to the first v2 batch; raise what is wrong."""
    giant = window.starts_with_giant(position)
    if giant is not None:
        yield _giant(file, giant, position), giant
        return
    for batch in _in_truthful_runs(file, position, end):
        batch_position, header = batch.position or 0, batch.header
        yield Rows(chain.row(batch_position, header), batch.data, batch_position, header), header
        if header.magic == MAGIC:
            return


def _in_truthful_runs(file: File, position: int, end: int) -> Iterator[Batch]:
    """Yield batches, loose messages of v0 in runs.

    If a run ends above the next batch, one of its messages has a wrong offset. Then they are yielded one by one, so
    that it can be found.
    """
    for batch in batch_chain.batches(file, position, end, runs=TIMELESS_RUNS):
        batch_position, header = batch.position or 0, batch.header
        following = _offset_behind(file, batch_position + header.size, end, None) if header.is_run else None
        # The messages of v0 and v1 do not say how many they are, so a wrong offset shows only at the next batch.
        if following is not None and following <= header.last_offset:
            yield from batch_chain.batches(file, batch_position, batch_position + header.size)
        else:
            yield batch


def _giant(file: File, header: BatchHeader, position: int) -> Rows:
    """Verify a batch piece by piece: its length may be a lie."""
    checksum, block_position, end = 0, position + CRC_START, position + header.size
    while block_position < end:
        # In pieces: a damaged length of 2 GiB must not allocate 2 GiB.
        piece = file.read(block_position, min(_PIECE_BYTES, end - block_position))
        if not piece:
            raise MalformedBatch(batch_chain.UNFINISHED, path=file.path, position=position, offset=header.base_offset)
        checksum, block_position = crc32c(piece, checksum), block_position + len(piece)
    try:
        check_header(header, checksum)
    except StorageError as error:
        raise type(error)(error.reason, path=file.path, position=position, offset=header.base_offset) from None
    return Rows(chain.row(position, header), memoryview(file.read(position, HEADER_SIZE)), position, header)


def _check_offsets(header: BatchHeader, position: int, offset_min: int, offset_max: int, path: str) -> None:
    if header.base_offset < offset_min:
        reason = f"offset {header.base_offset} cannot follow {offset_min - 1}"
        raise MalformedBatch(reason, path=path, position=position, offset=header.base_offset)
    if header.last_offset > offset_max:
        reason = f"offset {header.last_offset} is beyond what its segment can hold"
        raise OffsetBeyondSegment(reason, path=path, position=position, offset=header.base_offset)
