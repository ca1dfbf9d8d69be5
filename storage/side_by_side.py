"""Doing the same for many things at once, where each waits for the disk most of the time.

A file system writes its journal once for all who wait for it, so that a thousand syncs by many threads cost little more
than the first; one after the other they cost a turn of the disk each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 16
WORTH_THREADS = 8
"""Fewer things than this are done one after the other."""

T = TypeVar("T")


def for_each(items: Sequence[T], action: Callable[[T], None]) -> None:
    """Call `action` for each of `items`, in several threads when they are many; no thread is at work after return.

    Where some raise errors that of the first of them is raised; those behind it may have been done, or not.
    """
    if len(items) < WORTH_THREADS or THREADS == 1:
        for item in items:
            action(item)
        return
    with ThreadPoolExecutor(min(THREADS, len(items)), thread_name_prefix="side-by-side") as executor:
        done = [executor.submit(action, item) for item in items]
    for each in done:
        each.result()
