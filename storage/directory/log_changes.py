"""Notifications of changed logs: appends, sealed segments, and partitions that were created or deleted.

Everything that serves one open directory in a process (a mount, a broker) gets the same notifications, no matter which
of them has changed the log.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from offsetfs.storage.names import TopicPartition


class LogChange(Enum):
    """What has happened to a partition."""

    APPENDED = auto()
    ROLLED = auto()
    """A segment was sealed and the next one begun."""

    CREATED = auto()
    DELETED = auto()


OnLogChange = Callable[[TopicPartition, LogChange], None]
"""Called after a change, in the thread that made it, without locks. It must neither wait nor raise."""
