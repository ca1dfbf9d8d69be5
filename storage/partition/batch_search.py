"""Batches of a log by offset: the one that holds an offset, and as many as are wanted from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.errors import OffsetOutOfRange
from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.records import batch_chain
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.segments.segment_map import Segments

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log


def batch_at(log: Log, offset: int, *, nowait: bool) -> Batch | None:
    """See `Log.batch_at`."""
    if nowait:
        return _find(log, log.snapshot(), offset, nowait=True)
    return with_retry(log, offset, lambda segments: _find(log, segments, offset, nowait=False))


def _find(log: Log, segments: Segments, offset: int, *, nowait: bool) -> Batch | None:
    if not log.log_start_offset <= offset <= log.next_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    if offset == log.next_offset:
        return None
    for segment in segments.from_floor(offset):
        batch = segment.find(offset, offset_end=segments.next_base_offset(segment), nowait=nowait)
        if batch is not None:
            return batch
    return None


def read(log: Log, offset: int, bytes_max: int, *, nowait: bool) -> bytes:
    """See `Log.read`."""
    first = batch_at(log, offset, nowait=nowait)
    if first is None:
        return b""
    segment = log.snapshot().floor(first.header.base_offset)
    if segment is None:  # the batch begins below its segment's name
        return bytes(first.data)
    start = first.position or 0
    end = start + first.header.size
    file = segment.open_files(nowait=nowait).log
    for position, header, _ in batch_chain.headers(file, end, segment.size, nowait=nowait):
        if position + header.size - start > bytes_max:
            break
        end = position + header.size
    return bytes(file.read(start, end - start, nowait=nowait))
