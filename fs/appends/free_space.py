"""Whether what a writer brings still fits on the disk: asked in `write()`, because nobody hears of it in `close()`.

A measurement (statvfs, a microsecond) is spent by what is taken after it, and renewed when it is used up and by the
write that begins a batch. It is an estimate: others write to the same disk, and lines grow when they become records.
So some room is kept back; what is let through wrongly all the same fails in the engine, and is reported later.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

RESERVE_BYTES = 64 << 10  # for index entries, and for blocks that are only partly used
GROWTH_MIN = 1.25  # of lines that become records, 7 to 10 bytes each; short lines grow more, see `take`


class FreeSpace:
    """Room on the file system of one log directory."""

    def __init__(self, path: str, give_back: Callable[[], None] = lambda: None) -> None:
        """`give_back` is called when the disk is full: let it have what was taken and is not needed."""
        self._path = path
        self._give_back = give_back
        self._left_bytes = 0
        self._growth = GROWTH_MIN  # of what was taken last
        self._pending_bytes = 0  # taken, and not yet in a file

    def measure(self) -> None:
        """Ask the disk."""
        status = os.statvfs(self._path)
        blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail  # the reserve is root's to use
        self._left_bytes = blocks * status.f_frsize - self._pending_bytes - RESERVE_BYTES

    def check(self, size: int) -> None:
        """Raise OSError ENOSPC when there is no room for `size` bytes of lines."""
        needed = size * self._growth
        if needed > self._left_bytes:
            self.measure()
            if needed > self._left_bytes:
                self._give_back()
                self.measure()
            if needed > self._left_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def take(self, size: int, lines_size: int) -> None:
        """Count `size` bytes of records that were taken, made of `lines_size` bytes of lines."""
        self._growth = max(GROWTH_MIN, size / lines_size)
        self._left_bytes -= size
        self._pending_bytes += size

    def settle(self, size: int) -> None:
        """Count them as being in a file, or as lost: the next measurement knows."""
        self._pending_bytes -= size
