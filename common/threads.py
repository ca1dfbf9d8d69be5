"""Hand-over of blocking work to threads, for a process that may be unable to start one.

pthread_create(3) fails at a limit of memory (`ulimit -v`), of processes (`ulimit -u`), or of a control group. A worker
thread that ends its work is free again, so the hand-over is repeated for a short time before it fails. It fails as
`OSError` with ENOMEM: EAGAIN, which pthread_create reports, would mean to a reader that its file has nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from offsetfs.common.workers import NoWorker, workers

T = TypeVar("T")

RETRIES_S = (0.001, 0.005, 0.02, 0.1)
"""The pauses between attempts. Their sum bounds how much later a request fails, or its work begins on the loop."""


async def in_thread(
    work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None, abandon_on_cancel: bool = False
) -> T:
    """Return what `work` returns in a thread; OSError ENOMEM when no thread can be started. Then `work` did not begin.

    Raises what `work` raises. `limiter`, `abandon_on_cancel`: as in `trio.to_thread.run_sync`.
    """
    for pause_s in RETRIES_S:
        try:
            return await workers.run(work, limiter, abandon_on_cancel)
        except NoWorker:
            await trio.sleep(pause_s)
    return await workers.run(work, limiter, abandon_on_cancel)


async def in_thread_or_here(work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
    """Return what `work` returns in a thread, or on the event loop when no thread can be started.

    For work that must not be lost, such as writing accepted records: other requests wait while it is done on the loop.
    """
    try:
        return await in_thread(work, limiter=limiter)
    except NoWorker:
        return work()
