"""Preallocates disk blocks beyond the end of the active log file.

Allocating block by block takes a third of the time of a write to the page cache; allocating many megabytes at once
costs almost nothing. The file size does not change: readers, recovery and other programs see only appended bytes.

Never allocates more than was appended since the last release, and never more than `STEP_BYTES_MAX`. The log releases
unused blocks with each sync, roll and close, and when the disk is full. After a crash the next opening for appends
releases them. If allocation fails, appends continue without it: no function here raises. The log decides which file is
active.
"""

from __future__ import annotations

import contextlib

from offsetfs.storage.files import File

STEP_BYTES_MIN = 1 << 20
"""Logs that append less than this between syncs get no preallocation."""

STEP_BYTES_MAX = 64 << 20


class Preallocation:
    """The blocks that are allocated beyond the end of one file."""

    __slots__ = ("_appended", "_end", "_is_refused")

    def __init__(self) -> None:
        self._end = 0  # the end of the allocated blocks
        self._appended = 0  # bytes appended since the last release
        self._is_refused = False

    @property
    def is_allocated(self) -> bool:
        """Whether blocks may be allocated beyond the end."""
        return self._end > 0

    def reserve(self, file: File, position: int, size: int) -> None:
        """Allocate blocks for `size` bytes at `position`, the end of the file, and more, if enough was appended."""
        # Never more than was appended since the last sync: `du` overstates a log by at most what it received in a
        # second.
        step = min(self._appended, STEP_BYTES_MAX)
        self._appended += size
        end = position + size
        if end <= self._end or step < STEP_BYTES_MIN or self._is_refused:
            return
        start = max(self._end, position)
        try:
            file.preallocate(start, end + step - start)
        except OSError:  # a full disk, or a file system without fallocate
            self._is_refused = True
        else:
            self._end = end + step

    def release(self, file: File, size: int) -> None:
        """Release the blocks beyond the end of the file, at `size`."""
        if self._end > size:
            with contextlib.suppress(OSError):  # the next opening releases them
                file.truncate(size)
        self._end = self._appended = 0


def release_leftover(file: File) -> None:
    """Release blocks that a crashed process had allocated."""
    # st_blocks shows blocks beyond the end; `ls -l` does not.
    if file.has_blocks_beyond_end(STEP_BYTES_MIN):
        with contextlib.suppress(OSError):
            file.truncate(file.size())
