"""Tracks files that were closed with an unfinished record, until that record is in a batch.

close(2) returns when the daemon has answered FLUSH; RELEASE follows without an answer. The kernel queues RELEASE before
close(2) returns, but it sends at most 12 background requests at once (RELEASE and read-ahead together), and later
requests overtake those above. So after FLUSH a file with an unfinished record may be closed already, and an open that
comes now may be the next step of the same writer: it waits a moment for the RELEASE.

    FLUSH with an unfinished record → perhaps closed ─┬─ WRITE, or `RELEASE_S` ─→ still open
                                                      └─ RELEASE ─→ closed ─→ record in a batch, or lost
"""

from __future__ import annotations

from collections.abc import Collection

import trio

from offsetfs.storage import TopicPartition

RELEASE_S = 0.1
"""How long an open waits for the RELEASE of a file that may be closed. After that the file counts as open until the
next FLUSH, so that a program that keeps an unfinished line open costs other writers this time once."""


class _Closing:
    __slots__ = ("is_certain", "over", "partitions")

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = partitions
        self.is_certain = False
        self.over = trio.Event()


class Closing:
    """The files of a mount that are closed, or perhaps closed, and have an unfinished record."""

    def __init__(self) -> None:
        self._files: dict[object, _Closing] = {}

    def flushed(self, file: object, partitions: frozenset[TopicPartition]) -> None:
        """`file`, which has an unfinished record for one of `partitions`, got a FLUSH: perhaps its last one."""
        self._files.setdefault(file, _Closing(partitions))

    def released(self, file: object, partitions: frozenset[TopicPartition]) -> None:
        """`file` got its RELEASE, and its unfinished record is on its way into a batch."""
        self._files.setdefault(file, _Closing(partitions)).is_certain = True

    def settled(self, file: object) -> None:
        """Forget `file`: it is still open, or its record is in a batch or lost."""
        closing = self._files.pop(file, None)
        if closing is not None:
            closing.over.set()

    async def wait_before_open(self, partitions: Collection[TopicPartition]) -> None:
        """Return when the files that may have been closed before now have their records in batches, or are open."""
        for file, closing in self._of(partitions):
            with trio.move_on_after(float("inf") if closing.is_certain else RELEASE_S):
                await closing.over.wait()
            if not closing.is_certain:
                self.settled(file)

    async def wait_released(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Return when the records of all files that were released before now are in batches, or lost."""
        for _, closing in self._of(partitions):
            if closing.is_certain:
                await closing.over.wait()

    def _of(self, partitions: Collection[TopicPartition] | None) -> list[tuple[object, _Closing]]:
        return [
            (file, closing)
            for file, closing in self._files.items()
            if partitions is None or not closing.partitions.isdisjoint(partitions)
        ]
