"""What is to be removed from disk after `file.delete.delay.ms`: files of segments, directories of partitions.

What waits here was renamed already, so that it is in no log any more; the delay is for those who found it before. A
crash loses the queue and no name: whoever opens the directory next finds `.deleted` and `-delete` and queues them
again. Follows Kafka's `kafka-delete-logs` and `delete-file` tasks. Safe to use from any thread.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from offsetfs.storage.clock import SYSTEM, Clock

RETRY_MS = 60_000
"""How long to wait after a removal that failed: nothing depends on it but the room on disk."""


class Deletions:
    """A queue of removals, each with the moment when it is due."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()  # removals due at one moment go in the order in which they came

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, remove: Callable[[], None], delay_ms: int) -> None:
        """Call `remove` when `delay_ms` milliseconds are over and somebody runs what is due."""
        due = self._clock.monotonic() + delay_ms / 1000
        with self._lock:
            heapq.heappush(self._heap, (due, next(self._numbers), remove))

    def next_due(self) -> float | None:
        """Return when the next removal is due, in seconds of the clock's `monotonic`; None when none waits."""
        with self._lock:
            return self._heap[0][0] if self._heap else None

    def run_due(self) -> int:
        """Remove what is due; return how many removals were made. The first OSError is raised after all were tried."""
        return self._run(self._clock.monotonic())

    def run_all(self) -> int:
        """Remove everything that waits, due or not: nobody reads here any more."""
        return self._run(float("inf"))

    def _run(self, now: float) -> int:
        errors: list[OSError] = []
        done = 0
        for remove in self._take(now):
            try:
                remove()
                done += 1
            except OSError as error:
                errors.append(error)
                self.add(remove, RETRY_MS)
        if errors:
            raise errors[0]
        return done

    def _take(self, now: float) -> list[Callable[[], None]]:
        taken = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                taken.append(heapq.heappop(self._heap)[2])
        return taken
