"""What the appends of a mount have in common: options, clock, memory, open files, threads, free space."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.fs.appends.free_space import FreeSpace
from offsetfs.fs.appends.memory import AppendMemory
from offsetfs.fs.appends.open_files import OpenFiles
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.counters import Counters
from offsetfs.fs.reporting.error_log import ErrorLog

WAIT_SHARE = 0.5  # of the kernel's request timeout, after which it ends the mount


@dataclass(frozen=True, slots=True)
class AppendContext:
    """What the partitions of one log directory have in common. Only `space` differs between log directories."""

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
        """How long a writer may wait for a buffer, in seconds.

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
