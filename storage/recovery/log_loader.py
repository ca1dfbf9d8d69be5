"""Opens a partition: builds a `Log` from the files on disk, after a clean shutdown or a crash.

Follows the order of Kafka's LogLoader: complete or undo interrupted swaps (`leftover_files`), load the segments, split
those with too many offsets (`overflow`), and recover the log if the shutdown was not clean (`recovery`). Garbage is
removed with the first change, so that a directory that is opened and not written to stays as it was.

A read-only opening changes nothing. An invalid tail of the log is not visible to readers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from offsetfs.storage import checkpoint, files
from offsetfs.storage.errors import InvalidCheckpoint, StorageError, UnreadableLog
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.partition import cut_tail
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.follower import LogFollower
from offsetfs.storage.partition.log import Damage, Log
from offsetfs.storage.partition.log_end import end_of_chain, readable_end, replicated_end
from offsetfs.storage.partition.log_parts import LogContext, LogParts
from offsetfs.storage.partition.log_state import LogState
from offsetfs.storage.partition.producer_loading import load_producers
from offsetfs.storage.recovery import leftover_files, overflow
from offsetfs.storage.recovery.recovery import OnBytes, Recovery
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.transaction_index import SUFFIX as TRANSACTION_INDEX
from offsetfs.storage.settings.config import LogConfig

_LISTING_RETRIES_MAX = 10
"""The number of retries of a listing if a file disappears meanwhile. A broker needs about a millisecond for a swap."""

_SEGMENTS_CHECKED_MAX = 100
"""The segments that a read-only opening checks for gaps after an unclean shutdown."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The parameters for opening a partition. Offsets come from the directory's checkpoints; 0 without an entry."""

    config: LogConfig
    pool: FilePool[SegmentFiles]
    recovery_point: int = 0
    log_start: Callable[[], int] = lambda: 0
    remote_start: Callable[[int], int | None] = lambda first_offset: None
    """That of `LogParts`."""
    high_watermark: Callable[[], int | None] = lambda: None
    """For readers: the offset at which the log ends because its broker may truncate later records. None means no bound.
    """
    clean: bool = True
    read_only: bool = False
    is_compacted: bool = False
    has_recovery_point: bool = False
    """Whether the checkpoint has a recovery point, even 0. Compaction writes one before it leaves the first gap."""

    unrecovered: Exception | None = None
    """The error of a failed recovery, because of which the log is opened read-only in a directory that is open for
    writing.
    """

    is_brokers: bool = False
    """Whether a broker wrote this log, or the topic's settings are unknown. Then the cause of gaps is unknown as well.
    """
    on_bytes: OnBytes = lambda count: None
    """Called during recovery with the number of bytes verified since the last call."""
    context: LogContext = field(default_factory=LogContext)


@dataclass(frozen=True, slots=True)
class _LoadedSegments:
    """The segments of a log, and its end."""

    segments: Segments
    next_offset: int
    damage: list[Damage] = field(default_factory=list)
    has_transactions: bool = False


_UNFORESEEN_ERRORS = (ArithmeticError, LookupError, ValueError, TypeError, struct.error)
"""The Python exceptions that unforeseen values in a file can raise."""


def open_log(partition: TopicPartition, path: str, options: OpenOptions) -> Log:
    """Open the partition in directory `path`, and recover it if it was not closed cleanly.

    After a clean shutdown this costs a directory listing and a read of the last index interval; otherwise a read of
    everything from the recovery point on. Raises OSError and StorageError for this partition alone, and `UnreadableLog`
    for damage that no check foresaw.
    """
    try:
        return _open(partition, path, options)
    # One damaged partition must not keep the others from being opened: a file called `09223372036854775708.log` once
    # stopped every writer with an OverflowError.
    except _UNFORESEEN_ERRORS as error:
        raise UnreadableLog(f"cannot be opened: {error!r}", path=path) from error


def _open(partition: TopicPartition, path: str, options: OpenOptions) -> Log:
    damage: list[Damage] = []
    epochs = _epochs(path, damage)
    if options.read_only:
        content, context = _read(path, options), options.context
        if options.unrecovered is not None:
            damage.append(Damage(path, 0, content.next_offset, f"read only, not recovered: {options.unrecovered}"))
    else:
        content, context = _load(path, epochs, options)
        # Before: a log that lost its end at a batch boundary assigned the lost offsets again without a report.
        content = _advance_past_used_offsets(content, options)
    first = content.segments.first.base_offset
    state = LogState(
        content.segments,
        log_start_offset=min(max(options.log_start(), first), content.next_offset),
        next_offset=content.next_offset,
        recovery_point=min(options.recovery_point, content.next_offset) if options.read_only else content.next_offset,
    )
    parts = LogParts(
        epochs=epochs,
        load_producers=lambda log, was_cut: load_producers(log, clean=options.clean and not was_cut),
        damage=tuple(damage + content.damage),
        read_only=options.read_only,
        unrecovered=options.unrecovered,
        is_compacted=options.is_compacted,
        remote_start=options.remote_start,
        context=context,
    )
    log = Log(partition, path, options.config, state, parts)
    if options.read_only:
        log.follow(LogFollower(log, options.log_start, high_watermark=options.high_watermark))
    if content.has_transactions:
        log.transactions.rebuild_indexes(options.recovery_point)
    return log


