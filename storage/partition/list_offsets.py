"""Offsets by time: what a log answers to ListOffsets (KIP-79, KIP-734).

A time costs one look-up in the first segment whose largest timestamp reaches it. The four marks below zero ask for the
ends of the log and for its latest record. Follows UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.partition.log_interfaces import ReadableLog
from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.segments import time_search
from offsetfs.storage.segments.segment_map import Segments


def find_record(
    log: ReadableLog,
    timestamp: int,
    *,
    shows: time_search.VisibilityFilter = time_search.shows_data,
    on_damage: OnDamage | None = None,
    nowait: bool = False,
) -> time_search.FoundRecord | None:
    """Return the first record, in offset order, with a timestamp ≥ `timestamp`; or None.

    Batches on the way that cannot be read go to `on_damage`; by default the log records them.
    """
    if nowait:
        return _find(log, log.snapshot(), timestamp, shows, on_damage, nowait=True)
    return with_retry(
        log,
        log.log_start_offset,
        lambda segments: _find(log, segments, timestamp, shows, on_damage, nowait=False),
    )


def _find(
    log: ReadableLog,
    segments: Segments,
    timestamp: int,
    shows: time_search.VisibilityFilter,
    on_damage: OnDamage | None,
    *,
    nowait: bool,
) -> time_search.FoundRecord | None:
    for segment in segments.from_timestamp(timestamp, nowait=nowait):
        offset_end = segments.next_base_offset(segment)
        found = time_search.find_record(
            segment,
            timestamp,
            log.log_start_offset,
            shows=shows,
            offset_end=offset_end,
            on_damage=on_damage or log.note_damage,
            nowait=nowait,
        )
        if found is not None:
            return found
    return None


def find_timestamp(
    log: ReadableLog,
    timestamp: int,
    *,
    shows: time_search.VisibilityFilter = time_search.shows_data,
    nowait: bool = False,
) -> tuple[int, int] | None:
    """Return (offset, timestamp) of what `find_record` returns."""
    found = find_record(log, timestamp, shows=shows, nowait=nowait)
    return None if found is None else (found.offset, found.timestamp)


def list_offset(log: ReadableLog, timestamp: int) -> tuple[int, int] | None:
    """Return (offset, timestamp) for a time or a mark; the timestamp is -1 where none was asked for, as Kafka's."""
    match timestamp:
        case -1:
            return log.next_offset, -1
        case -2 | -4:
            return log.log_start_offset, -1
        case -3:
            return max_timestamp(log)
    return find_timestamp(log, timestamp) if timestamp >= 0 else None


def max_timestamp(log: ReadableLog, *, nowait: bool = False) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the first record with the largest timestamp; None when no record has one.

    Where a transaction marker is the latest, or a record below the log start, this walks over all headers.
    """
    best = max((segment.max_timestamp(nowait=nowait)[0] for segment in log.snapshot()), default=-1)
    found = find_timestamp(log, best, nowait=nowait) if best >= 0 else None
    if found is not None or best < 0:
        return found
    if nowait:
        raise WouldBlock("what is the latest is no record of the log", path=log.path)
    start = log.log_start_offset
    best = max((time_search.max_data_timestamp(segment, start) for segment in log.snapshot()), default=-1)
    return find_timestamp(log, best) if best >= 0 else None
