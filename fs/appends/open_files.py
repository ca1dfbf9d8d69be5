"""The open files of a mount, and those that were closed with an unfinished record, until it is in a batch.

close(2) returns when the daemon has answered FLUSH; RELEASE follows without an answer. The kernel queues RELEASE before
close(2) returns, but it sends at most 12 background requests at once (RELEASE and read-ahead together), and later
requests overtake those above. So after FLUSH a file with an unfinished record may be closed already, and an open that
comes now may be the next step of the same writer: it waits a moment for the RELEASE.

    FLUSH with an unfinished record → perhaps closed ─┬─ WRITE, or `RELEASE_S` ─→ still open
                                                      └─ RELEASE ─→ closed ─→ record in a batch, or lost
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import trio

from offsetfs.storage import TopicPartition

RELEASE_S = 0.1
"""The time that an open waits for the RELEASE of a file that may be closed. Then the file counts as open until the next
FLUSH, so that a program that keeps an unfinished line open costs other writers this time once."""


class Writer(Protocol):
    """The source of records: an open handle."""

    wants_offsets: bool
    """Whether the writer needs calls of `acknowledged`."""
    code: int | None
    """The errno with which accepted records were lost, if any were."""

    def failed(self, code: int) -> None:
        """Record that accepted records were lost; `code` keeps the first errno."""

    def acknowledged(self, offset: int, count: int, timestamp: int, partition: int) -> None:
        """Record that the next `count` records of a partition are in the file, from `offset` on, all of one time."""

    async def release(self) -> None:
        """Return when the records of the closed file are written or lost."""


class OpenFiles:
    """The open files of a mount; and of them those that are closed, or perhaps closed, with an unfinished record."""

    def __init__(self) -> None:
        self.writers: set[Writer] = set()
        """The open files, for the end of the mount."""
        self._closing: dict[Writer, tuple[frozenset[TopicPartition], trio.Event]] = {}  # the event: it is settled
        self._released: set[Writer] = set()  # those of `_closing` that are certainly closed

    def flushed(self, file: Writer, partitions: frozenset[TopicPartition]) -> None:
        """`file`, which has an unfinished record for one of `partitions`, got a FLUSH: perhaps its last one."""
        if file not in self._closing:
            self._closing[file] = (partitions, trio.Event())

    def released(self, file: Writer, partitions: frozenset[TopicPartition]) -> None:
        """`file` got its RELEASE, and its unfinished record is on its way into a batch."""
        self.flushed(file, partitions)
        self._released.add(file)

    def settled(self, file: Writer) -> None:
        """Forget that `file` may be closed: it is still open, or its record is in a batch or lost."""
        if file in self._closing:
            self._released.discard(file)
            self._closing.pop(file)[1].set()

    async def wait_before_open(self, partitions: Collection[TopicPartition]) -> None:
        """Return when the files that may have been closed before now have their records in batches, or are open."""
        for file, over in self._of(partitions):
            with trio.move_on_after(float("inf") if file in self._released else RELEASE_S):
                await over.wait()
            if not over.is_set() and file not in self._released:
                self.settled(file)

    async def wait_released(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Return when the records of all files that were released before now are in batches, or lost."""
        for file, over in self._of(partitions):
            if file in self._released:
                await over.wait()

    def _of(self, partitions: Collection[TopicPartition] | None) -> list[tuple[Writer, trio.Event]]:
        return [
            (file, over)
            for file, (there, over) in self._closing.items()
            if partitions is None or not there.isdisjoint(partitions)
        ]
