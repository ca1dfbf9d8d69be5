"""The context of a mount's appends: options, clock, memory, open files, threads, free space."""

from __future__ import annotations

import errno
import heapq
import itertools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.fs.appends.memory import AppendMemory
from offsetfs.fs.appends.open_files import OpenFiles
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.counters import Counters
from offsetfs.fs.reporting.error_log import ErrorLog

RESERVE_BYTES = 64 << 10  # for index entries, and for blocks that are only partly used
GROWTH_MIN = 1.25  # of lines that become records, 7 to 10 bytes each; short lines grow more, see `take`

WAIT_SHARE = 0.5  # of the kernel's request timeout, after which it ends the mount


class FreeSpace:
    """The free space on the file system of one log directory: `write` checks whether records fit.

    `write` reports a full disk because programs ignore errors of `close`. Accepted records are subtracted from a
    measurement (statvfs, a microsecond). It is renewed when it is used up, and by the write that starts a batch. The
    result is an estimate, because other processes write to the same disk and lines grow when they become records.
    Therefore some space is kept in reserve. Records that are accepted wrongly fail in the engine, and a later call
    reports the loss.
    """

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


@dataclass(frozen=True, slots=True)
class AppendContext:
    """The context of the partitions of one log directory. Only `space` differs between log directories."""

    options: MountOptions
    nursery: trio.Nursery
    memory: AppendMemory
    deadlines: Deadlines
    files: OpenFiles
    space: FreeSpace
    refresh_config: Callable[[], object]
    append_limiter: trio.CapacityLimiter
    seal_limiter: trio.CapacityLimiter
    sync_limiter: trio.CapacityLimiter
    on_written: Callable[[], None]
    counters: Counters = field(default_factory=Counters)
    error_log: ErrorLog = field(default_factory=ErrorLog)

    @property
    def wait_s(self) -> float:
        """The limit of the time that a writer waits for a buffer, in seconds.

        The kernel ends a mount whose request takes longer than `fs.fuse.default_request_timeout`, so a writer gets
        EINTR before.
        """
        timeout_s = self.options.request_timeout_s
        return timeout_s * WAIT_SHARE if timeout_s else math.inf


class Deadlines:
    """Callbacks at times of trio's clock: one heap and one task per mount, for any number of partitions.

    `at` may be called at any time on the event loop; callbacks run there, and only while `run` runs. They must be
    short. Deadlines are not cancelled: a callback that is not needed any more finds that out when it runs.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()  # breaks ties, so that callbacks are never compared
        self._wake = trio.Event()
        self._sleeping_until = math.inf

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call `action` once, when `trio.current_time()` reaches `time`."""
        heapq.heappush(self._heap, (time, next(self._serial), action))
        if time < self._sleeping_until:
            self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            now = trio.current_time()
            while self._heap and self._heap[0][0] <= now:
                heapq.heappop(self._heap)[2]()
            self._sleeping_until = self._heap[0][0] if self._heap else math.inf
            self._wake = trio.Event()
            with trio.move_on_at(self._sleeping_until):
                await self._wake.wait()
            self._sleeping_until = -math.inf  # while this task is awake, `at` need not wake it
