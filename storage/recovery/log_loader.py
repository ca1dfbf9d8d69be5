"""Opening a partition: what is on disk becomes a `Log`, after a clean shutdown and after a crash.

Follows Kafka's LogLoader, in its order: swaps that were cut short are finished or undone (`leftover_files`), the
segments are taken in and split where they hold too many offsets (`overflow`), and when the shutdown was not clean the
log is recovered (`recovery`). What is only garbage goes with the first change, so that a directory which is opened and
not written to stays as it was.

Opened for reading, nothing is changed: what is not sound at the end is simply not shown.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from offsetfs.storage import checkpoint, files
from offsetfs.storage.errors import InvalidCheckpoint, StorageError, UnreadableLog
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.partition import cut_tail
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.follower import LogFollower
from offsetfs.storage.partition.log import Damage, Log
from offsetfs.storage.partition.log_context import LogContext
from offsetfs.storage.partition.log_end import end_of_chain, readable_end, replicated_end
from offsetfs.storage.partition.producer_loading import load_producers
from offsetfs.storage.recovery import leftover_files, overflow
from offsetfs.storage.recovery.recovery import OnBytes, Recovery
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.transaction_index import SUFFIX as TRANSACTION_INDEX
from offsetfs.storage.settings.config import LogConfig

_SWAP_LOOKS_MAX = 10
"""How often the files are listed anew when one vanishes meanwhile: a swap takes a broker about a millisecond."""

_SEGMENTS_LOOKED_AT_MAX = 100
"""Of a log that was not closed in order, by a reader."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a partition is to be opened. Offsets come from the checkpoints of its directory; 0 when they say nothing."""

    config: LogConfig
    pool: FilePool[SegmentFiles]
    recovery_point: int = 0
    log_start: Callable[[], int] = lambda: 0
    high_watermark: Callable[[], int | None] = lambda: None
    """For a reader: the offset at which the log ends because its broker may truncate what follows; None: no bound."""
    clean: bool = True
    read_only: bool = False
    is_compacted: bool = False
    has_recovery_point: bool = False
    """Whether the checkpoint says so, be it 0: compaction puts it there before it leaves the first gap."""

    unrecovered: Exception | None = None
    """Why the log is opened for reading although its directory is open for writing: its recovery failed."""

    is_brokers: bool = False
    """Whether a broker wrote here, or the topic's settings are unknown: so are the reasons of gaps between segments."""
    on_bytes: OnBytes = lambda count: None
    """Told, during recovery, how many bytes more were verified."""
    home: LogContext = field(default_factory=LogContext)


@dataclass(frozen=True, slots=True)
class _Content:
    """The segments of a log and where they end."""

    segments: Segments
    next_offset: int
    damage: list[Damage] = field(default_factory=list)
    has_transactions: bool = False


_IMPOSSIBLE = (ArithmeticError, LookupError, ValueError, TypeError, struct.error)
"""What Python raises where numbers or bytes of a file have values that no check foresaw."""


def open_log(partition: TopicPartition, path: str, opening: OpenOptions) -> Log:
    """Open the partition in directory `path`, recovering it when it was not closed cleanly.

    Costs a directory listing and the last index interval after a clean shutdown, else a read of everything from the
    recovery point on. Raises OSError and StorageError for this partition alone, `UnreadableLog` for damage that no
    check foresaw.
    """
    try:
        return _opened(partition, path, opening)
    except _IMPOSSIBLE as error:
        raise UnreadableLog(f"cannot be opened: {error!r}", path=path) from error


def _opened(partition: TopicPartition, path: str, opening: OpenOptions) -> Log:
    damage: list[Damage] = []
    epochs = _epochs(path, damage)
    if opening.read_only:
        content, home = _read(path, opening), opening.home
        if opening.unrecovered is not None:
            damage.append(Damage(path, 0, content.next_offset, f"read only, not recovered: {opening.unrecovered}"))
    else:
        content, home = _load(path, epochs, opening)
        content = _beyond_what_was_given_out(content, opening)
    first = content.segments.first.base_offset
    log = Log(
        partition,
        path,
        opening.config,
        content.segments,
        opening.pool,
        log_start_offset=min(max(opening.log_start(), first), content.next_offset),
        next_offset=content.next_offset,
        recovery_point=min(opening.recovery_point, content.next_offset) if opening.read_only else content.next_offset,
        epochs=epochs,
        load_producers=lambda log, was_cut: load_producers(log, clean=opening.clean and not was_cut),
        damage=tuple(damage + content.damage),
        read_only=opening.read_only,
        unrecovered=opening.unrecovered,
        is_compacted=opening.is_compacted,
        home=home,
    )
    if opening.read_only:
        log.follow(LogFollower(log, opening.log_start, high_watermark=opening.high_watermark))
    if content.has_transactions:
        log.transactions.rebuild_indexes(opening.recovery_point)
    return log


