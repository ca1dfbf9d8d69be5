"""Finds the end of the last segment of a log: by its headers, and as far as a reader may trust it.

Both searches begin at the last indexed batch, so they cost one index interval. Nothing is changed. Follows Kafka's
LogSegment.readNextOffset. A broker trusts bytes after the last index entry only after a clean shutdown.
"""

from __future__ import annotations

from offsetfs.storage import files
from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.names import OFFSET_MAX, segment_offset_max
from offsetfs.storage.partition.log_state import Damage
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.segments.segment import Segment


def readable_end(segment: Segment, recovery_point: int) -> tuple[int, int, Damage | None]:
    """Return (bytes, next offset, damage) that a reader may trust in the last segment.

    Bytes after the last valid batch are an append in progress, or one that a crash interrupted. Below `recovery_point`
    they are damage: its first position is returned, and later valid batches count.
    """
    recorded = files.recorded_end_offset(segment.log_path, segment.size)
    if recorded is not None:
        return segment.size, recorded, None
    position, next_offset = _last_sound_position(segment), segment.base_offset
    log, offset_max = segment.open_files().log, segment_offset_max(segment.base_offset)
    damage: Damage | None = None
    while position < segment.size:
        try:
            for rows in row_walk.sound_rows(log, position, segment.size, offset_min=next_offset):
                position, next_offset = rows.end, rows.next_offset
        except StorageError as error:
            # Beyond the recovery point an append may be in progress, or a crash interrupted one. Below it the bytes
            # were valid on disk once (decision 3).
            if next_offset >= recovery_point:
                break
            damage = damage or Damage(segment.log_path, position, next_offset, error.reason)
            position = batch_chain.next_sound(
                log, position, segment.size, offset_min=next_offset, offset_max=offset_max
            )
            if position == segment.size:
                next_offset = recovery_point
    if damage is not None:  # a flipped bit may have lowered the offset of the last batch
        next_offset = max(next_offset, recovery_point)
    return position, next_offset, damage


def replicated_end(segment: Segment, next_offset: int, high_watermark: int, log_start: int) -> tuple[int, int]:
    """Return (bytes, next offset) of the batches of a segment that lie below a high watermark.

    `next_offset`: of all its batches. The segment must end with a valid batch (`readable_end`, `Segment.end_at`). The
    batch with the log start always counts: offsets below the log start were replicated before they were deleted, and
    replicas have whole batches.
    """
    size = segment.size
    if next_offset <= high_watermark:
        return size, next_offset
    bound = max(high_watermark, log_start, segment.base_offset)
    try:
        position = segment.position_of(bound)
        if position == size:
            return size, next_offset
        _, header = next(segment.headers(position))
    except StorageError:
        return 0, segment.base_offset  # the follower's scan reaches the damage
    if header.base_offset >= bound:
        return position, bound
    # Records below the log start were replicated before they were deleted, so the batch that contains it is complete
    # everywhere.
    if header.base_offset < log_start:
        return position + header.size, header.next_offset
    return position, header.base_offset


def _last_sound_position(segment: Segment) -> int:
    """Return the position of the last indexed batch that is valid.

    A power cut may leave the entry without the batch.
    """
    offset = segment_offset_max(segment.base_offset)
    while True:
        position = segment.floor_position(offset)
        if position == 0 or _is_sound(segment, position):
            return position
        offset = segment.open_files().index.lookup(offset)[0] - 1


def _is_sound(segment: Segment, position: int) -> bool:
    try:
        segment.batch_at_position(position)
    except StorageError:
        return False
    return True


def end_of_chain(segment: Segment) -> int | None:
    """Return the offset after the last batch, or None if the file does not end with a whole and possible one."""
    position, next_offset = segment.last_indexed_position(), segment.base_offset
    try:
        for batch_position, header in segment.headers(position):
            # An end beyond the largest offset made the file with the recovery points of all partitions unreadable.
            if header.base_offset < next_offset or header.last_offset >= OFFSET_MAX:
                return None
            position, next_offset = batch_position + header.size, header.next_offset
    except MalformedBatch:
        return None
    return next_offset
