"""Truncates a log, or empties it: removes the records from an offset on.

    truncate_to(55)       0.log  40.log        60.log  80.log
                          stay   cut at 50     → .deleted            the batch of 50 to 59 is removed as a whole

Batches are never split: the one that contains the offset is removed as a whole. The log still ends at the offset: it
continues in a new segment with that base offset, so that recovery can tell later appends from records that were on disk
before. Truncated records are not lost at once: whole segments wait as `.deleted` for `file.delete.delay.ms`. The tail
of a segment that stays is first copied to `<base offset>.cut-<position>`, a name that Kafka ignores, and kept.

A truncation assigns offsets again on purpose. Epochs, producer states, indexes, recovery point and the cleaner's
checkpoint are truncated with the log. A crash in between leaves the old log, the new one, or one with an end between
the two, because the latest segment is removed first, each durably before the next. Follows Kafka's
UnifiedLog.truncateTo, truncateFullyAndStartAt and LogManager.truncateTo.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, OffsetOutOfRange, PolicyViolation, StorageError
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name, segment_name
from offsetfs.storage.partition import cut_tail, log_end
from offsetfs.storage.partition.log_interfaces import ChangeableLog
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.segments.transaction_index import SUFFIX, TransactionIndex


def truncate_to(log: ChangeableLog, offset: int) -> bool:
    """Truncate the records from `offset` on; return whether there were any. Durable on return.

    If the log begins above `offset`, it is emptied and begins there. Raises `OffsetOutOfRange` below 0, `ReadOnlyLog`,
    `LogFailed`; OSError before anything was cut (a full disk); later errors end writing to the log.
    """
    if offset < 0:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    log.flush()  # makes the recovery point correct: recovery takes a gap above it for a loss
    with log.changing():
        if offset >= log.next_offset:
            log.epochs.truncate_from_end(offset, next_offset=log.next_offset)
            return False
        if offset < log.snapshot().first.base_offset:
            _check_empties(log)
            _empty(log, offset)
        else:
            _cut(log, offset)
    return True


def truncate_fully(log: ChangeableLog, offset: int) -> None:
    """Empty the log; it begins and continues at `offset`. Durable on return; raises as `truncate_to`."""
    if offset < 0:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    with log.changing():
        _check_empties(log)
        _empty(log, offset)


def _check_empties(log: ChangeableLog) -> None:
    if log.remote_start_offset is not None:
        raise PolicyViolation("its broker has records of it in remote storage: truncate it there", path=log.path)


def _cut(log: ChangeableLog, offset: int) -> None:
    segments = log.snapshot()
    last = segments.floor(offset)
    assert last is not None
    position = _position_of(last, offset)
    if position < last.size:
        cut_tail.keep(last, position)
    # Before any file is changed: after a failed truncation, a later checkpoint once wrote a recovery point beyond the
    # cut, and the log continued behind a hole.
    log.context.cut_checkpoints(offset, last.base_offset)
    later = [segment for segment in segments if segment.base_offset > last.base_offset]
    with log.fail_on_error():
        segments.active.deactivate()
        _take_out(log, later)
        _remove_snapshots(log.path, offset + 1)
        cut = _cut_segment(last, position, offset)
        _cut_epochs(log, cut_from=offset, next_offset=offset)
        # A cut inside a batch ends in a new segment at `offset`. Otherwise recovery would take what is appended there,
        # and lost in a power cut, for damage below the recovery point.
        left = segments.without(later).plus(cut)
        if log_end.end_of_chain(cut) != offset:
            left = left.plus(_begin(log, offset))
        log.publish_truncated(log.state.truncated_to(offset, left))


def _position_of(segment: Segment, offset: int) -> int:
    """Return the position of the first batch that ends at `offset` or above, or that of damage that may hold it."""
    damaged: list[int] = []

    def note(error: StorageError) -> None:
        damaged.append(error.position or 0)

    start = segment.reading_position(offset)
    with files.opened(segment.log_path) as log:
        for position, header, _ in batch_chain.walk(log, start, segment.size, on_damage=note):
            if header.last_offset >= offset:
                return damaged[0] if damaged and header.base_offset > offset else position
            damaged.clear()
    return damaged[0] if damaged else segment.size


def _empty(log: ChangeableLog, offset: int) -> None:
    segments = log.snapshot()
    with log.fail_on_error():
        segments.active.deactivate()
        _take_out(log, segments.values())
        _remove_snapshots(log.path, 0)
        # The latest epoch stays with the empty log: a log that lost it stamped later batches with an older epoch.
        _cut_epochs(log, cut_from=0, next_offset=offset)
        log.context.restart_checkpoints(offset)
        log.publish_truncated(log.state.truncated_to(offset, Segments([_begin(log, offset)])))


def _begin(log: ChangeableLog, offset: int) -> Segment:
    """Create an empty segment at `offset`. Durable on return."""
    segment = Segment.create(log.path, offset, log.config, log.snapshot().active.pool, clock=log.clock)
    files.sync_directory(log.path)
    return segment


def _cut_epochs(log: ChangeableLog, *, cut_from: int, next_offset: int) -> None:
    log.epochs.truncate_from_end(cut_from, next_offset=next_offset)


def _take_out(log: ChangeableLog, segments: Sequence[Segment]) -> None:
    """Rename segments to `.deleted`, the latest first, so that a crash leaves no gap in the log."""
    for segment in reversed(segments):
        segment_names.remove_from_log(segment)
        files.sync_directory(log.path)
    segment_names.unlink_later(segments, log.context.deletions, log.config.file_delete_delay_ms)


def _cut_segment(segment: Segment, position: int, offset: int) -> Segment:
    """Truncate a segment at a byte and its indexes at an offset; return the new object. Durable on return.

    It is another object, because readers of the old one use positions that are gone.
    """
    with segment.names_lock:
        segment.make_read_only()  # readers of the old object must not replace the new indexes
    _cut_index_files(segment, offset)
    with files.opened(segment.log_path, writable=True) as log:
        log.truncate(position)
        log.sync()
    segment.pool.drop(segment)
    files.sync_directory(segment.directory)
    return Segment(
        segment.directory,
        segment.base_offset,
        segment.config,
        segment.pool,
        size=position,
        inode=segment.inode,
        clock=segment.clock,
    )


def _cut_index_files(segment: Segment, offset: int) -> None:
    limit = segment.config.segment_index_bytes
    kinds: tuple[tuple[type[OffsetIndex] | type[TimeIndex], str], ...] = (
        (OffsetIndex, ".index"),
        (TimeIndex, ".timeindex"),
    )
    for kind, suffix in kinds:
        path = segment.path(suffix)
        try:
            index = kind.open(path, segment.base_offset, bytes_max=limit, writable=True)
        except FileNotFoundError:
            continue  # rebuilt on demand
        except CorruptIndex:
            files.remove_file(path)
            continue
        index.truncate_to(offset)
        index.trim()
        index.flush()
        index.close()
    _cut_transaction_index(segment, offset)
    for suffix in MAP_SUFFIXES:
        if files.exists(segment.path(suffix)):
            files.remove_file(segment.path(suffix))


def _cut_transaction_index(segment: Segment, offset: int) -> None:
    path = segment.path(SUFFIX)
    try:
        entries = TransactionIndex.read(path, segment.base_offset).entries
    except FileNotFoundError:
        return
    except CorruptIndex:
        files.remove_file(path)  # rebuilt from the log on demand
        return
    kept = [entry for entry in entries if entry.last_offset < offset]
    if len(kept) < len(entries):
        files.replace_file(path, b"".join(entry.pack() for entry in kept))


def _remove_snapshots(path: str, offset_min: int) -> None:
    """Remove producer snapshots above the new end."""
    for name in files.names(path):
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[1] == ".snapshot" and parsed[0] >= offset_min:
            files.remove_file(os.path.join(path, segment_name(parsed[0], ".snapshot")))
