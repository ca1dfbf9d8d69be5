"""Keeping what is cut from a log beside it, as `<base offset>.cut-<position>`, a name that Kafka ignores.

A second cut at the same place is another loss: it gets the name `.cut-<position>-2`, and so on. Nothing is ever
written over, and nothing here removes what was kept: docs/recovery.md tells its owner how to get it back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.files import File

if TYPE_CHECKING:
    from offsetfs.storage.segment import Segment

_COPY_BYTES = 1 << 20


def keep(segment: Segment, position: int, *, sync_name: bool = True) -> str | None:
    """Copy the bytes of a segment from `position` on; return the path of the copy, on disk after return.

    None where there is nothing, or zeros only: those are room that was allocated, and no data. With `sync_name` false
    the caller syncs the directory.
    """
    with files.opened(segment.log_path) as log:
        if all(_is_zero(block) for _, block in _blocks(log, position, segment.size)):
            return None
        target = _name_for(segment, log, position)
        with files.opened(target, create=True) as copy:
            copy.truncate(0)
            copy.truncate(segment.size - position)  # zeros are not written: a preallocated tail stays sparse
            for place, block in _blocks(log, position, segment.size):
                if not _is_zero(block):
                    copy.write(place - position, block)
            copy.sync()
    if sync_name:
        files.sync_directory(segment.directory)
    return target


def set_aside(segment: Segment) -> str:
    """Give the log file of a whole segment a kept name; return its path. The caller syncs the directory."""
    target = next(path for path in _names(segment, 0) if not files.exists(path))
    files.rename(segment.log_path, target)
    return target


def _name_for(segment: Segment, log: File, position: int) -> str:
    """Return a name that is free, or whose file has these very bytes: a recovery that was itself cut short left it."""
    for path in _names(segment, position):
        if not files.exists(path) or _begins_alike(path, log, position, segment.size):
            break
    return path


def _names(segment: Segment, position: int) -> Iterator[str]:
    first = segment.path(f".cut-{position}")
    yield first
    for number in itertools.count(2):
        yield f"{first}-{number}"


def _begins_alike(path: str, log: File, position: int, end: int) -> bool:
    """Whether a kept file has nothing that the tail has not; a crash may have left it short, or with zeros."""
    with files.opened(path) as kept:
        if kept.size() > end - position:
            return False
        blocks = _blocks(log, position, position + kept.size())
        return all(block.startswith(kept.read(place - position, len(block)).rstrip(b"\0")) for place, block in blocks)


def _is_zero(block: bytearray) -> bool:
    return block.count(0) == len(block)


def _blocks(log: File, position: int, end: int) -> Iterator[tuple[int, bytearray]]:
    for place in range(position, end, _COPY_BYTES):
        yield place, log.read(place, min(_COPY_BYTES, end - place))
