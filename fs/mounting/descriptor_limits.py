"""How many files a mount may have open, and how it divides them.

    limit = reserve + base + segments that are read + partitions that are appended to

The limit bounds speed, not the number of partitions: at the limit the engine closes files that it can open again
(`storage.files.reclaim_with`). The reserve is held from the beginning and let go when the mount ends, so that nothing
in the way of writing accepted records to the disk needs a descriptor that is not there.
"""

from __future__ import annotations

import os
import resource

BASE = 24
"""What a mount without partitions has open: pipes, sockets, the lock, /dev/fuse, the log."""

FOR_A_PARTITION = 3
"""Log, offset index and time index of the active segment; a sealed segment that is read has as many."""

_RESERVE_MAX = 32
_UNLIMITED = 1 << 20


def limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _UNLIMITED


def raise_limit() -> int:
    """Raise the soft limit to the hard one; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit()


def reserve_size(limit: int) -> int:
    """Return how many descriptors of `limit` are kept for the end of the mount."""
    return min(_RESERVE_MAX, limit // 4)


def segments_max(limit: int) -> int:
    """Return how many sealed segments may stay open: they get half of what is not the reserve or the base."""
    return max((limit - reserve_size(limit) - BASE) // 2 // FOR_A_PARTITION, 1)


def partitions_max(limit: int) -> int:
    """Return for how many partitions the files stay open between two appends while no segment is read."""
    return max((limit - reserve_size(limit) - BASE) // FOR_A_PARTITION, 1)


def threads_max(limit: int) -> int:
    """Return how many threads may sync or append at a time: each needs a few descriptors for a moment."""
    return max(limit // 32, 1)


class Reserve:
    """Descriptors that are held so that they are there in the end."""

    def __init__(self, count: int) -> None:
        """OSError EMFILE where there are not so many."""
        self._fds: list[int] = []
        try:
            for _ in range(count):
                self._fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Let them go; a second call does nothing."""
        while self._fds:
            os.close(self._fds.pop())
