"""Estimates in `write` whether records fit on the disk, because programs ignore errors of `close`.

Accepted records are subtracted from a measurement (statvfs, a microsecond). It is renewed when it is used up, and by
the write that starts a batch. The result is an estimate, because other processes write to the same disk and lines grow
when they become records. Therefore some space is kept in reserve. Records that are accepted wrongly fail in the engine,
and a later call reports the loss.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

RESERVE_BYTES = 64 << 10  # for index entries, and for blocks that are only partly used
GROWTH_MIN = 1.25  # of lines that become records, 7 to 10 bytes each; short lines grow more, see `take`


class FreeSpace:
    """The free space on the file system of one log directory."""

    def __init__(self, path: str, give_back: Callable[[], None] = lambda: None) -> None:
        """`give_back` is called if the disk is full; it should release preallocated blocks."""
        self._path = path
        self._give_back = give_back
        self._left_bytes = 0
        self._growth = GROWTH_MIN  # of the last accepted records
        self._pending_bytes = 0  # accepted, and not yet in a file

    def measure(self) -> None:
        """Read the free space from the file system."""
        status = os.statvfs(self._path)
        blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail  # only root may use the reserved blocks
        self._left_bytes = blocks * status.f_frsize - self._pending_bytes - RESERVE_BYTES

    def check(self, size: int) -> None:
        """Raise OSError ENOSPC if `size` bytes of lines do not fit."""
        needed = size * self._growth
        if needed > self._left_bytes:
            self.measure()
            if needed > self._left_bytes:
                self._give_back()
                self.measure()
            if needed > self._left_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def take(self, size: int, lines_size: int) -> None:
        """Subtract `size` bytes of accepted records, made from `lines_size` bytes of lines."""
        self._growth = max(GROWTH_MIN, size / lines_size)
        self._left_bytes -= size
        self._pending_bytes += size

    def settle(self, size: int) -> None:
        """Remove `size` bytes that are written or lost from the pending ones: the next measurement includes them."""
        self._pending_bytes -= size
