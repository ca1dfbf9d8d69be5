"""Runs I/O-bound work in parallel threads.

A file system commits its journal once for all threads that wait for it. So a thousand syncs by many threads cost little
more than the first one; sequential syncs each cost a disk access.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from offsetfs.storage.thread_start import StartedThread, ThreadNotStarted, start

THREADS = 16
WORTH_THREADS = 8
"""Fewer items are processed sequentially."""

T = TypeVar("T")


def for_each(items: Sequence[T], action: Callable[[T], None]) -> None:
    """Call `action` for each of `items`, in several threads if there are many; returns after all threads have ended.

    The calling thread takes part, so that the work is done even if no thread can be started. If calls raise, the error
    of the first failed item is raised; later items may or may not have been processed.
    """
    if len(items) < WORTH_THREADS or THREADS == 1:
        for item in items:
            action(item)
        return
    # A deque, because `popleft` is atomic in CPython: the threads need no lock for it.
    waiting, failures = deque(enumerate(items)), dict[int, Exception]()

    def work() -> None:
        while waiting:
            try:
                number, item = waiting.popleft()
            except IndexError:  # another thread took the last item
                return
            try:
                action(item)
            except Exception as error:
                failures[number] = error

    # Recovery once failed at `ulimit -u`, because it needed at least one new thread. Hence the calling thread works,
    # too.
    threads = start_some(work, min(THREADS, len(items)) - 1)
    try:
        work()
    finally:
        for thread in threads:
            thread.join()
    if failures:
        # The error of the first item, so that the result does not depend on which thread was faster.
        raise failures[min(failures)]


def start_some(work: Callable[[], None], count: int) -> list[StartedThread]:
    """Start up to `count` threads that run `work`: as many as the limits of memory and of processes allow."""
    started: list[StartedThread] = []
    for _ in range(count):
        try:
            started.append(start(work))
        except ThreadNotStarted:
            break
    return started
