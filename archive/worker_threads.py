"""A few threads for requests to an archive; begun with the first task, and again in a forked child."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class WorkerThreads:
    """At most `count` threads. A task returns nothing and must not raise."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = -1

    def submit(self, task: Callable[[], None]) -> bool:
        """Run a task in a thread, now or when one is free; False if the process ends and takes none."""
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pool, self._pid = ThreadPoolExecutor(self._count, "archive"), os.getpid()
            try:
                self._pool.submit(task)
            except RuntimeError:
                return False
        return True
