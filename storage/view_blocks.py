"""The batches behind a stretch of the `values` view: walked over damage, measured, joined.

A record's output is its value and a newline; a null value is an empty line. Control batches have none. What a batch
that cannot be read would have shown is left out and reported, and the rest closes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from offsetfs.storage import batch_chain
from offsetfs.storage.batch import HEADER_SIZE, Batch
from offsetfs.storage.codec import COLUMNS
from offsetfs.storage.errors import (
    CorruptBatch,
    DecompressionLimit,
    MalformedBatch,
    StorageError,
    UnsupportedFormat,
    WouldBlock,
)
from offsetfs.storage.segment import Segment

_VALUE_SIZE = 5  # the column of a scanned row
_UNREADABLE = (CorruptBatch, MalformedBatch, UnsupportedFormat, DecompressionLimit)

OnDamage = Callable[[StorageError], None]
"""Called, from whatever thread, with each batch that shows nothing because it cannot be read."""


class Block(NamedTuple):
    """A stretch of a segment: bytes `[output, output_end)` of the view from batches in `[position, position_end)`."""

    output: int
    output_end: int
    position: int
    position_end: int


def walk(segment: Segment, position: int, end: int, *, on_damage: OnDamage, nowait: bool = False) -> Iterator[Batch]:
    """Yield the batches in `[position, end)`, checksums verified, stepping over what is damaged.

    With `nowait` the stretch is read at once from the page cache, and damage is left to a thread (`WouldBlock`).
    """
    return _walk_cached(segment, position, end) if nowait else _walk(segment, position, end, on_damage)


def _walk(segment: Segment, position: int, end: int, on_damage: OnDamage) -> Iterator[Batch]:
    reached = position

    def stepped(error: StorageError, following: int) -> None:
        nonlocal reached
        reached = following
        on_damage(error)

    while reached < end:
        for batch in segment.batches(reached, end, on_damage=stepped):
            yield batch
            reached = (batch.position or 0) + batch.header.size
        if reached < end:  # the chain ended early: a size field that reaches beyond the end
            error = MalformedBatch("a batch that reaches beyond the end", path=segment.log_path, position=reached)
            reached = batch_chain.next_sound(segment.open_files().log, reached, end)
            on_damage(error)


def _walk_cached(segment: Segment, position: int, end: int) -> Iterator[Batch]:
    log = segment.open_files(nowait=True).log
    try:
        block_bytes = max(end - position, HEADER_SIZE)
        for place, header, seen in batch_chain.headers(log, position, end, nowait=True, block_bytes=block_bytes):
            yield batch_chain.load(log, place, header, seen, nowait=True)
            position = place + header.size
    except _UNREADABLE:
        raise WouldBlock("damage is stepped over in a thread", path=segment.log_path, position=position) from None
    if position != end:
        raise WouldBlock("the chain of batches ends early", path=segment.log_path, position=position)


def join_block(segment: Segment, block: Block, *, nowait: bool = False) -> bytearray:
    """Return the output of one block, read from the log.

    Raises what is wrong with a batch that could be read when the map was made; with `nowait` `WouldBlock`.
    """
    output = bytearray()
    problems: list[StorageError] = []
    for batch in walk(segment, block.position, block.position_end, on_damage=problems.append, nowait=nowait):
        if batch.header.is_control:
            continue
        try:
            joined = batch.joined()
        except _UNREADABLE as error:
            problems.append(error)
            continue
        output = output + joined if output else joined
    if len(output) != block.output_end - block.output:
        raise (
            problems[0]
            if problems
            else MalformedBatch("not what its view map describes", path=segment.log_path, position=block.position)
        )
    return output


def measure(batch: Batch, on_damage: OnDamage) -> int:
    """Return the bytes of output of one batch; 0 when its records cannot be read."""
    if batch.header.is_control:
        return 0
    try:
        return batch.measured()
    except _UNREADABLE as error:
        on_damage(error)
        return 0


def measure_below(batch: Batch, offset: int) -> int:
    """Return the bytes of output of the batch's records with an offset below `offset`."""
    if batch.header.is_control:
        return 0
    rows, delta = batch.rows(), offset - batch.header.base_offset
    return sum(max(rows[row + _VALUE_SIZE], 0) + 1 for row in range(0, len(rows), COLUMNS) if rows[row] < delta)
