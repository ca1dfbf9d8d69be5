"""The leader epoch of a log whose `leader-epoch-checkpoint` knows none: the one that its last v2 batch carries.

A broker empties that file while a topic's message format is older than v2, and a damaged file counts as empty. The log
may hold v2 batches from before, and epochs never fall: appends go on with the latest one. Kafka gets its epoch from the
controller instead.
"""

from __future__ import annotations

from itertools import islice

from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.batch_header import MAGIC
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments


def latest_epoch(segments: Segments) -> int:
    """Return the epoch of the last v2 batch of the log, -1 when there is none.

    Costs the headers of one index interval per segment of v0 and v1, and those of one segment that begins or ends with
    v2. A segment that does neither is taken for old throughout: its messages may be many.
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
    """Return the last epoch from `position` on, as far as the headers can be read."""
    latest = -1
    try:
        for _, header in segment.headers(position):
            latest = header.leader_epoch if header.leader_epoch >= 0 else latest
    except StorageError:
        return latest  # what stands behind the damage cannot be found by a walk over headers
    return latest
