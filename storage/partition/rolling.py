"""Creates the next segment of a log, completely or not at all. Follows Kafka's LocalLog.roll."""

from __future__ import annotations

import contextlib

from offsetfs.storage import files
from offsetfs.storage.partition.log_interfaces import ChangeableLog
from offsetfs.storage.partition.log_producers import LogProducers
from offsetfs.storage.segments import segment_files
from offsetfs.storage.segments.segment import Segment


def begin_segment(log: ChangeableLog, producers: LogProducers) -> Segment:
    """Create the segment at the end of the log, ready for appends, and save the producers before it.

    After an error no file of it stays, or the log has failed. Otherwise appends to the old segment could pass the start
    of this one.
    """
    try:
        new = Segment.create(log.path, log.next_offset, log.config, log.snapshot().active.pool, clock=log.clock)
        # The indexes are opened and extended now: a roll on a full disk once left the active segment without its files,
        # and appends failed with EBADF also when there was space again.
        new.activate()
        # As UnifiedLog.roll: a snapshot at each base offset lets a recovery start its replay at any segment.
        producers.save(log)
    except OSError:
        with contextlib.suppress(OSError), log.fail_on_error():
            segment_files.remove(log.path, log.next_offset)
            files.sync_directory(
                log.path
            )  # otherwise a power cut could restore the name, and hide records appended to the old segment
        raise
    return new


def sync_before(log: ChangeableLog, segment: Segment) -> None:
    """Sync a segment before the next one is created.

    Recovery takes a gap between two segments for a lost end, and cuts there. In a compacted log, where gaps are normal,
    it could not detect a lost end, so none may occur.
    """
    with log.fail_on_error():
        segment.sync()
        files.sync_directory(log.path)
