"""Callbacks at times of trio's clock: one heap and one task per mount, for any number of partitions.

A callback runs on the event loop and must be short. Deadlines are not cancelled: a callback that is not needed any more
finds that out when it runs.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import trio


class Deadlines:
    """The deadlines of a mount. `at` may be called at any time on the loop; callbacks run only while `run` runs."""

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