# --- for writing -----------------------------------------------------------------------------------------------------


def _load(path: str, epochs: LeaderEpochCache, options: OpenOptions) -> tuple[_LoadedSegments, LogContext]:
    """Return the content of the log for a writer, and the context of the log."""
    names = files.names(path)
    present = leftover_files.parse_segment_names(names)
    swaps = leftover_files.pending_swaps(path, present)
    # Garbage alone is no change: a directory that is opened and not written to stays as it was (decision 1).
    if swaps.is_swap or not options.clean:
        options.context.before_change()
        leftover_files.finish_swaps(path)
        names = files.names(path)
        present = leftover_files.parse_segment_names(names)
    content = _end_of_clean(path, names, options) if options.clean else None
    if content is None:
        options.context.before_change()
        return _recovered(path, epochs, options, swaps), options.context
    strays = leftover_files.stray_snapshots(present, offset_max=content.next_offset)
    unfinished = [*leftover_files.orphans(present), *leftover_files.unfinished_checkpoints(names)]
    waiting = [os.path.join(path, name) for name in [*swaps.garbage, *unfinished, *strays]]
    before_change = leftover_files.remove_before_first_change(waiting, options.context.before_change)
    return content, replace(options.context, before_change=before_change)


def _end_of_clean(path: str, names: Sequence[str], options: OpenOptions) -> _LoadedSegments | None:
    """Return the content of a cleanly closed log with these files, or None if it does not end with a whole batch."""
    while True:
        segments = _segments(path, names, options)
        end = end_of_chain(segments.active)
        if end is None:
            return None
        overflowed = overflow.find(list(segments), end)
        if overflowed is None:
            return _LoadedSegments(segments, end)
        options.context.before_change()
        leftover_files.remove_garbage(overflow.split(overflowed))
        names = files.names(path)


def _recovered(
    path: str, epochs: LeaderEpochCache, options: OpenOptions, swaps: leftover_files.PendingSwaps
) -> _LoadedSegments:
    garbage = [os.path.join(path, name) for name in swaps.garbage]
    was_split = False
    while True:
        segments = _segments(path, files.names(path), options)
        recovery = Recovery(
            segments,
            epochs,
            options.recovery_point,
            log_start=options.log_start(),
            remote_start=options.remote_start(segments.first.base_offset),
            has_gaps=was_split or _may_have_gaps(segments, options, swaps),
            on_bytes=options.on_bytes,
        )
        recovery.run()
        if not recovery.split:
            break
        was_split = True
        garbage += recovery.split
    options.context.deletions.add(leftover_files.deferred_removal(garbage), options.config.file_delete_delay_ms)
    has_indexes = any(files.exists(segment.path(TRANSACTION_INDEX)) for segment in recovery.segments)
    return _LoadedSegments(
        recovery.segments,
        recovery.next_offset,
        recovery.damage,
        has_transactions=recovery.has_transactions or has_indexes,
    )


def _may_have_gaps(segments: Segments, options: OpenOptions, swaps: leftover_files.PendingSwaps) -> bool:
    """Whether compaction may have left gaps above the recovery point. Ours leaves none there; a broker's may."""
    if options.is_brokers or options.has_recovery_point:
        return options.is_brokers
    return options.is_compacted or swaps.reaches(max(segments.first.base_offset, options.log_start()))


def _segments(path: str, names: Sequence[str], options: OpenOptions) -> Segments:
    parsed = (parse_segment_name(name) for name in names)
    bases = sorted(base for base, suffix in filter(None, parsed) if suffix == ".log")
    if bases:
        return Segments(
            Segment(path, base, options.config, options.pool, clock=options.context.clock) for base in bases
        )
    foreign = [name for name in names if not belongs_to_partition(name)]
    if foreign:  # directories of other programs may be called `name-1` as well
        raise StorageError(f"is not a partition: it holds {foreign[0]!r} and no .log file", path=path)
    options.context.before_change()
    return Segments(
        [Segment.create(path, options.log_start(), options.config, options.pool, clock=options.context.clock)]
    )


def belongs_to_partition(name: str) -> bool:
    """Return whether a file in a partition's directory may belong to the partition, judging by its name."""
    if name.removesuffix(".tmp") in (checkpoint.LEADER_EPOCHS, checkpoint.PARTITION_METADATA):
        return True
    return parse_segment_name(name) is not None


