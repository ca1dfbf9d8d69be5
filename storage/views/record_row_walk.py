"""The records of a range with size and time, one small value each, without their keys and values.

A batch that cannot be read, or whose offsets contradict those of its neighbors, yields the offsets that are missing
there with size -1. A mount lists them, so that a reader sees that something is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from offsetfs.storage.errors import UNREADABLE, StorageError
from offsetfs.storage.names import OFFSET_END
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.partition.segment_retry import SegmentRetry
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA, VALUE_SIZE
from offsetfs.storage.segments.offset_order import in_order, misplaced
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.units import NO_TIMESTAMP
from offsetfs.storage.views.view_blocks import OnDamage, walk

HIDDEN_ROWS_MAX = 100_000
"""The number of records listed as unreadable for one damaged place, at most; more than a batch of a megabyte holds."""


class RecordRow(NamedTuple):
    """A record without its content. `size` of the value, -1: its batch cannot be read. `timestamp`: milliseconds, or
    `NO_TIMESTAMP`."""

    offset: int
    size: int
    timestamp: int


def record_rows(view: LogView, begin: int, end: int, on_damage: OnDamage) -> Iterator[RecordRow]:
    """Yield the records with offsets in `[begin, end)`, each offset once and in order.

    Waits for the disk; holds one batch at a time, where offsets do not rise a few of them. What is wrong with a batch
    that cannot be read, or whose offsets cannot be right, is passed to `on_damage`. Goes on when a segment was replaced
    or removed, and ends when the partition was.
    """
    log, expected, retry = view.log, begin, SegmentRetry(view.log)
    while True:
        segments = log.snapshot()
        try:
            for segment in segments.from_floor(begin):
                following = segments.next_base_offset(segment) or OFFSET_END
                damage: list[int] = []  # positions

                def damaged(error: StorageError, seen: list[int] = damage) -> None:
                    seen.append(error.position or 0)
                    on_damage(error)

                batches = _named(walk(segment, _position_of(segment, begin), segment.size, on_damage=damaged), damaged)
                for batch, is_true in in_order(batches, segment.base_offset, following):
                    if not is_true:
                        damaged(misplaced(batch.base_offset, batch.header.last_offset, batch.path, batch.position))
                        continue
                    if batch.base_offset >= end or expected >= end:
                        break
                    position = batch.position or 0
                    if any(place < position for place in damage):
                        yield from _unreadable(expected, batch.base_offset)
                        damage[:] = [place for place in damage if place > position]
                    yield from _readable(view, batch, max(begin, batch.base_offset), end, on_damage)
                    expected = max(expected, batch.header.next_offset)
                if damage:
                    yield from _unreadable(expected, min(following, end))
                    expected = max(expected, following)
            return
        except OSError as error:  # another process replaced or removed the next segment
            if not retry.again(error, segments, expected):
                return
            begin = expected = max(expected, log.log_start_offset)


def _position_of(segment: Segment, offset: int) -> int:
    try:
        return segment.reading_position(offset)
    except StorageError:
        return 0  # damage before it: the walk steps over that


def _named(batches: Iterable[Batch], on_damage: OnDamage) -> Iterator[Batch]:
    """Yield the batches whose base offset is known: that of a compressed set of v0 or v1 is inside of it."""
    for batch in batches:
        try:
            _ = batch.base_offset
        except UNREADABLE as error:
            on_damage(error)
        else:
            yield batch


def _readable(view: LogView, batch: Batch, begin: int, end: int, on_damage: OnDamage) -> Iterator[RecordRow]:
    header = batch.header
    if not view.shows(header):
        return
    try:
        scanned = batch.rows()
    except UNREADABLE as error:
        on_damage(error)
        yield from _unreadable(begin, min(header.next_offset, end))
        return
    batch.drop_payload()  # the listing may stay open for long
    for row in range(0, len(scanned), COLUMNS):
        offset = header.base_offset + scanned[row + OFFSET_DELTA]
        if begin <= offset < end:
            timestamp = batch.timestamp_of(scanned[row + TIMESTAMP_DELTA])
            yield RecordRow(offset, max(scanned[row + VALUE_SIZE], 0), timestamp)


def _unreadable(begin: int, end: int) -> Iterator[RecordRow]:
    """Yield the offsets that damage hides, at most `HIDDEN_ROWS_MAX` for one place: compaction may have left a gap."""
    return (RecordRow(offset, -1, NO_TIMESTAMP) for offset in range(begin, min(end, begin + HIDDEN_ROWS_MAX)))
