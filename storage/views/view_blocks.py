"""The batches of a block of a view: reading them, also around damage, measuring and joining their output.

The view's format defines the output of a record. Loose v0 and v1 messages are processed in runs (`legacy`). Control
batches, and batches that the isolation level excludes, have no output. An unreadable batch is left out and reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from offsetfs.storage.errors import (
    UNREADABLE,
    MalformedBatch,
    StorageError,
    WouldBlock,
)
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import PAYLOAD_BYTES_MAX, Batch
from offsetfs.storage.records.format.batch_header import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    MAGIC_END,
    parse_header,
)
from offsetfs.storage.records.format.legacy import RUNS, run_header
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.time_search import VisibilityFilter, shows_data
from offsetfs.storage.views.view_format import VALUES, ViewFormat

_SCRATCH_BYTES_MAX = 4 << 20
_WRONG_LOG = "the log does not match the line index"

OnDamage = Callable[[StorageError], None]
"""Called, from any thread, with the error of each batch that is left out because it cannot be read."""


class ViewBlock(NamedTuple):
    """A block of a segment: bytes `[output, output_end)` of the view, from batches in `[position, position_end)`."""

    output: int
    output_end: int
    position: int
    position_end: int


def walk(segment: Segment, position: int, end: int, *, on_damage: OnDamage, nowait: bool = False) -> Iterator[Batch]:
    """Yield the batches in `[position, end)`, checksums verified, skipping damage.

    With `nowait` the range is read at once from the page cache, and damage raises `WouldBlock`.
    """
    if nowait:
        return _walk_cached(segment, position, end)
    return segment.batches(position, end, on_damage=lambda error, _following: on_damage(error), runs=RUNS)


def _walk_cached(segment: Segment, position: int, end: int) -> Iterator[Batch]:
    log = segment.open_files(nowait=True).log
    try:
        data = memoryview(log.read(position, end - position, nowait=True))
        yield from _batches_in(data, segment, position, batch_chain.INLINE_INFLATE_BYTES_MAX)
    except UNREADABLE:
        raise WouldBlock("damage must be skipped in a thread", path=segment.log_path, position=position) from None


def _batches_in(
    data: memoryview, segment: Segment, start: int, inflated_bytes_max: int = PAYLOAD_BYTES_MAX
) -> Iterator[Batch]:
    """Yield the batches that fill `data` exactly, which was read from `start` on."""
    position, size, path = 0, len(data), segment.log_path
    while position < size:
        header = parse_header(data, position, path=path, file_position=start + position)
        if header.magic in RUNS and not header.is_wrapper:
            header = run_header(header, data[position:])
        batch = Batch(header, data[position : position + header.size], path, start + position)
        if not header.is_run:
            batch.check()
        if header.codec:
            batch.payload(inflated_bytes_max)
        yield batch
        position += header.size


class _Scratch(threading.local):
    """A buffer for each thread, because memory fresh from the kernel costs more than the read that fills it."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def take(self, size: int) -> memoryview:
        """Return `size` bytes, valid until the next call. Large buffers are not kept."""
        if size > _SCRATCH_BYTES_MAX:
            return memoryview(bytearray(size))
        if size > len(self.buffer):
            self.buffer = bytearray(max(size, _SCRATCH_BYTES_MAX // 2))
        return memoryview(self.buffer)[:size]


scratch = _Scratch()


def join_block(
    segment: Segment,
    block: ViewBlock,
    *,
    view_format: ViewFormat = VALUES,
    shows: VisibilityFilter = shows_data,
    nowait: bool = False,
) -> bytes | bytearray:
    """Return the output of one block, read from the log: that of the batches that `shows` accepts.

    Raises the error of a batch that became unreadable after the line index was built; with `nowait`, `WouldBlock`.
    """
    if not 0 <= block.position <= block.position_end <= segment.size:
        raise MalformedBatch(_WRONG_LOG, path=segment.log_path, position=block.position)
    try:
        joined = _join_sound(segment, block, view_format, shows, nowait)
        if len(joined) == block.output_end - block.output:
            return joined
    except UNREADABLE:
        pass
    if nowait:
        raise WouldBlock("damage must be skipped in a thread", path=segment.log_path, position=block.position)
    return _join_over_damage(segment, block, view_format, shows)


def _join_sound(
    segment: Segment, block: ViewBlock, view_format: ViewFormat, shows: VisibilityFilter, nowait: bool
) -> bytes | bytearray:
    log, size = segment.open_files(nowait=nowait).log, block.position_end - block.position
    data = scratch.take(size)
    data = data[: log.read_into(data, block.position, nowait=nowait)]
    if shows is shows_data:
        joined = _join_plain(data, block.position, view_format)
        if joined is not None:
            return joined
    limit = batch_chain.INLINE_INFLATE_BYTES_MAX if nowait else PAYLOAD_BYTES_MAX
    batches = _batches_in(data, segment, block.position, limit)
    pieces = [view_format.joined(batch) for batch in batches if shows(batch.header, nowait=nowait)]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _join_plain(data: memoryview, position: int, view_format: ViewFormat) -> bytes | bytearray | None:
    """Return the output of valid, uncompressed v2 batches that fill `data`; None if there are others among them."""
    if len(data) < HEADER_SIZE or data[MAGIC_END - 1] != MAGIC or data[CRC_START + 1] & CODEC_MASK:
        return None
    pieces, buffer_position = list[bytes | bytearray](), 0
    while buffer_position < len(data):
        rows, buffer_position = chain.sound(data, buffer_position, len(data), position, *chain.ANY_OFFSETS)
        lines = view_format.joined_rows(data, position, rows) if rows else None
        if lines is None:
            return None
        pieces.append(lines)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _join_over_damage(segment: Segment, block: ViewBlock, view_format: ViewFormat, shows: VisibilityFilter) -> bytes:
    pieces: list[bytes | bytearray] = []
    problems: list[StorageError] = []
    for batch in walk(segment, block.position, block.position_end, on_damage=problems.append):
        if shows(batch.header):
            try:
                pieces.append(view_format.joined(batch))
            except UNREADABLE as error:
                problems.append(error)
    joined = b"".join(pieces)
    if len(joined) == block.output_end - block.output:
        return joined
    problems.append(MalformedBatch(_WRONG_LOG, path=segment.log_path, position=block.position))
    raise problems[0]


def measure(
    batch: Batch,
    on_damage: OnDamage,
    *,
    view_format: ViewFormat = VALUES,
    shows: VisibilityFilter = shows_data,
    nowait: bool = False,
) -> int:
    """Return the output size of one batch; 0 if its records cannot be read."""
    if not shows(batch.header, nowait=nowait):
        return 0
    try:
        return view_format.measured(batch)
    except UNREADABLE as error:
        on_damage(error)
        return 0


def measure_below(
    batch: Batch, offset: int, *, view_format: ViewFormat = VALUES, shows: VisibilityFilter = shows_data
) -> int:
    """Return the output size of the batch's records with an offset below `offset`; 0 if it cannot be read."""
    try:
        return view_format.measured_below(batch, offset) if shows(batch.header) else 0
    except UNREADABLE:
        return 0
