"""The limit of open files (RLIMIT_NOFILE) of a mount, and its shares.

    limit = reserve + base + segments that are read + partitions that are appended to

The limit bounds speed, not the number of partitions: at the limit the engine closes files that it can open again
(`storage.files.reclaim_with`). The reserve is held from the beginning and released when the mount ends, so that writing
accepted records to the disk never fails for lack of descriptors.
"""

from __future__ import annotations

import os
import resource

BASE = 24
"""Descriptors of a mount without partitions: pipes, sockets, the lock, /dev/fuse, the log."""

PER_PARTITION = 3
"""Log, offset index and time index of the active segment; a sealed segment that is read has as many."""

MINIMUM = 64
"""Below this limit a mount or a server would start, and then refuse requests."""

_RESERVE_MAX = 32
_UNLIMITED = 1 << 20


def limit() -> int:
    """Return the soft limit of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _UNLIMITED


def raise_limit() -> int:
    """Raise the soft limit to the hard one; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit()


def reserve_size(limit: int) -> int:
    """Return how many descriptors of `limit` are reserved for the end of the mount."""
    return min(_RESERVE_MAX, limit // 4)


def segments_max(limit: int) -> int:
    """Return how many sealed segments may stay open: they get half of the rest."""
    return max((limit - reserve_size(limit) - BASE) // 2 // PER_PARTITION, 1)


def partitions_max(limit: int) -> int:
    """Return how many partitions keep their files open between two appends, while no segment is read."""
    return max((limit - reserve_size(limit) - BASE) // PER_PARTITION, 1)


def threads_max(limit: int) -> int:
    """Return how many threads may sync or append at once: each needs a few descriptors for a short time."""
    return max(limit // 32, 1)


class Reserve:
    """Descriptors that are held so that they are available at the end of the mount."""

    def __init__(self, count: int) -> None:
        """Open `count` descriptors. OSError EMFILE if the limit is too low."""
        self._fds: list[int] = []
        try:
            for _ in range(count):
                self._fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Close the descriptors. A second call does nothing."""
        while self._fds:
            os.close(self._fds.pop())