# --- for reading -----------------------------------------------------------------------------------------------------


def _read(path: str, options: OpenOptions) -> _LoadedSegments:
    """Return the content of the log for a reader."""
    # Read before the files: the watermark only rises, so everything below it is on disk when the files are read.
    high_watermark = options.high_watermark()
    segments = _readable_segments(path, options)
    if high_watermark is not None:
        shown = [segment for segment in segments if segment.base_offset <= high_watermark]
        segments = Segments(shown or [segments.first])
    active = segments.active
    size, next_offset, damaged = readable_end(active, options.recovery_point)
    active.end_at(size)
    if high_watermark is not None:
        size, next_offset = replicated_end(active, next_offset, high_watermark, options.log_start())
        active.end_at(size)
    return _LoadedSegments(segments, next_offset, [*_find_gaps(segments, options), *([damaged] if damaged else [])])


def _find_gaps(segments: Segments, options: OpenOptions) -> list[Damage]:
    """Return the gaps between segments above the recovery point, in a log that was not closed cleanly.

    A power cut leaves such a gap if the kernel wrote the newer file first. A writer sets the later segments aside. A
    reader shows them and reports the gap, if a checkpoint of ours says from where on compaction leaves no gaps. Because
    kernels write dirty pages within a minute, only the last segments are checked.
    """
    # Only our own checkpoint proves that a gap above it is a loss; a broker's cleaner leaves gaps anywhere.
    if options.clean or options.is_brokers or not options.has_recovery_point:
        return []
    checked = list(segments.from_floor(options.recovery_point))[-_SEGMENTS_CHECKED_MAX:]
    gaps = []
    for segment, behind in pairwise(checked):
        position, end, _ = readable_end(segment, options.recovery_point)
        if options.recovery_point <= end < behind.base_offset and segment.base_offset >= options.log_start():
            reason = (
                f"offsets {end} to {behind.base_offset - 1} are missing, probably lost in a power cut; "
                "later segments stay readable until a writer opens the directory and sets them aside"
            )
            gaps.append(Damage(segment.log_path, position, end, reason))
    return gaps


def _readable_segments(path: str, options: OpenOptions) -> Segments:
    """Return the segments of the log as if a swap in progress, or one interrupted by a crash, were complete."""
    # A running broker renames between our listing and our stat.
    for looks_left in reversed(range(_LISTING_RETRIES_MAX)):
        try:
            segments = [_readable_segment(path, base, name, options) for base, name in _readable_logs(path).items()]
            break
        except FileNotFoundError:  # a broker's swap is in progress, or the partition was deleted
            if not looks_left:
                raise
    if not segments:
        raise StorageError("holds no .log file: open it for writing once, or remove it", path=path)
    return Segments(segments)


def _readable_logs(path: str) -> dict[int, str]:
    """Return the names of the log files by base offset. A `.swap` file is whole; the file it replaces may be gone."""
    present = leftover_files.parse_segment_names(files.names(path))
    pending = leftover_files.pending_swaps(path, present)
    removed, renamed = set(pending.removed), set(pending.renamed)
    logs = {base: name for name, base, suffix in present if suffix == ".log" and name not in removed}
    swapped = {base: name for name, base, suffix in present if suffix == ".log.swap" and name in renamed}
    return logs | swapped


def _readable_segment(path: str, base: int, name: str, options: OpenOptions) -> Segment:
    log_path = os.path.join(path, name)
    status = files.status(log_path)
    return Segment(
        path,
        base,
        options.config,
        options.pool,
        size=status.st_size,
        read_only=True,
        inode=status.st_ino,
        log_path=log_path,
    )


def _epochs(path: str, damage: list[Damage]) -> LeaderEpochCache:
    file = os.path.join(path, checkpoint.LEADER_EPOCHS)
    try:
        return LeaderEpochCache(file, checkpoint.read_epochs(file))
    except InvalidCheckpoint as error:
        damage.append(Damage(file, 0, 0, f"{error.reason}; leader epochs are taken from the batches"))
        return LeaderEpochCache(file, [])


def _advance_past_used_offsets(content: _LoadedSegments, options: OpenOptions) -> _LoadedSegments:
    """Return the content with an end at or above every offset that was on disk once, so that no offset is reused.

    Kafka restarts at the log start if the log ends below it, and continues at the end if that is below the recovery
    point. A truncation may have cut the batch that contained the requested offset; that is not a loss.
    """
    used_offset = max(options.recovery_point, options.log_start())
    if content.next_offset >= used_offset:
        return content
    active = content.segments.active
    if cut_tail.was_cut(active):
        return replace(content, next_offset=used_offset)
    reason = f"the log ends here, but offsets below {used_offset} were on disk once; appends continue at that offset"
    damage = [*content.damage, Damage(active.log_path, active.size, content.next_offset, reason)]
    return replace(content, next_offset=used_offset, damage=damage)
