"""Opening a partition: what is on disk becomes a `Log`, after a clean shutdown and after a crash.

Follows Kafka's LogLoader: left-over suffixes first, then the segments, then recovery when the shutdown was not clean.
Opened for reading, nothing is changed: what is not sound at the end is simply not shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from offsetfs.storage import batch_chain, checkpoint, files
from offsetfs.storage.config import LogConfig
from offsetfs.storage.epochs import LeaderEpochCache
from offsetfs.storage.errors import InvalidCheckpoint, StorageError
from offsetfs.storage.follower import Follower
from offsetfs.storage.log import Damage, Log
from offsetfs.storage.log_home import LogHome
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.open_files import Pool
from offsetfs.storage.producer_loading import load_producers
from offsetfs.storage.recovery import Recovery, end_of_chain, readable_end
from offsetfs.storage.segment import Segment, SegmentFiles
from offsetfs.storage.segments import Segments

_SWAP_LOOKS_MAX = 10
"""How often the files are listed anew when one vanishes meanwhile: a swap takes a broker about a millisecond."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a partition is to be opened. Offsets come from the checkpoints of its directory; 0 when they say nothing."""

    config: LogConfig
    pool: Pool[SegmentFiles]
    recovery_point: int = 0
    log_start: Callable[[], int] = lambda: 0
    clean: bool = True
    read_only: bool = False
    is_compacted: bool = False
    home: LogHome = field(default_factory=LogHome)


@dataclass(frozen=True, slots=True)
class _Content:
    """The segments of a log and where they end."""

    segments: Segments
    next_offset: int
    damage: list[Damage]
    was_recovered: bool = False


def open_log(partition: TopicPartition, path: str, opening: Opening) -> Log:
    """Open the partition in directory `path`, recovering it when it was not closed cleanly.

    Costs a directory listing and the last index interval after a clean shutdown, else a read of everything from the
    recovery point on. Raises OSError and StorageError for this partition alone.
    """
    swaps = finish_swaps(path) if not opening.read_only and not opening.clean else PendingSwaps([], [])
    damage: list[Damage] = []
    epochs = _epochs(path, damage)
    segments = _segments(path, opening)
    has_gaps = opening.is_compacted or swaps.reach(segments.first.base_offset)
    content = _content(segments, epochs, opening, has_gaps=has_gaps)
    if not opening.read_only:
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
        is_compacted=opening.is_compacted,
        home=opening.home,
    )
    if opening.read_only:
        log.follow(Follower(log, opening.log_start))
    if content.was_recovered:
        log.transactions.rebuild_indexes(opening.recovery_point)
    return log


def _segments(path: str, opening: Opening) -> Segments:
    if opening.read_only:
        return _readable_segments(path, opening)
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


def _readable_segments(path: str, opening: Opening) -> Segments:
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
    names = files.names(path)
    pending = pending_swaps(path, names)
    parsed = [(name, each) for name in names if (each := parse_segment_name(name)) is not None]
    logs = {int(base): name for name, (base, suffix) in parsed if suffix == ".log" and name not in pending.removed}
    swapped = {int(base): name for name, (base, suffix) in parsed if suffix == ".log.swap" and name in pending.renamed}
    return logs | swapped


def _readable_segment(path: str, base: int, name: str, opening: Opening) -> Segment:
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


def _content(segments: Segments, epochs: LeaderEpochCache, opening: Opening, *, has_gaps: bool) -> _Content:
    active = segments.active
    if opening.read_only:
        active.size, next_offset, damaged = readable_end(active, opening.recovery_point if opening.clean else 0)
        return _Content(segments, next_offset, [damaged] if damaged else [])
    if opening.clean:
        end = end_of_chain(active)
        if end is not None:
            return _Content(segments, end, [])
    opening.home.before_change()
    recovery = Recovery(segments, epochs, opening.recovery_point, has_gaps=has_gaps)
    recovery.run()
    return _Content(recovery.segments, recovery.next_offset, recovery.damage, was_recovered=True)


def _beyond_what_was_given_out(content: _Content, opening: Opening) -> _Content:
    """Let a log that lost its end go on behind the offsets that were on disk once, so that none is given out again.

    Kafka begins anew at the log start where the log ends below it, and goes on at the end where that lies below the
    recovery point.
    """
    given_out = max(opening.recovery_point, opening.log_start())
    if content.next_offset >= given_out:
        return content
    active = content.segments.active
    reason = f"the log ends here, but offsets below {given_out} were on disk once; it goes on with that one"
    damage = [*content.damage, Damage(active.log_path, active.size, content.next_offset, reason)]
    return replace(content, next_offset=given_out, damage=damage)


@dataclass(frozen=True, slots=True)
class PendingSwaps:
    """What a compaction or a split left half done: names that go, and names that lose the suffix `.swap`."""

    removed: list[str]
    renamed: list[str]

    def reach(self, offset: int) -> bool:
        """Whether any of it lies at `offset` or above; what retention left to be removed lies below a log's first."""
        parsed = (parse_segment_name(name) for name in self.removed + self.renamed)
        return any(base >= offset for base, _ in filter(None, parsed))


def pending_swaps(path: str, names: Sequence[str] | None = None) -> PendingSwaps:
    """Return what `finish_swaps` would do (LogLoader, its first four steps); changes nothing.

    `.deleted` and `.cleaned` files go. A `.swap` at or above the lowest `.cleaned` offset goes too; the others replace
    every file in their offset range and lose the suffix.
    """
    names = files.names(path) if names is None else names
    parsed = [(name, p) for name in names if (p := parse_segment_name(name)) is not None]
    cleaned_min = min((base for _, (base, suffix) in parsed if suffix.endswith(".cleaned")), default=None)
    removed, swaps = [], []
    for name, (base, suffix) in parsed:
        undone = suffix.endswith(".swap") and cleaned_min is not None and base >= cleaned_min
        if suffix.endswith((".deleted", ".cleaned")) or undone:
            removed.append(name)
        elif suffix.endswith(".swap"):
            swaps.append((name, base, suffix))
    logs = [(name, base) for name, base, suffix in swaps if suffix == ".log.swap"]
    if logs:
        low, high = min(base for _, base in logs), max(_next_offset_of(path, name, base) for name, base in logs)
        for name, (base, suffix) in parsed:
            if low <= base < high and not suffix.endswith((".swap", ".deleted", ".cleaned")):
                removed.append(name)
    return PendingSwaps(removed, [name for name, _, _ in swaps])


def finish_swaps(path: str) -> PendingSwaps:
    """Finish or undo what a compaction or a split left half done, and return what that was."""
    pending = pending_swaps(path)
    for name in pending.removed:
        files.remove_file(os.path.join(path, name))
    for name in pending.renamed:
        files.rename(os.path.join(path, name), os.path.join(path, name.removesuffix(".swap")))
    if pending.renamed:
        files.sync_directory(path)
    return pending


def _next_offset_of(path: str, name: str, base: int) -> int:
    with files.opened(os.path.join(path, name)) as log:
        chain = batch_chain.headers(log, 0, log.size())
        return max((header.next_offset for _, header, _ in chain), default=base)
