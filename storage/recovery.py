"""Opening a partition: what is on disk becomes a `Log`, after a clean shutdown and after a crash.

Follows Kafka's LogLoader. After an unclean shutdown the segments from the recovery point on are read whole: checksums
verified, indexes made anew, and the log cut at the first batch that is not sound. Two rules are stricter than Kafka's:

* only what lies beyond the recovery point is ever cut. Damage before it was once on disk; it is reported, stepped
  over, and stays where it is;
* what is cut is kept beside the log, as `<base offset>.cut-<position>`, a name that Kafka ignores.

Opened for reading, nothing is changed: what is not sound at the end is simply not shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.storage import batch_chain, checkpoint, files, segment_indexes
from offsetfs.storage.config import LogConfig
from offsetfs.storage.epochs import LeaderEpochCache
from offsetfs.storage.errors import InvalidCheckpoint, InvalidSnapshot, MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.log import Damage, Log
from offsetfs.storage.names import TopicPartition, parse_segment_name, segment_name
from offsetfs.storage.open_files import Pool
from offsetfs.storage.producers import ProducerState
from offsetfs.storage.segment import Segment, SegmentFiles
from offsetfs.storage.segments import Segments

EPOCHS_FILE = "leader-epoch-checkpoint"
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Opening:
    """How a partition is to be opened. Offsets come from the checkpoints of its directory; 0 when they say nothing."""

    config: LogConfig
    pool: Pool[SegmentFiles]
    recovery_point: int = 0
    log_start_offset: int = 0
    clean: bool = True
    read_only: bool = False
    before_change: Callable[[], None] = lambda: None


@dataclass(slots=True)
class _Found:
    """What a walk over the last segments came to."""

    next_offset: int
    damage: list[Damage] = field(default_factory=list)


def open_log(partition: TopicPartition, path: str, opening: Opening) -> Log:
    """Open the partition in directory `path`, recovering it when it was not closed cleanly.

    Costs a directory listing and the last index interval after a clean shutdown, else a read of everything from the
    recovery point on. Raises OSError and StorageError for this partition alone.
    """
    if not opening.read_only and not opening.clean:
        finish_swaps(path)
    segments = _segments(path, opening)
    damage: list[Damage] = []
    epochs = _epochs(path, damage)
    if opening.read_only:
        found = _look(segments, opening)
    else:
        found = _recover(segments, epochs, opening)
    damage += found.damage
    return Log(
        partition,
        path,
        opening.config,
        segments,
        opening.pool,
        log_start_offset=min(max(opening.log_start_offset, segments.first.base_offset), found.next_offset),
        next_offset=found.next_offset,
        recovery_point=found.next_offset if opening.clean else min(opening.recovery_point, found.next_offset),
        epochs=epochs,
        load_producers=lambda log: load_producers(log, clean=opening.clean),
        damage=tuple(damage),
        read_only=opening.read_only,
        before_change=opening.before_change,
    )


# --- what is there ---------------------------------------------------------------------------------------------------


def _segments(path: str, opening: Opening) -> Segments:
    parsed = (parse_segment_name(name) for name in files.names(path))
    bases = sorted(base for base, suffix in filter(None, parsed) if suffix == ".log")
    if not bases:
        if opening.read_only:
            raise StorageError("holds no .log file: open it for writing once, or remove it", path=path)
        opening.before_change()
        return Segments([Segment.create(path, opening.log_start_offset, opening.config, opening.pool)])
    return Segments(
        Segment(path, base, opening.config, opening.pool, read_only=opening.read_only) for base in bases
    )


def _epochs(path: str, damage: list[Damage]) -> LeaderEpochCache:
    file = os.path.join(path, EPOCHS_FILE)
    try:
        return LeaderEpochCache(file, checkpoint.read_epochs(file))
    except InvalidCheckpoint as error:
        damage.append(Damage(file, 0, 0, f"{error.reason}; leader epochs are taken from the batches"))
        return LeaderEpochCache(file, [])


def _tail_position(segment: Segment) -> int:
    """Return where the last indexed batch begins: everything before it need not be walked to find the end."""
    return segment.position_of_last_indexed()


def _look(segments: Segments, opening: Opening) -> _Found:
    """Find the end for a reader: whole batches that rise; what follows is being written, or was when it stopped."""
    active = segments.active
    position, next_offset = _tail_position(active), active.base_offset
    try:
        for place, header in active.headers(position):
            if header.base_offset < next_offset:
                break
            active.batch_at_position(place)
            position, next_offset = place + header.size, header.next_offset
    except (StorageError, UnsupportedFormat) as error:
        if not opening.clean or next_offset >= opening.recovery_point:
            active.size = position
            return _Found(next_offset)
        return _Found(max(opening.recovery_point, next_offset), [_damage(active, error, next_offset)])
    active.size = position
    return _Found(next_offset)


# --- recovery --------------------------------------------------------------------------------------------------------


def _recover(segments: Segments, epochs: LeaderEpochCache, opening: Opening) -> _Found:
    if opening.clean:
        end = _end_of_chain(segments.active)
        if end is not None:
            return _Found(end)
    opening.before_change()
    found = _Found(segments.first.base_offset)
    for segment in segments.from_floor(opening.recovery_point):
        if not _recover_segment(segment, epochs, opening, found):
            _set_aside_after(segments, segment)
            break
    epochs.truncate_from_end(found.next_offset)
    _remove_snapshots_above(segments.first.directory, found.next_offset)
    files.sync_directory(segments.first.directory)
    return found


def _end_of_chain(segment: Segment) -> int | None:
    """Return the offset after the last batch, or None when the file does not end with a whole batch."""
    position, next_offset = _tail_position(segment), segment.base_offset
    try:
        for place, header in segment.headers(position):
            if header.base_offset < next_offset:
                return None
            position, next_offset = place + header.size, header.next_offset
    except MalformedBatch:
        return None
    return next_offset if position == segment.size else None


def _recover_segment(segment: Segment, epochs: LeaderEpochCache, opening: Opening, found: _Found) -> bool:
    """Verify one segment and make its indexes anew; False when it was cut, so that nothing may follow it."""
    found.next_offset = max(found.next_offset, segment.base_offset)
    builder = segment_indexes.IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
    position = 0
    while position < segment.size:
        error = None
        try:
            for batch in segment.batches(position):
                if batch.header.base_offset < found.next_offset:
                    error = MalformedBatch("offsets do not rise", path=segment.log_path, position=batch.position)
                    break
                builder.add(batch.position, batch.header)
                if batch.header.leader_epoch > (-1 if epochs.latest is None else epochs.latest):
                    epochs.assign(batch.header.leader_epoch, batch.header.base_offset)
                position, found.next_offset = batch.position + batch.header.size, batch.header.next_offset
        except StorageError as failure:
            error = failure
        if position == segment.size:
            break
        if found.next_offset >= opening.recovery_point:
            _cut(segment, position, found, error)
            break
        found.damage.append(_damage(segment, error, found.next_offset, position))
        position = _step_over(segment, position, found, opening)
    builder.finish()
    whole = not any(name.reason.startswith("cut") and name.path == segment.log_path for name in found.damage)
    segment.adopt_indexes(builder)
    segment.sync()
    return whole


def _step_over(segment: Segment, position: int, found: _Found, opening: Opening) -> int:
    """Return where reading goes on after damage that may not be cut."""
    with files.opened(segment.log_path) as log:
        following = batch_chain.next_sound(log, position, segment.size, offset_min=found.next_offset)
    if following == segment.size:
        found.next_offset = max(found.next_offset, opening.recovery_point)
    return following


def _damage(segment: Segment, error: StorageError | None, offset: int, position: int | None = None) -> Damage:
    if position is None:
        position = (error.position if error else None) or 0
    return Damage(segment.log_path, position, offset, error.reason if error else "the file ends inside a batch")


def _cut(segment: Segment, position: int, found: _Found, error: StorageError | None) -> None:
    """Cut the log file at `position`; the bytes are kept beside it, unless they are the zeros of a preallocation."""
    reason = error.reason if error else "an unfinished batch"
    kept = _keep_copy(segment, position)
    with files.opened(segment.log_path, writable=True) as log:
        log.truncate(position)
        log.sync()
    cut_bytes, segment.size = segment.size - position, position
    where = f", kept in {os.path.basename(kept)}" if kept else ", all of them zero"
    found.damage.append(
        Damage(segment.log_path, position, found.next_offset, f"cut {cut_bytes} bytes ({reason}){where}")
    )


def _keep_copy(segment: Segment, position: int) -> str | None:
    target = os.path.join(segment.directory, segment_name(segment.base_offset, f".cut-{position}"))
    something = False
    with files.opened(segment.log_path) as log, files.opened(target, create=True) as copy:
        for place in range(position, segment.size, _COPY_BYTES):
            block = log.read(place, min(_COPY_BYTES, segment.size - place))
            something = something or block.count(0) < len(block)
            copy.write(place - position, block)
        copy.sync()
    if not something:
        files.remove_file(target)
        return None
    files.sync_directory(segment.directory)
    return target


def _set_aside_after(segments: Segments, last: Segment) -> None:
    """Take the segments after a cut out of the log: their records would leave a hole before them."""
    for segment in segments.values():
        if segment.base_offset <= last.base_offset:
            continue
        for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path = segment_indexes.path(segment, suffix)
            if files.exists(path):
                files.remove_file(path)
        files.rename(segment.log_path, segment_indexes.path(segment, ".cut-0"))
        segments.discard(segment)


def _remove_snapshots_above(path: str, next_offset: int) -> None:
    for name in files.names(path):
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[1] == ".snapshot" and parsed[0] > next_offset:
            files.remove_file(os.path.join(path, name))


def finish_swaps(path: str) -> None:
    """Finish or undo what a compaction or a split left half done (LogLoader, its first four steps).

    `.deleted` and `.cleaned` files go. A `.swap` at or above the lowest `.cleaned` offset goes too; the others replace
    every file in their offset range and lose the suffix.
    """
    parsed = [(name, p) for name in files.names(path) if (p := parse_segment_name(name)) is not None]
    cleaned_min = min((base for _, (base, suffix) in parsed if suffix.endswith(".cleaned")), default=None)
    swaps = []
    for name, (base, suffix) in parsed:
        undone = suffix.endswith(".swap") and cleaned_min is not None and base >= cleaned_min
        if suffix.endswith((".deleted", ".cleaned")) or undone:
            files.remove_file(os.path.join(path, name))
        elif suffix.endswith(".swap"):
            swaps.append((name, base, suffix))
    logs = [(name, base) for name, base, suffix in swaps if suffix == ".log.swap"]
    if logs:
        low, high = min(base for _, base in logs), max(_next_offset_of(path, name, base) for name, base in logs)
        for name, (base, suffix) in parsed:
            if low <= base < high and not suffix.endswith((".swap", ".deleted", ".cleaned")):
                files.remove_file(os.path.join(path, name))
    for name, _, _ in swaps:
        files.rename(os.path.join(path, name), os.path.join(path, name.removesuffix(".swap")))
    if swaps:
        files.sync_directory(path)


def _next_offset_of(path: str, name: str, base: int) -> int:
    with files.opened(os.path.join(path, name)) as log:
        chain = batch_chain.headers(log, 0, log.size())
        return max((header.next_offset for _, header, _ in chain), default=base)


# --- producers -------------------------------------------------------------------------------------------------------


def load_producers(log: Log, *, clean: bool) -> ProducerState:
    """Return the state of idempotent and transactional producers at the end of the log (§ ProducerStateManager).

    The newest sound snapshot, and a replay of the batches behind it. A cleanly closed log without any snapshot has no
    producers, as Kafka assumes too; after a crash it is replayed from its beginning.
    """
    offsets = sorted(_snapshot_offsets(log.path, log.next_offset), reverse=True)
    state, start = ProducerState.empty(), log.log_start_offset
    for offset in offsets:
        path = os.path.join(log.path, segment_name(offset, ".snapshot"))
        try:
            state, start = ProducerState.load(files.read_file(path), path), offset
            break
        except InvalidSnapshot:
            continue
    else:
        if clean and not offsets:
            return state
    for segment in log.snapshot().from_floor(start):
        for position, header in segment.headers(segment.position_of(start)):
            if header.producer_id >= 0 and header.base_offset >= start:
                state.replay(header, _control(segment, position) if header.is_control else None)
    return state


def _snapshot_offsets(path: str, offset_max: int) -> list[int]:
    parsed = (parse_segment_name(name) for name in files.names(path))
    return [base for base, suffix in filter(None, parsed) if suffix == ".snapshot" and base <= offset_max]


def _control(segment: Segment, position: int) -> tuple[int, int] | None:
    """Return (type, coordinator epoch) of the end transaction marker at `position`, None for an emptied batch."""
    records = segment.batch_at_position(position).records()
    if not records:
        return None
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < 4 or len(value) < 6:
        raise MalformedBatch("a control record too short", path=segment.log_path, position=position)
    return int.from_bytes(key[2:4], "big", signed=True), int.from_bytes(value[2:6], "big", signed=True)


