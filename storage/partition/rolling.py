"""Beginning the next segment of a log: all of it is there, or nothing. Follows Kafka's LocalLog.roll."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.partition.log_producers import LogProducers
from offsetfs.storage.segments import segment_files
from offsetfs.storage.segments.segment import Segment

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log


def begin_segment(log: Log, producers: LogProducers) -> Segment:
    """Make the segment at the end of the log, ready for appends, and save the producers before it.

    Where that fails nothing of it stays behind, or the log is fenced: appends to the old segment would reach beyond the
    beginning of this one.
    """
    try:
        new = Segment.create(log.path, log.next_offset, log.config, log.snapshot().active.pool, clock=log.clock)
        new.activate()
        producers.save(log)
    except OSError:
        with contextlib.suppress(OSError), log.fencing():
            segment_files.remove(log.path, log.next_offset)
            files.sync_directory(log.path)  # a name that a power cut brings back would hide what is appended from here
        raise
    return new


def sync_before(log: Log, segment: Segment) -> None:
    """Put a segment on disk before there is one behind it.

    Recovery takes a gap between two segments for an end that was lost, and cuts there; where compaction makes gaps it
    cannot tell, so none may be lost.
    """
    with log.fencing():
        segment.sync()
        files.sync_directory(log.path)