# --- for writing -----------------------------------------------------------------------------------------------------


def _load(path: str, epochs: LeaderEpochCache, opening: OpenOptions) -> tuple[_Content, LogContext]:
    """Return what a writer finds, and the surroundings of its log."""
    present = leftover_files.parse_segment_names(files.names(path))
    swaps = leftover_files.pending_swaps(path, present)
    if swaps.is_swap or not opening.clean:
        opening.home.before_change()
        leftover_files.finish_swaps(path)
        present = leftover_files.parse_segment_names(files.names(path))
    content = _end_of_clean(path, opening) if opening.clean else None
    if content is None:
        opening.home.before_change()
        return _recovered(path, epochs, opening, swaps), opening.home
    strays = leftover_files.stray_snapshots(present, offset_max=content.next_offset)
    waiting = [os.path.join(path, name) for name in [*swaps.garbage, *leftover_files.orphans(present), *strays]]
    before_change = leftover_files.remove_before_first_change(waiting, opening.home.before_change)
    return content, replace(opening.home, before_change=before_change)


def _end_of_clean(path: str, opening: OpenOptions) -> _Content | None:
    """Return a log that was closed cleanly; None when it does not end with a whole batch all the same."""
    while True:
        segments = _segments(path, opening)
        end = end_of_chain(segments.active)
        if end is None:
            return None
        overflowed = overflow.find(segments.values(), end)
        if overflowed is None:
            return _Content(segments, end)
        opening.home.before_change()
        leftover_files.remove_garbage(overflow.split(overflowed))


def _recovered(
    path: str, epochs: LeaderEpochCache, opening: OpenOptions, swaps: leftover_files.PendingSwaps
) -> _Content:
    garbage = [os.path.join(path, name) for name in swaps.garbage]
    was_split = False
    while True:
        segments = _segments(path, opening)
        recovery = Recovery(
            segments,
            epochs,
            opening.recovery_point,
            log_start=opening.log_start(),
            has_gaps=was_split or _may_have_gaps(segments, opening, swaps),
            on_bytes=opening.on_bytes,
        )
        recovery.run()
        if not recovery.split:
            break
        was_split = True
        garbage += recovery.split
    opening.home.deletions.add(leftover_files.deferred_removal(garbage), opening.config.file_delete_delay_ms)
    has_indexes = any(files.exists(segment.path(TRANSACTION_INDEX)) for segment in recovery.segments)
    return _Content(
        recovery.segments,
        recovery.next_offset,
        recovery.damage,
        has_transactions=recovery.has_transactions or has_indexes,
    )


def _may_have_gaps(segments: Segments, opening: OpenOptions, swaps: leftover_files.PendingSwaps) -> bool:
    """Whether compaction may have left gaps behind the recovery point. Ours leaves none there; a broker's may."""
    if opening.is_brokers or opening.has_recovery_point:
        return opening.is_brokers
    return opening.is_compacted or swaps.reach(max(segments.first.base_offset, opening.log_start()))


def _segments(path: str, opening: OpenOptions) -> Segments:
    names = files.names(path)
    parsed = (parse_segment_name(name) for name in names)
    bases = sorted(base for base, suffix in filter(None, parsed) if suffix == ".log")
    if bases:
        return Segments(Segment(path, base, opening.config, opening.pool, clock=opening.home.clock) for base in bases)
    foreign = [name for name in names if not belongs_to_partition(name)]
    if foreign:  # many a directory elsewhere is called `name-1`
        raise StorageError(f"is no partition: it holds {foreign[0]!r} and no .log file", path=path)
    opening.home.before_change()
    return Segments([Segment.create(path, opening.log_start(), opening.config, opening.pool, clock=opening.home.clock)])


def belongs_to_partition(name: str) -> bool:
    """Whether a file in a partition's directory may be one of the partition's, by its name."""
    if name.removesuffix(".tmp") in (checkpoint.LEADER_EPOCHS, checkpoint.PARTITION_METADATA):
        return True
    return parse_segment_name(name) is not None


# --- for reading -----------------------------------------------------------------------------------------------------


