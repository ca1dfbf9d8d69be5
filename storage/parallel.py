"""Doing the same for many things at once, where each waits for the disk most of the time.

A file system writes its journal once for all who wait for it, so that a thousand syncs by many threads cost little more
than the first; one after the other they cost a turn of the disk each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from offsetfs.storage.thread_start import StartedThread, ThreadNotStarted, start

THREADS = 16
WORTH_THREADS = 8
"""Fewer things than this are done one after the other."""

T = TypeVar("T")


def for_each(items: Sequence[T], action: Callable[[T], None]) -> None:
    """Call `action` for each of `items`, in several threads when they are many; no thread is at work after return.

    This thread is one of them, so that the work is done also when no thread can be started.

    Where some raise errors that of the first of them is raised; those behind it may have been done, or not.
    """
    if len(items) < WORTH_THREADS or THREADS == 1:
        for item in items:
            action(item)
        return
    waiting, failures = deque(enumerate(items)), dict[int, Exception]()

    def work() -> None:
        while waiting:
            try:
                number, item = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                action(item)
            except Exception as error:
                failures[number] = error

    threads = start_some(work, min(THREADS, len(items)) - 1)
    try:
        work()
    finally:
        for thread in threads:
            thread.join()
    if failures:
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
