"""Keeps bytes that are cut from a log in a file beside it, `<base offset>.cut-<position>`, a name that Kafka ignores.

A second cut at the same position gets the name `.cut-<position>-2`, and so on. Nothing is overwritten, and offsetfs
never removes these files: docs/use/recovery.md says how to restore them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.files import File
from offsetfs.storage.names import parse_kept_name, segment_name

if TYPE_CHECKING:
    from offsetfs.storage.segments.segment import Segment

_COPY_BYTES = 1 << 20


def keep(segment: Segment, position: int, *, sync_name: bool = True) -> str | None:
    """Copy the bytes of a segment from `position` on; return the path of the copy, durable on return.

    None if there are no bytes, or only zeros, which are preallocated and no data. With `sync_name` false the caller
    syncs the directory.
    """
    with files.open_file(segment.log_path) as log:
        name = name_for(segment.directory, segment.base_offset, log, position, segment.size)
        # Zeros are preallocated space, not records: a recovery of a preallocated log would keep a gigabyte of them.
        if name is None:
            return None
        target = os.path.join(segment.directory, name)
        with files.created(target) as copy:
            copy.truncate(segment.size - position)  # zeros are not written, so a preallocated tail stays sparse
            for block_position, block in _blocks(log, position, segment.size):
                if not _is_zero(block):
                    copy.write(block_position - position, block)
            copy.sync()
    if sync_name:
        files.sync_directory(segment.directory)
    return target


def set_aside(segment: Segment) -> str:
    """Rename the log file of a whole segment to a kept name; return its path. The caller syncs the directory."""
    target = os.path.join(segment.directory, free_name(segment.directory, segment.base_offset))
    files.rename(segment.log_path, target)
    return target


def was_cut(segment: Segment) -> bool:
    """Whether bytes were cut from a segment at its current end."""
    return files.exists(segment.path(f".cut-{segment.size}"))


def kept_files(directory: str) -> list[str]:
    """Return the names of the files in a partition's directory that hold cut bytes, sorted."""
    return sorted(name for name in files.names(directory) if parse_kept_name(name))


def free_name(directory: str, base_offset: int) -> str:
    """Return the name under which a whole segment would be kept."""
    return next(name for name in _names(base_offset, 0) if not files.exists(os.path.join(directory, name)))


def name_for(directory: str, base_offset: int, log: File, position: int, end: int) -> str | None:
    """Return the name under which bytes `[position, end)` of a log file would be kept, None if they are zeros.

    The name is unused, or its file has these very bytes from an interrupted recovery.
    """
    if all(_is_zero(block) for _, block in _blocks(log, position, end)):
        return None
    for name in _names(base_offset, position):
        path = os.path.join(directory, name)
        if not files.exists(path) or _begins_alike(path, log, position, end):
            break
    return name


def _names(base_offset: int, position: int) -> Iterator[str]:
    first = segment_name(base_offset, f".cut-{position}")
    yield first
    for number in itertools.count(2):
        yield f"{first}-{number}"


def _begins_alike(path: str, log: File, position: int, end: int) -> bool:
    """Whether a kept file has only bytes of the tail. A crash may have left it short, or with zeros."""
    with files.open_file(path) as kept:
        if kept.size() > end - position:
            return False
        blocks = _blocks(log, position, position + kept.size())
        return all(
            block.startswith(kept.read(block_position - position, len(block)).rstrip(b"\0"))
            for block_position, block in blocks
        )


def _is_zero(block: bytearray) -> bool:
    return block.count(0) == len(block)


def _blocks(log: File, position: int, end: int) -> Iterator[tuple[int, bytearray]]:
    for block_position in range(position, end, _COPY_BYTES):
        yield block_position, log.read(block_position, min(_COPY_BYTES, end - block_position))
