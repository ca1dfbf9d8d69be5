"""A queue of removals that are due after `file.delete.delay.ms`: files of segments, directories of partitions.

The queued files were already renamed and belong to no log. The delay lets readers that found them before finish. After
a crash the queue is empty, but the next opening of the directory finds `.deleted` and `-delete` names and queues them
again. Follows Kafka's `kafka-delete-logs` and `delete-file` tasks. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from sortedcontainers import SortedKeyList

from offsetfs.storage.clock import SYSTEM, Clock

RETRY_MS = 60_000
"""The delay after a failed removal. Only disk space depends on it."""


class Deletions:
    """A queue of removals, each with its due time."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: Any = SortedKeyList(key=itemgetter(0))  # removals with the same due time keep their order

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, remove: Callable[[], None], delay_ms: int) -> None:
        """Call `remove` after `delay_ms` milliseconds, in a call of `run_due`."""
        # The monotonic clock: a step of the time of day must not shorten the time that readers have.
        due = self._clock.monotonic() + delay_ms / 1000
        with self._lock:
            self._queue.add((due, remove))

    def next_due(self) -> float | None:
        """Return when the next removal is due, in seconds of the clock's `monotonic`; None if the queue is empty."""
        with self._lock:
            return self._queue[0][0] if self._queue else None

    def run_due(self) -> int:
        """Run the removals that are due; return their number. The first OSError is raised after all were tried."""
        return self._run(self._clock.monotonic())

    def run_all(self) -> int:
        """Run all queued removals, due or not. To be called when no reader is left."""
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
        with self._lock:
            count = self._queue.bisect_key_right(now)
            taken = [remove for _, remove in self._queue[:count]]
            del self._queue[:count]
        return taken
