"""Objects in the order of their deadlines. Only the event loop uses it."""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, Protocol, TypeVar

import trio

NEVER_S = float("inf")


class Timed(Protocol):
    """Something that has to be looked at at its deadline. `scheduled_s`: when it is looked at next."""

    scheduled_s: float

    def deadline_s(self) -> float:
        """Return the deadline."""


T = TypeVar("T", bound=Timed)


class DeadlineQueue(Generic[T]):
    """The deadlines of many objects; those that become later cost nothing until the former one has passed."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._order = itertools.count()
        self._sooner = trio.Event()

    def schedule(self, timed: T) -> None:
        """Note that a deadline may be sooner. A later one needs no note."""
        deadline_s = timed.deadline_s()
        if deadline_s < timed.scheduled_s:
            timed.scheduled_s = deadline_s
            heapq.heappush(self._heap, (deadline_s, next(self._order), timed))
            self._sooner.set()

    def due(self, now_s: float) -> list[T]:
        """Return what may be over; each has to be scheduled again."""
        found = []
        while self._heap and self._heap[0][0] <= now_s:
            deadline_s, _, timed = heapq.heappop(self._heap)
            if timed.scheduled_s == deadline_s:
                timed.scheduled_s = NEVER_S
                found.append(timed)
        return found

    async def wait(self) -> None:
        """Wait for the next deadline."""
        while True:
            self._sooner = trio.Event()
            next_s = self._heap[0][0] if self._heap else NEVER_S
            with trio.move_on_at(next_s):
                await self._sooner.wait()
                continue
            return
