"""Whether what a writer brings still fits on the disk: asked in `write()`, because nobody hears of it in `close()`.

A measurement (statvfs, a microsecond) is spent by what is accepted after it, and renewed when it is used up and by
the write that begins a batch. It is an estimate: others write to the same disk. What it lets through wrongly fails in the
engine, and is reported later.
"""

from __future__ import annotations

import errno
import os


class FreeSpace:
    """Room on the file system of one log directory. `pending_bytes`: accepted, but not yet in a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left_bytes = 0
        self.pending_bytes = 0

    def measure(self) -> None:
        """Ask the disk."""
        status = os.statvfs(self._path)
        blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail  # the reserve is root's to use
        self._left_bytes = blocks * status.f_frsize - self.pending_bytes

    def take(self, size: int) -> None:
        """Count `size` bytes as accepted; OSError ENOSPC when there is no room for them."""
        if size > self._left_bytes:
            self.measure()
            if size > self._left_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._left_bytes -= size
