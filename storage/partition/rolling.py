"""Creates the next segment of a log, completely or not at all. Follows Kafka's LocalLog.roll."""

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
    """Create the segment at the end of the log, ready for appends, and save the producers before it.

    After an error no file of it stays, or the log is fenced. Otherwise appends to the old segment could pass the start
    of this one.
    """
    try:
        new = Segment.create(log.path, log.next_offset, log.config, log.snapshot().active.pool, clock=log.clock)
        new.activate()
        producers.save(log)
    except OSError:
        with contextlib.suppress(OSError), log.fencing():
            segment_files.remove(log.path, log.next_offset)
            files.sync_directory(
                log.path
            )  # otherwise a power cut could restore the name, and hide records appended to the old segment
        raise
    return new


def sync_before(log: Log, segment: Segment) -> None:
    """Sync a segment before the next one is created.

    Recovery takes a gap between two segments for a lost end, and cuts there. In a compacted log, where gaps are normal,
    it could not detect a lost end, so none may occur.
    """
    with log.fencing():
        segment.sync()
        files.sync_directory(log.path)
