"""How far a group is behind in time: from the time of the next record that it reads to that of the newest one.

`offsetfs groups`, `groups/<group>/lag` of a mount and the metrics of a broker have this one definition. A broker
remembers the times; the others read at most two batches for a partition.
"""

from __future__ import annotations

from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA


def seconds_behind(log: Log, committed: int, end: int) -> float | None:
    """Return the seconds that a group is behind in a log which ends at `end`; None if the records have no times.

    A commit below the log start continues there. StorageError, OSError.
    """
    if committed >= end:
        return 0.0
    return behind_s(next_record_ms(log, committed), newest_record_ms(log, end))


def behind_s(following_ms: int | None, newest_ms: int | None) -> float | None:
    """Return the seconds between two times of `next_record_ms` and `newest_record_ms`, at least 0; None if unknown."""
    return None if following_ms is None or newest_ms is None else max(newest_ms - following_ms, 0) / 1000


def next_record_ms(log: Log, committed: int) -> int | None:
    """Return the time of the first record at or after an offset below the end; None without one. Reads a batch."""
    offset = max(committed, log.log_start_offset)
    batch = log.batch_at(offset)
    if batch is None:
        return None
    rows, delta = batch.rows(), offset - batch.header.base_offset
    places = zip(rows[OFFSET_DELTA::COLUMNS], rows[TIMESTAMP_DELTA::COLUMNS], strict=True)
    found = next(
        (batch.timestamp_of(time) for delta_max, time in places if delta_max >= delta), batch.header.max_timestamp
    )
    return found if found >= 0 else None


def newest_record_ms(log: Log, end: int) -> int | None:
    """Return the latest time in the last batch before `end`; None without one. Reads a batch."""
    batch = log.batch_at(end - 1) if end > log.log_start_offset else None
    return None if batch is None or batch.header.max_timestamp < 0 else batch.header.max_timestamp
