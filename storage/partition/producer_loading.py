"""Loads the producers at an offset of a log: the newest snapshot before it, and a replay of later batches.

Follows Kafka's ProducerStateManager.loadFromSnapshot and UnifiedLog.rebuildProducerState. Batches are read as rows
(`row_walk`). In a range without markers only the first and the last batch of a producer matter, so a replay costs
little more than reading the log.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import InvalidSnapshot, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.partition.producers import ProducerState, end_marker
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.units import I32_MAX, I64_MAX

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

RECENT_BYTES = 8 << 20
"""The bytes at the end of a log that are searched for the last batches of producers: eight of Kafka's largest."""


def load_producers(log: Log, *, clean: bool) -> ProducerState:
    """Return the state of producers at the end of a log; see `load`."""
    return load(log.path, log.snapshot(), log.next_offset, log_start=log.log_start_offset, clean=clean)


def load(path: str, segments: Segments, end: int, *, log_start: int, clean: bool) -> ProducerState:
    """Return the state of idempotent and transactional producers before offset `end` of the log in directory `path`.

    As in Kafka, a cleanly closed log without any snapshot has no producers; after a crash it is replayed from its
    start. Damage is skipped. Raises OSError.
    """
    offsets = sorted((offset for offset in _snapshot_offsets(path) if offset <= end), reverse=True)
    for offset in offsets:
        try:
            state, start = _read(path, offset), offset
            break
        except InvalidSnapshot:
            continue
    else:
        state, start = ProducerState(), log_start
        # As ProducerStateManager: a clean shutdown always leaves a snapshot if there are producers.
        if clean and not offsets:
            return state
    for segment in segments.from_floor(start):
        if segment.base_offset >= end:
            break
        _replay_segment(state, segment, start, end)
    return state


def save(path: str, offset: int, state: ProducerState, *, sync_name: bool = True) -> None:
    """Write the snapshot at `offset`, unless one with the same content exists.

    Durable on return; with `sync_name` false, once the caller has synced the directory.
    """
    file, content = os.path.join(path, segment_name(offset, ".snapshot")), state.dump()
    try:
        if files.read_file(file) == content:
            return
    except OSError:
        pass  # missing, or unreadable
    files.replace_file(file, content, sync_name=sync_name)


def recent_batches(segments: Segments) -> Iterator[BatchHeader]:
    """Yield the data batches of producers in the last `RECENT_BYTES` of a log, in order, up to damage.

    A snapshot has one batch of each producer, but after a restart a producer may send again as many as it had in
    flight. Kafka knows those only where it replays the log, after a crash.
    """
    chosen, size = list[Segment](), 0
    for segment in reversed(list(segments)):
        chosen.insert(0, segment)
        size += segment.size
        if size >= RECENT_BYTES:
            break
    try:
        for segment in chosen:
            position = _position_before_end(segment, RECENT_BYTES)
            for rows in row_walk.header_rows(segment.open_files().log, position, segment.size):
                for row, producer_id in enumerate(rows.column(chain.PRODUCER_ID)):
                    if producer_id >= 0 and not (header := rows.batch(row)[1]).is_control:
                        yield header
    except StorageError:
        return


def _position_before_end(segment: Segment, size: int) -> int:
    """Return the position of an indexed batch that begins at most `size` bytes before the end, by about."""
    low, high = segment.base_offset, segment.base_offset + I32_MAX
    while segment.size > size and low < high:
        middle = (low + high) // 2
        if segment.floor_position(middle) < segment.size - size:
            low = middle + 1
        else:
            high = middle
    return segment.floor_position(low) if segment.size > size else 0


def _read(path: str, offset: int) -> ProducerState:
    file = os.path.join(path, segment_name(offset, ".snapshot"))
    return ProducerState.load(files.read_file(file), file)


def _snapshot_offsets(path: str) -> list[int]:
    parsed = (parse_segment_name(name) for name in files.names(path))
    return [int(base) for base, suffix in filter(None, parsed) if suffix == ".snapshot"]


def _replay_segment(state: ProducerState, segment: Segment, start: int, end: int) -> None:
    log, position = segment.open_files().log, segment.position_of(start)
    for rows in row_walk.header_rows(log, position, segment.size):
        replay(state, rows, log, start=start, end=end)


def replay(state: ProducerState, rows: Rows, log: File, *, start: int = 0, end: int = I64_MAX) -> None:
    """Replay the batches of `rows`, in order, whose last offsets lie in `[start, end)`.

    If checksums were not verified, an offset beyond the end comes from a damaged header, not from a producer.
    """
    ids = rows.column(chain.PRODUCER_ID)
    if max(ids) < 0:
        return
    markers, data = set(rows.flagged(CONTROL_FLAG)), list[int]()
    chosen = _rows_in(rows, ids, start, end)
    if not markers:
        _replay_data(state, rows, ids, chosen)
        return
    for row in chosen:
        if row in markers:
            _replay_data(state, rows, ids, data)
            data = []
            _, header, _ = rows.batch(row)
            state.replay(header, _marker(rows, row, log))
        else:
            data.append(row)
    _replay_data(state, rows, ids, data)


def _rows_in(rows: Rows, ids: array[int], start: int, end: int) -> Sequence[int]:
    """Return the numbers of the producers' rows whose last offset lies in `[start, end)`."""
    if start <= 0 and end == I64_MAX and min(ids) >= 0:
        return range(len(ids))
    columns = zip(ids, rows.column(chain.BASE_OFFSET), rows.column(chain.LAST_OFFSET_DELTA), strict=True)
    return [
        row
        for row, (producer, base, delta) in enumerate(columns)
        if producer >= 0 and start <= base + delta < end  # a batch that contains the log start belongs to the log
    ]


def _replay_data(state: ProducerState, rows: Rows, ids: array[int], chosen: Sequence[int]) -> None:
    """Replay data batches: of each producer, only the last one, and the first one of a transaction."""
    of_whom = ids if len(chosen) == len(ids) else array("q", (ids[row] for row in chosen))
    wanted = {*dict(zip(of_whom, chosen, strict=True)).values()}
    transactional = set(rows.flagged(TRANSACTIONAL_FLAG)).intersection(chosen)
    if transactional and len(transactional) < len(chosen):
        wanted = set(chosen)
    elif transactional:
        wanted |= {*dict(zip(reversed(of_whom), reversed(chosen), strict=True)).values()}
    for row in sorted(wanted):
        state.replay(rows.batch(row)[1])


def _marker(rows: Rows, row: int, log: File) -> tuple[int, int] | None:
    """Return the marker in a control batch; None if it is unreadable: then its transaction stays open."""
    try:
        return end_marker(batch_chain.load(log, *rows.batch(row)))
    except StorageError:
        return None
