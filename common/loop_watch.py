"""Measures work on an event loop, and decides by that whether appends may run there.

The kernel blocks a writer if the disk is too slow for it, and everything else that the loop serves would wait as well.
The time in which other processes have the processor does not count.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import TypeVar

SLOW_S = 0.005
THREAD_FOR_S = 1.0
"""An append on the loop that took longer than `SLOW_S` and blocked moves appends to threads for `THREAD_FOR_S`. A late
append that did not block only lost the processor to other processes, which is no reason to use a thread."""

T = TypeVar("T")


class LoopWatch:
    """Measures work of the current thread, from its creation on."""

    __slots__ = ("_cpu", "_waits", "_wall")

    def __init__(self) -> None:
        self._waits = _waits()
        self._wall, self._cpu = time.perf_counter(), time.thread_time()

    @property
    def has_blocked(self) -> bool:
        """Whether the thread has waited, for instance for the disk."""
        return _waits() > self._waits

    def seconds(self) -> float:
        """Return the elapsed time if the thread has blocked, else its CPU time: it lost the processor meanwhile."""
        return time.perf_counter() - self._wall if self.has_blocked else time.thread_time() - self._cpu


def _waits() -> int:
    """Return how often this thread has blocked (voluntary context switches)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class LoopAppends:
    """Whether appends may run on the event loop now, judged by the duration of earlier appends."""

    __slots__ = ("_slow_until",)

    def __init__(self) -> None:
        self._slow_until = 0.0

    @property
    def are_quick(self) -> bool:
        return time.perf_counter() >= self._slow_until

    def run(self, append: Callable[[], T]) -> T:
        """Return what `append` returns, or raise what it raises."""
        begun, watch = time.perf_counter(), LoopWatch()
        try:
            return append()
        finally:
            if time.perf_counter() - begun > SLOW_S and watch.has_blocked:
                self._slow_until = begun + THREAD_FOR_S
