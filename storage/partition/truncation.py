"""Cutting the end off a log, or emptying it: the records from an offset on are no more.

    truncate_to(55)       0.log  40.log        60.log  80.log
                          stay   cut at 50     → .deleted            the batch of 50 to 59 goes as a whole

Batches are never split: the one that holds the offset goes as a whole, and the log ends at the offset all the same: it
goes on in a segment of that name, so that recovery can tell what was appended there from what was on disk before.
What is cut is not lost at once: whole segments wait as `.deleted` for `file.delete.delay.ms`; the tail of a segment
that stays is copied beside the log first, as `<base offset>.cut-<position>`, a name that Kafka ignores, and stays.

Offsets that were on disk once are given out again: whoever asks for a truncation wants that. Epochs, producer states,
indexes, recovery point and the cleaner's checkpoint are cut with the log. A crash in between leaves the old log, the
new one, or one that ends between the two ends: the latest segment goes first, each on disk before the next. Follows
Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt and LogManager.truncateTo.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, OffsetOutOfRange
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name, segment_name
from offsetfs.storage.partition import cut_tail, log_end
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.segments.transaction_index import SUFFIX, TransactionIndex

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log


def truncate_to(log: Log, offset: int) -> bool:
    """Cut the records from `offset` on; return whether there were any. On disk after return.

    Where the log begins above `offset` it is emptied and begins anew there. Raises `OffsetOutOfRange` below 0,
    `ReadOnlyLog`, `LogFenced`; OSError before anything was cut (a full disk), or the log is fenced.
    """
    if offset < 0:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    log.flush()  # so that the recovery point is true: recovery takes a gap beyond it for a loss
    with log.changing():
        if offset >= log.next_offset:
            log.epochs.truncate_from_end(offset, next_offset=log.next_offset)
            return False
        if offset < log.snapshot().first.base_offset:
            _empty(log, offset)
        else:
            _cut(log, offset)
    return True


def truncate_fully(log: Log, offset: int) -> None:
    """Empty the log, which begins and goes on at `offset`. On disk after return; raises as `truncate_to`."""
    if offset < 0:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    with log.changing():
        _empty(log, offset)


def _cut(log: Log, offset: int) -> None:
    segments = log.snapshot()
    last = segments.floor(offset)
    assert last is not None
    position = last.position_of(offset)
    if position < last.size:
        cut_tail.keep(last, position)
    log.context.cut_checkpoints(offset, last.base_offset)
    later = [segment for segment in segments if segment.base_offset > last.base_offset]
    with log.fencing():
        segments.active.deactivate()
        _take_out(log, later)
        _remove_snapshots(log.path, offset + 1)
        cut = _cut_segment(last, position, offset)
        _cut_epochs(log, cut_from=offset, next_offset=offset)
        left = segments.without(later).plus(cut)
        log.end_at(offset, left if log_end.end_of_chain(cut) == offset else left.plus(_begin(log, offset)))


def _empty(log: Log, offset: int) -> None:
    segments = log.snapshot()
    with log.fencing():
        segments.active.deactivate()
        _take_out(log, segments.values())
        _remove_snapshots(log.path, 0)
        _cut_epochs(log, cut_from=0, next_offset=offset)
        log.context.restart_checkpoints(offset)
        log.end_at(offset, Segments([_begin(log, offset)]))


def _begin(log: Log, offset: int) -> Segment:
    """Make an empty segment from `offset` on. On disk after return."""
    segment = Segment.create(log.path, offset, log.config, log.snapshot().active.pool, clock=log.clock)
    files.sync_directory(log.path)
    return segment


def _cut_epochs(log: Log, *, cut_from: int, next_offset: int) -> None:
    log.epochs.truncate_from_end(cut_from, next_offset=next_offset)


def _take_out(log: Log, segments: Sequence[Segment]) -> None:
    """Rename segments to `.deleted`, the latest first: a crash leaves no hole in the log."""
    for segment in reversed(segments):
        segment_names.remove_from_log(segment)
        files.sync_directory(log.path)
    segment_names.unlink_later(segments, log.context.deletions, log.config.file_delete_delay_ms)


def _cut_segment(segment: Segment, position: int, offset: int) -> Segment:
    """Cut a segment at a byte and its indexes at an offset; return it as it is now. On disk after return.

    It becomes another object: who holds the old one has bytes in mind that are gone.
    """
    with segment.names_lock:
        segment.read_only = True  # a reader that finds its indexes wrong writes none in the place of the new ones
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
            continue  # made anew when it is asked for
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
        files.remove_file(path)  # the log itself tells
        return
    kept = [entry for entry in entries if entry.last_offset < offset]
    if len(kept) < len(entries):
        files.replace_file(path, b"".join(entry.pack() for entry in kept))


def _remove_snapshots(path: str, offset_min: int) -> None:
    """Remove producer states of a future that is no more."""
    for name in files.names(path):
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[1] == ".snapshot" and parsed[0] >= offset_min:
            files.remove_file(os.path.join(path, segment_name(parsed[0], ".snapshot")))
