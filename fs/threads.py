"""Hand-over of blocking work to threads, for a process that may be unable to start one.

pthread_create(3) fails at a limit of memory (`ulimit -v`), of processes (`ulimit -u`), or of a control group. A worker
thread that ends its work is free again, so the hand-over is repeated for a short time before it fails. It fails as
`OSError` with ENOMEM: EAGAIN, which pthread_create reports, would mean to a reader that its file has nothing yet.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

RETRIES_S = (0.001, 0.005, 0.02, 0.1)
"""The pauses between attempts. Their sum bounds how much later a request fails, or its work begins on the loop."""

THREAD_BYTES = 24 << 20
"""The addresses that must be free, where they are limited, for work to be handed over: a stack, and what is allocated
until a thread runs. `Thread.start` of CPython waits forever for a thread that lacks memory after it was created."""

_REASON = "no thread could be started: the limit of memory (ulimit -v) or of processes (ulimit -u) is reached"


class _NotStarted(OSError):
    """No thread took the work."""


async def in_thread(
    work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None, abandon_on_cancel: bool = False
) -> T:
    """Return what `work` returns in a thread; OSError ENOMEM when no thread can be started. Then `work` did not begin.

    Raises what `work` raises. `limiter`, `abandon_on_cancel`: as in `trio.to_thread.run_sync`.
    """
    for pause_s in RETRIES_S:
        try:
            return await _hand_over(work, limiter, abandon_on_cancel)
        except _NotStarted:
            await trio.sleep(pause_s)
    return await _hand_over(work, limiter, abandon_on_cancel)


async def in_thread_or_here(work: Callable[[], T], *, limiter: trio.CapacityLimiter) -> T:
    """Return what `work` returns in a thread, or on the event loop when no thread can be started.

    For work that must not be lost, such as writing accepted records: other requests wait while it is done on the loop.
    """
    try:
        return await in_thread(work, limiter=limiter)
    except _NotStarted:
        return work()


async def _hand_over(work: Callable[[], T], limiter: trio.CapacityLimiter | None, abandon_on_cancel: bool) -> T:
    has_begun = False
    if not _has_memory():
        raise _NotStarted(errno.ENOMEM, _REASON)

    def begin() -> T:
        nonlocal has_begun
        has_begun = True
        return work()

    try:
        return await trio.to_thread.run_sync(begin, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
    except (RuntimeError, MemoryError, OSError) as error:
        if has_begun:
            raise
        raise _NotStarted(errno.ENOMEM, _REASON) from error


def _has_memory() -> bool:
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return True
    try:
        bytes(THREAD_BYTES)  # not touched
    except MemoryError:
        return False
    return True
