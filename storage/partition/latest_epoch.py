"""The leader epoch of a log whose `leader-epoch-checkpoint` is empty: that of its last v2 batch.

A broker empties the file while a topic's message format is older than v2, and a damaged file counts as empty. The log
may hold earlier v2 batches, and epochs never fall, so appends continue with the latest epoch. Kafka gets its epoch from
the controller instead.
"""

from __future__ import annotations

from itertools import islice

from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.format.batch_header import MAGIC
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments


def latest_epoch(segments: Segments) -> int:
    """Return the epoch of the last v2 batch of the log, or -1.

    Reads the headers of one index interval in each segment of v0 and v1, and those of one segment that begins or ends
    with v2. A segment that does neither is taken to have old formats only, because it may have many messages.
    """
    for segment in reversed(list(segments)):
        epoch = _latest_of(segment, segment.last_indexed_position())
        if epoch < 0 and _begins_with_v2(segment):
            epoch = _latest_of(segment, 0)
        if epoch >= 0:
            return epoch
    return -1


def _begins_with_v2(segment: Segment) -> bool:
    try:
        return any(header.magic == MAGIC for _, header in islice(segment.headers(), 1))
    except StorageError:
        return False


def _latest_of(segment: Segment, position: int) -> int:
    """Return the last epoch from `position` on, up to the first unreadable header."""
    latest = -1
    try:
        for _, header in segment.headers(position):
            latest = header.leader_epoch if header.leader_epoch >= 0 else latest
    except StorageError:
        return latest  # a scan of headers cannot continue after damage
    return latest
