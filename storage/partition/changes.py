"""Changes of an open log: a roll, deleted records, replaced segments, a truncation. `Log` locks itself for each.

    roll             the next segment is created, completely or not at all            LocalLog.roll
    deleted records  the log start rises; the files stay                              UnifiedLog.deleteRecords
    replacement      rewritten segments take the place of others (compaction, split)  LocalLog.replaceSegments
    truncation       the records from an offset on are removed                        UnifiedLog.truncateTo

A truncation removes whole batches, also the one that contains the offset:

    truncate_to(55)       0.log  40.log        60.log  80.log
                          stay   cut at 50     → .deleted            the batch of 50 to 59 is removed as a whole

The log still ends at the offset: it continues in a new segment with that base offset, so that recovery can tell later
appends from records that were on disk before. Truncated records are not lost at once: whole segments wait as `.deleted`
for `file.delete.delay.ms`. The tail of a segment that stays is first copied to `<base offset>.cut-<position>`, a name
that Kafka ignores, and kept.

A truncation assigns offsets again on purpose. Epochs, producer states, indexes, recovery point and the cleaner's
checkpoint are truncated with the log. A crash in between leaves the old log, the new one, or one with an end between
the two, because the latest segment is removed first, each durably before the next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, PolicyViolation, SegmentsChanged, StorageError
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name, segment_name
from offsetfs.storage.partition import cut_tail, log_end, swap
from offsetfs.storage.partition.log_producers import LogProducers
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.segments import segment_files, segment_names
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import LIVE
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.segments.transaction_index import SUFFIX, TransactionIndex

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

# --- a roll ----------------------------------------------------------------------------------------------------------


def begin_segment(log: Log, producers: LogProducers) -> Segment:
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
            # Otherwise a power cut could restore the name, and hide records appended to the old segment.
            files.sync_directory(log.path)
        raise
    return new


def sync_before(log: Log, segment: Segment) -> None:
    """Sync a segment before the next one is created.

    Recovery takes a gap between two segments for a lost end, and cuts there. In a compacted log, where gaps are normal,
    it could not detect a lost end, so none may occur.
    """
    with log.fail_on_error():
        segment.sync()
        files.sync_directory(log.path)


# --- deleted records -------------------------------------------------------------------------------------------------


def raise_log_start(log: Log, start: int) -> None:
    """Raise the log start to `start`, which is at most the log end; durable on return.

    The records below it are synced first, so that records that are deleted after a crash existed on disk.
    """
    # Otherwise a crash could leave a log start above the end of the log.
    if start > log.recovery_point:
        log.flush()
    log.context.before_change()
    # On disk before it takes effect: after a kill a reader could see the new start, and a power cut would let it fall
    # back.
    log.context.save_log_start(start)
    log.raise_log_start(start)


# --- replaced segments -----------------------------------------------------------------------------------------------


def replace_segments(log: Log, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    """Replace the sealed segments `old` by `new`; durable on return.

    The files of `new` are called `.cleaned`, durable with their names, and are live on return. Those of `old` are
    `.deleted`, and unlinked after `file.delete.delay.ms`. `SegmentsChanged` if one of `old` has left the log or become
    its active segment: then nothing was changed. After an OSError, either the log is unchanged and the `.cleaned` files
    are gone, as on a full disk, or it has failed and the next opening completes or undoes the swap.
    """
    assert new and old
    with log.changing():
        segments = log.snapshot()
        # The rewriting took place without a lock, so retention or a truncation may have changed the log since.
        if any(segments.floor(segment.base_offset) is not segment or segment is segments.active for segment in old):
            raise SegmentsChanged("a segment was removed or truncated meanwhile", path=log.path)
        swap.prepare(log.path, [segment.base_offset for segment in new])
        _swap(log, new, old)
        log.publish(log.state.with_segments(Segments([*segments.without(old), *new])))
    segment_names.unlink_later(old, log.context.deletions, log.config.file_delete_delay_ms)


def _swap(log: Log, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    bases, renames = [segment.base_offset for segment in new], swap.Renames()
    with segment_names.following_removal(old):
        try:
            swap.retire(log.path, bases, [segment.base_offset for segment in old], renames)
            swap.install(log.path, bases, renames)
        except OSError as error:
            with log.fail_on_error():
                swap.undo(log.path, bases, renames, error)
            raise
    for segment in new:
        segment.follow_rename(LIVE)
        segment.pool.drop(segment)  # its open files have the old paths, which error messages would show


# --- a truncation ----------------------------------------------------------------------------------------------------


def cut(log: Log, offset: int) -> None:
    """Truncate the records from `offset` on: some are in a segment that begins at or below it. The log is locked."""
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
        log.epochs.truncate_from_end(offset, next_offset=offset)
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
    with files.open_file(segment.log_path) as log:
        for position, header, _ in batch_chain.walk(log, start, segment.size, on_damage=note):
            if header.last_offset >= offset:
                return damaged[0] if damaged and header.base_offset > offset else position
            damaged.clear()
    return damaged[0] if damaged else segment.size


def empty(log: Log, offset: int) -> None:
    """Empty the log, which begins and continues at `offset`; `PolicyViolation` for remote storage. It is locked."""
    if log.remote_start_offset is not None:
        raise PolicyViolation("its broker has records of it in remote storage: truncate it there", path=log.path)
    segments = log.snapshot()
    with log.fail_on_error():
        segments.active.deactivate()
        _take_out(log, list(segments))
        _remove_snapshots(log.path, 0)
        # The latest epoch stays with the empty log: a log that lost it stamped later batches with an older epoch.
        log.epochs.truncate_from_end(0, next_offset=offset)
        log.context.restart_checkpoints(offset)
        log.publish_truncated(log.state.truncated_to(offset, Segments([_begin(log, offset)])))


def _begin(log: Log, offset: int) -> Segment:
    """Create an empty segment at `offset`. Durable on return."""
    segment = Segment.create(log.path, offset, log.config, log.snapshot().active.pool, clock=log.clock)
    files.sync_directory(log.path)
    return segment


def _take_out(log: Log, segments: Sequence[Segment]) -> None:
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
    with files.open_file(segment.log_path, writable=True) as log:
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
        index.sync()
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
