"""The oldest and the newest records of a log, and where the newest so many begin.

Offsets do not tell: compaction leaves gaps, control batches take offsets that are no records, and the isolation level
may not show all the others. A batch that cannot be read counts as records, so that damage shows where it is.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

from offsetfs.storage.errors import UNREADABLE, OffsetOutOfRange, StorageError, WouldBlock
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments

_STEPS_MAX = 16  # batches looked at on the event loop; runs of control batches belong into a thread


def first_offset(view: LogView, *, nowait: bool = False) -> int | None:
    """Return the offset of the oldest record, None when there is none."""
    log, end = view.log, view.end_offset(nowait=nowait)
    offset, steps = log.log_start_offset, 0
    while offset < end:
        steps += 1
        if nowait and steps > _STEPS_MAX:
            raise WouldBlock("many batches without records", path=log.path, offset=offset)
        try:
            first, offset = _first_in_batch(view, offset, nowait)
        except UNREADABLE:
            return offset
        if first is not None:
            return first if first < end else None
    return None


def _first_in_batch(view: LogView, offset: int, nowait: bool) -> tuple[int | None, int]:
    """Return the first record at or after `offset` in its batch, and where the next batch begins."""
    batch = view.log.batch_at(offset, nowait=nowait)
    if batch is None:
        return None, view.log.next_offset
    offsets = _offsets(view, batch, nowait)
    return next((record_offset for record_offset in offsets if record_offset >= offset), None), batch.header.next_offset


def _offsets(view: LogView, batch: Batch, nowait: bool = False) -> Sequence[int]:
    """Return the offsets of a batch's records; looks at the records only where compaction took some."""
    header = batch.header
    if not view.shows(header, nowait=nowait):
        return ()
    if header.count == header.last_offset_delta + 1:
        return range(header.base_offset, header.next_offset)
    rows = batch.rows()
    return [header.base_offset + rows[row + OFFSET_DELTA] for row in range(0, len(rows), COLUMNS)]


def last_offset(view: LogView, *, nowait: bool = False) -> int | None:
    """Return the offset of the newest record, None when there is none."""
    log = view.log
    end, start, step = view.end_offset(nowait=nowait), log.log_start_offset, 1
    while end > start:
        begin = max(start, end - step)
        last = _last_between(view, begin, end, nowait)
        if last is not None:
            return last
        if nowait and step > _STEPS_MAX:
            raise WouldBlock("many batches without records", path=log.path, offset=begin)
        end, step = begin, step * 4
    return None


def _last_between(view: LogView, offset: int, end: int, nowait: bool) -> int | None:
    """Return the last record in the batches from that of `offset` on which begin below `end`."""
    log, last = view.log, None
    while offset < end:
        try:
            batch = log.batch_at(offset, nowait=nowait)
        except OffsetOutOfRange:
            break  # retention was here
        except UNREADABLE:
            return end - 1 if last is None else last
        if batch is None or batch.header.base_offset >= end:
            break
        offsets = _offsets(view, batch, nowait)
        if offsets and offsets[-1] >= log.log_start_offset:
            last = offsets[-1]
        offset = batch.header.next_offset
    return last


def newest_start(view: LogView, count: int, *, end: int | None = None) -> int:
    """Return the offset from which on there are `count` records, or the log start when there are not so many.

    With `end` records count that lie below it.

    Costs a walk over the headers of the batches that hold them, and of as many again where there are gaps.
    """
    start, end, span = view.log.log_start_offset, view.end_offset() if end is None else end, count
    if count == 0:
        return end
    if count >= end - start:
        return start
    try:
        while True:
            begin = with_retry(
                view.log, start, functools.partial(_newest_start, view, max(start, end - span), end, count)
            )
            start = max(start, view.log.log_start_offset)
            if begin is not None:
                return max(begin, start)
            if end - start <= span:
                return start
            span *= 4
    except StorageError:  # damage: what a log without gaps would say
        return max(start, end - count)


def _newest_start(view: LogView, begin: int, end: int, count: int, segments: Segments) -> int | None:
    """Return where the newest `count` records below `end` begin, when they all lie at or after the batch of `begin`."""
    batches: deque[tuple[int, int]] = deque()  # base offset, records
    total = 0
    for segment in segments.from_floor(begin):
        for batch_position, header in segment.headers(segment.position_of(begin) if segment.base_offset < begin else 0):
            if header.base_offset >= end:
                break
            if view.shows(header):
                batches.append(_begin_and_count(segment, batch_position, header))
                total += batches[-1][1]
        while batches and total - batches[0][1] >= count:
            total -= batches.popleft()[1]
    if total < count or not batches:
        return None
    base_offset, records = batches[0]
    return _nth_offset(view, base_offset, total - count) if total > count and records else base_offset


def _begin_and_count(segment: Segment, batch_position: int, header: BatchHeader) -> tuple[int, int]:
    """Return base offset and number of records of a batch; a compressed set of an old format is inflated for that."""
    if not header.is_wrapper:
        return header.base_offset, header.count
    batch = segment.batch_at_position(batch_position)
    return batch.base_offset, len(batch.rows()) // COLUMNS


def _nth_offset(view: LogView, base_offset: int, number: int) -> int:
    batch = view.log.batch_at(base_offset)
    offsets = _offsets(view, batch) if batch is not None else ()
    return offsets[number] if number < len(offsets) else base_offset
