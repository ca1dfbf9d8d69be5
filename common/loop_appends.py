"""Appends on an event loop, as long as the disk keeps up.

The kernel blocks a writer if the disk is too slow for it, and everything else that the loop serves would wait as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from offsetfs.common.loop_watch import LoopWatch

SLOW_S = 0.005
THREAD_FOR_S = 1.0
"""An append on the loop that took longer than `SLOW_S` and blocked moves appends to threads for `THREAD_FOR_S`. A late
append that did not block only lost the processor to other processes, which is no reason to use a thread."""

T = TypeVar("T")


class LoopAppends:
    """Whether appends may run on the event loop now, judged by those that did."""

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
