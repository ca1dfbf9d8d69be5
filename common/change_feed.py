"""Delivers the notifications of an open log directory (`storage.directory.LogChange`) on the event loop.

    Log.append, create, delete ── any thread ──┬─ on the loop: at once ──────────┬→ handlers: blocked readers,
                                               └─ elsewhere: in its next pass ───┘   waiting fetches, caches

A mount and a broker on the same directory see the changes of both, and of background tasks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import trio

from offsetfs.storage import AnyLogDirectory, TopicPartition
from offsetfs.storage.directory import LogChange

_log = logging.getLogger(__name__)


class ChangeFeed:
    """The changes of one log directory, for handlers on the event loop. Create it there."""

    def __init__(self, directory: AnyLogDirectory) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._handlers: list[Callable[[TopicPartition, LogChange], None]] = []
        directory.subscribe_changes(self._changed)

    def subscribe(self, handler: Callable[[TopicPartition, LogChange], None]) -> None:
        """Call `handler` on the event loop for each change. Equal changes may be combined into one call."""
        self._handlers.append(handler)

    def _changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Publish a change. Never raises, because the append has succeeded already."""
        try:
            if threading.get_ident() == self._thread and trio.lowlevel.in_trio_run():
                self._publish(partition, change)
            else:
                self._token.run_sync_soon(self._publish, partition, change, idempotent=True)
        except trio.RunFinishedError:  # nothing waits any more
            pass
        except Exception:  # waiting readers check the logs in intervals, too
            _log.exception("%s: %s was not published", partition, change.name)

    def _publish(self, partition: TopicPartition, change: LogChange) -> None:
        for handler in self._handlers:
            handler(partition, change)
