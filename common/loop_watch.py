"""How long work keeps an event loop, without the time in which other processes have the processor."""

from __future__ import annotations

import resource
import time


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
