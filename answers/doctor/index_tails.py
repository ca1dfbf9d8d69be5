"""The ends of indexes, and of logs behind them: a few reads a segment, however long it is.

An index of a live broker, or after a crash, ends in zeros. Entries rise, so the last one is found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from offsetfs.storage import files
from offsetfs.storage.records import last_whole_batch
from offsetfs.storage.segments import OFFSET_ENTRY, TIME_ENTRY

TAIL_BYTES_MAX = 1 << 20
"""The bytes of a log behind its last index entry that are read. There are 4 KiB by default, and one batch."""


def last_time(path: str) -> tuple[int, int] | None:
    """Return (timestamp, relative offset) of the last entry of a time index; None without one, or a file. OSError."""
    return _last_entry(path, TIME_ENTRY)


def last_position(path: str) -> tuple[int, int] | None:
    """Return (relative offset, position) of the last entry of an offset index; None without one, or a file. OSError."""
    return _last_entry(path, OFFSET_ENTRY)


def _last_entry(path: str, entry: Struct) -> tuple[int, int] | None:
    try:
        file, size = files.open_with_size(path)
    except FileNotFoundError:  # releases before 0.10.1 have no time index
        return None
    with file:
        return _last_used(file, entry, size // entry.size)


def _last_used(file: files.File, entry: Struct, count: int) -> tuple[int, int] | None:
    low, high, middle = 0, count, count - 1  # entries below `low` are in use, those from `high` on are zero
    last: tuple[int, int] | None = None
    while low < high:
        data = file.read(middle * entry.size, entry.size)
        if len(data) == entry.size and any(data):
            first, second = entry.unpack(data)
            low, last = middle + 1, (first, second)
        else:
            high = middle
        middle = (low + high) // 2
    return last


def end_of(path: str, base: int, size: int, indexed: tuple[int, int] | None) -> int | None:
    """Return the offset after the last whole batch of the log of the segment `base`; None if that is too far to read.

    Headers are read from the last index entry on (`indexed`), and no checksum is verified. OSError.
    """
    log_path = f"{path}/{base:020}.log"
    if not size:
        return base
    recorded = files.recorded_end_offset(log_path, size)
    if recorded is not None:
        return recorded
    with files.open_file(log_path) as log:
        for position in _starts(path, base, size, indexed):
            if size - position > TAIL_BYTES_MAX:
                return None
            last = last_whole_batch(log.read(position, size - position))
            if last is not None:
                return last.next_offset
    return base


def _starts(path: str, base: int, size: int, indexed: tuple[int, int] | None) -> Iterator[int]:
    """Yield positions from which headers are read: of the last index entry; if its batch is cut, of earlier ones."""
    if indexed is not None and 0 < indexed[1] < size:
        yield indexed[1]
        last = indexed
        while (before := _entry_before(f"{path}/{base:020}.index", last)) is not None and 0 < before[1] < last[1]:
            yield before[1]
            last = before
    yield 0


def _entry_before(path: str, last: tuple[int, int]) -> tuple[int, int] | None:
    """Return the entry of an offset index before another one; None if there is none. OSError."""
    file, size = files.open_with_size(path)
    before: tuple[int, int] | None = None
    with file:
        low, high = 0, size // OFFSET_ENTRY.size
        while low < high:
            middle = (low + high) // 2
            data = file.read(middle * OFFSET_ENTRY.size, OFFSET_ENTRY.size)
            if any(data) and len(data) == OFFSET_ENTRY.size and (entry := OFFSET_ENTRY.unpack(data)) < last:
                low, before = middle + 1, (entry[0], entry[1])
            else:
                high = middle
    return before
