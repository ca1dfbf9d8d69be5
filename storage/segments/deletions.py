"""Removals that are due after `file.delete.delay.ms`: their queue, and the names of files until then.

    00000000000000000042.log.deleted           the name in Kafka
    00000000000000000042.log.1234567.deleted   if another removed segment has that name: with the log's inode number

Compaction may remove several segments with one base offset within the delay. In Kafka the second one overwrites the
files of the first. Here both are kept, so that readers of the first can still open it. Each name depends only on the
inode number. So an interrupted rename can be repeated, and a reader in another process finds the file. Kafka's
LogLoader removes every file whose name ends in `.deleted`, so it removes both forms.

The queue has files of segments and directories of partitions that were already renamed and belong to no log. The delay
lets readers that found them before finish. After a crash the queue is empty, but the next opening of the directory
finds `.deleted` and `-delete` names and queues them again. Follows Kafka's `kafka-delete-logs` and `delete-file` tasks.
Thread-safe.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from sortedcontainers import SortedKeyList

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.names import segment_name

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


REMOVED = ".deleted"
_REMOVED = re.compile(r"(?:\.[0-9]+)?\.deleted\Z")


def removed_ending(directory: str, base_offset: int, inode: int | None) -> str:
    """Return the suffix of the names of a segment once it is removed. `inode`: of its log file, None if there is none.

    The result stays the same while the segment's log has its live name or one of the two names above.
    """
    if inode is None:
        return REMOVED
    own = _ending_with_inode(inode)
    if files.exists(os.path.join(directory, segment_name(base_offset, ".log" + own))):
        return own
    try:
        taken = files.status(os.path.join(directory, segment_name(base_offset, ".log" + REMOVED)))
    except FileNotFoundError:
        return REMOVED
    # Two removed segments with one base offset: under Kafka's name the second would replace the first, whose readers
    # got ESTALE before the delay was over.
    return REMOVED if taken.st_ino == inode else own


def removed_endings(inode: int | None) -> tuple[str, ...]:
    """Return all suffixes that `ending` can return for a segment."""
    return (REMOVED,) if inode is None else (REMOVED, _ending_with_inode(inode))


def without_removed_ending(suffix: str) -> str | None:
    """Return the suffix that a file had before its removal (".log"), or None if `suffix` is not that of a removed
    file.
    """
    match = _REMOVED.search(suffix)
    return suffix[: match.start()] if match else None


def _ending_with_inode(inode: int) -> str:
    return f".{inode}{REMOVED}"
