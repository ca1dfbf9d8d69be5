"""The typed events of a mount: publishers and subscribers need not know each other.

    event               published by                                        handled by
    partition_changed   the log directory (`common.change_feed`)           blocked readers, line index upkeep
    segments_changed    background tasks                                    line index upkeep
    content_known       open(2) of a record                                 the kernel's page cache
    damage_found        the log directory                                   the log of the daemon

An event without a handler has no effect. So a tree without a kernel, or a read-only mount, needs no substitutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, ParamSpec

from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import StorageError

P = ParamSpec("P")


class MountEvent(Generic[P]):
    """One kind of event. Handlers run in the thread of the publisher, in the order of their subscription."""

    __slots__ = ("_handlers",)

    def __init__(self) -> None:
        self._handlers: tuple[Callable[P, None], ...] = ()

    def subscribe(self, handler: Callable[P, None]) -> None:
        """Call `handler` at each later event."""
        self._handlers = (*self._handlers, handler)

    def publish(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all handlers. Raises what a handler raises; later handlers are not called then."""
        for handler in self._handlers:
            handler(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class MountEvents:
    """The events of one mount. All but `damage_found` are published on the event loop."""

    partition_changed: MountEvent[[TopicPartition]] = field(default_factory=MountEvent)
    """Records were appended to a partition, or it was created or deleted: by this mount or another server in the same
    process."""

    segments_changed: MountEvent[[TopicPartition]] = field(default_factory=MountEvent)
    """A background task has rolled, compacted or removed segments of a partition, or may have."""

    content_known: MountEvent[[int, bytes]] = field(default_factory=MountEvent)
    """The whole content of an inode, known before the kernel reads it."""

    damage_found: MountEvent[[StorageError]] = field(default_factory=MountEvent)
    """A damaged place that was not known before. From any thread; once for each place."""