def _read(path: str, opening: OpenOptions) -> _Content:
    """Return what a reader is shown."""
    high_watermark = opening.high_watermark()
    segments = _readable_segments(path, opening)
    if high_watermark is not None:
        shown = [segment for segment in segments if segment.base_offset <= high_watermark]
        segments = Segments(shown or [segments.first])
    active = segments.active
    size, next_offset, damaged = readable_end(active, opening.recovery_point)
    if high_watermark is not None:
        size, next_offset = replicated_end(active, (size, next_offset), high_watermark, opening.log_start())
    active.size = size
    return _Content(segments, next_offset, [*_holes(segments, opening), *([damaged] if damaged else [])])


def _holes(segments: Segments, opening: OpenOptions) -> list[Damage]:
    """Return where a segment beyond the recovery point ends before the next one begins, in a log not closed in order.

    A power cut leaves that: the kernel wrote the newer file first. A writer sets aside what follows; a reader shows
    it, and says so, where a checkpoint of ours tells from where on compaction leaves no gaps. Kernels write everything
    within a minute, so no more than the last segments are looked at.
    """
    if opening.clean or opening.is_brokers or not opening.has_recovery_point:
        return []
    looked_at = list(segments.from_floor(opening.recovery_point))[-_SEGMENTS_LOOKED_AT_MAX:]
    found = []
    for segment, behind in pairwise(looked_at):
        position, end, _ = readable_end(segment, opening.recovery_point)
        if opening.recovery_point <= end < behind.base_offset and segment.base_offset >= opening.log_start():
            reason = (
                f"offsets {end} to {behind.base_offset - 1} are missing, as a power cut may leave it; "
                "the segments behind are shown until a writer opens the directory, who sets them aside"
            )
            found.append(Damage(segment.log_path, position, end, reason))
    return found


def _readable_segments(path: str, opening: OpenOptions) -> Segments:
    """Return the segments that there would be, were a swap finished that is under way or was cut short by a crash."""
    for looks_left in reversed(range(_SWAP_LOOKS_MAX)):
        try:
            segments = [_readable_segment(path, base, name, opening) for base, name in _readable_logs(path).items()]
            break
        except FileNotFoundError:  # a broker swaps just now, or the partition is gone
            if not looks_left:
                raise
    if not segments:
        raise StorageError("holds no .log file: open it for writing once, or remove it", path=path)
    return Segments(segments)


def _readable_logs(path: str) -> dict[int, str]:
    """Return the names of the log files by base offset. A `.swap` file is whole, and the old one may be gone."""
    present = leftover_files.parse_segment_names(files.names(path))
    pending = leftover_files.pending_swaps(path, present)
    removed, renamed = set(pending.removed), set(pending.renamed)
    logs = {base: name for name, base, suffix in present if suffix == ".log" and name not in removed}
    swapped = {base: name for name, base, suffix in present if suffix == ".log.swap" and name in renamed}
    return logs | swapped


def _readable_segment(path: str, base: int, name: str, opening: OpenOptions) -> Segment:
    status = files.status(os.path.join(path, name))
    segment = Segment(
        path, base, opening.config, opening.pool, size=status.st_size, read_only=True, inode=status.st_ino
    )
    segment.log_path = os.path.join(path, name)
    return segment


def _epochs(path: str, damage: list[Damage]) -> LeaderEpochCache:
    file = os.path.join(path, checkpoint.LEADER_EPOCHS)
    try:
        return LeaderEpochCache(file, checkpoint.read_epochs(file))
    except InvalidCheckpoint as error:
        damage.append(Damage(file, 0, 0, f"{error.reason}; leader epochs are taken from the batches"))
        return LeaderEpochCache(file, [])


def _beyond_what_was_given_out(content: _Content, opening: OpenOptions) -> _Content:
    """Let a log that lost its end go on behind the offsets that were on disk once, so that none is given out again.

    Kafka begins anew at the log start where the log ends below it, and goes on at the end where that lies below the
    recovery point. A truncation may have cut the batch that held the offset to which it was asked to: that is no loss.
    """
    given_out = max(opening.recovery_point, opening.log_start())
    if content.next_offset >= given_out:
        return content
    active = content.segments.active
    if cut_tail.was_cut(active):
        return replace(content, next_offset=given_out)
    reason = f"the log ends here, but offsets below {given_out} were on disk once; it goes on with that one"
    damage = [*content.damage, Damage(active.log_path, active.size, content.next_offset, reason)]
    return replace(content, next_offset=given_out, damage=damage)
